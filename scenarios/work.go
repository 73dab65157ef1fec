package scenarios

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/tps"
)

// work is a scenario on an open engine.
type work struct {
	Config
	engine     engine.Engine
	pool       *accounts.Pool
	journal    *accounts.Journal
	statements tps.Statements  // of the round
	ctx        context.Context // of the run
	// endless has no end. The engine is called with it: thousands that wait for one
	// channel to close, which is what ending a shared context means, slow each other
	// down by a tenth. A run that is cancelled drains instead, and its application code
	// refuses; see call.run. Nor has it values, so that asking for one costs nothing.
	endless context.Context
	// skipAfter is how late a transaction may begin, in nanoseconds; 0: at any time.
	skipAfter int64
}

// think is the application's pause. In most scenarios it holds the writer.
func (w *work) think() error {
	if w.Think <= 0 {
		return nil
	}
	return w.sleep(w.Think)
}

// sleep waits for d, and returns the error of the run's context when that ends before.
func (w *work) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// fail fails or panics as often as was asked, after the first of a transfer's two
// updates.
func (w *work) fail(i uint64) error {
	if w.FailRate == 0 && w.PanicRate == 0 {
		return nil
	}
	switch chance := uniform(w.RandomSeed, i); {
	case chance < w.FailRate:
		return ErrApplication
	case chance < w.FailRate+w.PanicRate:
		panic("the application code panicked, as --panic-rate asked")
	}
	return nil
}

// uniform returns a number in [0,1) that depends on seed and i alone, so that a
// run can be repeated.
func uniform(seed, i uint64) float64 { return float64(mix(seed, i)>>11) / (1 << 53) }

// mix returns 64 bits that look random and depend on seed and i alone: the finalizer of
// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) over a counter.
func mix(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// call is a transaction as the engine runs it. What it learns while it runs decides
// what its outcome means. Thousands wait, so it is small.
type call struct {
	w        *work
	i        uint64
	intended int64 // when it could have begun
	skipped  bool  // it was too late and did nothing
	changed  bool  // it did what it should
}

// run is the function of transaction i, unless it is too late for it, or for all. A
// transaction that is skipped is no error to the engine: others of its batch would
// suffer from it.
func (c *call) run(fn func() error) error {
	c.skipped, c.changed = false, false // the engine may run it again
	if limit := c.w.skipAfter; limit > 0 && c.w.engine.Now()-c.intended > limit {
		c.skipped = true
		return nil
	}
	if err := c.w.ctx.Err(); err != nil {
		return err
	}
	err := fn()
	c.changed = err == nil
	return err
}

// transfer runs the scenario's application code.
func (c *call) transfer(tx engine.Tx) error {
	return c.run(func() error {
		_, t, amount := c.w.pool.At(c.i)
		return c.w.Scenario.body(c.w, c.w.timed(tx), c.i, t, amount)
	})
}

// outcome returns what became of the call when the engine answered err, and keeps it
// for the proof. When a COMMIT is in doubt, only those in it who had changed
// something can be found in the table.
func (c *call) outcome(err error) error {
	if c.skipped && err == nil {
		return tps.ErrSkipped
	}
	if c.w.pool == nil {
		return err
	}
	slot, _, _ := c.w.pool.At(c.i)
	if err == nil {
		c.w.journal.Ack(slot)
	} else if group, doubt := c.w.engine.InDoubt(err); doubt && c.changed {
		c.w.journal.InDoubt(slot, group)
	}
	return err
}

// op is one transaction, with the reads that follow it. Its frame is small for the
// sake of the many goroutines that wait in it; see burst in package tps.
func (w *work) op(_ context.Context, i uint64, tr *tps.Trace) error {
	c := &call{w: w, i: i, intended: tr.Intended}
	err := c.outcome(w.engine.Update(w.endless, (*engine.Timing)(&tr.Timing), c.transfer))
	if err != nil || w.Reads == 0 {
		return err
	}
	return w.awaitReads(i, tr)
}

// touchingOp is op for an engine that reads ahead. It is a function of its own so that
// op stays as small as it is.
func (w *work) touchingOp(_ context.Context, i uint64, tr *tps.Trace) error {
	toucher, ok := w.engine.(engine.Toucher)
	if !ok {
		return errors.New("scenarios: this engine cannot read ahead")
	}
	c := &call{w: w, i: i, intended: tr.Intended}
	err := c.outcome(toucher.UpdateTouching(w.endless, (*engine.Timing)(&tr.Timing), c.touch, c.transfer))
	if err != nil || w.Reads == 0 {
		return err
	}
	return w.awaitReads(i, tr)
}

// touch reads the two accounts of the transfer, unless the run has ended. The second one
// can be fetched while the first one is, which fails until then.
func (c *call) touch(rx engine.Rx) error {
	if err := c.w.ctx.Err(); err != nil {
		return err
	}
	_, t, _ := c.w.pool.At(c.i)
	_, err := rx.Balance(t.From)
	_, other := rx.Balance(t.To)
	return errors.Join(err, other)
}

// awaitReads reads as many accounts as each caller awaits.
func (w *work) awaitReads(i uint64, tr *tps.Trace) error {
	for k := range w.Reads {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		_, other, _ := w.pool.At(i + uint64(k) + 1)
		start := w.engine.Now()
		err := w.engine.View(w.endless, func(rx engine.Rx) error {
			_, err := rx.Balance(other.To)
			return err
		})
		if err != nil {
			return err
		}
		tr.Read(w.engine.Now() - start)
	}
	return nil
}

// batchOp is a batch of transactions on one goroutine.
func (w *work) batchOp(ctx context.Context, first uint64, errs []error) error {
	batcher, ok := w.engine.(engine.Batcher)
	if !ok {
		return errors.New("scenarios: this engine cannot run without a queue")
	}
	calls := make([]call, len(errs))
	err := batcher.Batch(ctx, errs, func(k int, tx engine.Tx) error {
		calls[k] = call{w: w, i: first + uint64(k)}
		return calls[k].transfer(tx)
	})
	for k := range calls {
		if calls[k].w != nil { // it was run
			calls[k].outcome(cmp.Or(errs[k], err))
		}
	}
	return err
}

// ownClasses are the failures that scenarios make themselves.
var ownClasses = []struct {
	err   error
	class string
}{
	{ErrFunds, "funds are short"},
	{ErrApplication, "application"},
	{ErrGaveUp, "gave up"},
}

// classify names the class of a failure.
func (w *work) classify(err error) string {
	for _, own := range ownClasses {
		if errors.Is(err, own.err) {
			return own.class
		}
	}
	return w.engine.Classify(err)
}
