package machine

import (
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
)

// BusyTime returns the processor time that all programs and the kernel have used
// on all CPUs since the machine was started; ok is false where the system does
// not tell. The difference of two readings, taken while this process does
// nothing, is what others use. Linux counts in steps of 10 ms for each CPU.
// Inside a container it is the whole machine's.
func BusyTime() (busy time.Duration, ok bool) {
	times, err := cpu.Times(false)
	if err != nil || len(times) == 0 {
		return 0, false
	}
	t := times[0]
	seconds := t.User + t.Nice + t.System + t.Irq + t.Softirq
	return time.Duration(seconds * float64(time.Second)), true
}

// LoadAverage returns how many tasks ran or waited for a CPU or a disk in the
// mean of the last minute; ok is false where the system does not tell.
func LoadAverage() (one float64, ok bool) {
	avg, err := load.Avg()
	if err != nil {
		return 0, false
	}
	return avg.Load1, true
}

// Swap is the state of the memory that lies on a disk, in bytes.
type Swap struct {
	Total, Used uint64
	// In and Out are what was swapped since the machine was started; they only
	// grow.
	In, Out uint64
}

// ReadSwap reads it now; it is all zero without swap and where the system does
// not tell.
func ReadSwap() Swap {
	s, err := mem.SwapMemory()
	if err != nil {
		return Swap{}
	}
	return Swap{Total: s.Total, Used: s.Used, In: s.Sin, Out: s.Sout}
}
