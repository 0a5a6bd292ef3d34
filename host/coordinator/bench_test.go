package coordinator

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

// BenchmarkIdle is what a coordinator costs that nobody asks: memory and goroutines, with 10,000 partitions in 100 topics, and
// what a session adds.
func BenchmarkIdle(b *testing.B) {
	var many []Topic
	for i := range 100 {
		many = append(many, Topic{fmt.Sprint("topic-", i), abi.UUID{byte(i + 1)}, 100})
	}
	before, began := heap(), runtime.NumGoroutine()
	var o *opened
	for b.Loop() {
		if o != nil {
			o.Close()
			runtime.GC()
			before, began = heap(), runtime.NumGoroutine()
		}
		var err error
		o = &opened{}
		if o.Coordinator, err = Open(Options{Topics: &topics{now: many}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(heap()-before), "bytes")
	b.ReportMetric(float64(runtime.NumGoroutine()-began), "goroutines")
	before, began = heap(), runtime.NumGoroutine()
	const sessions = 100
	for i := range sessions {
		s := o.connect(b)
		do[*kmsg.ConsumerGroupHeartbeatResponse](b, s, beat(fmt.Sprint("g", i), "m", 0, "topic-1"))
	}
	b.ReportMetric(float64(heap()-before)/sessions, "bytes/member")
	b.ReportMetric(float64(runtime.NumGoroutine()-began)/sessions, "goroutines/member")
	o.Close()
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkCommit is a commit of one partition, synced, by as many clients as there are.
func BenchmarkCommit(b *testing.B) {
	for _, dir := range []string{"", b.TempDir()} {
		for _, clients := range []int{1, 32} {
			b.Run(fmt.Sprintf("disk=%v/clients=%d", dir != "", clients), func(b *testing.B) {
				o := open(b, dir)
				b.SetParallelism(clients)
				b.RunParallel(func(pb *testing.PB) {
					s := o.Connect("192.0.2.7", Rights{})
					defer s.Close()
					for pb.Next() {
						if code := mustCommit(b, s, commitOf("g", orders, 0, 1)); code != 0 {
							b.Errorf("code %d", code)
						}
					}
				})
			})
		}
	}
}

// BenchmarkHeartbeat is a heartbeat of KIP-848.
func BenchmarkHeartbeat(b *testing.B) {
	o := open(b, "")
	s := o.connect(b)
	epoch := do[*kmsg.ConsumerGroupHeartbeatResponse](b, s, beat("g", "m", 0, "orders")).MemberEpoch
	q := beat("g", "m", epoch)
	q.RebalanceTimeoutMillis, q.SubscribedTopicNames, q.Topics = -1, nil, nil
	for b.Loop() {
		do[*kmsg.ConsumerGroupHeartbeatResponse](b, s, q)
	}
}
