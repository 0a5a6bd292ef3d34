package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/host/ownfile"
)

// What a compiled module is, is native code that this process will run, and wazero checks little of what it reads back: a
// CRC32 over the code, and nothing over the tables that say where its functions begin. So every entry of ours is a
// directory with the sums of each of its files, made whole or not at all:
//
//	<CacheDir>/wazero-v1.12.0-linux-amd64/<hash of the module>/sums
//	                                                          /...   (wazero's own files)
//
// An entry that does not match its sums is removed, and the module is compiled. So is one of another version of wazero,
// because it is another directory. What others may write to is not read at all: the sums are against damage, and the mode
// of the directory against people. So two CRCs do, of two polynomials that the processor has instructions for; SHA-256
// took 11 ms of the 80 in which a Go module starts.

const (
	wazeroModule = "github.com/tetratelabs/wazero"

	sumsFile = "sums"

	maxSums     = 64 << 10 // bytes: a line for each file of an entry, of which wazero writes one
	maxCompiled = 1 << 30  // bytes of a file of an entry

	// cacheAge is how long an entry that is not used stays: a module that changes with every build leaves 7 MB each time.
	cacheAge = 30 * 24 * time.Hour
)

// compileCache is the directory of compiled modules of this version of wazero.
type compileCache struct{ dir string }

// openCache makes the directory below dir. An error means that there is no cache to be had.
func openCache(dir, version string) (*compileCache, error) {
	c := &compileCache{filepath.Join(dir, fmt.Sprintf("wazero-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH))}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	st, err := os.Lstat(c.dir)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() || st.Mode().Perm()&0o077 != 0 || !ownedByUs(st) {
		return nil, fmt.Errorf("%s holds code that is run, and others than its owner can reach it (mode %v): it must be a directory of yours with mode 0700", c.dir, st.Mode())
	}
	return c, nil
}

// pinnedWazero is the version that go.mod requires (a test holds the two equal): what a test binary of this project has in
// it, which is not told by itself.
const pinnedWazero = "v1.12.0"

// wazeroVersion is that of the wazero in this program. A program that was built without knowing it stands for itself by the
// sum of its bytes; where even that fails, nothing is cached.
func wazeroVersion() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == wazeroModule && d.Replace == nil && d.Version != "" {
				return d.Version, nil
			}
		}
	}
	if exe, err := os.Executable(); err == nil && strings.HasSuffix(exe, ".test") {
		return pinnedWazero + "-test", nil
	}
	return ownSum()
}

// ownSum names this program by its content.
var ownSum = sync.OnceValues(func() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(exe)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("of-%s-%x", filepath.Base(exe), sum.Sum(nil)[:12]), nil
})

// entry is where a module's compiled form lies. What bounds its memory is part of the name, so that no code made for one
// bound is run under another.
func (c *compileCache) entry(module []byte, memoryCap int64) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d ", memoryCap)
	h.Write(module)
	return filepath.Join(c.dir, hex.EncodeToString(h.Sum(nil)))
}

// good reports whether the entry is there and is what it was when it was made. One that is not is removed.
func (c *compileCache) good(entry string) bool {
	want, err := ownfile.Read("read", filepath.Join(entry, sumsFile), maxSums)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(entry); errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	if err == nil {
		var have string
		if have, err = sums(entry); err == nil && have == string(want) {
			now := time.Now()
			os.Chtimes(entry, now, now) // in use: a failure shortens its life, no more
			return true
		}
	}
	os.RemoveAll(entry)
	return false
}

// publish sums up what was compiled into tmp and gives it its name. Where another was faster, that one stays.
func (c *compileCache) publish(tmp, entry string) error {
	s, err := sums(tmp)
	if err != nil {
		return err
	}
	if s == "" {
		return errors.New("wazero wrote nothing")
	}
	if err := writeSynced(filepath.Join(tmp, sumsFile), s); err != nil {
		return err
	}
	if err := os.Rename(tmp, entry); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Sync(), f.Close())
}

// sums lists the files below dir with their sums, but for the list itself.
func sums(dir string) (string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == sumsFile {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", rel)
		}
		sum, err := fileSum(path)
		lines = append(lines, sum+"  "+filepath.ToSlash(rel)+"\n")
		return err
	})
	slices.Sort(lines)
	return strings.Join(lines, ""), err
}

func fileSum(path string) (string, error) {
	f, err := ownfile.Open("read", path, maxCompiled)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, 256<<10)
	var c, ieee uint32
	size := 0
	for {
		n, err := f.Read(buf)
		c, ieee, size = crc32.Update(c, castagnoli, buf[:n]), crc32.Update(ieee, crc32.IEEETable, buf[:n]), size+n
		if err == io.EOF {
			return fmt.Sprintf("%08x%08x %d", c, ieee, size), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// trim removes what was not used for cacheAge, and what a process left behind that died while it compiled.
func (c *compileCache) trim(now time.Time) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if st, err := e.Info(); err == nil && now.Sub(st.ModTime()) > cacheAge {
			os.RemoveAll(filepath.Join(c.dir, e.Name()))
		}
	}
}
