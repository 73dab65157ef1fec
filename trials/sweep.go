package trials

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// The formats of the lines of a file that keeps a sweep, and of its result.
const (
	SweepSchema       = "tpssim.sweep/1"       // [SweepHead]
	SweepRunSchema    = "tpssim.sweeprun/1"    // [SweepRun]
	SweepResultSchema = "tpssim.sweepresult/1" // [SweepResult]
)

const (
	// DefaultSweepRounds are few: the rounds over the whole grid only choose what is
	// measured again.
	DefaultSweepRounds = 3
	// FinalRounds is how often the finalists are measured again.
	FinalRounds = DefaultRounds
	// MaxFinalists is how many cells of each load are measured again at most.
	MaxFinalists = 4
	// MaxCells is the most cells that a sweep may have.
	MaxCells = 1000
)

// The phases of a sweep.
const (
	GridPhase  = "grid"  // all cells
	FinalPhase = "final" // those that are measured again
)

// ArmSetting is the name of the setting that names the arm of a cell. It is no flag,
// and makes no difference between cells.
const ArmSetting = "arm"

// SweepCell is one place of the grid.
type SweepCell struct {
	// Load names the load. Cells are held against those of the same load only: the
	// latency of a burst and that at a rate are two things. "": there is one load.
	Load     string
	Settings []Setting // that make this cell what it is, besides the load
	// Run measures the cell once, like [Arm].Run. Rounds count from 1, and on in the
	// final phase, so that each round can be given keys of its own.
	Run func(ctx context.Context, round int) (*tps.Result, error)
}

// SweepHead says what a sweep is, so that it is not gone on with as another one. It
// is the first line of a file that keeps a sweep.
type SweepHead struct {
	Schema     string          `json:"schema"`
	StartedAt  time.Time       `json:"started_at"`
	Argv       []string        `json:"argv"`
	Preset     string          `json:"preset"` // "": none
	RandomSeed uint64          `json:"random_seed"`
	Rounds     int             `json:"rounds"`
	Base       []Setting       `json:"base"` // flags that are the same for all cells
	SLO        []string        `json:"slo"`
	Cells      []SweepHeadCell `json:"cells"` // numbered from 1
}

// Describe fills in what a result says of the sweep itself.
func (h *SweepHead) Describe(r *SweepResult) {
	r.StartedAt, r.Preset, r.RandomSeed = h.StartedAt, h.Preset, h.RandomSeed
	r.Argv, r.Base = append([]string{}, h.Argv...), append([]Setting{}, h.Base...)
}

