package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/plugin"
	"github.com/rsmhost/rsmhost/host/reader"
)

// Origin says where a value came from.
type Origin string

// The origins, from the weakest to the strongest.
const (
	FromDefault Origin = "default"
	FromFile    Origin = "file"
	FromEnv     Origin = "environment"
	FromFlag    Origin = "flag"
)

// Value is what is in force for one key. Exactly one of the fields is used, by the key's kind.
type Value struct {
	Text   string // of Text, Bool, Number and Signed
	List   []string
	Map    map[string]string
	Origin Origin
	Where  string // of a file: its path and line; of the environment: the variable
}

// String is the value as config show prints it.
func (v Value) String() string {
	switch {
	case v.Map != nil:
		var out []string
		for _, k := range slices.Sorted(maps.Keys(v.Map)) {
			out = append(out, k+"="+v.Map[k])
		}
		return strings.Join(out, ", ")
	case v.List != nil:
		return strings.Join(v.List, ", ")
	}
	return v.Text
}

// Config is a configuration that was put together.
type Config struct {
	values map[string]Value
}

// Sources are where values come from beside the defaults.
type Sources struct {
	File  string                      // path of the YAML file; "": none
	Env   func(string) (string, bool) // os.LookupEnv; nil: none
	Flags map[string]Value            // those that were given, by key
}

// Load puts a configuration together.
func Load(s Sources) (*Config, error) {
	c := &Config{values: map[string]Value{}}
	for _, k := range Keys {
		c.values[k.Name] = Value{Text: k.Default, Origin: FromDefault}
	}
	if s.File != "" {
		if err := c.loadFile(s.File); err != nil {
			return nil, err
		}
	}
	if s.Env != nil {
		if err := c.loadEnv(s.Env); err != nil {
			return nil, err
		}
	}
	for name, v := range s.Flags {
		k, _ := Find(name)
		if err := k.check(v); err != nil {
			return nil, err
		}
		v.Origin = FromFlag
		c.values[name] = v
	}
	return c, nil
}

// loadEnv takes one variable a key; lists and maps are separated by commas.
func (c *Config) loadEnv(env func(string) (string, bool)) error {
	for _, k := range Keys {
		text, ok := env(k.Env())
		if !ok {
			continue
		}
		v, err := k.parse(text)
		if own := (*abi.Error)(nil); errors.As(err, &own) {
			own.Subject = fmt.Sprintf("%s (%s)", k.Name, k.Env())
			return own
		}
		v.Origin, v.Where = FromEnv, k.Env()
		c.values[k.Name] = v
	}
	return nil
}

// parse reads a value as an environment variable has it. Errors are an *abi.Error.
func (k Key) parse(text string) (Value, error) {
	switch {
	case text == "" && k.Kind == List:
		return Value{List: []string{}}, nil
	case text == "" && k.Kind == Map:
		return Value{Map: map[string]string{}}, nil
	}
	switch k.Kind {
	case List:
		return Value{List: strings.Split(text, ",")}, nil
	case Map:
		m, err := ParsePairs(k.Name, strings.Split(text, ","))
		return Value{Map: m}, err
	}
	v := Value{Text: text}
	return v, k.check(v)
}

// ParsePairs reads K=V pairs. An error is INVALID and names the key of the configuration.
func ParsePairs(key string, pairs []string) (map[string]string, error) {
	m := map[string]string{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, abi.Errorf("configure", key, abi.Invalid, "%q: want K=V", p)
		}
		m[k] = v
	}
	return m, nil
}

// check holds a value against the key's kind, its least and its allowed values.
func (k Key) check(v Value) error {
	var err error
	switch {
	case k.Kind == Bool:
		_, err = strconv.ParseBool(v.Text)
	case k.Kind == Number:
		var n uint64
		if n, err = strconv.ParseUint(v.Text, 10, 62); err == nil && n < uint64(k.Least) {
			return abi.Errorf("configure", k.Name, abi.Invalid, "%s is too small: want %d at least", v.Text, k.Least)
		}
	case k.Kind == Signed:
		var n int64
		if n, err = strconv.ParseInt(v.Text, 10, 62); err == nil && n < -1 {
			err = strconv.ErrRange
		}
	case k.Values != nil && v.Text != "" && !slices.Contains(k.Values, v.Text):
		return abi.Errorf("configure", k.Name, abi.Invalid, "%q: want %s", v.Text, strings.Join(k.Values, ", "))
	}
	if err != nil {
		return abi.Errorf("configure", k.Name, abi.Invalid, "%q is not %s", v.Text, map[Kind]string{Bool: "true or false", Number: "a whole number below 2^62", Signed: "a whole number or -1"}[k.Kind])
	}
	return nil
}

// Value gives what is in force for a key.
func (c *Config) Value(key string) Value { return c.values[key] }

