package process

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr puts the plugin in a group of its own, and lets the kernel kill it when the thread that forked it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits for the process's end and ends its group and what left it before it is reaped: until then nobody else can get its number.
func (c *child) reap() {
	for unix.Waitid(unix.P_PID, c.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.endGroup()
	c.endDescendants()
	c.wait()
}
