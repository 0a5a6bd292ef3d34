package process

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A descendant of a plugin that left its group (setsid, setpgid) does not get the group's signals. It is known by its descent
// while the plugin lives; by the plugin's private directory in its environment or as its working directory; and, where this
// program takes orphans, by being a child that nobody here started.

// orphans: see TakeOrphans.
var orphans atomic.Bool

// TakeOrphans makes this process the parent of every descendant whose own parent ended, on Linux, and lets what plugins leave be
// known by that. It is for a program whose only children are plugins, and commands in its own process group.
func TakeOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	orphans.Store(true)
	return nil
}

// found is a process as /proc shows it.
type found struct {
	pid, parent, group int
	start              string // with the pid it is the process's own for ever
	dead               bool   // a zombie
}

// processes lists all that can be seen.
func processes() []found {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []found
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if f, ok := look(pid); ok {
				all = append(all, f)
			}
		}
	}
	return all
}

// look reads one process.
func look(pid int) (found, bool) {
	b, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return found{}, false
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the name before it may hold anything
	if len(fields) < 20 {
		return found{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	group, err2 := strconv.Atoi(fields[2])
	return found{pid, parent, group, fields[19], fields[0] == "Z" || fields[0] == "X"}, err1 == nil && err2 == nil
}

func procPath(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// marked reports a process that has a plugin's private directory in its environment, or lies in it.
func marked(pid int, dir string) bool {
	env, err := os.ReadFile(procPath(pid, "environ"))
	if err == nil && bytes.Contains(env, []byte(dir+"/")) {
		return true
	}
	cwd, err := os.Readlink(procPath(pid, "cwd"))
	return err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/"))
}

// withDescendants adds to some processes what descends from them.
func withDescendants(all, some []found) []found {
	in := map[int]bool{}
	for _, f := range some {
		in[f.pid] = true
	}
	for more := true; more; {
		more = false
		for _, f := range all {
			if in[f.parent] && !in[f.pid] {
				in[f.pid], more = true, true
				some = append(some, f)
			}
		}
	}
	return some
}

// descendants are those of a process that lives.
func descendants(pid int) []found {
	return withDescendants(processes(), []found{{pid: pid}})[1:]
}

// leftBehind are the living processes that a plugin left: those that were seen to descend from it, those with its mark, orphans
// that this program took, and their descendants.
func leftBehind(dir string, seen []found) []found {
	all, self := processes(), os.Getpid()
	group := unix.Getpgrp()
	var some []found
	for _, f := range all {
		orphan := orphans.Load() && f.parent == self && f.group != group && !started.has(f.pid)
		same := slices.ContainsFunc(seen, func(s found) bool { return s.pid == f.pid && s.start == f.start })
		if f.pid != self && !started.has(f.pid) && (orphan || same || marked(f.pid, dir)) {
			some = append(some, f)
		}
	}
	return withDescendants(all, some)
}

const (
	leftRounds = 100 // looks at what is left, each after leftPause: what forks meanwhile is found by the next
	leftPause  = 5 * time.Millisecond
)

// endLeft ends what a plugin left behind. It returns when nothing of it is there, or after half a second.
func endLeft(dir string, seen []found) {
	for range leftRounds {
		living := 0
		for _, f := range leftBehind(dir, seen) {
			if f.dead {
				if f.parent == os.Getpid() {
					unix.Wait4(f.pid, nil, unix.WNOHANG, nil) // an orphan that was taken: nobody else reaps it
				}
				continue
			}
			living++
			f.kill()
		}
		if living == 0 {
			return
		}
		time.Sleep(leftPause)
	}
}

// kill ends the process, and no other one that has its number by now.
func (f found) kill() {
	p, err := os.FindProcess(f.pid) // holds on to it by a descriptor
	if err != nil {
		return
	}
	defer p.Release()
	if now, ok := look(f.pid); ok && now.start == f.start {
		p.Kill()
	}
}
