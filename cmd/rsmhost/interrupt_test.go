package main

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// interrupted is a stdout whose first bytes have the program interrupted.
type interrupted struct {
	bytes.Buffer
	cancel func()
}

func (w *interrupted) Write(b []byte) (int, error) {
	w.cancel()
	return w.Buffer.Write(b)
}

// TestInterrupted: what streams local data, for which nothing waits, ends all the same when it is interrupted, and not with
// success.
func TestInterrupted(t *testing.T) {
	const data = "../../testdata/kafka/basic/"
	for name, tt := range map[string]struct {
		args  []string
		after string // is on stdout if it goes on
	}{
		"cat":  {[]string{"cat", "-t", "telemetry"}, "     2:"},
		"test": {[]string{"test", data + "golden/fetch.jsonl"}, "passed"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, stderr := &interrupted{cancel: cancel}, &bytes.Buffer{}
			args := append([]string{"rsmhost"}, append(tt.args, "--log-dir", data+"local", "--cache-dir", t.TempDir())...)
			a := app(out, stderr)
			err := a.RunContext(ctx, permute(a, args))
			if !errors.Is(err, context.Canceled) || out.Len() == 0 || bytes.Contains(out.Bytes(), []byte(tt.after)) {
				t.Errorf("%v, %d bytes of output, %s", err, out.Len(), stderr)
			}
		})
	}
}
