package trials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// Figures are what results can be compared by, the first of them by default. They are
// not to be changed.
var Figures = []Figure{
	{Name: "tps", Of: func(r *tps.Result) float64 { return r.TPS }},
	{Name: "tps_settled", Of: func(r *tps.Result) float64 { return r.TPSSettled }},
	{Name: "p50_ns", Lower: true, Of: func(r *tps.Result) float64 { return float64(r.Latency.P50) }},
	{Name: "p99_ns", Lower: true, Of: func(r *tps.Result) float64 { return float64(r.Latency.P99) }},
}

// FindFigure finds one of [Figures] by its name. The error is a [tps.ConfigError].
func FindFigure(name string) (Figure, error) {
	var names []string
	for _, f := range Figures {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	last := len(names) - 1
	return Figure{}, tps.ConfigError(fmt.Sprintf("--figure must be %s or %s, not %q", strings.Join(names[:last], ", "), names[last], name))
}

// figureFor finds the figure called so, or without a name the one that a load is about:
// at a rate the TPS are what was asked for, and the latency is the answer.
func figureFor(name string, mode tps.Mode) (Figure, error) {
	switch {
	case name != "":
		return FindFigure(name)
	case mode == tps.OpenLoop:
		return FindFigure("p99_ns")
	}
	return Figures[0], nil
}

// VariantArm is an arm and the settings that make it what it is.
type VariantArm struct {
	Arm
	Settings []Setting
}

// CompareConfig says what [Compare] compares. Of a result are read: Scenario, Engine,
// Load, Settings, TPS, TPSSettled, Latency, Verify, Env, Interrupted and Warnings.
type CompareConfig struct {
	// Arms are two or more. The first is what the others are held against.
	Arms   []VariantArm
	Rounds int  // as in RoundsConfig
	Warmup bool // as in RoundsConfig
	// Figure is the name of the [Figure] that is compared. "": tps, or p99_ns when an
	// arm has an open loop, as there the TPS are what was asked for.
	Figure string
	// AA tells that all arms are the same, to see the noise: they have the same Settings.
	AA      bool
	Observe func(RoundProgress) // as in RoundsConfig
}

// Validate returns a [tps.ConfigError] that says what is wrong, or nil.
func (c *CompareConfig) Validate() error {
	if len(c.Arms) < 2 {
		return tps.ConfigError("two arms are needed to compare")
	}
	for _, arm := range c.Arms {
		if arm.Run == nil {
			return tps.ConfigError("trials: every arm needs Run")
		}
		if c.AA && !slices.Equal(arm.Settings, c.Arms[0].Settings) {
			return tps.ConfigError("the arms of an A/A comparison must have the same settings")
		}
	}
	if c.Figure != "" {
		if _, err := FindFigure(c.Figure); err != nil {
			return err
		}
	}
	rounds := c.roundsConfig()
	return rounds.Validate()
}

func (c *CompareConfig) roundsConfig() RoundsConfig {
	rounds := RoundsConfig{Rounds: c.Rounds, Warmup: c.Warmup, Observe: c.Observe}
	for _, arm := range c.Arms {
		rounds.Arms = append(rounds.Arms, Arm{Name: arm.Name, Run: func(ctx context.Context, round int) (*tps.Result, error) {
			res, err := counted(arm.Run(ctx, round))
			if err == nil && !res.Interrupted {
				err = hasFigure(res, c.Figure)
			}
			if err != nil {
				return nil, err
			}
			return res, nil
		}})
	}
	return rounds
}

// hasFigure returns an error when a result does not have the figure.
func hasFigure(res *tps.Result, name string) error {
	figure, err := figureFor(name, res.Load.Mode)
	if err == nil && figure.Of(res) <= 0 {
		return fmt.Errorf("it has no %s: compare another figure (--figure)", figure.Name)
	}
	return err
}

// Compare measures arms in interleaved rounds and holds each against the first one.
//
// The p-values are those of [CompareValues], corrected by [Holm] for the number of
// pairs; arms that Holm's correction does not tell apart are called noise. The ratios
// and their intervals are those of [PairedRatio], which are not corrected: an interval
// may leave out 1 where the test, which does not use that rounds are pairs and minds
// how many of them there are, still says noise.
//
// For the rest see [Rounds]: when ctx ends, a proof fails or an arm returns an
// error, the result is what the whole rounds show, if any. A run that acknowledged
// nothing, or lacks the figure, is an error.
func Compare(ctx context.Context, cfg CompareConfig) (*CompareResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	started := time.Now()
	rounds := cfg.roundsConfig()
	measured, err := Rounds(ctx, rounds)
	c := comparing{figure: cfg.Figure, interleaved: true, aa: cfg.AA}
	for k, arm := range cfg.Arms {
		runs := comparedRuns{name: arm.Name, settings: arm.Settings}
		for _, round := range measured.Results {
			runs.runs = append(runs.runs, round[k])
		}
		c.arms = append(c.arms, runs)
	}
	res := c.result()
	res.StartedAt, res.Rounds, res.RoundsPlanned = started, len(measured.Results), rounds.rounds()
	res.Verify, res.Interrupted = measured.Verify, measured.Interrupted
	if res.Rounds < res.RoundsPlanned {
		res.Warnings = slices.Insert(res.Warnings, 0,
			fmt.Sprintf("%d of %d rounds were measured: the rest was not finished", res.Rounds, res.RoundsPlanned))
	}
	return res, err
}

// comparedRuns are the runs of one arm.
type comparedRuns struct {
	name     string
	settings []Setting
	runs     []*tps.Result
}

func (a *comparedRuns) last() *tps.Result { return a.runs[len(a.runs)-1] }

// values returns one figure of all runs.
func (a *comparedRuns) values(of func(*tps.Result) float64) []float64 {
	values := make([]float64, len(a.runs))
	for k, run := range a.runs {
		values[k] = of(run)
	}
	return values
}

// summary is the arm over its runs.
func (a *comparedRuns) summary() ComparedArm {
	last := a.last()
	s := ComparedArm{
		Name: a.name, Settings: append([]Setting{}, a.settings...), Scenario: last.Scenario, Engine: last.Engine,
		Load: last.Load, Effective: last.Settings, Env: last.Env,
	}
	s.Load.Stages, s.Load.Scripts = append([]tps.Stage{}, last.Load.Stages...), append([]string{}, last.Load.Scripts...)
	for k, to := range []*Summary{&s.TPS, &s.TPSSettled, &s.P50, &s.P99} {
		*to = Summarize(a.values(Figures[k].Of))
	}
	return s
}

// comparing is a comparison of runs that are done: of interleaved arms the k-th run of
// each is that of the k-th round.
type comparing struct {
	arms        []comparedRuns
	figure      string // "": as the load says
	interleaved bool
	aa          bool
}

// result draws the result from the runs, all but what is known of the rounds.
func (c *comparing) result() *CompareResult {
	r := &CompareResult{
		Schema: CompareSchema, Argv: []string{}, Interleaved: c.interleaved, AA: c.aa, Figure: c.figure,
		Arms: []ComparedArm{}, Pairs: []Pair{}, Differences: []Difference{}, Warnings: []string{},
	}
	if len(c.arms[0].runs) == 0 {
		return r
	}
	figure := c.decide()
	r.Figure = figure.Name
	for _, arm := range c.arms {
		r.Arms = append(r.Arms, arm.summary())
	}
	r.Pairs = c.pairs(figure)
	r.Differences = differences(c.arms, c.interleaved)
	for _, arm := range c.arms[1:] {
		first, others := promises(c.arms[0]), promises(arm)
		r.DurabilityDiffers = r.DurabilityDiffers || len(first) > 1 || !slices.Equal(first, others)
	}
	c.doubt(r)
	return r
}

// decide finds the figure, which is known to exist.
func (c *comparing) decide() Figure {
	mode := c.arms[0].last().Load.Mode
	for _, arm := range c.arms {
		if arm.last().Load.Mode == tps.OpenLoop {
			mode = tps.OpenLoop
		}
	}
	figure, _ := figureFor(c.figure, mode)
	return figure
}

// pairs holds each arm against the first.
func (c *comparing) pairs(figure Figure) []Pair {
	pairs, p := []Pair{}, []float64{}
	first := c.arms[0].values(figure.Of)
	for _, arm := range c.arms[1:] {
		values := arm.values(figure.Of)
		known := CompareValues(values, first)
		pair := Pair{Name: arm.name, Of: c.arms[0].name, Ratio: known.Ratio, P: known.P, Warnings: known.Warnings}
		if c.interleaved {
			ratio := PairedRatio(values, first)
			pair.Ratio, pair.Low, pair.High = ratio.Median, ratio.Low, ratio.High
		}
		pairs, p = append(pairs, pair), append(p, known.P)
	}
	for k, adjusted := range Holm(p) {
		pairs[k].Adjusted, pairs[k].Noise = adjusted, adjusted > Alpha
	}
	return pairs
}
