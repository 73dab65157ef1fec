package trials

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// DefaultStart is the first rate of a search when neither Need nor Start is
// given.
const DefaultStart = 1000.0

// KneeConfig says which rate is looked for.
type KneeConfig struct {
	// SLO is the objective: a rate holds it when every threshold is ok. At least
	// one is needed.
	SLO []tps.Threshold
	// Need is the rate that is asked for; the search begins there, so that what
	// it is like is measured. 0: none.
	Need float64
	// Start is where the search begins without Need. 0: DefaultStart.
	Start float64
	// Most is the highest rate that is tried. 0: tps.MaxRate.
	Most float64
	// Loads are searched one after the other, in this order: put the worst first,
	// as it is the one that decides. At least one is needed.
	Loads []Load
	// Observe is told before and after each step. nil: nobody is told.
	Observe func(KneeProgress)
}

// Load is one way to load the database.
type Load struct {
	Name string // as in "cold uniform"
	// Run offers the load at a constant rate for at most most; length is what it
	// is expected to need. It gives enough to [tps.Config].Interim, which ends
	// most steps, with Load.Rate and Settings of what it is shown filled. When ctx
	// ends it returns what it has, with Interrupted set, or an error.
	Run func(ctx context.Context, rate float64, length, most time.Duration, enough func(*tps.Result) string) (*tps.Result, error)
}

// KneeProgress is where a search is.
type KneeProgress struct {
	Load         string
	Phase        Phase
	Rate         float64       // of the step
	Length, Most time.Duration // of the step: what is expected, and its limit
	Known        Outcome       // before the step, or with it
	Step         *Step         // nil before a step
}

// Validate returns a [tps.ConfigError] that says what is wrong, or nil.
func (c *KneeConfig) Validate() error {
	most := c.most()
	within := func(rate float64) bool { return rate == 0 || rate >= MinRate && rate <= most }
	switch {
	case len(c.SLO) == 0:
		return tps.ConfigError("--slo is needed: say what must hold, as in --slo 'p99<50ms'")
	case math.IsNaN(most) || most < MinRate || most > tps.MaxRate:
		return tps.ConfigError(fmt.Sprintf("--most must be from %.0f to %.0f a second", MinRate, float64(tps.MaxRate)))
	case !within(c.Need):
		return tps.ConfigError(fmt.Sprintf("--need must be from %.0f to %.0f a second", MinRate, most))
	case !within(c.Start):
		return tps.ConfigError(fmt.Sprintf("--start must be from %.0f to %.0f a second", MinRate, most))
	case len(c.Loads) == 0:
		return tps.ConfigError("trials: a load is needed")
	}
	return nil
}

func (c *KneeConfig) most() float64 {
	if c.Most == 0 {
		return tps.MaxRate
	}
	return c.Most
}

// first returns where a search begins.
func (c *KneeConfig) first() float64 {
	switch {
	case c.Need != 0:
		return c.Need
	case c.Start != 0:
		return c.Start
	}
	return min(DefaultStart, c.most())
}

// Knee finds the highest rate that holds the objective under each load; see
// [Search] for how.
//
// When ctx ends, or the proof of a step fails, the result is what is known until
// then, with Interrupted set or with Verify.OK not. A [tps.ConfigError] comes
// before anything ran, without a result. An error of a load ends the search; what
// is known until then stands beside it.
func Knee(ctx context.Context, cfg KneeConfig) (*KneeResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	k := &knee{cfg: &cfg, res: &KneeResult{
		Schema: KneeSchema, StartedAt: time.Now(), Argv: []string{}, SLO: []string{}, Need: cfg.Need,
		Loads: []LoadKnee{}, Warnings: []string{},
	}}
	for _, t := range cfg.SLO {
		k.res.SLO = append(k.res.SLO, t.String())
	}
	var err error
	for _, load := range cfg.Loads {
		if err = k.walk(ctx, load); err != nil || k.ended() {
			break
		}
	}
	k.conclude()
	return k.res, err
}

// knee is a call of Knee.
type knee struct {
	cfg    *KneeConfig
	res    *KneeResult
	proved int // how many proofs are in res.Verify
}

// ended tells that nothing more is to be run.
func (k *knee) ended() bool {
	v := k.res.Verify
	return k.res.Interrupted || v.Checked && !v.OK
}

