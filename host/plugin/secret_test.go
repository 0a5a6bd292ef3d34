package plugin

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// classified is what no error may show.
const classified = "hunter2-hunter2"

func TestSecrets(t *testing.T) {
	t.Setenv("TOKEN_A", classified)
	t.Setenv("TOKEN_B", "by default")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(classified+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wanted := []abi.Secret{{Name: "a"}, {Name: "b", Env: "TOKEN_B"}, {Name: "c"}, {Name: "d", Env: "TOKEN_NONE"}, {Name: "e", Env: "TOKEN_B"}}
	refs := map[string]string{"a": "env:TOKEN_A", "c": "file:" + file, "e": "cmd:printf 'two\\nlines\\n\\n'"}
	got, err := resolveSecrets(context.Background(), "p", wanted, refs, map[string]string{"setting": "cmd:echo set"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": classified, "b": "by default", "c": classified, "e": "two\nlines\n", "setting": "set"}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSecretErrors: an error names the secret and never holds its bytes.
func TestSecretErrors(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(syscall.Mkfifo(dir+"/pipe", 0o600), os.WriteFile(dir+"/large", make([]byte, maxSecret+1), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		ref  string
		kind abi.Kind
		text string
	}{
		{classified, abi.Invalid, "never the secret itself"},
		{"plain:" + classified, abi.Invalid, "never the secret itself"},
		{"", abi.Invalid, "never the secret itself"},
		{"env:TOKEN_NONE", abi.NotFound, "the environment variable TOKEN_NONE is not set"},
		{"file:" + dir + "/none", abi.NotFound, "no such file"},
		{"file:" + dir, abi.Invalid, "is a directory"},
		{"file:/dev/zero", abi.Invalid, "it is a device, and a regular file is wanted"},
		{"file:" + dir + "/pipe", abi.Invalid, "it is a pipe, and a regular file is wanted"},
		{"file:" + dir + "/large", abi.Exhausted, "larger than 1048576 bytes"},
		{"cmd:echo " + classified + "; echo " + classified + " >&2; exit 3", abi.Unavailable, "exit status 3"},
		{"cmd:yes " + classified, abi.Exhausted, "larger than 1048576 bytes"},
		{"cmd:no-such-command-" + classified, abi.Unavailable, "exit status 127"},
	} {
		got, err := resolveSecrets(context.Background(), "p", []abi.Secret{{Name: "token"}}, map[string]string{"token": tt.ref}, nil)
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), "token") {
			t.Errorf("%s: %q, %v; want %s: %s", tt.ref, got, err, tt.kind, tt.text)
		}
		if err != nil && strings.Contains(err.Error(), classified) {
			t.Errorf("%s: the error holds the secret: %v", tt.ref, err)
		}
	}
	_, err := resolveSecrets(context.Background(), "p", nil, map[string]string{"token": "cmd:echo " + classified}, nil)
	if !errors.Is(err, abi.Invalid) || strings.Contains(err.Error(), classified) {
		t.Errorf("a secret that nobody asks for: %v", err)
	}
}

// TestSecretCommandIsBounded: neither a command that hangs nor a child of it that keeps its output open holds up the host.
func TestSecretCommandIsBounded(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := resolveSecret(ctx, "token", "cmd:sleep 10 & sleep 10"); !errors.Is(err, abi.Deadline) {
		t.Errorf("a command that hangs: %v, want DEADLINE", err)
	}
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("it took %v", took)
	}
}
