//go:build !unix

package grant

const nonblock = 0
