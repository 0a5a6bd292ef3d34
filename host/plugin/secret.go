package plugin

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
)

const (
	commandTimeout = 10 * time.Second // of a "cmd:" secret
	maxSecret      = 1 << 20          // bytes of a secret
)

// resolveSecrets gets the bytes of what the plugin names, from where refs say, or from the environment variable that the
// plugin names by default, and of the settings that are references themselves. Errors name the secret and never hold its
// bytes.
func resolveSecrets(ctx context.Context, plugin string, wanted []abi.Secret, refs, settings map[string]string) (map[string]string, error) {
	out := map[string]string{}
	known := map[string]bool{}
	for _, s := range wanted {
		known[s.Name] = true
		ref, ok := refs[s.Name]
		if !ok {
			if s.Env == "" {
				continue
			}
			if v, ok := os.LookupEnv(s.Env); ok {
				out[s.Name] = v
			}
			continue
		}
		v, err := resolveSecret(ctx, s.Name, ref)
		if err != nil {
			return nil, err
		}
		out[s.Name] = v
	}
	for name := range refs {
		if !known[name] {
			return nil, abi.Errorf("secret", name, abi.Invalid, "%s asks for no secret of this name", plugin)
		}
	}
	for name, ref := range settings {
		v, err := resolveSecret(ctx, name, ref)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// resolveSecret reads one reference: env:VAR, file:PATH or cmd:COMMAND. A trailing line end is cut.
func resolveSecret(ctx context.Context, name, ref string) (string, error) {
	kind, where, _ := strings.Cut(ref, ":")
	switch kind {
	case "env":
		v, ok := os.LookupEnv(where)
		if !ok {
			return "", abi.Errorf("secret", name, abi.NotFound, "the environment variable %s is not set", where)
		}
		return v, nil
	case "file":
		b, err := ownfile.ReadGiven("read", where, maxSecret)
		if err != nil {
			return "", abi.E("secret", name, abi.KindOf(err), err)
		}
		return secretText(name, b)
	case "cmd":
		return runSecret(ctx, name, where)
	}
	return "", abi.Errorf("secret", name, abi.Invalid, "want env:VAR, file:PATH or cmd:COMMAND, never the secret itself")
}

func runSecret(ctx context.Context, name, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out := &firstBytes{}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Stdout, cmd.WaitDelay = out, time.Second // what the command left running may hold its output open
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", abi.E("secret", name, abi.KindOf(ctx.Err()), fmt.Errorf("the command was given up: %w", ctx.Err()))
	case len(out.b) <= maxSecret && err != nil: // what it says is not quoted: it may say the secret
		return "", abi.E("secret", name, abi.Unavailable, fmt.Errorf("the command ended with %w; what it says is not shown here", err))
	}
	return secretText(name, out.b)
}

// firstBytes keeps the beginning of what is written to it, and fails then.
type firstBytes struct{ b []byte }

func (w *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), maxSecret+1-len(w.b))
	w.b = append(w.b, p[:n]...)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// secretText cuts one line end.
func secretText(name string, b []byte) (string, error) {
	if len(b) > maxSecret {
		return "", abi.Errorf("secret", name, abi.Exhausted, "larger than %d bytes", maxSecret)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}
