//go:build unix

package machine

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time of this process, as getrusage counts it.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