// Text gives a Text key's value.
func (c *Config) Text(key string) string { return c.values[key].Text }

// Number gives a Number key's value.
func (c *Config) Number(key string) int64 { return c.number(key) }

// Duration is a Number key's value in milliseconds, or the longest duration where that is longer.
func (c *Config) Duration(key string) time.Duration { return c.duration(key, time.Millisecond) }

// Access is who may connect, and what it may do. Log is the caller's.
func (c *Config) Access() access.Options {
	var mechanisms []string
	for _, m := range c.values["sasl.enabled.mechanisms"].List {
		mechanisms = append(mechanisms, strings.Split(m, ",")...) // as Kafka writes them
	}
	return access.Options{CertFile: c.Text("tls-cert"), KeyFile: c.Text("tls-key"), ClientCAFile: c.Text("tls-client-ca"), ClientAuth: c.Text("ssl.client.auth"),
		UsersFile: c.Text("sasl-users"), Mechanisms: mechanisms, RulesFile: c.Text("acl")}
}

func (c *Config) number(key string) int64 {
	n, _ := strconv.ParseInt(c.values[key].Text, 10, 64) // checked when it was loaded
	return n
}

// duration is a number of units, or the longest duration where that is longer.
func (c *Config) duration(key string, unit time.Duration) time.Duration {
	return time.Duration(min(c.number(key), math.MaxInt64/int64(unit))) * unit
}

// MaxBytes is fetch.max.bytes.
func (c *Config) MaxBytes() int64 { return c.number("fetch.max.bytes") }

// MaxConnections is max.connections.
func (c *Config) MaxConnections() int { return int(min(c.number("max.connections"), math.MaxInt32)) }

// Host turns the configuration into one for host.Open, with the user's own directories where none is given. Log and
// Version are the caller's.
func (c *Config) Host() (host.Config, error) {
	placement, err := plugin.ParsePlacement(c.Text("placement"))
	if err != nil {
		return host.Config{}, err
	}
	exact, _ := strconv.ParseBool(c.Text("kafka-exact")) // checked when it was loaded
	cfg := host.Config{
		Plugin: c.Text("plugin"), PluginDirs: c.values["plugin-dir"].List, Placement: placement,
		PluginConfig: c.values["plugin-config"].Map, Secrets: c.values["secret"].Map, GrantEnv: c.values["grants.env"].List,
		Metadata: c.Text("metadata"), RefreshInterval: c.duration("metadata.refresh.interval.ms", time.Millisecond),
		LogDirs: c.values["log-dir"].List, KafkaExact: exact,
		IndexCacheBytes: c.number("remote.log.index.file.cache.total.size.bytes"),
		ReaderThreads:   int(c.number("remote.log.reader.threads")), ReaderPending: int(c.number("remote.log.reader.max.pending.tasks")),
	}
	cfg.RemoteWait = c.duration("remote.fetch.max.wait.ms", time.Millisecond)
	cfg.SlowRead = c.duration("slow.read.ms", time.Millisecond)
	cfg.Quota = reader.QuotaConfig{BytesPerSecond: c.number("remote.log.manager.fetch.max.bytes.per.second"),
		Windows: int(c.number("remote.log.manager.fetch.quota.window.num")),
		Window:  c.duration("remote.log.manager.fetch.quota.window.size.seconds", time.Second)}
	if cfg.MemoryBytes = c.number("memory.max"); cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = budget.Default()
	}
	if cfg.IndexCacheTTL = c.duration("remote.log.index.file.cache.ttl.ms", time.Millisecond); cfg.IndexCacheTTL == 0 {
		cfg.IndexCacheTTL = 1 // the key's 0 is "at once", the field's is the default
	}
	cfg.CacheDir = c.dir("cache-dir", "XDG_CACHE_HOME", ".cache")
	cfg.StateDir = c.dir("state-dir", "XDG_STATE_HOME", filepath.Join(".local", "state"))
	return cfg, nil
}

// dir is a directory of the user's: what is configured, else by the XDG base directory specification. It is empty where
// neither is known.
func (c *Config) dir(key, variable, below string) string {
	if d := c.Text(key); d != "" {
		return d
	}
	if base := os.Getenv(variable); filepath.IsAbs(base) {
		return filepath.Join(base, "rsmhost")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, below, "rsmhost")
}

// Lines are the keys and what is in force, as config show prints them. Secrets are references, so nothing is hidden.
func (c *Config) Lines() [][3]string {
	var out [][3]string
	for _, k := range Keys {
		v := c.values[k.Name]
		from := string(v.Origin)
		if v.Where != "" {
			from = fmt.Sprintf("%s %s", v.Origin, v.Where)
		}
		out = append(out, [3]string{k.Name, v.String(), from})
	}
	return out
}
