package plugin

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

const testSchema = `{"type": "object", "required": ["root"], "additionalProperties": false, "properties": {
	"root":  {"type": "string", "x-grant": "fs.read"},
	"mode":  {"type": "string", "enum": ["location", "stream"]},
	"tries": {"type": "integer", "minimum": 1},
	"share": {"type": "number"},
	"deep":  {"type": "boolean"},
	"token": {"type": "string", "x-secret": true, "pattern": "^(env|file|cmd):"},
	"pin":   {"type": "integer", "x-secret": true},
	"hosts": {"type": "string", "x-grant": "net.http"}}}`

func TestSettings(t *testing.T) {
	got, err := checkSettings("p", []byte(testSchema), map[string]string{"root": "data", "mode": "stream", "tries": "3", "share": "0.5", "deep": "true", "token": "env:TOKEN"})
	if err != nil {
		t.Fatal(err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(wd, "data")
	if want := map[string]string{"root": root, "mode": "stream", "tries": "3", "share": "0.5", "deep": "true"}; !maps.Equal(got.values, want) {
		t.Errorf("values %v, want %v", got.values, want)
	}
	if !maps.Equal(got.roots, map[string]string{"root": root}) || !maps.Equal(got.secrets, map[string]string{"token": "env:TOKEN"}) {
		t.Errorf("roots %v, secrets %v", got.roots, got.secrets)
	}
	if got, err := checkSettings("p", nil, nil); err != nil || len(got.values) > 0 {
		t.Errorf("a plugin without a schema: %v, %v", got, err)
	}
}

func TestSettingsRefused(t *testing.T) {
	for _, tt := range []struct {
		schema string
		values map[string]string
		kind   abi.Kind
		text   string
	}{
		{"", map[string]string{"root": "x"}, abi.Invalid, "configure p: INVALID: the plugin takes no settings, and root is given"},
		{"no schema", nil, abi.Internal, "configure p: INTERNAL: the plugin's schema is no JSON"},
		{`{"type": 7}`, nil, abi.Internal, "configure p: INTERNAL: the plugin's schema: "},
		{testSchema, nil, abi.Invalid, "configure p: INVALID: missing property 'root'"},
		{testSchema, map[string]string{"rood": "x"}, abi.Invalid, `configure rood: INVALID: p has no setting "rood", did you mean "root"?; it has deep, hosts, mode`},
		{testSchema, map[string]string{"root": "x", "mode": "flow"}, abi.Invalid, "configure mode: INVALID: value must be one of 'location', 'stream'"},
		{testSchema, map[string]string{"root": "x", "tries": "some"}, abi.Invalid, `configure tries: INVALID: "some" is not of the type integer`},
		{testSchema, map[string]string{"root": "x", "tries": "0"}, abi.Invalid, "configure tries: INVALID: minimum: got 0, want 1"},
		{testSchema, map[string]string{"root": "x", "tries": "1.5"}, abi.Invalid, "configure tries: INVALID: "},
		{testSchema, map[string]string{"root": "x", "share": "NaN"}, abi.Invalid, `configure share: INVALID: "NaN" is not of the type number`},
		{testSchema, map[string]string{"root": "x", "deep": "perhaps"}, abi.Invalid, `configure deep: INVALID: "perhaps" is not of the type boolean`},
		{testSchema, map[string]string{"root": "x", "hosts": "h"}, abi.Unsupported, "configure hosts: UNSUPPORTED: the setting asks for net.http"},
		{testSchema, map[string]string{"root": "x", "token": classified}, abi.Invalid, "configure token: INVALID: want env:VAR, file:PATH or cmd:COMMAND"},
		{testSchema, map[string]string{"root": "x", "pin": classified}, abi.Invalid, "configure pin: INVALID: want env:VAR, file:PATH or cmd:COMMAND"},
	} {
		got, err := checkSettings("p", []byte(tt.schema), tt.values)
		if !errors.Is(err, tt.kind) || !strings.HasPrefix(err.Error(), tt.text) {
			t.Errorf("%v: %v, %v; want %s", tt.values, got, err, tt.text)
		}
		if err != nil && strings.Contains(err.Error(), classified) {
			t.Errorf("%v: the error holds the secret: %v", tt.values, err)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	known := []string{"root", "mode", "layout"}
	for word, want := range map[string]string{
		"rot": `, did you mean "root"?`, "root": `, did you mean "root"?`, "moed": `, did you mean "mode"?`, "layuot": `, did you mean "layout"?`,
		"bucket": "", "placement": "",
	} {
		if got := DidYouMean(word, known); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
	if !slices.Equal(known, []string{"root", "mode", "layout"}) {
		t.Errorf("what is known was changed: %v", known)
	}
	if got := DidYouMean("x", nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
