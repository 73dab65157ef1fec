package trials

import (
	"cmp"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// KneeSchema names the format of [KneeResult] as JSON.
const KneeSchema = "tpssim.knee/1"

// Answer says whether the rate that is needed holds the objective.
type Answer string

// The answers.
const (
	// NoQuestion: no rate is needed.
	NoQuestion Answer = ""
	// Yes: under every load the search ended, and at or above it.
	Yes Answer = "yes"
	// No: under one load, it or a rate below it did not hold.
	No Answer = "no"
	// Unknown: this machine could not offer it evenly, the search was ended before
	// it was settled, or a proof failed.
	Unknown Answer = "unknown"
)

// KneeResult is what [Knee] found, in the order and with the names of the JSON
// object that tpssim prints. Rates are transactions a second, durations
// nanoseconds in JSON, and no list is ever null. Argv belongs to the caller.
type KneeResult struct {
	Schema    string    `json:"schema"`
	StartedAt time.Time `json:"started_at"`
	Argv      []string  `json:"argv"`

	SLO    []string `json:"slo"`  // the objective: thresholds that must all be ok
	Need   float64  `json:"need"` // 0: none was given
	Answer Answer   `json:"answer"`

	// SustainableTPS is the highest rate that holds the objective under every
	// load: the smallest of the loads' own; 0 when none does. With AtLeast it may
	// be higher. Headroom is SustainableTPS over Need, 0 without Need.
	SustainableTPS float64 `json:"sustainable_tps"`
	AtLeast        bool    `json:"at_least"`
	Headroom       float64 `json:"headroom"`

	Loads []LoadKnee `json:"loads"` // those that were begun, in the order in which they ran

	// Verify is the proof over all steps: the one that failed, or else what holds
	// for every step, with the most accounts that one of them checked.
	Verify   tps.Verify   `json:"verify"`
	Settings tps.Settings `json:"settings"` // of the last step
	Env      tps.Env      `json:"env"`      // of the last step

	Interrupted bool     `json:"interrupted"`
	Warnings    []string `json:"warnings"`
}

// LoadKnee is the search under one load.
type LoadKnee struct {
	Name  string `json:"name"`
	State State  `json:"state"`

	// SustainableTPS is the highest rate that held at least as often as not, 0 for
	// none. When State is final, and not Unsettled, it has held twice.
	SustainableTPS float64 `json:"sustainable_tps"`
	// AtLeast tells that it may be higher: State is AtLeast or Unfinished.
	AtLeast bool `json:"at_least"`
	// FailedTPS is the lowest rate measured above SustainableTPS, which did not
	// hold, and UnofferedTPS the same when this machine could not offer it evenly.
	// At most one of them is not 0.
	FailedTPS    float64 `json:"failed_tps"`
	UnofferedTPS float64 `json:"unoffered_tps"`

	// Candidate is a step that held at SustainableTPS, nil when that is 0. AtNeed is
	// one at Need that came to what the search did: that held when SustainableTPS is
	// at or above Need, and else one that did not; nil when there is no such step.
	Candidate *Measured `json:"candidate,omitempty"`
	AtNeed    *Measured `json:"at_need,omitempty"`

	Steps []Step `json:"steps"` // in the order in which they ran
}

// Measured is the latency at a rate: of the steps there with the same verdict, that
// with the highest p99.
type Measured struct {
	Rate    float64     `json:"rate"`
	Verdict Decision    `json:"verdict"`
	Latency tps.Latency `json:"latency"`
}

// Step is one run at one rate.
type Step struct {
	Rate    float64  `json:"rate"` // arrivals a second
	Phase   Phase    `json:"phase"`
	Verdict Decision `json:"verdict"`
	Reason  string   `json:"reason"` // why it did not pass
	Note    string   `json:"note"`   // what the verdict lacks

	TPS  float64       `json:"tps"` // acknowledged
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`

	Backlog     int64         `json:"backlog"` // unfinished when the last arrival was due
	Kept        float64       `json:"kept"`    // the share of the arrivals that was acknowledged, 0 to 1
	Checkpoints int64         `json:"checkpoints"`
	Samples     int64         `json:"samples"` // acknowledged and failed
	Elapsed     time.Duration `json:"elapsed_ns"`
	Warnings    []string      `json:"warnings"` // of the run

	latency tps.Latency
}

// newStep describes a run that was judged.
func newStep(rate float64, phase Phase, v Verdict, res *tps.Result) Step {
	s := Step{
		Rate: rate, Phase: phase, Verdict: v.Decision, Reason: v.Reason, Note: v.Note,
		TPS: res.TPS, P50: res.Latency.P50, P99: res.Latency.P99, P999: res.Latency.P999,
		Checkpoints: checkpoints(res), Samples: samples(res), Elapsed: res.Elapsed,
		Warnings: append([]string{}, res.Warnings...), latency: res.Latency,
	}
	if k := res.Schedule; k != nil && k.Arrivals > 0 {
		s.Backlog, s.Kept = k.Backlog, kept(res)
	}
	return s
}

// slowest returns the step at a rate that has the highest p99 of those with a
// verdict, nil when there is none.
func slowest(steps []Step, rate float64, verdict Decision) (step *Step) {
	for i, s := range steps {
		if s.Rate == rate && s.Verdict == verdict && (step == nil || s.P99 > step.P99) {
			step = &steps[i]
		}
	}
	return step
}

// atNeed returns the step that stands for the rate that is needed, whether it holds
// or not; nil when there is none. What the database did says more than what could
// not be offered.
func atNeed(steps []Step, need float64, holds bool) *Step {
	if holds {
		return slowest(steps, need, Pass)
	}
	return cmp.Or(slowest(steps, need, Fail), slowest(steps, need, GeneratorBound))
}

// measured returns what a step tells about its rate, nil for nil.
func (s *Step) measured() *Measured {
	if s == nil {
		return nil
	}
	return &Measured{Rate: s.Rate, Verdict: s.Verdict, Latency: s.latency}
}
