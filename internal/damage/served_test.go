package damage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/replay"
	"github.com/rsmhost/rsmhost/host/server"
)

// logged is a log in memory.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serving is a server over a damaged fixture.
type serving struct {
	host    *host.Host
	address string
	log     *logged
	close   func()
}

// serve starts one; an error is that of the host or of the server.
func serve(ctx context.Context, d *scene, refresh time.Duration, groups string) (*serving, error) {
	cfg, closeRoot, err := config(d.dir, d.truth.setup)
	if err != nil {
		closeRoot()
		return nil, err
	}
	s := &serving{log: &logged{}}
	cfg.Log = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.RefreshInterval, cfg.RemoteWait = refresh, 500*time.Millisecond
	if s.host, err = host.Open(ctx, cfg); err != nil {
		closeRoot()
		return nil, err
	}
	srv, err := server.New(server.Options{Host: s.host, GroupsDir: groups, Log: cfg.Log})
	if err != nil {
		s.host.Close()
		closeRoot()
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.address = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	s.close = func() {
		srv.Close()
		<-ended
		s.host.Close()
		closeRoot()
	}
	return s, nil
}

// lookServed asks a server over TCP all that can be asked, by a client that sees each answer.
func lookServed(_ testing.TB, ctx context.Context, d *scene) (v verdict) {
	s, err := serve(ctx, d, 0, "")
	if err != nil {
		d.told(&v, "serve", err)
		return v
	}
	defer s.close()
	c, err := replay.Dial(ctx, s.address)
	if err != nil {
		v.wrongf("connect: %v", err)
		return v
	}
	defer c.Close()
	for _, k := range d.truth.partitions {
		d.lookAt(ctx, &v, overTCP{c}, s.host, k)
	}
	if err := c.Err(); err != nil {
		v.wrongf("a connection was lost: %v", err)
	}
	d.memory(&v, s.host)
	d.list(&v, s.host.Findings())
	return v
}

// overTCP is a client's answers with the partition named in their errors: a code over the wire comes with it.
type overTCP struct{ *replay.Client }

func (c overTCP) Fetch(ctx context.Context, req *reader.FetchRequest) *reader.FetchResponse {
	resp := c.Client.Fetch(ctx, req)
	for i := range resp.Partitions {
		p := &resp.Partitions[i]
		if p.Err != nil {
			p.Err = fmt.Errorf("%s-%d: %w", req.Partitions[i].Topic, req.Partitions[i].Partition, p.Err)
		}
	}
	return resp
}

func (c overTCP) ListOffsets(ctx context.Context, req *reader.ListOffsetsRequest) []reader.OffsetData {
	all := c.Client.ListOffsets(ctx, req)
	for i := range all {
		if all[i].Err != nil {
			all[i].Err = fmt.Errorf("%s-%d: %w", req.Partitions[i].Topic, req.Partitions[i].Partition, all[i].Err)
		}
	}
	return all
}

// consumeServed reads everything with an ordinary client, which is told of errors that it tries again after.
func consumeServed(_ testing.TB, ctx context.Context, d *scene) (v verdict) {
	s, err := serve(ctx, d, 0, "")
	if err != nil {
		d.told(&v, "serve", err)
		return v
	}
	defer s.close()
	iso := isolations[d.rand.IntN(2)]
	for _, k := range d.truth.partitions {
		d.consume(ctx, &v, s, k, iso)
	}
	d.list(&v, s.host.Findings())
	return v
}

// quiet is how long a client waits for one more record: a server that has some gives them at once.
const quiet = 20 * time.Second

func (d *scene) consume(ctx context.Context, v *verdict, s *serving, k *known, iso locality.Isolation) {
	level := kgo.ReadUncommitted()
	if iso == locality.ReadCommitted {
		level = kgo.ReadCommitted()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.address), kgo.DisableClientMetrics(), kgo.FetchIsolationLevel(level), kgo.KeepRetryableFetchErrors(),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.topic: {k.number: kgo.NewOffset().AtStart()}}))
	if err != nil {
		v.wrongf("client: %v", err)
		return
	}
	defer cl.Close()
	got := whole{start: k.start(), end: -1}
	for len(got.records) < len(k.records[iso]) && got.err == nil {
		wait, cancel := context.WithTimeout(ctx, quiet)
		fs := cl.PollFetches(wait)
		cancel()
		for _, e := range fs.Errors() {
			if wait.Err() == nil || e.Partition >= 0 && e.Topic != "" {
				got.err = fmt.Errorf("%s-%d: %w", e.Topic, e.Partition, e.Err)
			}
		}
		fs.EachRecord(func(r *kgo.Record) { got.records = append(got.records, clientRecord(r)) })
		if wait.Err() != nil && fs.NumRecords() == 0 {
			break
		}
	}
	if got.err != nil {
		d.told(v, "consume", got.err)
	}
	k.compare(v, "consume", iso, got, concerning(s.host.Findings(), k.partition))
}

// clientRecord is what a client made of a record.
func clientRecord(r *kgo.Record) record {
	f := format.Record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		f.Headers = append(f.Headers, format.Header{Key: h.Key, Value: h.Value})
	}
	return newRecord(&f)
}

