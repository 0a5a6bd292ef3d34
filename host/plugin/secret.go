package plugin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// commandTimeout bounds the command of a "cmd:" secret.
const commandTimeout = 10 * time.Second

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
		b, err := os.ReadFile(where)
		if err != nil {
			return "", abi.E("secret", name, abi.FileKind(err), err)
		}
		return trimLine(b), nil
	case "cmd":
		return runSecret(ctx, name, where)
	}
	return "", abi.Errorf("secret", name, abi.Invalid, "want env:VAR, file:PATH or cmd:COMMAND, never the secret itself")
}

func runSecret(ctx context.Context, name, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/bin/sh", "-c", command).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", abi.Errorf("secret", name, abi.Unavailable, "the command ended with %s: %s", exit, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return "", abi.E("secret", name, abi.Unavailable, err)
	}
	return trimLine(out), nil
}

func trimLine(b []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
}
