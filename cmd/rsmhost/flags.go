package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/config"
)

// configCategory is where help shows --config: before the keys of its file.
const configCategory = "What is read (these and what follows are also keys of the --config file, and RSMHOST_... variables)"

// categories are what help says above the keys of a group. It shows them in the order of the alphabet.
var categories = map[config.Group]string{
	config.Data:    configCategory,
	config.Limits:  "What reads may take, and how they answer",
	config.Files:   "Where its own files and its log go",
	config.Clients: "Who may connect, and how much",
}

// withConfig puts a command's own flags before those that all reading commands have.
func withConfig(own ...cli.Flag) []cli.Flag {
	own = append(own, &cli.StringFlag{Name: "config", Category: configCategory, Usage: "YAML `FILE` of these keys; a flag wins over it", EnvVars: []string{"RSMHOST_CONFIG"}})
	for _, k := range config.Keys {
		if !k.FileOnly && k.Group != config.Clients {
			own = append(own, flagOf(k))
		}
	}
	return own
}

// withServing is withConfig with the flags of serve too.
func withServing(own ...cli.Flag) []cli.Flag {
	own = withConfig(own...)
	for _, k := range config.Keys {
		if k.Group == config.Clients {
			own = append(own, flagOf(k))
		}
	}
	return own
}

func flagOf(k config.Key) cli.Flag {
	category := categories[k.Group]
	switch k.Kind {
	case config.Bool:
		return &cli.BoolFlag{Name: k.Name, Category: category, Usage: k.Help}
	case config.List, config.Map:
		return &cli.StringSliceFlag{Name: k.Name, Category: category, Usage: k.Help}
	}
	usage := k.Help
	if k.Default != "" {
		usage += fmt.Sprintf(" (default: %s)", k.Default)
	}
	return &cli.StringFlag{Name: k.Name, Category: category, Usage: usage}
}

// loadConfig puts together what file, environment and flags say.
func loadConfig(c *cli.Context) (*config.Config, error) {
	flags := map[string]config.Value{}
	for _, k := range config.Keys {
		if k.FileOnly || !c.IsSet(k.Name) {
			continue
		}
		var v config.Value
		var err error
		switch k.Kind {
		case config.Bool:
			v.Text = strconv.FormatBool(c.Bool(k.Name))
		case config.List:
			v.List = c.StringSlice(k.Name)
		case config.Map:
			v.Map, err = config.ParsePairs(k.Name, c.StringSlice(k.Name))
		default:
			v.Text = c.String(k.Name)
		}
		if err != nil {
			return nil, err
		}
		flags[k.Name] = v
	}
	return config.Load(config.Sources{File: c.String("config"), Env: os.LookupEnv, Flags: flags})
}

// openHost opens what the configuration names; plugin says whether the command reads the remote tier.
func openHost(c *cli.Context, withPlugin bool) (*host.Host, *config.Config, error) {
	return openAdjusted(c, func(cfg *host.Config, _ *config.Config) {
		cfg.RefreshInterval = 0 // these commands answer from one look
		if !withPlugin {
			cfg.Plugin = ""
		}
	})
}

// openAdjusted opens what the configuration names, with what a command has otherwise.
func openAdjusted(c *cli.Context, adjust func(*host.Config, *config.Config)) (*host.Host, *config.Config, error) {
	conf, err := loadConfig(c)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := conf.Host()
	if err != nil {
		return nil, nil, err
	}
	if cfg.Metadata == "" && len(cfg.LogDirs) == 0 {
		return nil, nil, usage("nothing to read", "give --metadata dir:PATH, --log-dir PATH, or both")
	}
	cfg.Log, cfg.Version = logger(c.App.ErrWriter, conf), buildVersion()
	adjust(&cfg, conf)
	limitHeap(cfg.MemoryBytes)
	spaceCollections()
	ctx, cancel := withTimeout(c)
	defer cancel()
	h, err := host.Open(ctx, cfg)
	return h, conf, err
}

// openAccess reads who may connect and what it may do. Rules under which no client may do anything are refused.
func openAccess(conf *config.Config, log *slog.Logger) (*access.Access, error) {
	o := conf.Access()
	o.Log = log
	who, err := access.New(o)
	if err == nil && !who.Identifies() && !who.Rules().Knows(access.Anonymous) {
		err = abi.Errorf("configure", "acl", abi.Invalid, "nobody is asked who he is, and no rule is about * or %s, which all clients are then: give sasl-users, tls-client-ca, or such a rule", access.Anonymous)
	}
	return who, err
}

func logger(w io.Writer, conf *config.Config) *slog.Logger { return loggerAt(w, conf, logLevel(conf)) }

func logLevel(conf *config.Config) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(conf.Text("log-level"))); err != nil {
		level = slog.LevelWarn // not reached: the value was checked
	}
	return level
}

// loggerAt is a logger of a level that may change.
func loggerAt(w io.Writer, conf *config.Config, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if conf.Text("log-format") == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// outputs are the forms of a command's output; the first is its default.
func outputFlag(forms ...string) cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: forms[0], Usage: "form of the output on stdout: " + strings.Join(forms, ", "),
		Action: func(_ *cli.Context, v string) error {
			if !slices.Contains(forms, v) {
				return usage("-o "+v, "want %s", strings.Join(forms, ", "))
			}
			return nil
		}}
}

func topicFlag() cli.Flag {
	return &cli.StringFlag{Name: "topic", Aliases: []string{"t"}, Usage: "topic: `NAME`, or NAME@ID for an older incarnation"}
}

// partitionFlag takes what a partition's number may be; unset says what is read without it.
func partitionFlag(unset string) cli.Flag {
	return &cli.IntFlag{Name: "partition", Aliases: []string{"p"}, Usage: "partition: `N`", DefaultText: unset,
		Action: func(_ *cli.Context, n int) error {
			if n < 0 || n > math.MaxInt32 {
				return usage(fmt.Sprintf("-p %d", n), "want a number from 0 to %d", math.MaxInt32)
			}
			return nil
		}}
}

// onTopic opens the host and runs a command on the topic that -t names and the partitions of -p, or all of the topic.
func onTopic(c *cli.Context, withPlugin bool, run func(*host.Host, *host.Topic, []int32) error) (err error) {
	if err := oneTopic(c); err != nil {
		return err
	}
	h, _, err := openHost(c, withPlugin)
	if err != nil {
		return err
	}
	defer closing(h, &err)
	t, err := h.Topic(c.String("topic"))
	if err != nil {
		return statusOne{err}
	}
	numbers := partitions(c, t)
	if err := run(h, t, numbers); err != nil {
		return err
	}
	return whole(h, t.Name, numbers)
}

// partitions gives the partitions that -p names, or all of the topic.
func partitions(c *cli.Context, t *host.Topic) []int32 {
	if c.IsSet("partition") {
		return []int32{int32(c.Int("partition"))}
	}
	var all []int32
	for _, p := range t.Partitions {
		all = append(all, p.ID.Partition)
	}
	return all
}

// closing closes what a command opened, and reports the first thing that went wrong.
func closing(h io.Closer, err *error) {
	if cerr := h.Close(); *err == nil {
		*err = cerr
	}
}

// withTimeout bounds one step of a command by its --timeout, where it has one.
func withTimeout(c *cli.Context) (context.Context, context.CancelFunc) {
	if d := c.Duration("timeout"); d > 0 {
		return context.WithTimeout(c.Context, d)
	}
	return context.WithCancel(c.Context)
}
