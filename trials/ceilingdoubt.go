package trials

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tpssim/tpssim/tps"
)

// batchDrift is how far the burst's batch may be from the one that LoopAsBurst was
// given before what queueing costs is in doubt.
const batchDrift = 0.25

func (r *CeilingResult) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// doubt adds what the figures themselves leave in doubt.
func (r *CeilingResult) doubt(p ceilingPlan) {
	if r.Confidence < Confidence {
		r.Warnings = append(r.Warnings, fewRounds(r.Rounds, r.Confidence))
	}
	for _, warning := range CompareValues(r.Arm(BurstArm).Values, r.Arm(r.Ceiling).Values).Warnings {
		r.warn("the burst and the ceiling cannot be told apart: %s", warning)
	}
	if p.transactions < LargeBatch {
		r.warn("%d transactions are less than one batch of %d: use more (-n)", p.transactions, LargeBatch)
	}
	if of := r.LoopOf(DirectArm); of != r.Ceiling {
		r.warn("direct has batches of %d, as these were the fastest in the first round, but in all rounds the ceiling is %s", p.direct, r.Ceiling)
	}
	if mean := r.Arm(BurstArm).Batch; math.Abs(float64(mean-p.asBurst)) > batchDrift*float64(mean) {
		r.warn("the burst's mean batch was %d in the first round, but %d in the median one: what queueing costs is uncertain", p.asBurst, mean)
	}
	if above := r.Of(LoopAsBurst, r.Ceiling); above.Ratio > 1 && !above.Noise {
		r.warn("the burst's own batch of %d is faster than the ceiling's in the C loop: %.3g times", p.asBurst, above.Ratio)
	}
}

// doubtRuns adds what makes single runs doubtful.
func (r *CeilingResult) doubtRuns(p ceilingPlan, measured *RoundsResult) {
	burst := measured.Results[0][slices.Index(ceilingArms, BurstArm)].Settings
	for k, name := range ceilingArms {
		short, first, differs := 0, 0, ""
		for n, round := range measured.Results {
			if round[k].Acknowledged != p.transactions {
				if short++; short == 1 {
					first = n
				}
			}
			if differs == "" {
				differs = settingsDiffer(round[k].Settings, burst)
			}
		}
		if short > 0 {
			r.warn("%s: %d and not %d transactions were acknowledged in round %d; so it went in %d rounds",
				name, measured.Results[first][k].Acknowledged, p.transactions, first+1, short)
		}
		if differs != "" {
			r.warn("%s ran with other settings than the burst: %s", name, differs)
		}
	}
	r.Warnings = append(r.Warnings, gather(measured.arms(), named(ceilingArms))...)
}

// settingsDiffer names the settings in which one arm may not differ from another,
// where it does. The others are of the queue, which a loop does not have.
func settingsDiffer(s, from tps.Settings) string {
	var parts []string
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"journal_mode", s.JournalMode, from.JournalMode},
		{"synchronous", s.Synchronous, from.Synchronous},
		{"page_size", s.PageSize, from.PageSize},
		{"cache_size", s.CacheSize, from.CacheSize},
		{"mmap_size", s.MmapSize, from.MmapSize},
		{"checkpoint", s.Checkpoint, from.Checkpoint},
	} {
		if f.got != f.want {
			parts = append(parts, fmt.Sprintf("%s=%v and not %v", f.name, f.got, f.want))
		}
	}
	return strings.Join(parts, ", ")
}
