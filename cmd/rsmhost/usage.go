package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host/plugin"
)

// usage is wrong usage: what was given, and what is wanted instead.
func usage(given, format string, args ...any) error {
	return fmt.Errorf("%s: %w", given, fmt.Errorf(format, args...))
}

// refuseBadFlags makes commands answer a wrong flag with one sentence. The library would print all of the help on stdout.
func refuseBadFlags(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = badFlag
		refuseBadFlags(c.Subcommands)
	}
}

func badFlag(c *cli.Context, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usage(c.Command.Name, "%w (see %s --help)", err, c.Command.HelpName)
	}
	var known []string
	for _, f := range c.Command.Flags {
		for _, n := range f.Names() {
			known = append(known, dashed(n))
		}
	}
	return usage(dashed(name), "no such flag%s (see %s --help)", plugin.DidYouMean(dashed(name), known), c.Command.HelpName)
}

func dashed(flag string) string {
	if len(flag) == 1 {
		return "-" + flag
	}
	return "--" + flag
}

func noCommand(c *cli.Context) error {
	if name := c.Args().First(); name != "" {
		return usage(name, "no such command%s (see rsmhost --help)", didYouMean(name, c.App.Commands))
	}
	return cli.ShowAppHelp(c)
}

func noSubcommand(c *cli.Context) error {
	if name := c.Args().First(); name != "" {
		return usage(c.Command.Name+" "+name, "no such command%s (see %s --help)", didYouMean(name, c.Command.Subcommands), c.Command.HelpName)
	}
	return cli.ShowSubcommandHelp(c)
}

func didYouMean(name string, commands []*cli.Command) string {
	var known []string
	for _, c := range commands {
		known = append(known, c.Name)
	}
	return plugin.DidYouMean(name, known)
}

// noArgs refuses arguments that a command does not take: a flag without its dashes would be ignored else.
func noArgs(c *cli.Context) error {
	if c.Args().Present() {
		return usage(c.Args().First(), "%s takes no arguments (see %[1]s --help)", c.Command.HelpName)
	}
	return nil
}

// oneTopic refuses a call that names no topic.
func oneTopic(c *cli.Context) error {
	if c.String("topic") == "" {
		return usage(c.Command.Name, "no topic is given: -t NAME (rsmhost topics lists them)")
	}
	return noArgs(c)
}
