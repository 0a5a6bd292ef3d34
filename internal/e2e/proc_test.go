package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// procFile is a file that Linux has of a process.
func procFile(t testing.TB, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		t.Skip("no /proc here") // the figures are Linux's
	}
	return string(text)
}

// resident is a process's memory in MiB.
func resident(t testing.TB, pid int) float64 {
	t.Helper()
	for line := range strings.Lines(procFile(t, pid, "status")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				t.Error(err)
			}
			return float64(kib) / 1024
		}
	}
	t.Error("no VmRSS")
	return 0
}

// cpuTime is what a process has used, in user and system, in steps of 10 ms.
func cpuTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	_, fields, _ := strings.Cut(procFile(t, pid, "stat"), ") ") // the name before it may hold anything
	var state string
	var n [10]int64
	var user, system int64
	if _, err := fmt.Sscan(fields, &state, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7], &n[8], &n[9], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// onlyChild is the one process that a process has started.
func onlyChild(t testing.TB, pid int) int {
	t.Helper()
	tasks, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		t.Skip("no /proc here")
	}
	var children []string
	for _, task := range tasks {
		children = append(children, strings.Fields(procFile(t, pid, filepath.Join("task", task.Name(), "children")))...)
	}
	if len(children) != 1 {
		t.Fatalf("children of %d: %v", pid, children)
	}
	child, err := strconv.Atoi(children[0])
	if err != nil {
		t.Fatal(err)
	}
	return child
}
