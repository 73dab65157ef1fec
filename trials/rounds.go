package trials

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/tpssim/tpssim/tps"
)

const (
	// DefaultRounds are the fewest in which the range of an arm, from its slowest
	// round to its fastest, holds its median with [Confidence]. They are even in
	// number, so that each arm runs as often forwards as backwards.
	DefaultRounds = 6
	// MaxRounds is the most that a configuration may ask for.
	MaxRounds = 1000
)

// Arm is one of the things that rounds compare.
type Arm struct {
	Name string // not empty, and its own
	// Run measures the arm once. Rounds count from 1, and 0 is the warm-up: all
	// arms of a round can so be given the same keys. When ctx ends it returns what
	// it has, with Interrupted set, or the error of ctx. Without an error the
	// result is not nil.
	Run func(ctx context.Context, round int) (*tps.Result, error)
}

// RoundsConfig says what [Rounds] measures.
type RoundsConfig struct {
	Arms []Arm // at least one
	// Rounds is how often each arm is measured. It is fixed before the first one
	// begins: who goes on until the figures please finds what pleases. 0:
	// DefaultRounds.
	Rounds int
	// Warmup runs a round before, of which only the proof is kept.
	Warmup bool
	// Observe is told before and after each arm. nil: nobody is told.
	Observe func(RoundProgress)
}

// RoundProgress is where rounds are.
type RoundProgress struct {
	Arm    string
	Round  int         // 1 to Rounds; 0 is the warm-up
	Rounds int         // as configured
	Result *tps.Result // nil before the arm ran
}

// RoundsResult is what [Rounds] measured.
type RoundsResult struct {
	// Results are those of the whole rounds, in the order of the rounds, and in
	// each in the order of the configured arms, whatever the order they ran in.
	Results [][]*tps.Result
	// Verify is the proof over everything that ran: the one that failed, or else
	// what holds for every run, with the most accounts that one of them checked.
	Verify tps.Verify
	// Interrupted tells that ctx ended before the last round did.
	Interrupted bool
}

// Values returns one figure of one arm, in the order of the rounds.
func (r *RoundsResult) Values(arm int, figure func(*tps.Result) float64) []float64 {
	values := make([]float64, len(r.Results))
	for k, round := range r.Results {
		values[k] = figure(round[arm])
	}
	return values
}

// arms are the results by arm, each in the order of the rounds.
func (r *RoundsResult) arms() [][]*tps.Result {
	var list [][]*tps.Result
	for _, round := range r.Results {
		for k, res := range round {
			if k == len(list) {
				list = append(list, nil)
			}
			list[k] = append(list[k], res)
		}
	}
	return list
}

// Validate returns a [tps.ConfigError] that says what is wrong, or nil.
func (c *RoundsConfig) Validate() error {
	if c.Rounds < 0 || c.Rounds > MaxRounds {
		return tps.ConfigError(fmt.Sprintf("--rounds must be from 1 to %d", MaxRounds))
	}
	if len(c.Arms) == 0 {
		return tps.ConfigError("trials: an arm is needed")
	}
	seen := map[string]bool{"": true}
	for _, arm := range c.Arms {
		if seen[arm.Name] {
			return tps.ConfigError(fmt.Sprintf("trials: each arm needs a name of its own, unlike %q", arm.Name))
		}
		seen[arm.Name] = true
	}
	return nil
}

func (c *RoundsConfig) rounds() int {
	if c.Rounds == 0 {
		return DefaultRounds
	}
	return c.Rounds
}

// Order returns the order in which so many arms run in a round: as they are
// configured in the warm-up (0), the first, the third, …, and backwards in the
// second, the fourth, …. After two rounds the mean position of every arm is the
// same, so that a drift that is steady, as of a machine that grows hot or of a
// file that grows, favours none.
func Order(arms, round int) []int {
	order := make([]int, arms)
	for k := range order {
		order[k] = k
		if round > 0 && round%2 == 0 {
			order[k] = arms - 1 - k
		}
	}
	return order
}

// Rounds measures the arms in interleaved rounds: each round runs every arm once,
// in the order that [Order] says, so that what changes on the machine meanwhile
// meets all of them. Garbage is collected before each arm, so that none pays for
// what another one left.
//
// When ctx ends, the result has the rounds that are whole, with Interrupted set. A
// proof that fails ends the rounds as well: nothing that follows could be trusted.
// A [tps.ConfigError] comes before anything ran, without a result. An error of an
// arm names the arm and the round; what was whole until then stands beside it.
func Rounds(ctx context.Context, cfg RoundsConfig) (*RoundsResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &rounds{cfg: &cfg, res: &RoundsResult{}}
	first := 1
	if cfg.Warmup {
		first = 0
	}
	for round := first; round <= cfg.rounds(); round++ {
		results, err := r.run(ctx, round)
		if err != nil || results == nil {
			return r.res, err
		}
		if round > 0 {
			r.res.Results = append(r.res.Results, results)
		}
	}
	return r.res, nil
}

// rounds is a call of Rounds.
type rounds struct {
	cfg    *RoundsConfig
	res    *RoundsResult
	proved int // how many proofs are in res.Verify
}

// run runs one round; nil when it was not finished.
func (r *rounds) run(ctx context.Context, round int) ([]*tps.Result, error) {
	results := make([]*tps.Result, len(r.cfg.Arms))
	for _, k := range Order(len(results), round) {
		if ctx.Err() != nil {
			r.res.Interrupted = true
			return nil, nil
		}
		arm := r.cfg.Arms[k]
		at := RoundProgress{Arm: arm.Name, Round: round, Rounds: r.cfg.rounds()}
		r.observe(at)
		runtime.GC()
		res, err := arm.Run(ctx, round)
		if err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
			r.res.Interrupted = true
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("trials: %s in %s: %w", arm.Name, roundName(round), err)
		}
		r.proved++
		addProof(&r.res.Verify, res.Verify, r.proved == 1)
		if v := r.res.Verify; v.Checked && !v.OK {
			return nil, nil
		}
		if res.Interrupted {
			r.res.Interrupted = true
			return nil, nil
		}
		results[k], at.Result = res, res
		r.observe(at)
	}
	return results, nil
}

func (r *rounds) observe(p RoundProgress) {
	if r.cfg.Observe != nil {
		r.cfg.Observe(p)
	}
}

// addProof adds the proof of a run to that of all before it: the one that failed, or
// else what holds for every run, with the most accounts that one of them checked.
func addProof(all *tps.Verify, v tps.Verify, first bool) {
	if first || v.Checked && !v.OK {
		*all = v
		return
	}
	all.Checked, all.OK, all.Conserved = all.Checked && v.Checked, all.OK && v.OK, all.Conserved && v.Conserved
	all.AccountsChecked = max(all.AccountsChecked, v.AccountsChecked)
	all.RowsChecked = max(all.RowsChecked, v.RowsChecked)
	if all.Detail == "" {
		all.Detail = v.Detail
	}
}

func roundName(round int) string {
	if round == 0 {
		return "the warm-up"
	}
	return fmt.Sprintf("round %d", round)
}
