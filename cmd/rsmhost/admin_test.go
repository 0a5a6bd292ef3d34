package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
)

// TestMetadataReadiness: failures are borne for a minute, and what was never read is not ready.
func TestMetadataReadiness(t *testing.T) {
	now, gone := time.Unix(1_000_000, 0), errors.New("gone")
	for want, l := range map[string]host.LookStats{
		"":                           {Good: now.Add(-time.Hour)},
		"it was not read yet":        {},
		"it could not be read: gone": {Err: gone, FailingSince: now},
		"it can't be read again since 1970-01-12T13:45:40Z: gone": {Good: now.Add(-time.Hour), Err: gone, FailingSince: now.Add(-failingMax)},
	} {
		got := ""
		if err := current(l, now); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := current(host.LookStats{Good: now, Err: gone, FailingSince: now.Add(1 - failingMax)}, now); err != nil {
		t.Errorf("not yet a minute: %v", err)
	}
}

// TestPluginReadiness: a plugin is asked now and then, has its time, and may know no such question.
func TestPluginReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, error(nil)
		r := &readiness{draining: func() bool { return asked > 2 }, looks: func() host.LookStats { return host.LookStats{Good: time.Now()} }}
		r.probe = func(ctx context.Context) error {
			if asked++; asked == 3 {
				<-ctx.Done()
				return ctx.Err()
			}
			return answer
		}
		said := func() string {
			var out []string
			for _, c := range r.checks(t.Context()) {
				if c.Err != nil {
					out = append(out, c.Name+": "+c.Err.Error())
				}
			}
			return strings.Join(out, "; ")
		}
		for i, want := range []string{"", "", "plugin: UNAVAILABLE: gone", "serving: it drains: no new request is taken; plugin: context deadline exceeded"} {
			answer = [...]error{abi.Errorf("probe", "", abi.Unsupported, "no"), nil, abi.Errorf("", "", abi.Unavailable, "gone"), nil}[i]
			if i != 1 { // which comes at once
				time.Sleep(probeEvery)
			}
			said() // draining is looked at before the plugin
			if got := said(); got != want {
				t.Errorf("%d: got %q, want %q", i, got, want)
			}
		}
		if asked != 3 {
			t.Errorf("asked %d times", asked)
		}
	})
}
