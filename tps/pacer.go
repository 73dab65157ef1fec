package tps

import (
	"context"
	"math"
	"time"
)

// Pacer is the schedule of a constant rate: arrival i (from 0) is due i/Rate
// seconds after the start. It is pure: it neither reads a clock nor sleeps.
type Pacer struct {
	Rate float64 // arrivals a second, above 0
}

// Due returns when arrival i is due, counted from the start. Computed from i
// alone, so that rounding never accumulates; saturates at the largest Duration.
func (p Pacer) Due(i int64) time.Duration {
	ns := float64(i) / p.Rate * float64(time.Second)
	if ns >= float64(1<<63-1) {
		return 1<<63 - 1
	}
	return time.Duration(ns)
}

// Pace returns how long to wait before arrival number sent, when sent arrivals
// were emitted in the time elapsed. Zero means now: an arrival that is late is
// emitted at once, and its latency still counts from when it was due.
func (p Pacer) Pace(elapsed time.Duration, sent int64) time.Duration {
	return max(0, p.Due(sent)-elapsed)
}

// mostArrivals bounds what Arrivals returns; counting them would take a century.
const mostArrivals = 1 << 62

// Arrivals returns how many arrivals are due before d.
func (p Pacer) Arrivals(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	n := int64(min(math.Ceil(p.Rate*d.Seconds()), mostArrivals))
	// Due truncates to whole nanoseconds, so the product can be off by one.
	for n > 0 && p.Due(n-1) >= d {
		n--
	}
	for n < mostArrivals && p.Due(n) < d {
		n++
	}
	return n
}

// timerSleep waits for d or until ctx ends.
func timerSleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
