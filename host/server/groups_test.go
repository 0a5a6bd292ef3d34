package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// protocols are those of groups.
var protocols = map[string][]kgo.Opt{
	"classic": {kgo.Balancers(kgo.RangeBalancer())},
	"KIP-848": {kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer()},
}

// member is a consumer of a group.
func (v *served) member(t *testing.T, group string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(v.address), kgo.ConsumerGroup(group), kgo.ConsumeTopics("payments"),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100 * time.Millisecond), kgo.HeartbeatInterval(200 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// readSome gives the offsets that a client reads, by partition, until there are n.
func readSome(t *testing.T, cl *kgo.Client, n int) map[int32][]int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	got := map[int32][]int64{}
	for left := n; left > 0; {
		f := cl.PollRecords(ctx, left)
		if err := f.Err0(); err != nil {
			t.Fatalf("%d of %d records: %v", n-left, n, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			got[r.Partition] = append(got[r.Partition], r.Offset)
			left--
		})
	}
	return got
}

// TestTransactionsAreRefused: a transactional producer hears at once, and in all versions, that it can't write here. With
// COORDINATOR_NOT_AVAILABLE it asked again until its own time was over.
func TestTransactionsAreRefused(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	for version := int16(1); version <= 6; version++ {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.CoordinatorType, q.CoordinatorKey, q.CoordinatorKeys = transactions, "t", []string{"t"}
		resp := ask[*kmsg.FindCoordinatorResponse](w, q, version)
		code := resp.ErrorCode
		if version >= 4 {
			code = resp.Coordinators[0].ErrorCode
		}
		if code != transactionalIDDenied {
			t.Errorf("version %d: code %d", version, code)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.address), kgo.TransactionalID("t"), kgo.DefaultProduceTopic("payments"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, _, err := cl.ProducerID(ctx); !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Errorf("a producer id: %v", err)
	}
}

// TestGroupGoesOn: a member reads a part, commits and leaves; another one goes on exactly there, also from a new server with
// the same directory. All is read once.
func TestGroupGoesOn(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			dir := filepath.Join(t.TempDir(), "groups")
			const n = 60
			first := serve(t, local, Options{GroupsDir: dir})
			cl := first.member(t, "g", protocol...)
			got := readSome(t, cl, n)
			if err := cl.CommitUncommittedOffsets(context.Background()); err != nil {
				t.Fatal(err)
			}
			cl.Close()
			if err := first.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}

			second := serve(t, local, Options{GroupsDir: dir})
			for p, offsets := range readSome(t, second.member(t, "g", protocol...), n) {
				got[p] = append(got[p], offsets...)
			}
			for p, offsets := range got {
				if !slices.IsSorted(offsets) || len(slices.Compact(offsets)) != len(offsets) {
					t.Errorf("partition %d: offsets %v are not each read once", p, offsets)
				}
			}
		})
	}
}

// admin is a client of no group.
func (v *served) admin(t *testing.T) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// held is how many partitions each member of a group has, least first, by a protocol's own description. Its members must
// be here, and its topic ids real.
func held(t *testing.T, adm *kadm.Client, protocol, group string) []int {
	t.Helper()
	var out []int
	add := func(clientHost string, n int) {
		if clientHost != "/127.0.0.1" {
			t.Errorf("a member at %q, want /127.0.0.1", clientHost)
		}
		out = append(out, n)
	}
	ctx := context.Background()
	if protocol == "KIP-848" {
		described, err := adm.DescribeConsumerGroups(ctx, group)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range described[group].Members {
			add(m.ClientHost, len(m.Assignment["payments"]))
		}
	} else {
		described, err := adm.DescribeGroups(ctx, group)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range described[group].Members {
			a, ok := m.Assigned.AsConsumer()
			if !ok || described[group].State != "Stable" {
				return nil
			}
			n := 0
			for _, topic := range a.Topics {
				n += len(topic.Partitions)
			}
			add(m.ClientHost, n)
		}
	}
	slices.Sort(out)
	return out
}

// TestGroupShares: a second member takes over a part, and all of it when the first one leaves.
func TestGroupShares(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			v := serve(t, local, Options{})
			adm := v.admin(t)
			one, two := v.member(t, "g", protocol...), (*kgo.Client)(nil)
			ctx, cancel := context.WithCancel(context.Background())
			var polls sync.WaitGroup
			defer polls.Wait()
			defer cancel()
			polling := func(cl *kgo.Client) {
				polls.Go(func() { // ends with cancel; the deferred Wait waits
					for ctx.Err() == nil {
						cl.PollFetches(ctx)
					}
				})
			}
			shared := func(want ...int) {
				t.Helper()
				hammer.Eventually(t, 30*time.Second, func() bool { return slices.Equal(held(t, adm, name, "g"), want) })
			}
			polling(one)
			shared(2)
			two = v.member(t, "g", protocol...)
			polling(two)
			shared(1, 1)
			one.Close()
			shared(2)
		})
	}
}

// TestAConsumerThatMovesGoesOnWhereItWas: with the log directory of a cluster that is gone, its groups have what they committed
// there by that cluster's own words, under its name; a member reads on from that, in either protocol; and a restart takes nothing
// up again.
func TestAConsumerThatMovesGoesOnWhereItWas(t *testing.T) {
	const lost = "../../testdata/lostcluster"
	groups := filepath.Join(t.TempDir(), "groups")
	for _, again := range []bool{false, true} {
		v := serve(t, lost, Options{GroupsDir: groups})
		if told := strings.Count(v.log.String(), "taken up"); (told > 0) == again {
			t.Errorf("again %v: %s", again, v.log)
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(v.address))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		adm := kadm.NewClient(cl)
		meta, err := adm.BrokerMetadata(t.Context())
		if err != nil || meta.Cluster != "s6_AT6mMS2K5g6cbU4LTUA" {
			t.Errorf("cluster %q, %v", meta.Cluster, err)
		}
		text, err := os.ReadFile(lost + ".tsv")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		listed, err := adm.ListGroups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range listed.Groups() {
			if listed[g].State != "Empty" {
				t.Errorf("%+v", listed[g])
			}
			offsets, err := adm.FetchOffsets(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range offsets.Sorted() {
				got = append(got, fmt.Sprintf("%s\t%s-%d\t%d\t%d\t%s", g, o.Topic, o.Partition, o.At, o.LeaderEpoch, o.Metadata))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(text)), "\n"), got); diff != "" && !again {
			t.Error(diff)
		}
		if again {
			if len(got) != 11 {
				t.Errorf("%v", got)
			}
			continue
		}
		for group, protocol := range map[string]string{"classic-app": "classic", "modern-app": "KIP-848"} {
			first := map[string]int64{"classic-app": 20, "modern-app": 12}[group]
			m := v.member(t, group, append(slices.Clone(protocols[protocol]), kgo.ConsumeTopics("orders"))...)
			read := readSome(t, m, 27)
			for p, offsets := range read {
				if offsets[0] != first+int64(p) && len(read) == 3 {
					t.Errorf("%s reads %d from %d, want from %d", group, p, offsets[0], first+int64(p))
				}
			}
			m.Close()
		}
		if err := errors.Join(v.Close(), v.host.Close()); err != nil {
			t.Error(err)
		}
	}
}
