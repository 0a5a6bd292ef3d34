package budget

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

const (
	minDefault = 64 << 20
	noMachine  = 4 << 30 // what is taken where the machine does not say
)

// Default is the budget of a process that was given none: a quarter of what its cgroup or the machine has.
func Default() int64 { return max(minDefault, machine()/4) }

// cgroupLimit is the least memory.max of the process's cgroup (version 2) and those above it; 0 where there is none. root
// is the root of the file system.
func cgroupLimit(root fs.FS) int64 {
	const mount = "sys/fs/cgroup"
	b, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(0)
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		group, ok := strings.CutPrefix(s.Text(), "0::")
		if !ok {
			continue
		}
		for dir := path.Join(mount, path.Clean("/"+group)); len(dir) >= len(mount); dir = path.Dir(dir) {
			if n := memoryMax(root, dir); n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
	}
	return least
}

// memoryMax is one group's own limit; 0: "max", or none.
func memoryMax(root fs.FS, dir string) int64 {
	b, err := fs.ReadFile(root, path.Join(dir, "memory.max"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
