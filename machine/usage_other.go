//go:build !unix

package machine

import "time"

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	times, err := thisProcess().Times()
	if err != nil {
		return 0
	}
	return time.Duration((times.User + times.System) * float64(time.Second))
}
