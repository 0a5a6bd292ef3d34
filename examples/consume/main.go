// Consume prints what a Kafka topic holds, as partition, offset, key and value, with an ordinary Kafka client, to which
// `rsmhost serve` is a broker as any other:
//
//	bin/rsmhost serve --listen 127.0.0.1:9092 --config examples/rsmhost.yaml
//	go run ./examples/consume -group readers -n 100 127.0.0.1:9092 payments
//
// In a group it goes on where the group was, and commits what it printed.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// options are the flags.
type options struct {
	group     string
	limit     int
	idle      time.Duration
	committed bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("consume: ")
	var o options
	flag.StringVar(&o.group, "group", "", "consumer group; without one the topic is read from its beginning")
	flag.IntVar(&o.limit, "n", 0, "end after so many records (0: no limit)")
	flag.DurationVar(&o.idle, "idle", 0, "end when nothing came for so long (0: wait for more)")
	flag.BoolVar(&o.committed, "read-committed", false, "leave out what transactions have not committed")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: consume [flags] HOST:PORT TOPIC")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	n, err := run(ctx, o, flag.Arg(0), flag.Arg(1), os.Stdout)
	log.Printf("%d records", n)
	if err != nil {
		log.Fatal(err)
	}
}

// run prints records until there were enough, nothing more comes, or ctx ends, and gives how many there were.
func run(ctx context.Context, o options, broker, topic string, out io.Writer) (n int, err error) {
	opts := []kgo.Opt{kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if o.group != "" {
		// What is committed was printed, and until then no partition goes to another member.
		opts = append(opts, kgo.ConsumerGroup(o.group), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())
	}
	if o.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return 0, err
	}
	defer cl.CloseAllowingRebalance() // leaves the group: its partitions go to other members at once
	for o.limit == 0 || n < o.limit {
		fetches, done := poll(ctx, cl, o.limit-n, o.idle)
		if err := show(out, fetches); err != nil {
			return n, err
		}
		n += fetches.NumRecords()
		if o.group != "" {
			if err := commit(ctx, cl); err != nil {
				return n, err
			}
		}
		if done || fetches.Err() != nil {
			return n, ignoreEnd(fetches.Err())
		}
	}
	return n, nil
}

// poll waits for records, for most of them where that is above 0. It is done when nothing came for idle, or ctx ended.
func poll(ctx context.Context, cl *kgo.Client, most int, idle time.Duration) (fetches kgo.Fetches, done bool) {
	if idle > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, idle)
		defer cancel()
	}
	fetches = cl.PollRecords(ctx, most)
	return fetches, fetches.Empty() && ctx.Err() != nil
}

func show(w io.Writer, fetches kgo.Fetches) error {
	out := bufio.NewWriter(w)
	fetches.EachRecord(func(r *kgo.Record) {
		fmt.Fprintf(out, "%d\t%d\t%s\t%s\n", r.Partition, r.Offset, r.Key, r.Value)
	})
	return out.Flush()
}

// commit keeps the group's place behind what was polled, also after an interrupt.
func commit(ctx context.Context, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	defer cl.AllowRebalance()
	return cl.CommitUncommittedOffsets(ctx)
}

// ignoreEnd leaves out that a wait is over, which is how this program ends.
func ignoreEnd(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