// shortForAMoment serves while a file is short, as one is that is being copied over, and then whole again. No answer is wrong, no
// consumer is made to reset, and in the end all is right without a restart.
func shortForAMoment(_ testing.TB, ctx context.Context, d *scene) (v verdict) {
	path, restore, err := d.shorten()
	if err != nil {
		v.wrongf("%v", err)
		return v
	}
	s, err := serve(ctx, d, 20*time.Millisecond, "")
	if err != nil {
		d.told(&v, "serve", err)
		return v
	}
	defer s.close()
	for _, k := range d.truth.partitions {
		d.lookAt(ctx, &v, inProcess{s.host}, s.host, k)
	}
	d.list(&v, s.host.Findings())
	if err := restore(); err != nil {
		v.wrongf("%v", err)
		return v
	}
	var last verdict
	for began := time.Now(); time.Since(began) < 20*time.Second; wait(ctx, 50*time.Millisecond) {
		last = verdict{}
		d.compareRestored(ctx, &last, s.host)
		if len(last.wrong) == 0 {
			return v
		}
	}
	for _, w := range last.wrong {
		v.wrongf("20 s after %s is whole again: %s", path, w)
	}
	return v
}

// compareRestored wants everything right, whatever was found before.
func (d *scene) compareRestored(ctx context.Context, v *verdict, h *host.Host) {
	for _, k := range d.truth.partitions {
		for _, iso := range isolations {
			all := readAll(ctx, inProcess{h}, k.partition, iso)
			if all.err != nil {
				v.wrongf("%v", all.err)
				return
			}
			k.compare(v, "read", iso, all, false)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// shorten cuts one file, and gives what makes it whole again: in place, or by another file in its place.
func (d *scene) shorten() (path string, restore func() error, err error) {
	for {
		k := kinds[d.rand.IntN(len(kinds))]
		if k.folder || !contains(parts[d.truth.setup], k.part) {
			continue
		}
		files, err := k.find(d.dir)
		if err != nil {
			return "", nil, err
		}
		if len(files) == 0 {
			continue
		}
		file := files[d.rand.IntN(len(files))]
		all, err := os.ReadFile(file)
		if err != nil {
			return "", nil, err
		}
		if len(all) == 0 {
			continue
		}
		keep := d.rand.IntN(len(all))
		if d.rand.IntN(4) == 0 {
			keep = 0
		}
		rel, err := filepath.Rel(d.dir, file)
		if err != nil {
			return "", nil, err
		}
		d.damages = []damaged{{k.name, "short for a moment", rel, fmt.Sprintf("%d of %d bytes for a moment", keep, len(all))}}
		restore = func() error { return replace(file, all) }
		if d.rand.IntN(2) == 0 {
			restore = func() error { return os.WriteFile(file, all, 0o644) }
		}
		return rel, restore, replace(file, all[:keep])
	}
}

// lookAtGroups commits offsets, damages what was kept of them, and looks whether they are right, or whether somebody was told.
func lookAtGroups(_ testing.TB, ctx context.Context, d *scene) (v verdict) {
	groups := filepath.Join(d.dir, "state", "groups")
	want, err := d.commit(ctx, groups)
	if err != nil {
		v.wrongf("undamaged: %v", err)
		return v
	}
	if err := d.damageState(groups); err != nil {
		v.wrongf("%v", err)
		return v
	}
	s, err := serve(ctx, d, 0, groups)
	if err != nil {
		d.told(&v, "serve", err)
		return v
	}
	defer s.close()
	log := s.log.String()
	if log != "" {
		v.told = append(v.told, log)
	}
	if log != "" && d.names(log) {
		return v
	}
	for group, at := range want {
		got, err := committed(ctx, s.address, group)
		if err != nil {
			v.wrongf("offsets of %s: %v", group, err)
		} else if fmt.Sprint(got) != fmt.Sprint(at) {
			v.wrongf("group %s committed %v, and %v is given, without a line in the log", group, at, got)
		}
	}
	return v
}

// commit has groups commit offsets of all partitions, twice, and gives what stands.
func (d *scene) commit(ctx context.Context, groups string) (map[string]map[string]int64, error) {
	s, err := serve(ctx, d, 0, groups)
	if err != nil {
		return nil, err
	}
	defer s.close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.address), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	want := map[string]map[string]int64{}
	for _, group := range []string{"g-0", "g-1", "g-2"} {
		want[group] = map[string]int64{}
		for range 2 {
			var offsets kadm.Offsets
			for _, k := range d.truth.partitions {
				at := k.start() + d.rand.Int64N(1+max(k.end[0]-k.start(), 0))
				want[group][k.String()] = at
				offsets.Add(kadm.Offset{Topic: k.topic, Partition: k.number, At: at, LeaderEpoch: -1})
			}
			if err := adm.CommitAllOffsets(ctx, group, offsets); err != nil {
				return nil, err
			}
		}
	}
	return want, nil
}

func committed(ctx context.Context, address, group string) (map[string]int64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	all, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	all.Each(func(o kadm.OffsetResponse) { out[fmt.Sprintf("%s-%d", o.Topic, o.Partition)] = o.At })
	return out, all.Error()
}

// damageState damages one file of the state directory.
func (d *scene) damageState(groups string) error {
	for {
		files, err := filepath.Glob(filepath.Join(groups, "*"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no state in %s: %v", groups, err)
		}
		path, m := files[d.rand.IntN(len(files))], mutations[d.rand.IntN(len(mutations))]
		what, err := m.do(d.rand, path, nil)
		if err != nil {
			return err
		}
		if what == "" {
			continue
		}
		rel, err := filepath.Rel(d.dir, path)
		d.damages = []damaged{{"state " + strings.TrimPrefix(rel, "state/groups/"), m.name, rel, what}}
		return err
	}
}
