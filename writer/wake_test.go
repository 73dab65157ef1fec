package writer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tpssim/tpssim/writer"
)

// crowd queues n functions while the writer is held, in no order, and returns once
// all wait. wait returns when each was told.
func crowd(t *testing.T, w *writer.Writer, n int, call func(i int)) (wait func()) {
	t.Helper()
	var wg sync.WaitGroup
	before := w.Stats().Queued
	for i := range n {
		wg.Go(func() { call(i) })
	}
	until(t, "a crowd to be queued", func() bool { return w.Stats().Queued == before+n })
	return wg.Wait
}

// Large batches, one behind the other, each woken while the next runs: every caller
// is told, of its own outcome and its own times.
func TestWakeLargeBatches(t *testing.T) {
	const batch, batches = 100, 8
	for name, opt := range map[string]writer.Options{
		"Alone":   {},
		"OnBatch": {OnBatch: func(writer.Batch) {}},
	} {
		t.Run(name, func(t *testing.T) {
			opt.MaxBatch, opt.Pragmas = batch, noSync
			w := openTest(t, opt)
			for range 3 {
				release := hold(t, w)
				ran := make([]int, batch*batches)
				wait := crowd(t, w, len(ran), func(i int) {
					var timing writer.Timing
					own := fmt.Errorf("the error of %d", i)
					if i%3 != 0 {
						own = nil
					}
					if err := w.DoCall(context.Background(), writer.Call{Timing: &timing, Fn: func(tx *writer.Tx) error {
						ran[i]++
						return errors.Join(insert(i)(tx), own, execSQL("DELETE FROM entry WHERE id = ?", i)(tx))
					}}); (own == nil) != (err == nil) || own != nil && !errors.Is(err, own) {
						t.Errorf("%d: %v, want %v", i, err, own)
					}
					if ran[i] != 1 || timing.Accepted == 0 || timing.Accepted > timing.Begun || timing.Ended > timing.Committing || timing.Committing > timing.Committed {
						t.Errorf("%d ran %d times, with the times %+v", i, ran[i], timing)
					}
				})
				release()
				wait()
			}
			exclusive(t, w) // a batch is counted after its callers were told
			if got := w.Stats(); got.Transactions != 3*batch*batches || got.Batches != 3*batches {
				t.Errorf("%d transactions in %d batches, want %d in %d", got.Transactions, got.Batches, 3*batch*batches, 3*batches)
			}
		})
	}
}

// Close does not return before the last, large, batch is told.
func TestWakeBeforeClose(t *testing.T) {
	w := openTest(t, writer.Options{Pragmas: noSync})
	release := hold(t, w)
	wait := crowd(t, w, 500, func(i int) {
		if err := w.Do(context.Background(), insert(i)); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	})
	closed := make(chan error)
	go func() { closed <- w.Close() }()
	until(t, "the writer to refuse", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // it may still be let in, to wait behind the rest
		defer cancel()
		return errors.Is(w.Do(ctx, never(t, "a late one")), writer.ErrClosed)
	})
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	wait()
}
