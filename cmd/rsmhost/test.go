package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/config"
	"github.com/rsmhost/rsmhost/host/replay"
)

func testCommand() *cli.Command {
	return &cli.Command{
		Name:      "test",
		Usage:     "replay recorded answers of a broker, through the whole path or against a server; compare two servers",
		ArgsUsage: "[FILE...]",
		Description: `Each line of a FILE is a case: a Fetch, ListOffsets or OffsetForLeaderEpoch request, and what a broker
answered. Every field is compared; with --kafka-exact the records must be equal byte for byte, without
it an answer may be better: go on behind the same bytes, over a segment's end, in whole batches. Prints a
line a failure, then "N passed, N failed". With --bootstrap a server is asked, rsmhost serve or any Kafka broker, and nothing
is opened here; what a broker gives, which cuts batches, is as good then as what is better.
rsmhost record makes such files from your own data.

With --against too, both are read from the first offset to the end and compared as their consumers see
them: records of both isolation levels, where partitions begin and end, offsets by time, leader epochs.
The first difference of each partition is printed; how records are cut into batches does not count.

   rsmhost test --bootstrap broker:9092 --against 127.0.0.1:9092 -t orders`,
		Flags: withConfig(
			&cli.StringFlag{Name: "bootstrap", Usage: "ask the Kafka server at `HOST:PORT`"},
			&cli.StringFlag{Name: "against", Usage: "compare topic -t of --bootstrap with that of the Kafka server at `HOST:PORT`"},
			clientConfigFlag("bootstrap"), clientConfigFlag("against"), topicFlag(), partitionFlag("all"),
			&cli.StringFlag{Name: "junit", Usage: "also write the results to `FILE` as JUnit XML"},
		),
		Action: testAction,
	}
}

func testAction(c *cli.Context) (err error) {
	if err := serversGiven(c); err != nil {
		return err
	}
	if c.String("against") != "" {
		return againstAction(c)
	}
	if c.IsSet("topic") || c.IsSet("partition") {
		return usage("test -t, -p", "they say what --against compares; FILEs name their topics")
	}
	if !c.Args().Present() {
		return usage("test", "no FILE of recorded cases given")
	}
	h, conf, err := openAsked(c)
	if err != nil {
		return err
	}
	defer closing(h, &err)
	mode := replay.Better
	switch {
	case conf.Text("kafka-exact") == "true":
		mode = replay.Exact
	case c.String("bootstrap") != "":
		mode = replay.AsRecorded
	}
	t := &tester{host: h, mode: mode, out: c.App.Writer, progress: newProgress(c.App.ErrWriter)}
	for _, path := range c.Args().Slice() {
		if err := t.file(c, path); err != nil {
			return err
		}
	}
	t.progress.done()
	if path := c.String("junit"); path != "" {
		if err := t.writeJUnit(path); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.App.Writer, "%d passed, %d failed\n", t.passed, t.failed)
	switch {
	case t.failed > 0:
		return statusOne{}
	case t.passed == 0:
		return abi.Errorf("test", "", abi.Invalid, "the files hold no case")
	}
	return nil
}

// serversGiven refuses a server that is empty, which a variable of a script may be, and how to connect to one that is not given:
// what is asked would be another than was meant.
func serversGiven(c *cli.Context) error {
	for _, server := range []string{"bootstrap", "against"} {
		switch given := c.String(server) != ""; {
		case !given && c.IsSet(server):
			return usage("test --"+server, "it is empty: want HOST:PORT")
		case !given && c.IsSet(server+"-config"):
			return usage("test --"+server+"-config", "it says how to connect to --%s HOST:PORT, which is not given", server)
		}
	}
	return nil
}

// asked is what answers the cases.
type asked interface {
	replay.Host
	io.Closer
}

// openAsked connects to the server that is to be asked, or opens the host.
func openAsked(c *cli.Context) (asked, *config.Config, error) {
	address := c.String("bootstrap")
	if address == "" {
		h, conf, err := openHost(c, true)
		return h, conf, err
	}
	conf, err := loadConfig(c)
	if err != nil {
		return nil, nil, err
	}
	client, err := dialServer(c, "bootstrap")
	return client, conf, err
}

// tester replays files and counts.
type tester struct {
	host     replay.Host
	mode     replay.Mode
	out      io.Writer
	progress *progress
	passed   int
	failed   int
	suites   []junitSuite
}

func (t *tester) file(c *cli.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return abi.E("open", path, abi.FileKind(err), err)
	}
	defer f.Close()
	suite := junitSuite{Name: path}
	for s := replay.NewScanner(path, f); ; {
		kase, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		began := time.Now()
		fails, err := replay.Run(c.Context, t.host, kase, t.mode)
		if err != nil {
			return err
		}
		t.count(kase, fails)
		suite.add(kase, fails, time.Since(began))
	}
	t.suites = append(t.suites, suite)
	return nil
}

func (t *tester) count(kase *replay.Case, fails []replay.Failure) {
	if len(fails) == 0 {
		t.passed++
	} else {
		t.failed++
	}
	t.progress.show(t.passed+t.failed, t.failed)
	for _, f := range fails {
		fmt.Fprintf(t.out, "%s: %s: want %s, got %s\n", kase.Name(), f.Field, f.Want, f.Got)
	}
}

// progress is a line on a terminal that says how far a long run is; elsewhere it is nothing.
type progress struct {
	w    io.Writer // nil: not a terminal
	last time.Time
}

func newProgress(w io.Writer) *progress {
	if !isTerminal(w) {
		return &progress{}
	}
	return &progress{w: w, last: time.Now()}
}

func (p *progress) show(n, failed int) {
	if p.w == nil || time.Since(p.last) < time.Second/4 {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.w, "\r%d cases, %d failed ", n, failed)
}

func (p *progress) done() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Seconds string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (s *junitSuite) add(kase *replay.Case, fails []replay.Failure, took time.Duration) {
	c := junitCase{Name: kase.Name(), Seconds: fmt.Sprintf("%.6f", took.Seconds())}
	s.Tests++
	if len(fails) > 0 {
		s.Failures++
		c.Failure = &junitFailure{Message: fails[0].Field}
		for _, f := range fails {
			c.Failure.Text += fmt.Sprintf("%s: want %s, got %s\n", f.Field, f.Want, f.Got)
		}
	}
	s.Cases = append(s.Cases, c)
}

func (t *tester) writeJUnit(path string) error {
	b, err := xml.MarshalIndent(junitSuites{Suites: t.suites}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append([]byte(xml.Header), append(b, '\n')...), 0o644); err != nil {
		return abi.E("write", path, abi.FileKind(err), err)
	}
	return nil
}
