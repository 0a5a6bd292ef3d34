package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/access"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "what is in force, and whether it works",
		Subcommands: []*cli.Command{
			{Name: "show", Usage: "every key, its value, and where that came from: default, file, environment, flag",
				Flags: withServing(outputFlag("table", "json")), Action: configShow},
			{Name: "check", Usage: "open everything that is configured, let the plugin test itself, and say what is wrong",
				Flags: withServing(timeoutFlag()), Action: configCheck},
		},
		Action: noSubcommand,
	}
}

func configShow(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	conf, err := loadConfig(c)
	if err != nil {
		return err
	}
	var rows [][]string
	docs := []map[string]string{}
	for _, l := range conf.Lines() {
		docs = append(docs, map[string]string{"key": l[0], "value": l[1], "from": l[2]})
		if l[1] == "" {
			l[1] = "-"
		}
		rows = append(rows, l[:])
	}
	if c.String("output") == "json" {
		return writeJSON(c.App.Writer, docs)
	}
	return writeTable(c.App.Writer, []string{"KEY", "VALUE", "FROM"}, rows)
}

// configCheck opens all of it. What is wrong is a finding: the check did what it was asked for.
func configCheck(c *cli.Context) (err error) {
	if err := noArgs(c); err != nil {
		return err
	}
	ctx, cancel := withTimeout(c)
	defer cancel()
	h, conf, err := openHost(c, true)
	if err != nil {
		return statusOne{err}
	}
	defer closing(h, &err)
	who, err := openAccess(conf, logger(c.App.ErrWriter, conf))
	if err != nil {
		return statusOne{err}
	}
	w := c.App.Writer
	if r := h.Report(); r != nil {
		state := "good"
		if len(r.Problems) > 0 {
			state = "damaged"
		}
		fmt.Fprintf(w, "metadata  %s: %s in %s, %d dropped, %s\n", state, count(r.Records, "record"), count(r.Partitions, "partition"), r.Dropped, count(len(r.Problems), "problem"))
	}
	fmt.Fprintf(w, "topics    %s\n", count(len(h.Topics()), "topic"))
	if s := demands(who); s != "" {
		fmt.Fprintf(w, "clients   good: %s\n", s)
	}
	if p := h.Plugin(); p != nil {
		switch err := p.Probe(ctx); abi.KindOf(err) {
		case 0:
			fmt.Fprintf(w, "plugin    good: %s, its self-test passed\n", p.File())
		case abi.Unsupported:
			fmt.Fprintf(w, "plugin    good: %s, which has no self-test\n", p.File())
		default:
			return statusOne{err}
		}
	}
	return wholeHost(h)
}

// demands says what serve asks of clients; empty: nothing.
func demands(who *access.Access) string {
	var out []string
	if who.Encrypts() {
		out = append(out, "TLS")
	}
	if who.SASL() {
		out = append(out, "SASL "+strings.Join(who.Mechanisms(), ", "))
	} else if who.Authenticates() {
		out = append(out, "client certificates")
	}
	if who.Rules() != nil {
		out = append(out, "rules")
	}
	return strings.Join(out, "; ")
}
