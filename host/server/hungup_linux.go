package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp reports a TCP connection whose client closed its side, or that broke, whatever lies unread in front of that.
func hungUp(nc net.Conn) (gone bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(look, 0)
		gone = err == nil && n > 0
	})
	return gone || err != nil // it was closed here
}
