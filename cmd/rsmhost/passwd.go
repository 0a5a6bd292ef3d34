package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/rsmhost/rsmhost/host/access"
)

// passwordMax bounds a password, in bytes.
const passwordMax = 1024

func passwdCommand() *cli.Command {
	return &cli.Command{
		Name:      "passwd",
		Usage:     "make a user's lines for the file of serve's --sasl-users",
		ArgsUsage: "USER",
		Description: `The password is asked for at a terminal, else it is the first line of stdin. It is in no file afterwards:
the lines hold verifiers for SCRAM-SHA-256 and SCRAM-SHA-512, as Kafka keeps them; PLAIN is checked against them too.
They go to stdout; a user whose password changes has its old lines taken out first.

   rsmhost passwd alice >> users`,
		Action: passwdAction,
	}
}

func passwdAction(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c.Command.Name, "want one user (see rsmhost passwd --help)")
	}
	password, err := readPassword(c.App.Reader, c.App.ErrWriter)
	if err != nil {
		return usage("passwd "+c.Args().First(), "%w", err)
	}
	lines, err := access.Verifiers(c.Args().First(), password)
	if err != nil {
		return usage("passwd "+c.Args().First(), "%w", err)
	}
	_, err = io.WriteString(c.App.Writer, lines)
	return err
}

// readPassword asks for a password at a terminal, twice and without showing it; else it takes a line.
func readPassword(r io.Reader, ask io.Writer) (string, error) {
	if f, ok := r.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		first, err := askPassword(f, ask, "password: ")
		if err != nil {
			return "", err
		}
		again, err := askPassword(f, ask, "again: ")
		if err == nil && first != again {
			err = errors.New("the two differ")
		}
		return first, err
	}
	line, err := bufio.NewReader(io.LimitReader(r, passwordMax+3)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", err
	}
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if len(line) > passwordMax {
		return "", fmt.Errorf("a password has at most %d bytes", passwordMax)
	}
	return line, nil
}

func askPassword(f *os.File, ask io.Writer, prompt string) (string, error) {
	fmt.Fprint(ask, prompt)
	b, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(ask)
	return string(b), err
}
