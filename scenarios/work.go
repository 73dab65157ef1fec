package scenarios

import (
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
	statements tps.Statements // of the round
	// endless is the run's context without its end. The engine is called with it:
	// thousands that wait for one channel to close, which is what ending a shared
	// context means, slow each other down by a tenth. A run that is cancelled
	// drains instead, and its application code refuses; see transaction.
	endless context.Context
	// skipAfter is how late a transaction may begin, in nanoseconds; 0: at any time.
	skipAfter int64
}

// think is the application's pause. In most scenarios it holds the writer.
func (w *work) think(ctx context.Context) error {
	if w.Think <= 0 {
		return nil
	}
	return sleep(ctx, w.Think)
}

// sleep waits for d, and returns the error of ctx when that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
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
// run can be repeated. It is the finalizer of SplitMix64 (Steele, Lea and Flood,
// OOPSLA 2014) over a counter.
func uniform(seed, i uint64) float64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// op is one transaction, with the reads that follow it. Its frame is small for the
// sake of the many goroutines that wait in it; see burst in package tps.
func (w *work) op(ctx context.Context, i uint64, tr *tps.Trace) error {
	err := w.engine.Update(w.endless, (*engine.Timing)(&tr.Timing), w.transaction(ctx, i, tr.Intended))
	w.record(i, err)
	if err != nil || w.Reads == 0 {
		return err
	}
	return w.awaitReads(ctx, i, tr)
}

// transaction returns the application code of transaction i, which was due at
// intended.
func (w *work) transaction(ctx context.Context, i uint64, intended int64) func(engine.Tx) error {
	return func(tx engine.Tx) error {
		if err := w.tooLate(ctx, intended); err != nil {
			return err
		}
		_, t, amount := w.pool.At(i)
		return w.Scenario.body(ctx, w, w.timed(tx), i, t, amount)
	}
}

// tooLate returns why a transaction whose turn has come shall not begin any more.
func (w *work) tooLate(ctx context.Context, intended int64) error {
	if w.skipAfter > 0 && w.engine.Now()-intended > w.skipAfter {
		return tps.ErrSkipped
	}
	return ctx.Err()
}

// awaitReads reads as many accounts as each caller awaits.
func (w *work) awaitReads(ctx context.Context, i uint64, tr *tps.Trace) error {
	for k := range w.Reads {
		if err := ctx.Err(); err != nil {
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
	err := batcher.Batch(ctx, errs, func(k int, tx engine.Tx) error {
		return w.transaction(ctx, first+uint64(k), 0)(tx)
	})
	for k := range errs {
		w.record(first+uint64(k), errors.Join(err, errs[k]))
	}
	return err
}

// record keeps the outcome of transaction i for the proof.
func (w *work) record(i uint64, err error) {
	slot, _, _ := w.pool.At(i)
	if err == nil {
		w.journal.Ack(slot)
	} else if group, doubt := w.engine.InDoubt(err); doubt {
		w.journal.InDoubt(slot, group)
	}
}

// classify names the class of a failure.
func (w *work) classify(err error) string {
	switch {
	case errors.Is(err, ErrFunds):
		return "funds are short"
	case errors.Is(err, ErrApplication):
		return "application"
	case errors.Is(err, ErrGaveUp):
		return "gave up"
	}
	return w.engine.Classify(err)
}
