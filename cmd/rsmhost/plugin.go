package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host/config"
	"github.com/rsmhost/rsmhost/host/plugin"
)

func pluginCommand() *cli.Command {
	return &cli.Command{
		Name:  "plugin",
		Usage: "the storage plugins that are there, and what one says of itself",
		Subcommands: []*cli.Command{
			{Name: "list", Usage: "the plugins in the plugin directories", Flags: withConfig(outputFlag("table", "json")), Action: pluginList},
			{Name: "inspect", Usage: "load a plugin, without configuring it, and show what it says", ArgsUsage: "[REF]",
				Flags: withConfig(outputFlag("table", "json")), Action: pluginInspect},
		},
		Action: noSubcommand,
	}
}

func pluginDirs(conf *config.Config) []string {
	if dirs := conf.Value("plugin-dir").List; dirs != nil {
		return dirs
	}
	return plugin.DefaultDirs()
}

type foundDoc struct {
	Name      string `json:"name"`
	Placement string `json:"placement"`
	Path      string `json:"path"`
}

func pluginList(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	conf, err := loadConfig(c)
	if err != nil {
		return err
	}
	found, err := plugin.List(pluginDirs(conf))
	if err != nil {
		return err
	}
	docs, rows := []foundDoc{}, [][]string{}
	for _, f := range found {
		docs = append(docs, foundDoc{f.Name, string(f.Placement), f.Path})
		rows = append(rows, []string{f.Name, string(f.Placement), f.Path})
	}
	if c.String("output") == "json" {
		return writeJSON(c.App.Writer, docs)
	}
	if len(rows) == 0 {
		fmt.Fprintf(c.App.ErrWriter, "no plugin in %s\n", strings.Join(pluginDirs(conf), ", "))
		return nil
	}
	return writeTable(c.App.Writer, []string{"NAME", "PLACEMENT", "PATH"}, rows)
}

type inspectDoc struct {
	Path        string          `json:"path"`
	Placement   string          `json:"placement"`
	Name        string          `json:"name"`
	Vendor      string          `json:"vendor"`
	Version     string          `json:"version"`
	ABIVersions []int32         `json:"abiVersions"`
	Features    []string        `json:"features"`
	Grants      []string        `json:"grants"`
	Secrets     []secretDoc     `json:"secrets"`
	Schema      json.RawMessage `json:"schema"`
}

type secretDoc struct {
	Name string `json:"name"`
	Env  string `json:"env"`
}

func pluginInspect(c *cli.Context) (err error) {
	conf, err := loadConfig(c)
	if err != nil {
		return err
	}
	ref := c.Args().First()
	if ref == "" {
		ref = conf.Text("plugin")
	}
	if ref == "" || c.NArg() > 1 {
		return usage("plugin inspect", "want one plugin: a name, or the path of a file")
	}
	placement, err := plugin.ParsePlacement(conf.Text("placement"))
	if err != nil {
		return err
	}
	cfg, err := conf.Host()
	if err != nil {
		return err
	}
	p, err := plugin.Load(c.Context, plugin.Options{Ref: ref, Dirs: pluginDirs(conf), Placement: placement, CacheDir: cfg.ModuleCache(),
		HostVersion: buildVersion(), Log: logger(c.App.ErrWriter, conf)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(c.Context)) }()
	doc := newInspectDoc(p)
	if c.String("output") == "json" {
		return writeJSON(c.App.Writer, doc)
	}
	return writeInspect(c, doc)
}

func newInspectDoc(p *plugin.Plugin) inspectDoc {
	info := p.Info()
	d := inspectDoc{Path: p.Path, Placement: string(p.Placement), Name: info.Name, Vendor: info.Vendor, Version: info.Version,
		ABIVersions: info.ABIVersions, Features: info.Features, Grants: []string{}, Secrets: []secretDoc{}, Schema: json.RawMessage("null")}
	if len(info.Schema) > 0 && json.Valid(info.Schema) {
		d.Schema = json.RawMessage(info.Schema)
	}
	for _, g := range info.Grants {
		d.Grants = append(d.Grants, g.Kind+" "+g.Value)
	}
	for _, s := range info.Secrets {
		d.Secrets = append(d.Secrets, secretDoc{s.Name, s.Env})
	}
	return d
}

func writeInspect(c *cli.Context, d inspectDoc) error {
	rows := [][]string{{"name", d.Name}, {"vendor", d.Vendor}, {"version", d.Version}, {"placement", d.Placement}, {"file", d.Path},
		{"ABI versions", fmt.Sprint(d.ABIVersions)}, {"features", orNone(d.Features)}, {"asks for", orNone(d.Grants)}}
	for _, s := range d.Secrets {
		rows = append(rows, []string{"secret", fmt.Sprintf("%s (default: env:%s)", s.Name, s.Env)})
	}
	if err := writeTable(c.App.Writer, nil, rows); err != nil {
		return err
	}
	var schema struct {
		Required   []string
		Properties map[string]struct {
			Type        string
			Description string
			Default     any
			Enum        []any
			Grant       string `json:"x-grant"`
		}
	}
	if err := json.Unmarshal(d.Schema, &schema); err != nil || len(schema.Properties) == 0 {
		return nil
	}
	fmt.Fprintln(c.App.Writer)
	settings := [][]string{}
	for _, key := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[key]
		settings = append(settings, []string{key, p.Type, settingNote(slices.Contains(schema.Required, key), p.Default, p.Enum, p.Grant), p.Description})
	}
	return writeTable(c.App.Writer, []string{"SETTING", "TYPE", "", "MEANING"}, settings)
}

func settingNote(required bool, def any, enum []any, grant string) string {
	var notes []string
	if required {
		notes = append(notes, "required")
	}
	if def != nil {
		notes = append(notes, fmt.Sprintf("default %v", def))
	}
	if enum != nil {
		notes = append(notes, fmt.Sprintf("one of %v", enum))
	}
	if grant != "" {
		notes = append(notes, "grants "+grant)
	}
	return strings.Join(notes, ", ")
}

func orNone(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, ", ")
}
