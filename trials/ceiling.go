package trials

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// CeilingSchema names the format of [CeilingResult] as JSON.
const CeilingSchema = "tpssim.ceiling/1"

// The arms of [Ceiling], in the order of its rounds.
const (
	LoopSmall   = "c-loop 1,000"  // a C loop that commits every SmallBatch transactions
	LoopLarge   = "c-loop 10,000" // the same every LargeBatch transactions
	DirectArm   = "direct"        // one goroutine that waits for nobody
	BurstArm    = "burst"
	LoopAsBurst = "c-loop at the burst's batch"
)

// ceilingArms are the names in that order.
var ceilingArms = []string{LoopSmall, LoopLarge, DirectArm, BurstArm, LoopAsBurst}

// The batches of which the faster makes the ceiling.
const (
	SmallBatch = 1_000
	LargeBatch = 10_000
)

// CeilingConfig says what a burst is measured against. The functions are like
// [Arm].Run. What they are given in the same round must be the same transfers, on
// the same keys, settings and durability. Of a result are read: TPS, TPSSettled,
// Acknowledged, Settings, Env, Verify, Interrupted and Warnings; of the burst's,
// Load and Writer.BatchSize.Mean as well.
type CeilingConfig struct {
	Transactions int64 // in each arm, in each round
	Rounds       int   // as in RoundsConfig
	Warmup       bool  // as in RoundsConfig

	// Loop is the C loop: no queue, nobody who waits, a COMMIT after each batch.
	Loop func(ctx context.Context, round, batch int) (*tps.Result, error)
	// Direct is the same loop in Go.
	Direct func(ctx context.Context, round, batch int) (*tps.Result, error)
	// Burst starts all transactions at once, each on its own goroutine.
	Burst func(ctx context.Context, round int) (*tps.Result, error)

	Observe func(RoundProgress) // as in RoundsConfig
}

// CeilingResult is what [Ceiling] found, in the order and with the names of the
// JSON object that tpssim prints. No list is ever null. Argv belongs to the
// caller.
type CeilingResult struct {
	Schema    string    `json:"schema"`
	StartedAt time.Time `json:"started_at"`
	Argv      []string  `json:"argv"`

	Transactions  int64        `json:"transactions"`   // in each arm, in each round
	Rounds        int          `json:"rounds"`         // whole ones, those that count
	RoundsPlanned int          `json:"rounds_planned"` // before the first one began
	Arms          []CeilingArm `json:"arms"`           // none without a whole round

	// Ceiling is the name of the arm that the burst is held against, the faster by
	// its median of LoopSmall and LoopLarge. Ratio is the burst over it: the median
	// of the rounds' own ratios, as [PairedRatio] says, with its interval. All 0
	// without a whole round.
	Ceiling   string  `json:"ceiling"`
	Ratio     float64 `json:"ratio"`
	RatioLow  float64 `json:"ratio_low"`
	RatioHigh float64 `json:"ratio_high"`
	// Confidence is that of every interval here, 0 to 1.
	Confidence float64 `json:"confidence"`
	// Ratios are those of every other arm to the ceiling, of the burst to
	// LoopAsBurst, and of DirectArm to the loop with its batch.
	Ratios []CeilingRatio `json:"ratios"`

	Load     tps.Load     `json:"load"`     // of the burst
	Settings tps.Settings `json:"settings"` // of the burst
	Env      tps.Env      `json:"env"`      // of the burst

	Verify      tps.Verify `json:"verify"` // over all arms and rounds
	Interrupted bool       `json:"interrupted"`
	Warnings    []string   `json:"warnings"`
}

// CeilingArm is one arm over the rounds.
type CeilingArm struct {
	Name string `json:"name"`
	// Batch is how many transactions share a COMMIT: what the arm was told or, of
	// the burst, the median of its rounds' means.
	Batch      int       `json:"batch"`
	TPS        float64   `json:"tps"` // the median round
	Low        float64   `json:"low"`
	High       float64   `json:"high"`
	TPSSettled float64   `json:"tps_settled"` // the median of the rounds' own
	Values     []float64 `json:"values"`      // the TPS of each round, in their order
}

// CeilingRatio is one arm over another one, by the rounds' own ratios.
type CeilingRatio struct {
	Name  string  `json:"name"`
	Of    string  `json:"of"` // what it is divided by
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	P     float64 `json:"p"`     // see Comparison
	Noise bool    `json:"noise"` // see Comparison
}

