package main

import (
	"errors"
	"net"
	"syscall"

	"github.com/rsmhost/rsmhost/abi"
)

// isPublic reports whether other machines reach the address that a flag gives. An error is wrong usage.
func isPublic(flag, address string) (bool, error) {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return false, usage(flag+" "+address, "want HOST:PORT: %w", err)
	}
	return !a.IP.IsLoopback(), nil
}

// listen listens at the address that a flag gives. An error names the flag and says what can be done.
func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	kind, todo := abi.Unavailable, ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		todo = ": end what serves there, or give another port; 0 takes one that is free"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		todo = ": it is no address of this machine"
	case errors.Is(err, syscall.EACCES):
		kind, todo = abi.Denied, ": ports below 1024 may be root's alone"
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err // the address is told already
	}
	return nil, abi.Errorf("listen", flag+" "+address, kind, "%w%s", err, todo)
}
