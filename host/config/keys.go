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

// Key declares one key.
type Key struct {
	Name     string
	Kind     Kind
	Default  string // as text; of Text, Bool, Number and Signed
	Help     string
	Values   []string // those that are allowed; nil: any
	FileOnly bool     // no flag: it is granted in writing
	Live     bool     // serve puts a new value in force when it reads the file again
	Serving  bool     // of rsmhost serve: other commands have no flag for it
}

// Keys are all keys, in the order of help and of config show.
var Keys = []Key{
	{Name: "plugin", Help: "storage plugin: a name in the plugin directory, the path of an executable, or of a .wasm"},
	{Name: "plugin-config", Kind: Map, Help: "a setting `K=V` of the plugin, checked against the plugin's own schema; repeated"},
	{Name: "plugin-dir", Kind: List, Help: "directory that plugin names are looked for in (default: beside rsmhost, then the user's data directory); repeated"},
	{Name: "placement", Values: []string{"wasm", "process", "wasm-isolated"}, Help: "run the plugin as wasm or process (default: as its file is)"},
	{Name: "secret", Kind: Map, Help: "where a secret `NAME=REF` that the plugin asks for comes from: env:VAR, file:PATH or cmd:COMMAND; repeated"},
	{Name: "metadata", Help: "remote log metadata: `dir:PATH`, the folder that holds __remote_log_metadata-0 and its siblings"},
	{Name: "metadata.refresh.interval.ms", Kind: Number, Default: "5000", Help: "time between looks at the metadata by a command that keeps running; 0: it looks once"},
	{Name: "log-dir", Kind: List, Help: "local tier: a Kafka log directory, opened read-only; repeated"},
	{Name: "cache-dir", Help: "index cache and compiled modules; may be wiped (default: the user's cache directory)"},
	{Name: "state-dir", Help: "what must not be lost: what consumer groups committed (default: the user's state directory)"},
	{Name: "kafka-exact", Kind: Bool, Default: "false", Help: "answer as Apache Kafka 4.3 does, warts included"},
	{Name: "log-level", Default: "warn", Values: []string{"debug", "info", "warn", "error"}, Live: true, Help: "what is logged on stderr: debug, info, warn or error"},
	{Name: "log-format", Default: "text", Values: []string{"text", "json"}, Help: "form of the log: text or json"},
	{Name: "remote.log.reader.threads", Kind: Number, Default: "10", Live: true, Help: "remote reads that run at once"},
	{Name: "remote.log.reader.max.pending.tasks", Kind: Number, Default: "100", Live: true, Help: "remote reads that wait in the queue"},
	{Name: "remote.log.index.file.cache.total.size.bytes", Kind: Number, Default: "1073741824", Live: true, Help: "bytes of the index cache on disk"},
	{Name: "remote.log.index.file.cache.ttl.ms", Kind: Signed, Default: "900000", Help: "an index that was not used that long leaves the cache; -1: none does"},
	{Name: "memory.max", Kind: Number, Default: "0", Help: "bytes that reads and caches hold in memory, all together; 0: a quarter of what the cgroup or the machine has"},
	{Name: "remote.fetch.max.wait.ms", Kind: Number, Default: "0", Live: true, Help: "longest wait of a fetch for the remote tier; what is not ready then answers the next fetch; 0: as long as it takes; serve takes 500 where nothing is given"},
	{Name: "remote.log.manager.fetch.max.bytes.per.second", Kind: Number, Default: "0", Live: true, Help: "rate of remote reads; 0: no bound"},
	{Name: "remote.log.manager.fetch.quota.window.num", Kind: Number, Default: "11", Help: "windows that the rate is measured over"},
	{Name: "remote.log.manager.fetch.quota.window.size.seconds", Kind: Number, Default: "1", Help: "length of a window"},
	{Name: "fetch.max.bytes", Kind: Number, Default: "57671680", Live: true, Help: "bytes of one answer at most"},
	{Name: "max.connections", Kind: Number, Default: "1000", Live: true, Serving: true, Help: "connections to serve; one more is closed at once"},
	{Name: "slow.read.ms", Kind: Number, Default: "2000", Live: true, Help: "a read that takes longer is logged with its steps, one a second at most; 0: none is"},
	{Name: "tls-cert", Serving: true, Help: "connections are TLS with the certificate chain in this PEM `FILE`; read again when it changes, as the other files are"},
	{Name: "tls-key", Serving: true, Help: "its key, a PEM `FILE`"},
	{Name: "tls-client-ca", Serving: true, Help: "clients need a certificate of an authority in this PEM `FILE`, and are its subject"},
	{Name: "ssl.client.auth", Serving: true, Default: "required", Values: []string{"required", "requested"}, Help: "with tls-client-ca: required, or requested, so that who has no certificate is User:ANONYMOUS"},
	{Name: "sasl-users", Serving: true, Help: "clients authenticate by SASL against the verifiers in this `FILE`, of which rsmhost passwd makes lines"},
	{Name: "sasl.enabled.mechanisms", Kind: List, Serving: true, Help: "those that are served (default: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512); repeated"},
	{Name: "acl", Serving: true, Help: "clients may do what the rules in this `FILE` allow (default: everything)"},
	{Name: "max.connections.per.ip", Kind: Number, Serving: true, Live: true, Default: "0", Help: "connections of one address at most; 0: no bound of its own"},
	{Name: "connections.max.idle.ms", Kind: Number, Serving: true, Default: "600000", Help: "a connection that asks nothing for that long is closed"},
	{Name: "socket.request.max.bytes", Kind: Number, Serving: true, Default: "104857600", Help: "a larger request ends its connection"},
	{Name: "max.in.flight.requests.per.connection", Kind: Number, Serving: true, Default: "8", Help: "requests of a connection that are read before the first is answered, at least 2"},
	{Name: "queued.max.request.bytes", Kind: Number, Serving: true, Default: "33554432", Help: "bytes of large requests that are read and not answered, all together, at least 2 MiB; more wait unread"},
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