// Of returns the ratio of an arm to another one, nil when there is none.
func (r *CeilingResult) Of(name, of string) *CeilingRatio {
	for k := range r.Ratios {
		if r.Ratios[k].Name == name && r.Ratios[k].Of == of {
			return &r.Ratios[k]
		}
	}
	return nil
}

// Arm returns an arm by its name, nil when there is none.
func (r *CeilingResult) Arm(name string) *CeilingArm {
	for k := range r.Arms {
		if r.Arms[k].Name == name {
			return &r.Arms[k]
		}
	}
	return nil
}

// LoopOf returns the name of the C loop that commits as often as DirectArm or
// BurstArm does: the ratio to it is what everything but the batch costs. "" for
// another arm.
func (r *CeilingResult) LoopOf(name string) string {
	switch arm := r.Arm(name); {
	case name == BurstArm:
		return LoopAsBurst
	case name == DirectArm && arm != nil && arm.Batch == SmallBatch:
		return LoopSmall
	case name == DirectArm:
		return LoopLarge
	}
	return ""
}

// Validate returns a [tps.ConfigError] that says what is wrong, or nil.
func (c *CeilingConfig) Validate() error {
	switch {
	case c.Transactions < 1:
		return tps.ConfigError("-n must be at least 1")
	case c.Loop == nil || c.Direct == nil || c.Burst == nil:
		return tps.ConfigError("trials: Loop, Direct and Burst are needed")
	}
	rounds := RoundsConfig{Arms: []Arm{{Name: BurstArm}}, Rounds: c.Rounds}
	return rounds.Validate()
}

// Ceiling measures, in interleaved rounds, how much of the speed of a C loop is
// left when each transaction belongs to a caller of its own who waits for it.
//
// Two batches are not known beforehand. LoopAsBurst is given the mean batch of the
// burst in the first round, where it runs behind it, and DirectArm that of the C
// loop which was the faster one there; both keep it in all other rounds.
//
// For the rest see [Rounds]: when ctx ends, a proof fails or an arm returns an
// error, the result is what the whole rounds show, if any.
func Ceiling(ctx context.Context, cfg CeilingConfig) (*CeilingResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	started := time.Now()
	c := &ceiling{cfg: &cfg}
	rounds := RoundsConfig{Arms: c.arms(), Rounds: cfg.Rounds, Warmup: cfg.Warmup, Observe: cfg.Observe}
	measured, err := Rounds(ctx, rounds)
	plan := ceilingPlan{cfg.Transactions, rounds.rounds(), c.direct, c.asBurst}
	res := plan.conclude(measured)
	res.StartedAt = started
	return res, err
}

// ceiling is a call of Ceiling.
type ceiling struct {
	cfg             *CeilingConfig
	small, large    float64 // TPS of the C loops in the first round
	direct, asBurst int     // batches found in the first round
}

// arms are in the order in which the first round needs them.
func (c *ceiling) arms() []Arm {
	return []Arm{
		{LoopSmall, c.loop(SmallBatch, &c.small)},
		{LoopLarge, c.loop(LargeBatch, &c.large)},
		{DirectArm, func(ctx context.Context, round int) (*tps.Result, error) {
			if finds(round) {
				c.direct = SmallBatch
				if c.large >= c.small {
					c.direct = LargeBatch
				}
			}
			return counted(c.cfg.Direct(ctx, round, c.direct))
		}},
		{BurstArm, func(ctx context.Context, round int) (*tps.Result, error) {
			res, err := counted(c.cfg.Burst(ctx, round))
			if err == nil && finds(round) && !res.Interrupted {
				c.asBurst = int(math.Round(res.Writer.BatchSize.Mean))
				if c.asBurst < 1 {
					return nil, errors.New("the result names no mean batch")
				}
			}
			return res, err
		}},
		{LoopAsBurst, func(ctx context.Context, round int) (*tps.Result, error) {
			return counted(c.cfg.Loop(ctx, round, c.asBurst))
		}},
	}
}

// loop is an arm with a C loop, whose speed in the first round is remembered.
func (c *ceiling) loop(batch int, speed *float64) func(context.Context, int) (*tps.Result, error) {
	return func(ctx context.Context, round int) (*tps.Result, error) {
		res, err := counted(c.cfg.Loop(ctx, round, batch))
		if err == nil && finds(round) {
			*speed = res.TPS
		}
		return res, err
	}
}

