package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// groupProtocols are those of consumer groups.
var groupProtocols = map[string][]kgo.Opt{
	"classic": {kgo.Balancers(kgo.RangeBalancer())},
	"KIP-848": {kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer()},
}

func member(t *testing.T, address, group string, protocol []kgo.Opt) *kgo.Client {
	t.Helper()
	return client(t, address, append([]kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics("payments"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100 * time.Millisecond), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.MetadataMinAge(200 * time.Millisecond)}, protocol...)...)
}

// TestGroupSurvivesKill: the server is killed right after it acknowledged a commit, again and again; the next one, on another
// port, goes on there. Every record of both tiers is read once.
func TestGroupSurvivesKill(t *testing.T) {
	for name, protocol := range groupProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			state := t.TempDir()
			total := len(recorded(t, "txn", "read_uncommitted"))
			seen := map[int32]map[int64]bool{0: {}, 1: {}}
			const parts = 4
			for part := range parts {
				s := startServe(t, "txn", "--state-dir", state)
				cl := member(t, s.address, "g", protocol)
				n := total / parts
				if part == parts-1 {
					n = total - (parts-1)*n
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				for n > 0 {
					f := cl.PollRecords(ctx, n)
					if err := f.Err0(); err != nil {
						t.Fatalf("%d records are missing: %v: %s", n, err, s.stderr.String())
					}
					f.EachRecord(func(r *kgo.Record) {
						if seen[r.Partition][r.Offset] {
							t.Errorf("%d-%d is read again", r.Partition, r.Offset)
						}
						seen[r.Partition][r.Offset] = true
						n--
					})
				}
				if err := cl.CommitUncommittedOffsets(ctx); err != nil {
					t.Fatal(err)
				}
				s.cmd.Process.Kill()
				s.cmd.Wait()
				cancel()
				cl.Close()
			}
			if n := len(seen[0]) + len(seen[1]); n != total {
				t.Errorf("%d records, want %d", n, total)
			}
		})
	}
}

// TestGroupOutlivesServer: members whose server is killed and comes back at the same address are together again, and what they
// commit is kept.
func TestGroupOutlivesServer(t *testing.T) {
	for name, protocol := range groupProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			state := t.TempDir()
			s := startServe(t, "txn", "--state-dir", state)
			members := []*kgo.Client{member(t, s.address, "g", protocol), member(t, s.address, "g", protocol)}
			ctx, cancel := context.WithCancel(context.Background())
			var polls sync.WaitGroup
			defer polls.Wait()
			defer cancel()
			for _, cl := range members {
				polls.Go(func() { // ends with cancel; the deferred Wait waits
					for ctx.Err() == nil {
						cl.PollFetches(ctx)
					}
				})
			}
			adm := kadm.NewClient(client(t, s.address))
			together := func() bool {
				n := 0
				if described, err := adm.DescribeConsumerGroups(ctx, "g"); name == "KIP-848" && err == nil && described["g"].State == "Stable" {
					n = len(described["g"].Members)
				}
				if described, err := adm.DescribeGroups(ctx, "g"); name == "classic" && err == nil && described["g"].State == "Stable" {
					n = len(described["g"].Members)
				}
				return n == len(members)
			}
			hammer.Eventually(t, time.Minute, together)
			s.cmd.Process.Kill()
			s.cmd.Wait()
			startServe(t, "txn", "--state-dir", state, "--listen", s.address)
			hammer.Eventually(t, time.Minute, together)
			hammer.Eventually(t, time.Minute, func() bool {
				for _, cl := range members {
					if cl.CommitUncommittedOffsets(ctx) != nil {
						return false
					}
				}
				kept, err := adm.FetchOffsets(ctx, "g")
				_, zero := kept.Lookup("payments", 0)
				_, one := kept.Lookup("payments", 1)
				return err == nil && zero && one
			})
		})
	}
}

// TestServeWithDamagedOffsets: it serves, says which file is damaged, and knows what is readable of it. What another version
// wrote ends it with a sentence.
func TestServeWithDamagedOffsets(t *testing.T) {
	state := t.TempDir()
	path := filepath.Join(state, "groups", "offsets.log")
	s := startServe(t, "txn", "--state-dir", state)
	adm := kadm.NewClient(client(t, s.address))
	for _, group := range []string{"first", "second"} {
		offsets := kadm.Offsets{}
		offsets.AddOffset("payments", 0, 77, -1)
		if err := adm.CommitAllOffsets(context.Background(), group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	s.stop(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(b), `"first"`)
	b[at+1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s = startServe(t, "txn", "--state-dir", state)
	adm = kadm.NewClient(client(t, s.address))
	for group, want := range map[string]int64{"first": -1, "second": 77} {
		got, err := adm.FetchOffsets(context.Background(), group)
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := got.Lookup("payments", 0); ok != (want >= 0) || ok && o.At != want {
			t.Errorf("%s: %v, want %d", group, o, want)
		}
	}
	s.stop(t)
	if !strings.Contains(s.stderr.String(), path) || !strings.Contains(s.stderr.String(), "damaged") {
		t.Errorf("stderr: %s", s.stderr.String())
	}
	if err := os.WriteFile(path, []byte("rsmhost group offsets 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refusedServe(t, "PRECONDITION: another version of rsmhost wrote it", "--state-dir", state)
}

// refusedServe runs a serve that must end at once, with words on stderr.
func refusedServe(t *testing.T, want string, flags ...string) {
	t.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--cache-dir", t.TempDir(), "--log-dir", filepath.Join(fixtures, "txn", "local")}, flags...)
	out, err := exec.Command(artifacts(t).host, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServeDrainsGroups: a member that waits for another one in JoinGroup does not keep serve from ending.
func TestServeDrainsGroups(t *testing.T) {
	s := startServe(t, "txn")
	join := func(cl *kgo.Client, member string) *kmsg.JoinGroupResponse {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Group, q.MemberID, q.ProtocolType, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = "g", member, "consumer", 300_000, 300_000
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		resp, err := q.RequestWith(context.Background(), cl)
		if err != nil {
			return nil
		}
		return resp
	}
	first, second := client(t, s.address), client(t, s.address, kgo.RequestRetries(0))
	join(first, join(first, "").MemberID) // who never comes back
	id := join(second, "").MemberID
	waits := make(chan struct{})
	go func() { // ends with the server
		defer close(waits)
		join(second, id)
	}()
	adm := kadm.NewClient(first)
	hammer.Eventually(t, 20*time.Second, func() bool {
		g, err := adm.DescribeGroups(context.Background(), "g")
		return err == nil && g["g"].State == "PreparingRebalance"
	})
	began := time.Now()
	s.stop(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to end", took)
	}
	<-waits
	if strings.Contains(s.stderr.String(), "what ran was ended") {
		t.Errorf("stderr: %s", s.stderr.String())
	}
}
