package trials

import (
	"fmt"
	"strings"

	"github.com/tpssim/tpssim/tps"
)

// doubt adds what makes a comparison doubtful.
func (c *comparing) doubt(r *CompareResult) {
	warn := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	fewest := len(c.arms[0].runs)
	for _, arm := range c.arms {
		fewest = min(fewest, len(arm.runs))
	}
	if need := neededRuns(len(r.Pairs)); fewest < need {
		if c.interleaved {
			warn("too few rounds (%d): at least %d are needed to tell a difference from noise", fewest, need)
		} else {
			warn("too few runs (%d): at least %d a side are needed to tell a difference from noise", fewest, need)
		}
	}
	if reached := r.Arms[0].TPS.Confidence; c.interleaved && reached < Confidence {
		r.Warnings = append(r.Warnings, fewRounds(fewest, reached))
	}
	if r.DurabilityDiffers {
		var parts []string
		for _, arm := range c.arms {
			parts = append(parts, fmt.Sprintf("%s: %s", arm.name, strings.Join(promises(arm), ", or ")))
		}
		warn("durability differs: %s", strings.Join(parts, "; "))
	}
	switch other := unasked(r.Differences); {
	case !c.interleaved && other != "":
		warn("besides their figures, the runs differ in %s", other)
	case other != "":
		warn("besides what was asked, the arms differ in %s", other)
	case c.interleaved && !c.aa && len(r.Differences) == 0:
		warn("nothing that results record differs between the arms: what they differ by is noise, or what is not recorded")
	}
	for _, pair := range r.Pairs {
		if c.aa && !pair.Noise {
			warn("%s and %s are the same and were told apart (p %.3g): once in %g times that is chance, else the machine is not steady enough to compare on",
				pair.Name, pair.Of, pair.Adjusted, 1/Alpha)
		}
	}
	names, runs := make([]string, len(c.arms)), make([][]*tps.Result, len(c.arms))
	for k, arm := range c.arms {
		names[k], runs[k] = arm.name, arm.runs
		if fields := varying(arm); len(fields) > 0 {
			warn("%s: its own runs differ in %s", arm.name, strings.Join(fields, ", "))
		}
	}
	r.Warnings = append(r.Warnings, gather(runs, named(names))...)
}

// neededRuns is the fewest runs of each arm with which a pair of so many can be told
// apart at all. The smallest p-value of n runs on each side is that of the two orders,
// of C(2n, n) that are as likely, in which all values of one side are above all of the
// other's; Holm's correction multiplies it by the number of pairs.
func neededRuns(pairs int) int {
	n, orders := 1, 2.0
	for float64(max(pairs, 1))*2/orders > Alpha {
		n++
		orders *= 2 * float64(2*n-1) / float64(n)
	}
	return n
}