// finds tells whether a round is one in which the batches are found: the first one,
// and the warm-up, whose own are of no use afterwards.
func finds(round int) bool { return round <= 1 }

// counted passes on what an arm returned, unless it has no speed to compare. What
// was interrupted does not count anyway.
func counted(res *tps.Result, err error) (*tps.Result, error) {
	if err == nil && !res.Interrupted && res.TPS <= 0 {
		return nil, errors.New("no transaction was acknowledged")
	}
	return res, err
}

// ceilingPlan is what the arms were told.
type ceilingPlan struct {
	transactions    int64
	rounds          int
	direct, asBurst int // batches
}

// conclude draws the result from the rounds.
func (p ceilingPlan) conclude(measured *RoundsResult) *CeilingResult {
	r := &CeilingResult{
		Schema: CeilingSchema, Argv: []string{}, Transactions: p.transactions,
		Rounds: len(measured.Results), RoundsPlanned: p.rounds, Arms: []CeilingArm{}, Ratios: []CeilingRatio{},
		Load: tps.Load{Stages: []tps.Stage{}, Scripts: []string{}}, Verify: measured.Verify, Interrupted: measured.Interrupted, Warnings: []string{},
	}
	if r.Rounds < r.RoundsPlanned {
		r.warn("%d of %d rounds were measured: the rest was not finished", r.Rounds, r.RoundsPlanned)
	}
	if r.Rounds == 0 {
		return r
	}
	for k, name := range ceilingArms {
		r.Arms = append(r.Arms, p.arm(name, k, measured))
	}
	last := measured.Results[r.Rounds-1][slices.Index(ceilingArms, BurstArm)]
	r.Load, r.Settings, r.Env = last.Load, last.Settings, last.Env
	r.Load.Stages, r.Load.Scripts = append([]tps.Stage{}, last.Load.Stages...), append([]string{}, last.Load.Scripts...)
	r.compare()
	r.doubt(p)
	r.doubtRuns(p, measured)
	return r
}

// arm summarises the k-th arm.
func (p ceilingPlan) arm(name string, k int, measured *RoundsResult) CeilingArm {
	s := Summarize(measured.Values(k, func(res *tps.Result) float64 { return res.TPS }))
	settled := Summarize(measured.Values(k, func(res *tps.Result) float64 { return res.TPSSettled }))
	a := CeilingArm{Name: name, TPS: s.Median, Low: s.Low, High: s.High, TPSSettled: settled.Median, Values: s.Values}
	switch name {
	case LoopSmall:
		a.Batch = SmallBatch
	case LoopLarge:
		a.Batch = LargeBatch
	case DirectArm:
		a.Batch = p.direct
	case LoopAsBurst:
		a.Batch = p.asBurst
	case BurstArm:
		mean := Summarize(measured.Values(k, func(res *tps.Result) float64 { return res.Writer.BatchSize.Mean }))
		a.Batch = int(math.Round(mean.Median))
	}
	return a
}

// compare finds the ceiling and the ratios.
func (r *CeilingResult) compare() {
	r.Ceiling = LoopLarge
	if r.Arm(LoopSmall).TPS > r.Arm(LoopLarge).TPS {
		r.Ceiling = LoopSmall
	}
	top := r.Arm(r.Ceiling)
	for _, a := range r.Arms {
		if a.Name != r.Ceiling {
			r.addRatio(a, *top)
		}
	}
	for _, name := range []string{BurstArm, DirectArm} {
		if of := r.LoopOf(name); of != r.Ceiling {
			r.addRatio(*r.Arm(name), *r.Arm(of))
		}
	}
	main := r.Of(BurstArm, r.Ceiling)
	r.Ratio, r.RatioLow, r.RatioHigh = main.Ratio, main.Low, main.High
	r.Confidence = Summarize(r.Arm(BurstArm).Values).Confidence
}

func (r *CeilingResult) addRatio(a, of CeilingArm) {
	s, c := PairedRatio(a.Values, of.Values), CompareValues(a.Values, of.Values)
	r.Ratios = append(r.Ratios, CeilingRatio{Name: a.Name, Of: of.Name, Ratio: s.Median, Low: s.Low, High: s.High, P: c.P, Noise: c.Noise})
}
