package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/plugin"
)

// maxFile bounds a configuration file.
const maxFile = 1 << 20

func (c *Config) loadFile(path string) error {
	b, err := readFile(path)
	if err != nil {
		return err
	}
	f, err := parser.ParseBytes(b, 0)
	if err != nil {
		return abi.Errorf("read configuration", path, abi.Invalid, "%s", yaml.FormatError(err, false, false))
	}
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if err := c.loadNode(path, "", doc.Body); err != nil {
			return err
		}
	}
	return nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, abi.E("read configuration", path, abi.FileKind(err), err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, abi.E("read configuration", path, abi.FileKind(err), err)
	}
	if len(b) > maxFile {
		return nil, abi.Errorf("read configuration", path, abi.Exhausted, "larger than %d bytes", maxFile)
	}
	return b, nil
}

// loadNode takes a mapping. "grants: {env: ...}" and "grants.env: ..." are the same key.
func (c *Config) loadNode(path, prefix string, n ast.Node) error {
	m, ok := n.(ast.MapNode)
	if !ok {
		return abi.Errorf("configure", at(path, n), abi.Invalid, "want keys and values, %q is neither", n.String())
	}
	for it := m.MapRange(); it.Next(); {
		name := prefix + it.Key().GetToken().Value
		k, known := Find(name)
		switch {
		case known:
			if err := c.set(path, k, it.Value()); err != nil {
				return err
			}
		case isSection(name):
			if err := c.loadNode(path, name+".", it.Value()); err != nil {
				return err
			}
		default:
			return abi.Errorf("configure", name, abi.Invalid, "%s: no such key%s", at(path, it.Key()), plugin.DidYouMean(name, names()))
		}
	}
	return nil
}

func isSection(name string) bool {
	for _, k := range Keys {
		if strings.HasPrefix(k.Name, name+".") {
			return true
		}
	}
	return false
}

func names() []string {
	var out []string
	for _, k := range Keys {
		out = append(out, k.Name)
	}
	return out
}

func at(path string, n ast.Node) string {
	return fmt.Sprintf("%s:%d", path, n.GetToken().Position.Line)
}

func (c *Config) set(path string, k Key, n ast.Node) error {
	v := Value{Origin: FromFile, Where: at(path, n)}
	var err error
	switch k.Kind {
	case List:
		err = yaml.NodeToValue(n, &v.List)
		if err != nil { // one element needs no brackets
			v.List = make([]string, 1)
			err = yaml.NodeToValue(n, &v.List[0])
		}
	case Map:
		v.Map, err = textMap(n)
	default:
		v.Text, err = scalar(n)
	}
	if err == nil {
		err = k.check(v)
	}
	if err != nil {
		var own *abi.Error
		if errors.As(err, &own) {
			own.Subject = fmt.Sprintf("%s (%s)", k.Name, v.Where)
			return own
		}
		return abi.Errorf("configure", k.Name, abi.Invalid, "%s: %q is not what the key takes", v.Where, n.String())
	}
	c.values[k.Name] = v
	return nil
}

var errNotScalar = errors.New("not a single value")

// scalar gives a value as it is written: 0755 stays 0755.
func scalar(n ast.Node) (string, error) {
	if _, ok := n.(ast.ScalarNode); !ok {
		return "", errNotScalar
	}
	return n.GetToken().Value, nil
}

func textMap(n ast.Node) (map[string]string, error) {
	m, ok := n.(ast.MapNode)
	if !ok {
		return nil, errNotScalar
	}
	out := map[string]string{}
	for it := m.MapRange(); it.Next(); {
		v, err := scalar(it.Value())
		if err != nil {
			return nil, err
		}
		out[it.Key().GetToken().Value] = v
	}
	return out, nil
}