// walk searches under one load. When ctx has ended already, it was not begun.
func (k *knee) walk(ctx context.Context, load Load) (err error) {
	if ctx.Err() != nil {
		k.res.Interrupted = true
		return nil
	}
	l := LoadKnee{Name: load.Name, Steps: []Step{}}
	s := NewSearch(k.cfg.first(), k.cfg.most())
	for rate, ok := s.Next(); ok && err == nil && !k.ended(); rate, ok = s.Next() {
		err = k.step(ctx, load, &l, s, rate)
	}
	o := s.Result()
	l.State, l.SustainableTPS, l.FailedTPS, l.UnofferedTPS = o.State, o.Rate, o.Failed, o.Unoffered
	l.AtLeast = o.State == AtLeast || o.State == Unfinished
	l.Candidate = slowest(l.Steps, o.Rate, Pass).measured()
	l.AtNeed = atNeed(l.Steps, k.cfg.Need, o.Rate >= k.cfg.Need).measured()
	k.res.Loads = append(k.res.Loads, l)
	return err
}

// step runs one step, unless it is interrupted, and reports it to the search.
func (k *knee) step(ctx context.Context, load Load, l *LoadKnee, s *Search, rate float64) error {
	length, most := Length(rate)
	at := KneeProgress{Load: load.Name, Phase: s.Phase(), Rate: rate, Length: length, Most: most, Known: s.Result()}
	k.observe(at)
	res, err := load.Run(ctx, rate, length, most, Enough)
	if err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		k.res.Interrupted = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("trials: %s at %s a second: %w", load.Name, digits(rate), err)
	}
	k.res.Settings, k.res.Env = res.Settings, res.Env
	k.proved++
	addProof(&k.res.Verify, res.Verify, k.proved == 1)
	v := Judge(res, k.cfg.SLO)
	switch {
	case k.res.Verify.Checked && !k.res.Verify.OK: // what it measured is worth nothing
		v = Verdict{Decision: Fail, Reason: "the proof FAILED: " + k.res.Verify.Detail}
	case res.Interrupted || ctx.Err() != nil: // what it measured is a part only
		k.res.Interrupted = true
		return nil
	default:
		s.Report(v)
	}
	l.Steps = append(l.Steps, newStep(rate, at.Phase, v, res))
	at.Known, at.Step = s.Result(), &l.Steps[len(l.Steps)-1]
	k.observe(at)
	return nil
}

func (k *knee) observe(p KneeProgress) {
	if k.cfg.Observe != nil {
		k.cfg.Observe(p)
	}
}

// conclude draws the answer from the loads.
func (k *knee) conclude() {
	r := k.res
	for i, l := range r.Loads {
		switch {
		case i == 0 || l.SustainableTPS < r.SustainableTPS:
			r.SustainableTPS, r.AtLeast = l.SustainableTPS, l.AtLeast
		case l.SustainableTPS == r.SustainableTPS:
			r.AtLeast = r.AtLeast && l.AtLeast // the exact one bounds both
		}
		k.warn(l)
	}
	for _, load := range k.cfg.Loads[len(r.Loads):] {
		r.Warnings = append(r.Warnings, load.Name+" was not measured: the search ended before")
	}
	if k.cfg.Need > 0 {
		r.Headroom = r.SustainableTPS / k.cfg.Need
		r.Answer = k.answer()
	}
}

// answer says whether the rate that is needed holds.
func (k *knee) answer() Answer {
	r := k.res
	if r.Verify.Checked && !r.Verify.OK {
		return Unknown
	}
	yes := len(r.Loads) == len(k.cfg.Loads)
	for _, l := range r.Loads {
		if l.FailedTPS > 0 && l.FailedTPS <= r.Need {
			return No // more cannot hold where less does not
		}
		yes = yes && l.State != Unfinished && l.SustainableTPS >= r.Need
	}
	if yes {
		return Yes
	}
	return Unknown
}

// warn adds what makes a load's outcome doubtful: its own contradictions, and the
// doubts about the step that stands for its rate.
func (k *knee) warn(l LoadKnee) {
	if l.State == Unsettled {
		k.add(l.Name, "the verdicts contradict each other more than noise at the edge does: something disturbs the measurement, so search again when it is gone")
	}
	s := slowest(l.Steps, l.SustainableTPS, Pass)
	if s == nil {
		return
	}
	if s.Note != "" {
		k.add(l.Name, fmt.Sprintf("%s a second was judged with %s only", digits(s.Rate), s.Note))
	}
	for _, warning := range s.Warnings {
		k.add(l.Name, warning)
	}
}

func (k *knee) add(load, warning string) {
	if text := load + ": " + warning; !slices.Contains(k.res.Warnings, text) {
		k.res.Warnings = append(k.res.Warnings, text)
	}
}
