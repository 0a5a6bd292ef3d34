//go:build !linux

package process

import "syscall"

// sysProcAttr puts the plugin in a group of its own. There is no signal at the parent's death here: a plugin of the SDK
// ends at the end of its lifeline, and any other must watch its parent itself.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the process's end and then ends its group. In between, the number is free: a process that takes it and
// leads a group of its own would be hit. Linux has no such gap.
func (c *child) reap() {
	c.wait()
	c.endGroup()
}
