package doctor

import (
	"context"
	"time"

	"github.com/tpssim/tpssim/machine"
)

// quietWindow is for how long others are watched while this program does nothing:
// long enough that the kernel's steps of 10 ms are a small part of it.
const quietWindow = 500 * time.Millisecond

// hostFacts are what the machine has, and what others take of it.
type hostFacts struct {
	availableBytes uint64 // memory; 0 when unknown
	limits         machine.Limits
	governor       string
	load           float64 // of the last minute, before anything was measured
	loadKnown      bool
	busyCPUs       float64 // used by others while this program did nothing
	busyKnown      bool
	swap           machine.Swap
	taken          taken // while the disk was measured
}

// taken is what the surroundings took during a time.
type taken struct {
	counters machine.Counters
	swap     machine.Swap
}

func readTaken() taken {
	return taken{machine.ReadCounters(), machine.ReadSwap()}
}

// sub returns what was taken between before and t.
func (t taken) sub(before taken) taken {
	d := taken{counters: t.counters.Sub(before.counters), swap: t.swap}
	d.swap.In = t.swap.In - min(before.swap.In, t.swap.In)
	d.swap.Out = t.swap.Out - min(before.swap.Out, t.swap.Out)
	return d
}

// readHost reads everything before the measurements, which would be in it.
func readHost(ctx context.Context, longest time.Duration) hostFacts {
	h := hostFacts{
		availableBytes: machine.AvailableMemory(),
		limits:         machine.ReadLimits(),
		governor:       machine.Governor(),
		swap:           machine.ReadSwap(),
	}
	h.load, h.loadKnown = machine.LoadAverage()
	h.busyCPUs, h.busyKnown = watchOthers(ctx, min(quietWindow, longest))
	return h
}

// watchOthers returns how many CPUs others use, in the mean of a window in which
// this program does nothing.
func watchOthers(ctx context.Context, window time.Duration) (cpus float64, ok bool) {
	before, ok := machine.BusyTime()
	if !ok {
		return 0, false
	}
	start := time.Now()
	timer := time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return 0, false
	}
	after, ok := machine.BusyTime()
	return max(0, (after-before).Seconds()/time.Since(start).Seconds()), ok
}
