package tps

import (
	"fmt"
	"time"
)

const (
	// The load generator is what was measured when it starts transactions this
	// late, by their 99th percentile...
	generatorLateP99 = 10 * time.Millisecond
	// ...or ends later than this share of its schedule, and later than that.
	generatorBehindShare = 0.01
	// Above this share the collector's pauses are part of the result.
	pauseShare = 0.05
)

// warnings returns the doubts about a run that lie in its own figures.
func (o *outcome) warnings(t *tally) (list []string) {
	if n := t.clamped(); n > 0 {
		list = append(list, fmt.Sprintf("%d latencies above %v are counted as %v", n, time.Duration(maxLatency), time.Duration(maxLatency)))
	}
	if o.dropped > 0 {
		list = append(list, fmt.Sprintf("%d arrivals were due but never started: too many were unfinished, or the rate is beyond the generator", o.dropped))
	}
	return list
}

// late tells whether the load generator, and not the database, made the
// transactions late.
func (k *Kept) late() bool {
	limit := max(generatorLateP99, time.Duration(generatorBehindShare*float64(k.Length)))
	return k.LateP99 > generatorLateP99 || k.Behind > limit
}

// pauseWarnings returns a warning when the garbage collector stopped the program
// for a noticeable share of a run.
func pauseWarnings(paused, elapsed time.Duration) []string {
	if float64(paused) <= pauseShare*float64(elapsed) {
		return nil
	}
	return []string{fmt.Sprintf("garbage collector: the program stood still for %v of %v",
		paused.Round(time.Microsecond), elapsed.Round(time.Microsecond))}
}