// Result draws the result from the runs that are done of a sweep, as [Sweep] does, and
// describes it. Runs that are not the beginning of this sweep are a [tps.ConfigError].
func (h *SweepHead) Result(runs []SweepRun) (*SweepResult, error) {
	cfg := SweepConfig{Rounds: h.Rounds, Done: runs}
	for _, c := range h.Cells {
		cfg.Cells = append(cfg.Cells, SweepCell{Load: c.Load, Settings: c.Settings})
	}
	for _, text := range h.SLO {
		t, err := tps.ParseThreshold(text)
		if err != nil {
			return nil, tps.ConfigError(err.Error())
		}
		cfg.SLO = append(cfg.SLO, t)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := cfg.conclude(runs)
	h.Describe(r)
	return r, nil
}

// SweepHeadCell is a cell as the head of a sweep names it.
type SweepHeadCell struct {
	Load     string    `json:"load"`
	Settings []Setting `json:"settings"`
}

// SweepRun is one run of a sweep that is done, and a line of a file that keeps one.
type SweepRun struct {
	Schema string      `json:"schema"`
	Cell   int         `json:"cell"`  // from 1
	Round  int         `json:"round"` // from 1 in each phase
	Phase  string      `json:"phase"` // GridPhase or FinalPhase
	Result *tps.Result `json:"result"`
}

// SweepStep is one run of a sweep that is to come.
type SweepStep struct {
	Cell  int // from 1
	Round int // from 1 in each phase
	Phase string
}

// String says which run it is.
func (s SweepStep) String() string {
	return fmt.Sprintf("cell %d in round %d of the %s", s.Cell, s.Round, s.Phase)
}

// SweepConfig says what [Sweep] measures.
type SweepConfig struct {
	Cells  []SweepCell // 1 to MaxCells
	Rounds int         // over the grid, fixed before the first one; 0: DefaultSweepRounds
	// SLO is what a cell must hold to be recommended. Empty: the ends of the frontier
	// are named.
	SLO []tps.Threshold
	// Done are the runs of a sweep that was interrupted, in the order in which they were
	// saved. It goes on with the one behind them.
	Done []SweepRun
	// Save keeps a run that is done before the next one begins. An error ends the
	// sweep. nil: nothing is kept.
	Save func(SweepRun) error
	// Observe is told before and after each run. nil: nobody is told.
	Observe func(SweepProgress)
}

// SweepProgress is where a sweep is.
type SweepProgress struct {
	Step   SweepStep
	Rounds int         // of this phase
	Done   int         // runs that are done, of both phases
	Left   []SweepStep // those behind this one in its phase
	Result *tps.Result // nil before the run
}

func (c *SweepConfig) rounds() int {
	if c.Rounds == 0 {
		return DefaultSweepRounds
	}
	return c.Rounds
}

// Validate returns a [tps.ConfigError] that says what is wrong, or nil.
func (c *SweepConfig) Validate() error {
	switch {
	case c.Rounds < 0 || c.Rounds > MaxRounds:
		return tps.ConfigError(fmt.Sprintf("--runs must be from 1 to %d", MaxRounds))
	case len(c.Cells) == 0:
		return tps.ConfigError("trials: a cell is needed")
	case len(c.Cells) > MaxCells:
		return tps.ConfigError(fmt.Sprintf("%d cells are too many (at most %d): give fewer values", len(c.Cells), MaxCells))
	}
	for k, run := range c.Done {
		if run.Cell < 1 || run.Cell > len(c.Cells) || run.Result == nil {
			return tps.ConfigError(fmt.Sprintf("run %d of the sweep to go on with has no result, or is of a cell that is not there: begin a new one", k+1))
		}
	}
	return c.follows()
}

// follows checks that what is done is the beginning of this sweep.
func (c *SweepConfig) follows() error {
	for k := 0; k < len(c.Done); {
		plan := c.Plan(c.Done[:k])
		for n := range max(1, min(len(plan), len(c.Done)-k)) {
			is := SweepStep{c.Done[k].Cell, c.Done[k].Round, c.Done[k].Phase}
			if len(plan) == 0 || is != plan[n] {
				return tps.ConfigError(fmt.Sprintf("run %d of the sweep to go on with is %v, which does not follow from those before it: begin a new one", k+1, is))
			}
			k++
		}
	}
	return nil
}

// Plan returns the runs that are to come in this phase when some are done, in
// their order: first every cell in each round over the grid, as [Order] says; then,
// in rounds of their own, the finalists that follow from what the grid has shown.
// None are to come when all are done, or when a proof has failed.
func (c *SweepConfig) Plan(done []SweepRun) []SweepStep {
	if slices.ContainsFunc(done, func(run SweepRun) bool { return failed(run.Result) }) {
		return nil
	}
	all := make([]int, len(c.Cells))
	for k := range all {
		all[k] = k
	}
	grid := steps(GridPhase, all, c.rounds())
	if len(done) < len(grid) {
		return grid[len(done):]
	}
	finals := steps(FinalPhase, c.finalists(done[:len(grid)]), FinalRounds)
	return finals[min(len(done)-len(grid), len(finals)):]
}

// steps are the rounds over some cells, by their index.
func steps(phase string, cells []int, rounds int) []SweepStep {
	var list []SweepStep
	for round := 1; round <= rounds; round++ {
		for _, k := range Order(len(cells), round) {
			list = append(list, SweepStep{cells[k] + 1, round, phase})
		}
	}
	return list
}

// failed tells whether nothing of a result can be trusted.
func failed(r *tps.Result) bool { return r.Verify.Checked && !r.Verify.OK }

// Sweep measures the cells in interleaved rounds, and those that come into question
// for a recommendation again in rounds of their own, as [SweepConfig.Plan] says:
// the best of many cells is partly the luckiest, and only a second measurement
// shows how much of its lead was luck. Garbage is collected before each run.
//
// When ctx ends, the result has what was measured, with Interrupted set; a run that
// was under way does not count, and is the first of whoever goes on. A proof that
// fails is saved and ends the sweep. A [tps.ConfigError] comes before anything ran,
// without a result. An error of a run names its cell; what was measured until then
// stands beside it.
func Sweep(ctx context.Context, cfg SweepConfig) (*SweepResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	started := time.Now()
	s := &sweep{cfg: &cfg, done: slices.Clone(cfg.Done)}
	err := s.run(ctx)
	res := cfg.conclude(s.done)
	res.StartedAt, res.Interrupted = started, s.interrupted
	return res, err
}

// sweep is a call of Sweep.
type sweep struct {
	cfg         *SweepConfig
	done        []SweepRun
	interrupted bool
}

func (s *sweep) run(ctx context.Context) error {
	for plan := s.cfg.Plan(s.done); len(plan) > 0; plan = s.cfg.Plan(s.done) {
		// The plan of a phase follows from its beginning.
		for k, step := range plan {
			if ctx.Err() != nil {
				s.interrupted = true
				return nil
			}
			whole, err := s.step(ctx, step, plan[k+1:])
			if err != nil || !whole {
				return err
			}
		}
	}
	return nil
}

// step measures one cell once; false when the sweep ends with it.
func (s *sweep) step(ctx context.Context, step SweepStep, left []SweepStep) (whole bool, err error) {
	at := SweepProgress{Step: step, Rounds: s.cfg.rounds(), Done: len(s.done), Left: left}
	round := step.Round
	if step.Phase == FinalPhase {
		at.Rounds, round = FinalRounds, round+s.cfg.rounds()
	}
	s.observe(at)
	runtime.GC()
	res, err := s.cfg.Cells[step.Cell-1].Run(ctx, round)
	switch {
	case err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		s.interrupted = true
		return false, nil
	case err != nil:
		return false, fmt.Errorf("trials: %v: %w", step, err)
	case res.Interrupted && !failed(res):
		s.interrupted = true
		return false, nil
	}
	run := SweepRun{Schema: SweepRunSchema, Cell: step.Cell, Round: step.Round, Phase: step.Phase, Result: res}
	s.done = append(s.done, run)
	at.Done, at.Result = len(s.done), res
	if s.cfg.Save != nil {
		if err := s.cfg.Save(run); err != nil {
			return false, err
		}
	}
	s.observe(at)
	return !failed(res), nil
}

func (s *sweep) observe(p SweepProgress) {
	if s.cfg.Observe != nil {
		s.cfg.Observe(p)
	}
}
