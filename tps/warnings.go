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
	// With more of its arrivals unfinished when the schedule is over, a load was
	// beyond what could be done.
	backlogShare = 0.05
	// Above this share the collector's pauses are part of the result.
	pauseShare = 0.05
)

// warnings returns the doubts about a run that lie in its own figures.
func (o *outcome) warnings(t *tally) (list []string) {
	if n := t.clamped(); n > 0 {
		list = append(list, fmt.Sprintf("%d latencies above %v are counted as %v", n, time.Duration(maxLatency), time.Duration(maxLatency)))
	}
	if k := o.kept; k != nil && float64(k.Backlog) > backlogShare*float64(k.Arrivals) {
		list = append(list, fmt.Sprintf("not sustained: %.0f %% of the arrivals were unfinished when the schedule was over, so the latencies are those of a queue that grows",
			100*float64(k.Backlog)/float64(k.Arrivals)))
	}
	return list
}

// late tells whether the load generator, and not the database, made the
// transactions late, measured by the latency that matters, 0 if none does.
func (k *Kept) late(matters time.Duration) bool {
	p99 := generatorLateP99
	if matters > 0 {
		p99 = min(p99, matters/2)
	}
	behind := max(p99, time.Duration(generatorBehindShare*float64(k.Length)))
	return k.LateP99 > p99 || k.Behind > behind
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
