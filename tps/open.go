package tps

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// openLoop starts transactions when the schedule says so, each on its own
// goroutine, and never waits for one before it starts the next: a stall makes
// later ones late, it does not make them fewer.
type openLoop struct {
	*runner
	tally       *shardedTally
	start       int64
	kept        Kept
	inFlight    atomic.Int64
	wg          sync.WaitGroup
	interrupted atomic.Bool
}

// openLoop emits every arrival that is due before the bounds, also when it has
// fallen behind them; but after twice the length of the schedule it gives up and
// counts the rest as dropped, because a rate that no generator reaches would never
// end. A load that its schedule ends lasts that long, whenever the last arrival is.
func (r *runner) openLoop(ctx context.Context, b bounds) outcome {
	l := &openLoop{runner: r, tally: newShardedTally(int64(r.cfg.LatencyLimit)), start: r.now()}
	o := outcome{start: l.start, fold: l.tally.take, kept: &l.kept}
	load, finish := r.sample(ctx, l.start, l.tally, l.inFlight.Load)
	counted := l.emitAll(ctx, load, b)
	if length := b.schedule.Length(); !counted && length > 0 {
		for load.Err() == nil && l.elapsed() < length {
			r.sleep(load, length-l.elapsed())
		}
		o.lasted = min(l.elapsed(), length)
		l.kept.Length = o.lasted
	}
	cut := load.Err() != nil
	l.kept.Backlog = l.inFlight.Load()
	l.wg.Wait()
	o.series = finish()
	o.interrupted = cut && ctx.Err() != nil || l.interrupted.Load()
	return o
}

func (l *openLoop) elapsed() time.Duration { return time.Duration(l.now() - l.start) }

// emitAll emits the arrivals until the bounds or load end. It returns true when it
// was the number of transactions that ended them.
func (l *openLoop) emitAll(ctx, load context.Context, b bounds) (counted bool) {
	arrivals, giveUp := b.schedule.Start(), time.Duration(math.MaxInt64)
	if length := b.schedule.Length(); length > 0 && length < giveUp/2 {
		giveUp = 2 * length
	}
	for {
		due, ok := arrivals.Next()
		switch {
		case !ok:
			return false
		case b.transactions > 0 && l.kept.Arrivals == b.transactions:
			return true
		}
		for load.Err() == nil && l.elapsed() < due {
			l.sleep(load, due-l.elapsed())
		}
		if load.Err() != nil {
			return false
		}
		l.kept.Length, l.kept.Behind = due, l.elapsed()-due
		if l.elapsed() >= giveUp {
			rest := l.rest(b)
			l.kept.Arrivals += rest
			l.meter.dropped.Add(rest)
			return false
		}
		l.kept.Arrivals++
		l.emit(ctx, due)
	}
}

// rest returns how many arrivals were not emitted yet: those of a Poisson process
// in the mean, as nobody draws them any more.
func (l *openLoop) rest(b bounds) int64 {
	total := b.schedule.Expected()
	if b.transactions > 0 {
		total = min(total, float64(b.transactions))
	}
	return max(int64(math.Round(total))-l.kept.Arrivals, 1)
}

// emit starts the transaction that was due so long after the start, unless it is
// too late for it or too many are unfinished.
func (l *openLoop) emit(ctx context.Context, due time.Duration) {
	intended := l.start + int64(due)
	if limit := l.cfg.LatencyLimit; limit > 0 && l.kept.Behind > limit {
		now := l.start + int64(due+l.kept.Behind)
		l.finish(ctx, l.tally, l.seq.Add(1)-1, &Trace{Intended: intended, Called: now, Done: now}, ErrSkipped)
		return
	}
	running := l.inFlight.Load()
	if running >= l.cfg.maxInFlight() {
		l.meter.dropped.Add(1)
		return
	}
	l.inFlight.Add(1)
	l.kept.BacklogMax = max(l.kept.BacklogMax, running+1)
	i := l.seq.Add(1) - 1
	l.wg.Go(func() {
		defer l.inFlight.Add(-1)
		tr := &Trace{Intended: intended, Called: l.now()}
		err := l.cfg.Op(ctx, i, tr)
		tr.Done = l.now()
		if l.finish(ctx, l.tally, i, tr, err) {
			l.interrupted.Store(true)
		}
	})
}
