package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
	"github.com/rsmhost/rsmhost/host/plugin"
)

// maxFile bounds a configuration file: the parser's time grows with the square of the nesting.
const maxFile = 64 << 10

func (c *Config) loadFile(path string) error {
	b, err := ownfile.ReadGiven("read configuration", path, maxFile)
	if err != nil {
		return err
	}
	f, err := parser.ParseBytes(b, 0)
	if err != nil {
		return abi.Errorf("read configuration", path, abi.Invalid, "%s", yaml.FormatError(err, false, false))
	}
	if len(f.Docs) > 1 {
		return abi.Errorf("read configuration", path, abi.Invalid, "holds %d documents, one is wanted", len(f.Docs))
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

// loadNode takes a mapping. "grants: {env: ...}" and "grants.env: ..." are the same key.
func (c *Config) loadNode(path, prefix string, n ast.Node) error {
	m, ok := n.(ast.MapNode)
	if !ok {
		return abi.Errorf("configure", at(path, n), abi.Invalid, "want keys with a value each")
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
	if old := c.values[k.Name]; old.Origin == FromFile {
		return abi.Errorf("configure", k.Name, abi.Invalid, "%s: given twice, first in %s", at(path, n), old.Where)
	}
	v := Value{Origin: FromFile, Where: at(path, n)}
	var err error
	switch k.Kind {
	case List:
		v.List, err = textList(n)
	case Map:
		v.Map, err = textMap(n)
	default:
		v.Text, err = scalar(n)
	}
	if err == nil {
		err = k.check(v)
	}
	if own := (*abi.Error)(nil); errors.As(err, &own) {
		own.Subject = fmt.Sprintf("%s (%s)", k.Name, v.Where)
		return own
	}
	if err != nil {
		return abi.Errorf("configure", k.Name, abi.Invalid, "%s: %w", v.Where, err)
	}
	c.values[k.Name] = v
	return nil
}

// scalar gives a value as it is written: 0755 stays 0755.
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", errors.New("has no value")
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return "", errors.New("anchors, aliases and tags are not taken")
	}
	return "", errors.New("want a single value")
}

func textList(n ast.Node) ([]string, error) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok { // one element needs no brackets
		v, err := scalar(n)
		if err != nil {
			return nil, fmt.Errorf("want a list: %w", err)
		}
		return []string{v}, nil
	}
	out := []string{}
	for _, e := range seq.Values {
		v, err := scalar(e)
		if err != nil {
			return nil, fmt.Errorf("an element of the list: %w", err)
		}
		out = append(out, v)
	}
	return out, nil
}

func textMap(n ast.Node) (map[string]string, error) {
	m, ok := n.(ast.MapNode)
	if !ok {
		return nil, errors.New("want names with a value each, as in {root: DIR}")
	}
	out := map[string]string{}
	for it := m.MapRange(); it.Next(); {
		key := it.Key().GetToken().Value
		v, err := scalar(it.Value())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out[key] = v
	}
	return out, nil
}
