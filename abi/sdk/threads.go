//go:build !wasip1

package sdk

import (
	"os"
	"runtime"
)

// threadsEnv is the variable by which people say how many threads a Go program runs at once. It wins.
const threadsEnv = "GOMAXPROCS"

// oneThread lets one thread run at a time, until allThreads is called. A plugin that only tells where bytes lie
// works for some microseconds a call, and waking a second thread to share in that costs more than it does: without this
// a call costs a quarter more CPU, which the host's own reads do not get (internal/e2e, BenchmarkServeLoad).
func oneThread() {
	if os.Getenv(threadsEnv) == "" {
		runtime.GOMAXPROCS(1)
	}
}

// allThreads gives the process the runtime's own number again.
func allThreads() {
	if os.Getenv(threadsEnv) == "" {
		runtime.SetDefaultGOMAXPROCS()
	}
}
