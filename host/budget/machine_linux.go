package budget

import (
	"os"
	"syscall"
)

// machine is the memory that this process may have: its cgroup's, else the machine's.
func machine() int64 {
	total := int64(noMachine)
	var si syscall.Sysinfo_t
	if err := syscall.Sysinfo(&si); err == nil {
		total = int64(uint64(si.Totalram) * uint64(si.Unit))
	}
	if n := cgroupLimit(os.DirFS("/")); n > 0 {
		return min(n, total)
	}
	return total
}
