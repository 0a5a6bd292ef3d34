package config

import "strings"

// Kind is the type of a key's value.
type Kind int

// The kinds.
const (
	Text   Kind = iota
	List        // of text
	Map         // from text to text: K=V on the command line
	Bool        // true, false
	Number      // a whole number, not negative
	Signed      // a whole number, or -1 for none
)

// Group is what a key is about: help shows the keys of a group together.
type Group int

// The groups.
const (
	Data    Group = iota // what is read
	Limits               // how it is read, and what that may take
	Files                // where the host's own files and its log go
	Clients              // who may connect to rsmhost serve, and how much; other commands have no flag for these
)

// Key declares one key.
type Key struct {
	Name     string
	Kind     Kind
	Group    Group
	Default  string   // as text; of Text, Bool, Number and Signed
	Help     string   // in backquotes: the value or its unit, as help shows it behind the name
	Least    int64    // of Number: the smallest value that is taken
	Values   []string // those that are allowed; nil: any
	FileOnly bool     // no flag: it is granted in writing
	Live     bool     // serve puts a new value in force when it reads the file again
}

// Keys are all keys, in the order of help and of config show.
var Keys = []Key{
	{Name: "plugin", Help: "storage plugin `REF`: a name in the plugin directory, the path of an executable, or of a .wasm"},
	{Name: "plugin-config", Kind: Map, Help: "a setting `K=V` of the plugin, checked against the plugin's own schema; repeated"},
	{Name: "plugin-dir", Kind: List, Help: "`DIR` that plugin names are looked for in (default: beside rsmhost, then the user's data directory); repeated"},
	{Name: "placement", Values: []string{"wasm", "process", "wasm-isolated"}, Help: "`PLACEMENT` of the plugin: wasm or process (default: as its file is)"},
	{Name: "secret", Kind: Map, Help: "where a secret `NAME=REF` that the plugin asks for comes from: env:VAR, file:PATH or cmd:COMMAND; repeated"},
	{Name: "metadata", Help: "remote log metadata: `dir:PATH`, the folder that holds __remote_log_metadata-0 and its siblings"},
	{Name: "metadata.refresh.interval.ms", Kind: Number, Group: Limits, Default: "5000", Help: "`MS` between looks at the metadata by a command that keeps running; 0: it looks once"},
	{Name: "log-dir", Kind: List, Help: "local tier: `DIR` is a Kafka log directory, opened read-only; repeated"},
	{Name: "cache-dir", Group: Files, Help: "`DIR` of the index cache and of compiled modules; may be wiped (default: the user's cache directory)"},
	{Name: "state-dir", Group: Files, Help: "`DIR` of what must not be lost: what consumer groups committed (default: the user's state directory)"},
	{Name: "kafka-exact", Kind: Bool, Group: Limits, Default: "false", Help: "answer as Apache Kafka 4.3 does, warts included"},
	{Name: "log-level", Group: Files, Default: "warn", Values: []string{"debug", "info", "warn", "error"}, Live: true, Help: "`LEVEL` of what is logged on stderr: debug, info, warn or error"},
	{Name: "log-format", Group: Files, Default: "text", Values: []string{"text", "json"}, Help: "`FORM` of the log: text or json"},
	{Name: "remote.log.reader.threads", Kind: Number, Group: Limits, Default: "10", Live: true, Least: 1, Help: "`N` remote reads run at once"},
	{Name: "remote.log.reader.max.pending.tasks", Kind: Number, Group: Limits, Default: "100", Live: true, Least: 1, Help: "`N` remote reads wait in the queue"},
	{Name: "remote.log.index.file.cache.total.size.bytes", Kind: Number, Group: Limits, Default: "1073741824", Live: true, Least: 1, Help: "`BYTES` of the index cache on disk"},
	{Name: "remote.log.index.file.cache.ttl.ms", Kind: Signed, Group: Limits, Default: "900000", Help: "an index that was not used for `MS` leaves the cache; -1: none does"},
	{Name: "memory.max", Kind: Number, Group: Limits, Default: "0", Help: "`BYTES` that reads and caches hold in memory, all together; 0: a quarter of what the cgroup or the machine has"},
	{Name: "remote.fetch.max.wait.ms", Kind: Number, Group: Limits, Default: "0", Live: true, Help: "a fetch waits `MS` at most for the remote tier; what is not ready then answers the next fetch; 0: as long as it takes; serve takes 500 where nothing is given"},
	{Name: "remote.log.manager.fetch.max.bytes.per.second", Kind: Number, Group: Limits, Default: "0", Live: true, Help: "`BYTES` a second of remote reads at most; 0: no bound"},
	{Name: "remote.log.manager.fetch.quota.window.num", Kind: Number, Group: Limits, Default: "11", Least: 1, Help: "that rate is measured over `N` windows"},
	{Name: "remote.log.manager.fetch.quota.window.size.seconds", Kind: Number, Group: Limits, Default: "1", Least: 1, Help: "of `SECONDS` each"},
	{Name: "fetch.max.bytes", Kind: Number, Group: Limits, Default: "57671680", Live: true, Least: 1024, Help: "`BYTES` of one answer at most, but for a first batch that is larger"},
	{Name: "max.connections", Kind: Number, Group: Clients, Default: "1000", Live: true, Least: 1, Help: "serve `N` connections; one more is closed at once"},
	{Name: "slow.read.ms", Kind: Number, Group: Files, Default: "2000", Live: true, Help: "a read that takes longer than `MS` is logged with its steps, one a second at most; 0: none is"},
	{Name: "tls-cert", Group: Clients, Help: "connections are TLS with the certificate chain in this PEM `FILE`; read again when it changes, as the other files are"},
	{Name: "tls-key", Group: Clients, Help: "the key of tls-cert, a PEM `FILE`"},
	{Name: "tls-client-ca", Group: Clients, Help: "clients need a certificate of an authority in this PEM `FILE`, and are its subject"},
	{Name: "ssl.client.auth", Group: Clients, Default: "required", Values: []string{"required", "requested"}, Help: "with tls-client-ca, `HOW` a certificate is asked for: required, or requested, so that who has none is User:ANONYMOUS"},
	{Name: "sasl-users", Group: Clients, Help: "clients authenticate by SASL against the verifiers in this `FILE`, of which rsmhost passwd makes lines"},
	{Name: "sasl.enabled.mechanisms", Kind: List, Group: Clients, Help: "`MECHANISM` that sasl-users is served with (default: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512); repeated"},
	{Name: "acl", Group: Clients, Help: "clients may do what the rules in this `FILE` allow (default: everything)"},
	{Name: "max.connections.per.ip", Kind: Number, Group: Clients, Live: true, Default: "0", Help: "`N` connections of one address at most; 0: no bound of its own"},
	{Name: "connections.max.idle.ms", Kind: Number, Group: Clients, Default: "600000", Least: 1, Help: "a connection that asks nothing for `MS` is closed"},
	{Name: "socket.request.max.bytes", Kind: Number, Group: Clients, Default: "104857600", Least: 1024, Help: "a request of more than `BYTES` ends its connection"},
	{Name: "max.in.flight.requests.per.connection", Kind: Number, Group: Clients, Default: "8", Least: 2, Help: "`N` requests of a connection are read before the first is answered, at least 2"},
	{Name: "queued.max.request.bytes", Kind: Number, Group: Clients, Default: "33554432", Least: 2 << 20, Help: "`BYTES` of large requests that are read and not answered, all together, at least 2 MiB; more wait unread"},
	{Name: "grants.env", Kind: List, FileOnly: true, Help: "environment variables that a process plugin may have beyond PATH, TZ and LANG"},
}

// Env is the environment variable of a key.
func (k Key) Env() string {
	return "RSMHOST_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(k.Name))
}

// Find gives the key of this name.
func Find(name string) (Key, bool) {
	for _, k := range Keys {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}
