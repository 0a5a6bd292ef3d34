//go:build !wasip1

package sdk

import (
	"errors"
	"io"
	"os"

	"github.com/rsmhost/rsmhost/abi"
)

// NewConfig makes a configuration for a plugin that runs in this process: values by setting, secrets by name, and for
// every setting that grants a directory its path. It opens the directories; errors are NOT_FOUND or DENIED and name the
// setting. Close closes them.
func NewConfig(values, secrets, dirs map[string]string) (*Config, error) {
	c := &Config{values: values, secrets: secrets, roots: make(map[string]*Root, len(dirs))}
	for name, dir := range dirs {
		r, err := os.OpenRoot(dir)
		if err != nil {
			c.Close()
			return nil, abi.E("open", name, abi.FileKind(err), err)
		}
		c.roots[name] = &Root{name: name, dir: osRoot{r}}
	}
	return c, nil
}

// Close closes the configuration's directories. What was made from it must not be used afterwards.
func (c *Config) Close() error {
	var errs []error
	for _, r := range c.roots {
		errs = append(errs, r.dir.(osRoot).r.Close())
	}
	return errors.Join(errs...)
}

type osRoot struct{ r *os.Root }

func (o osRoot) size(path string) (int64, error) {
	st, err := o.r.Stat(path)
	if err != nil {
		return 0, abi.E("stat", path, abi.FileKind(err), err)
	}
	if !st.Mode().IsRegular() {
		return 0, abi.Errorf("stat", path, abi.NotFound, "not a regular file")
	}
	return st.Size(), nil
}

func (o osRoot) readAt(path string, p []byte, off int64) (int, error) {
	if _, err := o.size(path); err != nil { // opening a pipe would wait for its writer
		return 0, err
	}
	f, err := o.r.Open(path)
	if err != nil {
		return 0, abi.E("open", path, abi.FileKind(err), err)
	}
	defer f.Close()
	n, err := f.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, abi.E("read", path, abi.FileKind(err), err)
	}
	return n, err
}

func (o osRoot) readDir(path string, n int) ([]string, error) {
	if n <= 0 { // to os.File it would mean all of them
		return nil, nil
	}
	f, err := o.r.Open(path)
	if err != nil {
		return nil, abi.E("list", path, abi.FileKind(err), err)
	}
	defer f.Close()
	entries, err := f.ReadDir(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, abi.E("list", path, abi.FileKind(err), err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	return names, nil
}
