package tps

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// bounds end a load: what comes first. Zero fields do not bound.
type bounds struct {
	transactions int64
	duration     time.Duration
	schedule     Schedule // of an open loop, in the place of duration
}

// last returns the first number that is not to be run, when the load begins
// with number first.
func (b bounds) last(first uint64) uint64 {
	if b.transactions == 0 {
		return math.MaxUint64
	}
	return first + uint64(b.transactions)
}

// deadline returns the instant from which nothing is started any more.
func (b bounds) deadline(start int64) int64 {
	if b.duration == 0 || int64(b.duration) > math.MaxInt64-start {
		return math.MaxInt64
	}
	return start + int64(b.duration)
}

// finish records what became of transaction i of a loop. It returns true when
// the end of ctx is the reason that it failed.
func (r *runner) finish(ctx context.Context, to *shardedTally, i uint64, tr *Trace, err error) (cancelled bool) {
	switch {
	case err == nil:
		r.meter.count(i, 1, true)
		to.add(i, tr)
		r.record(i, tr, "")
		return false
	case errors.Is(err, ErrSkipped):
		r.meter.skipped.Add(1)
		to.skip(i, tr)
		r.record(i, tr, ClassSkipped)
		return false
	}
	r.meter.count(i, 1, false)
	class, cancelled := r.class(ctx, err)
	to.fail(i, tr, class)
	r.record(i, tr, class)
	return cancelled
}

// record tells Config.Record of a transaction that is not part of a warm-up.
func (r *runner) record(i uint64, tr *Trace, class string) {
	if r.cfg.Record != nil && r.measuring {
		r.cfg.Record(i, tr, class)
	}
}

// closedLoop is clients that each wait for their last transaction before they
// start the next. The intended start is the call itself.
type closedLoop struct {
	*runner
	tally       *shardedTally
	deadline    int64
	last        uint64
	busy        atomic.Int64 // clients
	interrupted atomic.Bool
}

func (r *runner) closedLoop(ctx context.Context, b bounds) outcome {
	l := &closedLoop{runner: r, tally: newShardedTally(int64(r.cfg.LatencyLimit)), last: b.last(r.seq.Load())}
	start := r.now()
	l.deadline = b.deadline(start)
	load, finish := r.sample(ctx, start, l.tally, l.busy.Load)
	var clients sync.WaitGroup
	for range r.cfg.clients() {
		l.busy.Add(1)
		clients.Go(func() {
			defer l.busy.Add(-1)
			l.client(ctx, load)
		})
	}
	clients.Wait()
	return outcome{start: start, series: finish(), fold: l.tally.take, interrupted: l.interrupted.Load()}
}

// client runs one transaction after the other. Those that are under way end with
// ctx; none is started after the end of load.
func (l *closedLoop) client(ctx, load context.Context) {
	tr := new(Trace)
	for {
		now := l.now()
		if now >= l.deadline || l.seq.Load() >= l.last {
			return
		}
		if load.Err() != nil {
			if ctx.Err() != nil {
				l.interrupted.Store(true)
			}
			return
		}
		i := l.seq.Add(1) - 1
		if i >= l.last { // another client took the last number in between
			return
		}
		*tr = Trace{Intended: now, Called: now}
		err := l.cfg.Op(ctx, i, tr)
		tr.Done = l.now()
		if l.finish(ctx, l.tally, i, tr, err) {
			l.interrupted.Store(true)
		}
	}
}

// direct calls BatchOp over and over on this goroutine.
func (r *runner) direct(ctx context.Context, b bounds) outcome {
	tally := newShardedTally(int64(r.cfg.LatencyLimit))
	all := make([]error, r.cfg.BatchSize)
	last := b.last(r.seq.Load())
	start := r.now()
	load, finish := r.sample(ctx, start, tally, func() int64 { return 0 })
	o := outcome{start: start, fold: tally.take}
	for deadline := b.deadline(start); ; {
		now, first := r.now(), r.seq.Load()
		if now >= deadline || first >= last {
			break
		}
		if load.Err() != nil {
			o.interrupted = o.interrupted || ctx.Err() != nil
			break
		}
		errs := all[:min(uint64(len(all)), last-first)]
		clear(errs)
		r.seq.Add(uint64(len(errs)))
		err := r.cfg.BatchOp(ctx, first, errs)
		tr := Trace{Intended: now, Called: now, Done: r.now()}
		if r.finishBatch(ctx, tally, first, &tr, errs, err) {
			o.interrupted = true
		}
	}
	o.series = finish()
	return o
}

// finishBatch records the outcomes of one batch, all with the trace tr. It
// returns true when the end of ctx is the reason that one failed.
func (r *runner) finishBatch(ctx context.Context, to *shardedTally, first uint64, tr *Trace, errs []error, whole error) (cancelled bool) {
	classes := make([]string, len(errs))
	failed := int64(0)
	for k, err := range errs {
		if err = cmp.Or(whole, err); err == nil {
			continue
		}
		class, ended := r.class(ctx, err)
		classes[k] = class
		cancelled = cancelled || ended
		failed++
	}
	acknowledged := int64(len(errs)) - failed
	if failed > 0 {
		r.meter.count(first, failed, false)
	}
	if acknowledged > 0 {
		r.meter.count(first, acknowledged, true)
	}
	to.addBatch(tr, acknowledged, classes)
	for k, class := range classes {
		r.record(first+uint64(k), tr, class)
	}
	return cancelled
}
