package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// permute puts a command's flags before its arguments, where people write them behind: the parser stops at the first
// argument. What follows "--" stays as it is.
func permute(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	commands, flags := app.Commands, app.Flags
	at := 1
	for ; at < len(args); at++ { // down the tree of commands
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[at]) })
		if i < 0 {
			break
		}
		commands, flags = commands[i].Subcommands, commands[i].Flags
	}
	var front, back []string
	for rest := args[at:]; len(rest) > 0; {
		n := 1
		switch arg := rest[0]; {
		case arg == "--":
			back = append(back, rest...)
			n = len(rest)
		case strings.HasPrefix(arg, "-") && arg != "-":
			if takesValue(flags, arg) && len(rest) > 1 {
				n = 2
			}
			front = append(front, rest[:n]...)
		default:
			back = append(back, arg)
		}
		rest = rest[n:]
	}
	return slices.Concat(args[:at], front, back)
}

// takesValue reports whether the argument behind arg is arg's value.
func takesValue(flags []cli.Flag, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			_, isBool := f.(*cli.BoolFlag)
			return !isBool
		}
	}
	return false
}
