package sdk

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rsmhost/rsmhost/abi"
)

// Plugin is a backend as its author wrote it.
type Plugin struct {
	// Info is what describe answers. ABIVersions and Features may be left empty: Main fills them in.
	Info abi.Info

	// New makes the backend from its configuration, which was checked against Info.Schema. It is called once in a
	// process, and once in each instance of a module. An error about a setting is an *abi.Error of kind INVALID whose
	// Subject is the setting's name.
	New func(ctx context.Context, c *Config) (abi.RemoteStorageManager, error)
}

// Config is a plugin's configuration as its New gets it.
type Config struct {
	values  map[string]string
	secrets map[string]string
	roots   map[string]*Root
}

// Value gives a setting's text, or "" where it was not set.
func (c *Config) Value(key string) string { return c.values[key] }

// ValueOr gives a setting's text, or def where it was not set.
func (c *Config) ValueOr(key, def string) string {
	if v, ok := c.values[key]; ok {
		return v
	}
	return def
}

// Int gives a setting as a number, or def where it was not set. An error is INVALID and names the setting.
func (c *Config) Int(key string, def int64) (int64, error) {
	v, ok := c.values[key]
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, abi.Errorf("configure", key, abi.Invalid, "%q is not a whole number", v)
	}
	return n, nil
}

// Secret gives the bytes of a secret that Info.Secrets names. Only a process plugin and one in the host's own program
// gets bytes; it reports false where there are none.
func (c *Config) Secret(name string) (string, bool) {
	v, ok := c.secrets[name]
	return v, ok
}

// Root gives the directory that the setting of this name grants: its schema marks it "x-grant": "fs.read". The name of
// the setting is also the Root of file parts in it. An error is DENIED where the setting grants no directory.
func (c *Config) Root(setting string) (*Root, error) {
	r, ok := c.roots[setting]
	if !ok {
		return nil, abi.Errorf("configure", setting, abi.Denied, "the setting %q grants no directory", setting)
	}
	return r, nil
}

// Root is a directory that the plugin may read: nothing outside it can be reached, not even by a symbolic link. Its
// methods are safe for concurrent use. Paths are slash-separated and relative. Errors: NOT_FOUND for what does not exist
// and for what is not a regular file, DENIED for a path that leads out.
type Root struct {
	name string
	dir  rootDir
}

// Name is the name of the setting, as file parts have it.
func (r *Root) Name() string { return r.name }

// Size gives a file's size in bytes.
func (r *Root) Size(path string) (int64, error) { return r.dir.size(path) }

// ReadAt fills p from the file at off, and reports io.EOF with fewer bytes at its end, as io.ReaderAt does.
func (r *Root) ReadAt(path string, p []byte, off int64) (int, error) {
	return r.dir.readAt(path, p, off)
}

// ReadDir gives up to n names in a directory, in no order; the name of a directory ends in "/". An error is UNSUPPORTED
// in a form that cannot list.
func (r *Root) ReadDir(path string, n int) ([]string, error) {
	l, ok := r.dir.(dirLister)
	if !ok {
		return nil, abi.Errorf("list", path, abi.Unsupported, "this form of a plugin cannot list directories")
	}
	return l.readDir(path, n)
}

// rootDir is how a form reaches a directory: os.Root in a process, host functions in a module.
type rootDir interface {
	size(path string) (int64, error)
	readAt(path string, p []byte, off int64) (int, error)
}

// dirLister is what a rootDir may have beside.
type dirLister interface {
	readDir(path string, n int) ([]string, error)
}

func (c *Config) String() string {
	return fmt.Sprintf("%d settings, %d secrets", len(c.values), len(c.secrets))
}
