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
	if o.scheduled == 0 {
		return list
	}
	late := t.behind.summary().P99
	behindLimit := max(generatorLateP99, time.Duration(generatorBehindShare*float64(o.scheduled)))
	if late > generatorLateP99 || o.behind > behindLimit {
		list = append(list, fmt.Sprintf(
			"generator-bound: transactions started late (p99 %v, the last arrival %v): this machine cannot offer that rate evenly",
			late.Round(time.Microsecond), o.behind.Round(time.Microsecond)))
	}
	return list
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
