//go:build !linux

package server

import (
	"net"
	"os"
)

// fileSender is not there on this system: files are copied.
type fileSender struct{}

func newFileSender(net.Conn) *fileSender { return nil }

func (*fileSender) send(*os.File, int64, int64) (int64, bool, error) { return 0, false, nil }

func (*fileSender) hold() {}

func (*fileSender) release() {}
