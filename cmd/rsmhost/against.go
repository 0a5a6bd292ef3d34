package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host/replay"
)

// againstAction compares a topic on two clusters.
func againstAction(c *cli.Context) (err error) {
	if c.Args().Present() {
		return usage("test --against", "it compares two servers, and takes no FILE")
	}
	if c.IsSet("junit") {
		return usage("test --junit", "it has the results of FILEs; --against has none")
	}
	topic := c.String("topic")
	if c.String("bootstrap") == "" || topic == "" {
		return usage("test --against", "give the two servers and a topic: --bootstrap A --against B -t TOPIC")
	}
	a, err := dialServer(c, "bootstrap")
	if err != nil {
		return err
	}
	defer closing(a, &err)
	b, err := dialServer(c, "against")
	if err != nil {
		return err
	}
	defer closing(b, &err)
	g := &replay.Against{A: a, B: b, Topic: topic}
	partitions, err := bothHave(c, g)
	if err != nil {
		return err
	}
	speed := startSpeed(c.App.ErrWriter, g)
	defer speed.stop()
	return comparePartitions(c.Context, c.App.Writer, g, partitions)
}

// bothHave gives the partitions that are to be compared. A topic that one of the two does not have is a finding, and so is
// another number of partitions.
func bothHave(c *cli.Context, g *replay.Against) ([]int32, error) {
	inA, err := g.A.Partitions(g.Topic)
	if err != nil {
		return nil, statusOne{err}
	}
	inB, err := g.B.Partitions(g.Topic)
	if err != nil {
		return nil, statusOne{err}
	}
	if c.IsSet("partition") {
		one, err := onePartition(c, g.A, inA)
		if err == nil {
			one, err = onePartition(c, g.B, inB)
		}
		return one, err
	}
	if len(inA) != len(inB) {
		return nil, statusOne{fmt.Errorf("%s: %s has %s, %s has %s", g.Topic, g.A.Address(), count(len(inA), "partition"), g.B.Address(), count(len(inB), "partition"))}
	}
	return inA, nil
}

// comparePartitions compares one partition after the other, and prints what each came to.
func comparePartitions(ctx context.Context, w io.Writer, g *replay.Against, partitions []int32) error {
	different := 0
	for _, p := range partitions {
		out, err := g.Partition(ctx, p)
		if err != nil {
			return err
		}
		if d := out.Difference; d != nil {
			different++
			fmt.Fprintf(w, "%s-%d differs: %s\n  %s: %s\n  %s: %s\n", out.Topic, out.Partition, d.What, g.A.Address(), d.A, g.B.Address(), d.B)
			continue
		}
		fmt.Fprintf(w, "%s-%d equal: offsets %d to %d, %s\n", out.Topic, out.Partition, out.From, out.To, count(int(out.Records), "record"))
	}
	fmt.Fprintf(w, "%d equal, %d different\n", len(partitions)-different, different)
	if different > 0 {
		return statusOne{}
	}
	return nil
}

// speed tells how fast both sides are read: on a terminal now and then, and in the end.
type speed struct {
	w     io.Writer
	g     *replay.Against
	began time.Time
	ended chan struct{}
	wg    sync.WaitGroup
}

func startSpeed(w io.Writer, g *replay.Against) *speed {
	s := &speed{w: w, g: g, began: time.Now(), ended: make(chan struct{})}
	if isTerminal(w) {
		s.wg.Go(s.show) // ends with stop, which waits
	}
	return s
}

func (s *speed) show() {
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			fmt.Fprint(s.w, "\r\x1b[K")
			return
		case <-tick.C:
			fmt.Fprintf(s.w, "\r%s ", s)
		}
	}
}

func (s *speed) stop() {
	close(s.ended)
	s.wg.Wait()
	fmt.Fprintf(s.w, "rsmhost: read %s\n", s)
}

// String is the bytes of both sides, and of how many a second.
func (s *speed) String() string {
	took, mb := time.Since(s.began).Seconds(), float64(s.g.Read.Load())/1e6
	return fmt.Sprintf("%.1f MB of both in %.1f s, %.0f MB/s", mb, took, mb/took)
}
