package scenarios

import (
	"context"
	"errors"
	"time"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/tps"
)

// Transfers are the transfers of a loop that runs them by itself, in their order.
// The first Warm of them come before its clock starts.
type Transfers struct {
	From, To, Amounts []int64
	Warm              int
}

// Looped is what a loop did. Transfers counts those that the clock saw, Warmed those
// before it; all of them are committed.
type Looped struct {
	Warmed, Transfers int64
	Elapsed, Settling time.Duration
	Settings          engine.Settings
}

// RunLoop proves what loop does, which has the database for itself: it opens it, runs
// the transfers that a burst of cfg would run, once before its clock starts and once
// more, and closes it again. The result has TPS, Settings and the proof; there are no
// latencies, as nobody waits.
//
// When ctx ends, what was committed until then is proved and returned, with
// Interrupted set.
func RunLoop(ctx context.Context, cfg Config, loop func(context.Context, Transfers) (Looped, error)) (*tps.Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &session{work: &work{Config: cfg, ctx: ctx}}
	s.draw()
	if err := s.closed(ctx, func() error { return s.read(ctx, "reading balances", s.before) }); err != nil {
		return nil, err
	}
	n := s.pool.Len()
	t := Transfers{From: make([]int64, 2*n), To: make([]int64, 2*n), Amounts: make([]int64, 2*n), Warm: n}
	for i := range t.From {
		_, transfer, amount := s.pool.At(uint64(i))
		t.From[i], t.To[i], t.Amounts[i] = transfer.From, transfer.To, amount
	}
	startedAt := time.Now()
	did, loopErr := loop(ctx, t)
	interrupted := ctx.Err() != nil && errors.Is(loopErr, ctx.Err())
	if loopErr != nil && !interrupted {
		return nil, loopErr
	}
	for i := range did.Warmed + did.Transfers {
		s.journal.Ack(int(i) % n)
	}
	after := context.WithoutCancel(ctx)
	s.unproved = s.closed(after, func() error { return s.read(after, "checking balances", s.after) })
	res := tps.NewResult(tps.Direct, did.Transfers, did.Elapsed, did.Settling)
	res.StartedAt, res.Interrupted, res.Settings = startedAt, interrupted, tps.Settings(did.Settings)
	s.describe(res)
	s.locate(res)
	s.verify(res)
	return res, nil
}

// closed runs f while the engine is open, and closes it again.
func (s *session) closed(ctx context.Context, f func() error) (err error) {
	if s.engine, err = s.Open(ctx, s.Scenario.Needs); err != nil {
		return err
	}
	return errors.Join(f(), s.engine.Close())
}
