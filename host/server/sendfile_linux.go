package server

import (
	"io"
	"net"
	"os"
	"syscall"
)

// fileSender sends files from the page cache to a TCP connection, without a copy through this process (sendfile(2)). It names
// the position itself: an *os.File that many connections send from has no position of its own to rely on, which is why
// this is not TCPConn.ReadFrom.
type fileSender struct{ conn syscall.RawConn }

// newFileSender gives nil where the connection is no plain TCP connection.
func newFileSender(nc net.Conn) *fileSender {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	return &fileSender{raw}
}

// send sends n bytes of f from pos on, and gives how many it sent. It reports false, without an error, where the file's
// system can't do that. An error is io.ErrUnexpectedEOF where the file ends before, else that of the connection.
func (s *fileSender) send(f *os.File, pos, n int64) (sent int64, ok bool, err error) {
	file, err := f.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	ok = true
	var failed, waited error
	err = file.Control(func(src uintptr) {
		waited = s.conn.Write(func(dst uintptr) (done bool) {
			for sent < n {
				at := pos + sent
				m, err := syscall.Sendfile(int(dst), int(src), &at, int(n-sent))
				if m > 0 {
					sent += int64(m)
				}
				switch {
				case err == syscall.EINTR || err == nil && m > 0:
				case err == syscall.EAGAIN:
					return false
				case err == syscall.EINVAL || err == syscall.ENOSYS || err == syscall.EOPNOTSUPP:
					ok = false
					return true
				case err == nil:
					failed = io.ErrUnexpectedEOF
					return true
				default:
					failed = os.NewSyscallError("sendfile", err)
					return true
				}
			}
			return true
		})
	})
	for _, e := range []error{failed, waited} {
		if err == nil {
			err = e
		}
	}
	return sent, ok, err
}

// hold has the kernel keep back what fills no packet, until release or for 200 ms: what stands before the records of a file
// leaves with them, and not alone (TCP_CORK). It is a matter of speed: an error is none.
func (s *fileSender) hold() { s.cork(1) }

func (s *fileSender) release() { s.cork(0) }

func (s *fileSender) cork(on int) {
	s.conn.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, on) })
}
