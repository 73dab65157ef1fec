package trials

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// What a step of a search needs, and what it must not exceed.
const (
	// MinSamples transactions, acknowledged or failed, leave a hundred above the
	// 99th percentile.
	MinSamples = 10_000
	// MinCheckpoints lets a step see at least one whole cycle, from one checkpoint
	// to the next, with what it costs.
	MinCheckpoints = 2
	// MinStep is the shortest step, MaxStep the longest: rates below 17 a second
	// do not get their samples in it, which is noted.
	MinStep = 5 * time.Second
	MaxStep = 10 * time.Minute
	// MinKept is the share of its arrivals that a step must acknowledge. Those
	// that failed, were dropped or skipped count against it.
	MinKept = 0.99
	// MaxBacklog is the share of its arrivals that may be unfinished when the last
	// one is due.
	MaxBacklog = 0.05

	// overrunSeconds of arrivals unfinished, and more each second, do not go away
	// by themselves...
	overrunSeconds = 2
	// ...but at a low rate, a few callers in one stall are no overrun.
	overrunAtLeast = 100
)

// Length returns how long a step at a rate is meant to take, and the most it may
// take when checkpoints are rare: MinStep or the time of MinSamples arrivals,
// whichever is longer, and four times that; neither above MaxStep.
func Length(rate float64) (length, most time.Duration) {
	wanted := max(MinStep.Seconds(), MinSamples/rate)
	limit := func(seconds float64) time.Duration {
		return time.Duration(min(seconds, MaxStep.Seconds()) * float64(time.Second))
	}
	return limit(wanted), limit(4 * wanted)
}

// Judge tells whether a step, a finished open loop at one rate, held the
// objective. It passes when it acknowledged MinKept of its arrivals, its backlog
// was within MaxBacklog and never grew beyond two seconds of arrivals, and every
// threshold is ok. A step that does not pass, but that this machine offered
// unevenly, is GeneratorBound when its latencies, less what the generator may have
// added to them, would hold the objective: then nothing can be said of the
// database. One that would not even then has failed.
//
// A step that has too few samples or checkpoints, as its time was up, is judged
// with a note.
func Judge(step *tps.Result, slo []tps.Threshold) Verdict {
	k := step.Schedule
	if k == nil || k.Arrivals == 0 {
		return Verdict{Decision: Fail, Reason: "nothing was due: this was no load at a rate"}
	}
	overrun := overrun(step)
	v := Verdict{Decision: Pass}
	if overrun == "" { // else it was cut short, and says so
		v.Note = lacking(step)
	}
	var reasons []string
	for _, t := range slo {
		switch out := t.Check(step); {
		case out.OK:
		case out.Samples == 0:
			reasons = append(reasons, t.String()+" has no samples")
		default:
			reasons = append(reasons, crossed(t, out))
		}
	}
	arrivals := float64(k.Arrivals)
	if share := kept(step); share < MinKept {
		// Rounded away from the limit, so that 98.999 % do not read as 99.
		reasons = append(reasons, fmt.Sprintf("kept %.4g %% of its schedule, not %.4g %%", math.Floor(share*1e4)/100, 100*MinKept))
	}
	if backlog := float64(k.Backlog); backlog > MaxBacklog*arrivals {
		reasons = append(reasons, fmt.Sprintf("a backlog of %.4g %% of its arrivals, above %.4g %%", math.Ceil(backlog/arrivals*1e4)/100, 100*MaxBacklog))
	}
	if overrun != "" {
		reasons = append(reasons, overrun)
	}
	switch {
	case len(reasons) == 0:
	case k.GeneratorBound && holdsFromStart(step, slo):
		v.Decision = GeneratorBound
		v.Reason = fmt.Sprintf("this machine was late with its arrivals: p99 %v, the last one %v",
			k.LateP99.Round(time.Microsecond), k.Behind.Round(time.Microsecond))
	default:
		v.Decision, v.Reason = Fail, strings.Join(reasons, "; ")
	}
	return v
}

// holdsFromStart tells whether the objective holds when the latency of a
// transaction counts from its real start, less the most that the generator was
// late: when it stood still and then starts all that were due at once, they wait for
// each other for so long at most.
func holdsFromStart(step *tps.Result, slo []tps.Threshold) bool {
	started, late := *step, step.Schedule.LateMax
	started.Latency = less(step.Service, late)
	started.Stages.Lag = less(step.Stages.Lag, late)
	for _, t := range slo {
		if !t.Check(&started).OK {
			return false
		}
	}
	return true
}

