package wasm

import (
	"context"
	"log/slog"
	"os"

	"github.com/tetratelabs/wazero/api"

	"github.com/rsmhost/rsmhost/abi"
)

const (
	// openFiles is how many files a call keeps open: a guest looks at a file's size and then reads it, and rarely at
	// more than a manifest and the object beside it.
	openFiles = 4
	// maxPath bounds the names that a guest passes, as PATH_MAX does.
	maxPath = 4096
)

// openFile is a file that a call has open.
type openFile struct {
	root, path string
	file       *os.File
	size       int64
}

// file gives the file that args[0:4] name, a root and a path. It belongs to the call, which closes it at its end. The kind
// is 0 for success.
func (c *call) file(ctx context.Context, mem api.Memory, args []uint64) (*openFile, abi.Kind) {
	root, in := view(mem, args, 0)
	path, in2 := view(mem, args, 2)
	if !in || !in2 || len(root) > maxPath || len(path) > maxPath {
		return nil, abi.Invalid
	}
	for i := range c.files {
		if f := &c.files[i]; f.path == string(path) && f.root == string(root) {
			return f, 0
		}
	}
	file, st, err := c.roots.Open(string(root), string(path))
	if err != nil {
		return nil, c.refused(ctx, err)
	}
	if len(c.files) == openFiles {
		c.files[0].file.Close() // only read from: nothing is lost
		c.files = append(c.files[:0], c.files[1:]...)
	}
	c.files = append(c.files, openFile{string(root), string(path), file, st.Size()})
	return &c.files[len(c.files)-1], 0
}

// refused keeps the words of an error for the operator; only its kind fits into a result word.
func (c *call) refused(ctx context.Context, err error) abi.Kind {
	c.inst.log.to.LogAttrs(ctx, slog.LevelDebug, "the plugin was refused a file", slog.String("op", c.op), slog.Any("err", err))
	return abi.KindOf(err)
}

func (c *call) closeFiles() {
	for _, f := range c.files {
		f.file.Close() // only read from: nothing is lost
	}
	c.files = nil
}
