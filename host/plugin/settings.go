package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/rsmhost/rsmhost/abi"
)

// settings are a plugin's configuration after it was checked.
type settings struct {
	values  map[string]string // as the plugin gets them
	roots   map[string]string // directories that its own settings grant, by setting
	secrets map[string]string // references of settings marked x-secret, by setting
}

// schema is the part of a plugin's JSON Schema that the host itself looks at.
type schema struct {
	Properties map[string]property `json:"properties"`
}

type property struct {
	Type        string `json:"type"`
	Description string `json:"description"`
	Default     any    `json:"default"`
	Grant       string `json:"x-grant"`
	Secret      bool   `json:"x-secret"`
}

// checkSettings checks values against the plugin's schema. Errors are INVALID and name the setting.
func checkSettings(plugin string, raw []byte, values map[string]string) (*settings, error) {
	out := &settings{values: maps.Clone(values), roots: map[string]string{}, secrets: map[string]string{}}
	if len(raw) == 0 {
		if len(values) > 0 {
			return nil, abi.Errorf("configure", plugin, abi.Invalid, "the plugin takes no settings, and %s is given", join(maps.Keys(values)))
		}
		return out, nil
	}
	var s schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, abi.Errorf("configure", plugin, abi.Internal, "the plugin's schema is no JSON: %w", err)
	}
	if err := s.validate(plugin, raw, values); err != nil {
		return nil, err
	}
	for key, value := range values {
		switch p := s.Properties[key]; {
		case p.Secret:
			out.secrets[key] = value
			delete(out.values, key)
		case p.Grant == "fs.read":
			dir, err := filepath.Abs(value)
			if err != nil {
				return nil, abi.E("configure", key, abi.Invalid, err)
			}
			out.roots[key], out.values[key] = dir, dir
		case p.Grant != "":
			return nil, abi.Errorf("configure", key, abi.Unsupported, "the setting asks for %s, which this host does not grant", p.Grant)
		}
	}
	return out, nil
}

func (s *schema) validate(plugin string, raw []byte, values map[string]string) error {
	for key := range values {
		if _, ok := s.Properties[key]; !ok {
			return abi.Errorf("configure", key, abi.Invalid, "%s has no setting %q%s; it has %s", plugin, key,
				DidYouMean(key, slices.Collect(maps.Keys(s.Properties))), join(maps.Keys(s.Properties)))
		}
	}
	doc, err := s.document(values)
	if err != nil {
		return err
	}
	compiled, err := compile(raw)
	if err != nil {
		return abi.Errorf("configure", plugin, abi.Internal, "the plugin's schema: %w", err)
	}
	err = compiled.Validate(doc)
	if bad := (*jsonschema.ValidationError)(nil); errors.As(err, &bad) {
		return s.settingError(plugin, bad)
	}
	return err
}

func compile(raw []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("settings.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("settings.json")
}

// document gives the settings the types that the schema wants: on a command line all are text.
func (s *schema) document(values map[string]string) (map[string]any, error) {
	doc := map[string]any{}
	for key, value := range values {
		var err error
		p := s.Properties[key]
		if p.Secret { // a reference, whatever the secret is
			doc[key] = value
			continue
		}
		switch p.Type {
		case "integer", "number":
			doc[key] = json.Number(value)
			if _, err = strconv.ParseFloat(value, 64); err == nil && !json.Valid([]byte(value)) {
				err = strconv.ErrSyntax // NaN and hexadecimal digits are no JSON
			}
		case "boolean":
			doc[key], err = strconv.ParseBool(value)
		default:
			doc[key] = value
		}
		if err != nil {
			return nil, abi.Errorf("configure", key, abi.Invalid, "%q is not of the type %s", value, p.Type)
		}
	}
	return doc, nil
}

// settingError picks the innermost cause: that is the one about a setting. It never quotes a secret's reference, which by
// mistake may be the secret.
func (s *schema) settingError(plugin string, e *jsonschema.ValidationError) error {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	key := strings.Join(e.InstanceLocation, ".")
	text := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if key == "" {
		key = plugin
	}
	if s.Properties[key].Secret {
		text = "want env:VAR, file:PATH or cmd:COMMAND, in the form that the plugin's schema asks for"
	}
	return abi.Errorf("configure", key, abi.Invalid, "%s", text)
}

func join(keys func(func(string) bool)) string { return strings.Join(slices.Sorted(keys), ", ") }

// DidYouMean is ", did you mean X?" for the known word nearest to word, or nothing where none is near.
func DidYouMean(word string, known []string) string {
	known = slices.Sorted(slices.Values(known))
	best, distance := "", max(2, len(word)/3)+1
	for _, k := range known {
		if d := edits(word, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal, row[j] = row[j], min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