// less returns l with all its times shorter by d.
func less(l tps.Latency, d time.Duration) tps.Latency {
	for _, t := range []*time.Duration{&l.Mean, &l.P50, &l.P90, &l.P95, &l.P99, &l.P999, &l.Max} {
		*t = max(*t-d, 0)
	}
	return l
}

// crossed says what was measured instead.
func crossed(t tps.Threshold, out tps.Outcome) string {
	if t.IsTime() {
		return fmt.Sprintf("%v is crossed: %v", t, time.Duration(out.Value).Round(time.Microsecond))
	}
	return fmt.Sprintf("%v is crossed: %s", t, digits(out.Value))
}

// digits shows a number with six digits, or with all before the point when these
// are more.
func digits(v float64) string {
	if math.Abs(v) >= 1e6 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// Enough tells why a step can end before its time is up, "" when it cannot: it
// has its samples, its checkpoints and MinStep, or it is hopeless. It is meant
// for [tps.Config].Interim and reads of the Result what is known by then:
// Load.Rate, Settings, the counts, Elapsed and Series. Where the journal mode is
// not known it waits for the checkpoints.
func Enough(res *tps.Result) string {
	if why := overrun(res); why != "" {
		return "hopeless: " + why
	}
	if why := lost(res); why != "" {
		return "hopeless: " + why
	}
	if elapsed(res) < MinStep || lacking(res) != "" {
		return ""
	}
	return "it has its samples and checkpoints"
}

// lacking names what a step has too little of, "" when nothing.
func lacking(res *tps.Result) string {
	var lacks []string
	if n := samples(res); n < MinSamples {
		lacks = append(lacks, fmt.Sprintf("%d of %d samples", n, MinSamples))
	}
	if n := checkpoints(res); n < MinCheckpoints && checkpointing(res.Settings) {
		lacks = append(lacks, fmt.Sprintf("%d of %d checkpoints", n, MinCheckpoints))
	}
	return strings.Join(lacks, ", ")
}

// checkpointing tells whether checkpoints are to be expected.
func checkpointing(s tps.Settings) bool {
	return (s.JournalMode == "wal" || s.JournalMode == "") && s.Checkpoint != "off"
}

// overrun tells that at some moment more than two seconds of arrivals were
// unfinished, after two intervals in which they became more. Judge looks at the
// whole series, so that a step which Enough would have ended fails in any case.
func overrun(res *tps.Result) string {
	limit := max(overrunSeconds*res.Load.Rate, overrunAtLeast)
	s := res.Series
	for k := 2; k < len(s); k++ {
		n := s[k].InFlight
		if float64(n) > limit && n > s[k-1].InFlight && s[k-1].InFlight > s[k-2].InFlight {
			return fmt.Sprintf("%d unfinished after %v and ever more", n, s[k].At.Round(time.Second))
		}
	}
	return ""
}

// lost tells that a step cannot keep MinKept of its schedule any more, even if
// all else of the longest possible step were acknowledged.
func lost(res *tps.Result) string {
	_, most := Length(res.Load.Rate)
	n := res.Failed + res.Dropped + res.Skipped
	if float64(n) <= (1-MinKept)*res.Load.Rate*most.Seconds() {
		return ""
	}
	return fmt.Sprintf("%d failed, dropped or skipped already", n)
}

func samples(res *tps.Result) int64 { return res.Acknowledged + res.Failed }

// kept is the share of the arrivals that were acknowledged.
func kept(res *tps.Result) float64 {
	return float64(res.Acknowledged) / float64(res.Schedule.Arrivals)
}

// checkpoints counts them, by the samples where the caller has not filled Writer.
func checkpoints(res *tps.Result) int64 {
	var n int64
	for _, sample := range res.Series {
		n += sample.Checkpoints
	}
	return max(n, res.Writer.Checkpoints)
}

// elapsed is how long a step has lasted, finished or not.
func elapsed(res *tps.Result) time.Duration {
	if n := len(res.Series); n > 0 {
		return max(res.Elapsed, res.Series[n-1].At)
	}
	return res.Elapsed
}
