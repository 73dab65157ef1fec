package tps

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// bounds end a load: what comes first. Zero fields do not bound.
type bounds struct {
	transactions int64
	duration     time.Duration
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
	r.meter.count(i, 1, err == nil)
	if err == nil {
		to.add(i, tr)
		return false
	}
	class, cancelled := r.class(ctx, err)
	to.fail(i, tr, class)
	return cancelled
}

// closedLoop is clients that each wait for their last transaction before they
// start the next. The intended start is the call itself.
type closedLoop struct {
	*runner
	tally       *shardedTally
	deadline    int64
	last        uint64
	interrupted atomic.Bool
}

func (r *runner) closedLoop(ctx context.Context, b bounds) outcome {
	l := &closedLoop{runner: r, tally: newShardedTally(int64(r.cfg.LatencyLimit)), last: b.last(r.seq.Load())}
	start := r.now()
	l.deadline = b.deadline(start)
	var clients sync.WaitGroup
	for range r.cfg.clients() {
		clients.Go(func() { l.client(ctx) })
	}
	clients.Wait()
	return outcome{start: start, fold: l.tally.fold, interrupted: l.interrupted.Load()}
}

func (l *closedLoop) client(ctx context.Context) {
	tr := new(Trace)
	for {
		now := l.now()
		if now >= l.deadline || l.seq.Load() >= l.last {
			return
		}
		if ctx.Err() != nil {
			l.interrupted.Store(true)
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

// openLoop starts transactions when the pacer says so, each on its own
// goroutine, and never waits for one before it starts the next: a stall makes
// later ones late, it does not make them fewer.
type openLoop struct {
	*runner
	tally       *shardedTally
	start       int64
	inFlight    atomic.Int64
	wg          sync.WaitGroup
	interrupted atomic.Bool
}

// openLoop emits every arrival that is due before the bounds, also when it has
// fallen behind them; but after twice the duration it gives up and counts the
// rest as dropped, because a rate that no generator reaches would never end. A
// load that its duration ends lasts that long, whenever the last arrival is.
func (r *runner) openLoop(ctx context.Context, b bounds) outcome {
	l := &openLoop{runner: r, tally: newShardedTally(int64(r.cfg.LatencyLimit))}
	pacer := Pacer{Rate: r.cfg.Rate}
	total, giveUp := int64(math.MaxInt64), time.Duration(math.MaxInt64)
	if b.transactions > 0 {
		total = b.transactions
	}
	var length time.Duration
	if b.duration > 0 {
		if due := pacer.Arrivals(b.duration); due <= total {
			total, length = due, b.duration
		}
		giveUp = b.duration + min(b.duration, math.MaxInt64-b.duration)
	}
	l.start = r.now()
	o := outcome{start: l.start, fold: l.tally.fold}
	sent := int64(0)
	for sent < total && ctx.Err() == nil {
		elapsed := time.Duration(r.now() - l.start)
		if wait := pacer.Pace(elapsed, sent); wait > 0 {
			r.sleep(ctx, wait)
			continue
		}
		if elapsed >= giveUp {
			o.dropped += total - sent
			r.meter.dropped.Add(total - sent)
			o.behind = elapsed - pacer.Due(sent)
			sent = total
			break
		}
		o.behind = elapsed - pacer.Due(sent)
		if !l.emit(ctx, l.start+int64(pacer.Due(sent))) {
			o.dropped++
			r.meter.dropped.Add(1)
		}
		sent++
	}
	o.scheduled = pacer.Due(sent)
	for ctx.Err() == nil {
		rest := length - time.Duration(r.now()-l.start)
		if rest <= 0 {
			o.lasted = length
			break
		}
		r.sleep(ctx, rest)
	}
	l.wg.Wait()
	o.interrupted = sent < total || o.lasted < length || l.interrupted.Load()
	return o
}

// emit starts the transaction that was due at intended, unless too many are
// unfinished: then it returns false.
func (l *openLoop) emit(ctx context.Context, intended int64) bool {
	if l.inFlight.Load() >= l.cfg.maxInFlight() {
		return false
	}
	l.inFlight.Add(1)
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
	return true
}

// direct calls BatchOp over and over on this goroutine.
func (r *runner) direct(ctx context.Context, b bounds) outcome {
	t := newTally(int64(r.cfg.LatencyLimit))
	all := make([]error, r.cfg.BatchSize)
	last := b.last(r.seq.Load())
	start := r.now()
	o := outcome{start: start, fold: func() *tally { return t }}
	for deadline := b.deadline(start); ; {
		now, first := r.now(), r.seq.Load()
		if now >= deadline || first >= last {
			return o
		}
		if ctx.Err() != nil {
			o.interrupted = true
			return o
		}
		errs := all[:min(uint64(len(all)), last-first)]
		clear(errs)
		r.seq.Add(uint64(len(errs)))
		err := r.cfg.BatchOp(ctx, first, errs)
		tr := Trace{Intended: now, Called: now, Done: r.now()}
		if r.finishBatch(ctx, t, first, &tr, errs, err) {
			o.interrupted = true
		}
	}
}

// finishBatch records the outcomes of one batch, all with the trace tr. It
// returns true when the end of ctx is the reason that one failed.
func (r *runner) finishBatch(ctx context.Context, t *tally, first uint64, tr *Trace, errs []error, whole error) (cancelled bool) {
	n := int64(len(errs))
	failed := int64(0)
	if whole != nil {
		var class string
		class, cancelled = r.class(ctx, whole)
		t.fail(tr, n, class)
		failed = n
	} else {
		for _, err := range errs {
			if err != nil {
				class, ended := r.class(ctx, err)
				t.fail(tr, 1, class)
				cancelled = cancelled || ended
				failed++
			}
		}
	}
	if failed > 0 {
		r.meter.count(first, failed, false)
	}
	if acknowledged := n - failed; acknowledged > 0 {
		t.add(tr, acknowledged)
		r.meter.count(first, acknowledged, true)
	}
	return cancelled
}
