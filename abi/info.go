package abi

// Version is the version of this contract. A plugin lists those that it speaks, a host those that it serves; the
// highest common one holds.
const Version = 1

// Info is what a plugin says about itself before it is configured: the answer to describe, and the rsm.manifest
// section of a module.
type Info struct {
	Name        string // "localfs"
	Vendor      string
	Version     string // semantic version of the plugin
	ABIVersions []int32
	Features    []string // the optional operations it serves: "probe"
	Grants      []Grant  // what it asks for beyond what its own configuration fields grant
	Secrets     []Secret
	Schema      []byte // JSON Schema of its configuration, one flat object; empty: takes none
}

// Grant is one thing that a plugin may be allowed.
type Grant struct {
	Kind  string // "fs.read", "env", "net.http"
	Value string // a directory, the name of an environment variable, a host
}

// Secret names a secret that the plugin needs, and the environment variable that it comes from by default.
type Secret struct {
	Name string
	Env  string
}
