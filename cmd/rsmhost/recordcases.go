package main

import (
	"bufio"
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host/replay"
)

func recordCommand() *cli.Command {
	return &cli.Command{
		Name:  "record",
		Usage: "record what a broker answers about a topic, as cases for rsmhost test",
		Description: `Asks a Kafka server, any broker or rsmhost serve, and writes a case a line on stdout: fetches at the ends
of the log and at borders of tiers, segments, batches and leader epochs, of both isolation levels, with
much room and little, with leader epochs that are right and wrong, beyond the end; ListOffsets and
OffsetForLeaderEpoch; and fetches at random offsets until there are enough. It reads and changes nothing.
The topic should be at rest: answers that name its end don't repeat when it moves. The same data, --cases
and --seed make the same file. --bootstrap-config says how to connect where TLS or SASL is asked for.

   rsmhost record --bootstrap broker:9092 -t orders > orders.jsonl
   rsmhost test --config rsmhost.yaml orders.jsonl`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "bootstrap", Usage: "ask the Kafka server at `HOST:PORT`"},
			clientConfigFlag("bootstrap"), topicFlag(), partitionFlag("all"),
			&cli.IntFlag{Name: "cases", Value: 500, Usage: "record `N` cases at most, of all partitions together"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "`N` that random offsets are made from"},
		},
		Action: recordAction,
	}
}

func recordAction(c *cli.Context) (err error) {
	if c.Args().Present() {
		return usage("record "+c.Args().First(), "record takes no argument")
	}
	topic := c.String("topic")
	if c.String("bootstrap") == "" || topic == "" || c.Int("cases") < 1 {
		return usage("record", "give a server, a topic and a number of cases above 0: --bootstrap HOST:PORT -t TOPIC --cases N")
	}
	client, err := dialServer(c, "bootstrap")
	if err != nil {
		return err
	}
	defer closing(client, &err)
	partitions, err := client.Partitions(topic)
	if err != nil {
		return statusOne{err}
	}
	if c.IsSet("partition") {
		if partitions, err = onePartition(c, client, partitions); err != nil {
			return err
		}
	}
	return recordCases(c, &replay.Recorder{Client: client, Topic: topic, Partitions: partitions, Cases: c.Int("cases"), Seed: c.Uint64("seed")})
}

// recordCases writes the cases, and says on stderr how many they are.
func recordCases(c *cli.Context, r *replay.Recorder) error {
	out := bufio.NewWriter(c.App.Writer)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	n, progress := 0, newProgress(c.App.ErrWriter)
	r.Emit = func(kase *replay.Case) error {
		n++
		progress.show(n, 0)
		return enc.Encode(kase)
	}
	moved, err := r.Run(c.Context)
	progress.done()
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "rsmhost: recorded %s of %s, %s\n", count(n, "case"), r.Topic, count(len(r.Partitions), "partition"))
	if moved {
		fmt.Fprintln(c.App.ErrWriter, "rsmhost: the topic moved meanwhile: cases that name its ends will not repeat; record it at rest")
	}
	return nil
}
