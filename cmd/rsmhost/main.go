// Command rsmhost reads Kafka's tiered topics through storage plugins, from a command line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host/plugin/process"
)

// The exit codes, of all subcommands.
const (
	exitGood    = 0
	exitFinding = 1 // a Kafka error, or something that was looked for and found
	exitUsage   = 2 // wrong usage, or it could not look
)

// statusOne is an error with which a command did what it was asked for. An empty one was already printed.
type statusOne struct{ err error }

func (f statusOne) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f statusOne) Unwrap() error { return f.err }

func main() {
	_ = process.TakeOrphans() // without it less of what a plugin leaves is known to be its own
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run is main with its outside given.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)   // a second signal ends the program where it stands
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is an error of a write, so that what is open gets closed
	a := app(stdout, stderr)
	err := a.RunContext(ctx, permute(a, args))
	return report(stderr, err)
}

func report(stderr io.Writer, err error) int {
	var f statusOne
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitGood
	case errors.As(err, &f):
		if f.err != nil {
			fmt.Fprintf(stderr, "rsmhost: %v\n", f.err)
		}
		return exitFinding
	}
	fmt.Fprintf(stderr, "rsmhost: %s\n", strings.TrimSpace(err.Error()))
	return exitUsage
}

func app(stdout, stderr io.Writer) *cli.App {
	a := &cli.App{
		Name:      "rsmhost",
		Usage:     "read Kafka's tiered topics through storage plugins",
		Writer:    stdout,
		ErrWriter: stderr,
		Description: `Reads what a broker left behind: segments in a remote tier through a plugin, segments
in a local log directory, or both, as a consumer would see them.

   rsmhost topics  --metadata dir:/var/kafka/logs
   rsmhost fetch   -t orders -p 3 --offset 1234 --trace --metadata dir:/var/kafka/logs \
                   --plugin localfs --plugin-config root=/mnt/tiered
   rsmhost cat     -t orders -o json --config rsmhost.yaml
   rsmhost serve   --listen 127.0.0.1:9092 --config rsmhost.yaml

Exit status: 0 good, 1 a Kafka error or a finding, 2 wrong usage or could not look.`,
		Commands: []*cli.Command{
			topicsCommand(), segmentsCommand(), fetchCommand(), catCommand(), offsetsCommand(), groupsCommand(), serveCommand(), passwdCommand(), recordCommand(), testCommand(), pluginCommand(), configCommand(), versionCommand(),
		},
		DisableSliceFlagSeparator: true,
		HideVersion:               true,
		ExitErrHandler:            func(*cli.Context, error) {}, // report prints it
		OnUsageError:              badFlag,
		Action:                    noCommand,
	}
	refuseBadFlags(a.Commands)
	return a
}
