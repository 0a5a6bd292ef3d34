//go:build unix

package grant

import "syscall"

// nonblock: a pipe is opened without waiting for its writer, and seen to be none of ours. It is nothing to a regular file.
const nonblock = syscall.O_NONBLOCK
