package enginetest

import (
	"context"
	"errors"
	"testing"

	"github.com/tpssim/tpssim/engine"
)

// batch: in one COMMIT each transaction has its own outcome.
func (s *suite) batch(t *testing.T) {
	b := s.start(t, engine.Needs{Savepoints: "each"})
	batcher := optional[engine.Batcher](b, "this engine has no Batch")
	check := b.changes(map[int64]int64{1: -3, 2: 3}, 1, 2)
	errs := make([]error, 5)
	err := batcher.Batch(t.Context(), errs, func(i int, tx engine.Tx) error {
		if err := tx.Add(1, -1); err != nil {
			return err
		}
		switch i {
		case 1:
			return errOwn
		case 3:
			panic("enginetest: half way")
		}
		return tx.Add(2, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		switch i {
		case 1:
			if err != errOwn {
				t.Errorf("transaction 1: %v, want its own error", err)
			}
		case 3:
			if err == nil || b.Classify(err) != "panic" {
				t.Errorf("transaction 3: %v, want a panic", err)
			}
		default:
			if err != nil {
				t.Errorf("transaction %d: %v", i, err)
			}
		}
	}
	check()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = batcher.Batch(ctx, errs, func(int, engine.Tx) error { t.Error("Batch ran a function"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Batch with a context that had ended: %v", err)
	}
	if err := batcher.Batch(t.Context(), nil, func(int, engine.Tx) error { return nil }); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
}

// batchWithoutSavepoints: one failure is everybody's, and nothing stays.
func (s *suite) batchWithoutSavepoints(t *testing.T) {
	b := s.start(t, engine.Needs{Savepoints: "none"})
	batcher := optional[engine.Batcher](b, "this engine has no Batch")
	check := b.unchanged(1, 2)
	errs := make([]error, 3)
	fail := true
	fn := func(i int, tx engine.Tx) error {
		if err := errors.Join(tx.Add(1, -1), tx.Add(2, 1)); err != nil {
			return err
		}
		if i == 1 && fail {
			return errOwn
		}
		return nil
	}
	if err := batcher.Batch(t.Context(), errs, fn); !errors.Is(err, errOwn) {
		t.Errorf("Batch returned %v, want the failure", err)
	}
	check()
	check = b.changes(map[int64]int64{1: -3, 2: 3}, 1, 2)
	fail = false
	clear(errs)
	if err := errors.Join(append(errs, batcher.Batch(t.Context(), errs, fn))...); err != nil {
		t.Errorf("the next batch: %v", err)
	}
	check()
}

// optional returns the engine as a T, which it need not be, or skips the test.
func optional[T any](b *bank, why string) T {
	b.t.Helper()
	engine, ok := b.Engine.(T)
	if !ok {
		b.t.Skip(why)
	}
	return engine
}

// cacher returns the engine as a Cacher whose cache can be seen, or skips the test.
func (b *bank) cacher() engine.Cacher {
	b.t.Helper()
	cacher, ok := b.Engine.(engine.Cacher)
	if !ok {
		b.t.Skip("this engine has no caches on this machine")
	}
	if _, err := cacher.Resident(); err != nil {
		b.t.Skip(err)
	}
	return cacher
}

// resident returns the share of the data set in the cache.
func (b *bank) resident(c engine.Cacher) float64 {
	b.t.Helper()
	share, err := c.Resident()
	if err != nil || share < 0 || share > 1 {
		b.t.Fatalf("Resident = %v, %v", share, err)
	}
	return share
}

// cold: Cold empties the cache, where the file system allows it, and the engine
// works afterwards as before.
func (s *suite) cold(t *testing.T) {
	b := s.start(t, engine.Needs{})
	c := b.cacher()
	b.add(1, 5)
	want := b.balance(1)
	b.read(s.every(1))
	warm := b.resident(c)
	settings := b.Settings()
	if err := c.Cold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cold := b.resident(c); cold >= warm {
		t.Logf("%.2f of the data set was cached, %.2f is after Cold: this file system keeps files in memory", warm, cold)
	}
	if got := b.Settings(); got != settings {
		t.Errorf("Cold changed the settings from %+v to %+v", settings, got)
	}
	if got := b.balance(1); got != want {
		t.Errorf("the account holds %d after Cold, want %d", got, want)
	}
	b.add(1, 0)
	if foreign, err := b.ForeignWrites(t.Context()); foreign || err != nil {
		t.Errorf("ForeignWrites after Cold = %v, %v", foreign, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Cold(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Cold with a context that had ended: %v", err)
	}
	b.add(1, 0) // whatever Cold answered, the engine is open
}

// logAfterCold: what is written to the log after Cold is told as what was written
// before it.
func (s *suite) logAfterCold(t *testing.T) {
	b := s.start(t, engine.Needs{})
	c := b.cacher()
	write := func() engine.Stats {
		interval := observe(b)
		for range 5 {
			b.add(1, 1)
		}
		return b.quiet(interval)
	}
	if err := b.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := write()
	if err := c.Cold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pending := b.Stats().WALPending; pending != 0 {
		t.Errorf("%d bytes are pending after Cold", pending)
	}
	after := write()
	if after.WALBytes != before.WALBytes || after.WALPending != before.WALPending {
		t.Errorf("%d bytes were written before Cold and %d after it, %d and %d were pending",
			before.WALBytes, after.WALBytes, before.WALPending, after.WALPending)
	}
}

// touch: with a hint an update has the outcomes that it has without, and the hint is
// taken before, once at most.
func (s *suite) touch(t *testing.T) {
	b := s.start(t, engine.Needs{})
	toucher := optional[engine.Toucher](b, "this engine does not read ahead")
	check := b.changes(map[int64]int64{1: -2, 2: 2}, 1, 2)
	interval, touched := observe(b), 0
	for range 2 {
		var timing engine.Timing
		began, running := touched, false
		err := toucher.UpdateTouching(t.Context(), &timing, func(rx engine.Rx) error {
			touched++
			if running {
				t.Error("the hint came after the transaction")
			}
			_, err := rx.Balance(1)
			return err
		}, func(tx engine.Tx) error {
			running = true
			return errors.Join(tx.Add(1, -1), tx.Add(2, 1))
		})
		if err != nil || timing.Committed == 0 || touched > began+1 {
			t.Errorf("%v after %d hints, timing %+v", err, touched-began, timing)
		}
	}
	check()
	switch got := b.quiet(interval); {
	case got.Touched != int64(touched) || got.TouchMisses > got.Touched:
		t.Errorf("%d hints were taken, the statistics are %+v", touched, got)
	case (touched > 0) != (b.Settings().Prefetch > 0): // the first one always is
		t.Errorf("%d hints were taken on %d connections", touched, b.Settings().Prefetch)
	}
	none := func(engine.Rx) error { return nil }
	if err := toucher.UpdateTouching(t.Context(), nil, none, func(engine.Tx) error { return errOwn }); err != errOwn {
		t.Errorf("got %v, want the function's own error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := toucher.UpdateTouching(ctx, nil, func(engine.Rx) error { t.Error("touched"); return nil },
		func(engine.Tx) error { t.Error("updated"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that had ended: %v", err)
	}
}

// touchMissing: a hint that fails is no hint, one that panics an outcome.
func (s *suite) touchMissing(t *testing.T) {
	b := s.start(t, engine.Needs{})
	toucher := optional[engine.Toucher](b, "this engine does not read ahead")
	check := b.changes(map[int64]int64{1: 1}, 1)
	if err := toucher.UpdateTouching(t.Context(), nil, func(rx engine.Rx) error {
		_, err := rx.Balance(s.spec.Rows + 1)
		if !errors.Is(err, engine.ErrNoAccount) {
			t.Errorf("a hint of an account that is not there: %v", err)
		}
		return err
	}, func(tx engine.Tx) error { return tx.Add(1, 1) }); err != nil {
		t.Error(err)
	}
	check()
	for range 2 { // the one before may have been so fast that the next is not taken
		touched := false
		err := toucher.UpdateTouching(t.Context(), nil, func(engine.Rx) error { touched = true; panic("enginetest: in a hint") },
			func(engine.Tx) error {
				if touched {
					t.Error("the transaction ran after its hint had panicked")
				}
				return nil
			})
		if touched != (err != nil) || err != nil && b.Classify(err) != "panic" {
			t.Errorf("a hint that panics: %v, it was taken: %v", err, touched)
		}
	}
	b.add(1, -1)
}

// preserve: what is read inside is not in the cache afterwards, unless it was
// before.
func (s *suite) preserve(t *testing.T) {
	b := s.start(t, engine.Needs{})
	c := b.cacher()
	b.read(s.every(1))
	warm := b.resident(c)
	if err := c.Cold(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := b.resident(c)
	if err := c.Preserve(func() error { b.read(s.every(1)); return nil }); err != nil {
		t.Fatal(err)
	}
	if after := b.resident(c); before < warm && after > before {
		t.Errorf("%.3f of the data set was cached, %.3f is after Preserve", before, after)
	}
	if err := c.Preserve(func() error { return errOwn }); !errors.Is(err, errOwn) {
		t.Errorf("Preserve returned %v, want its function's error", err)
	}
	b.add(1, 0)
}

// pin: a pinned snapshot stops nobody, and what it kept from being emptied can be
// once it is released.
func (s *suite) pin(t *testing.T) {
	b := s.start(t, engine.Needs{})
	pinner := optional[engine.Pinner](b, "this engine has no log that a reader could keep")
	release, err := pinner.Pin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	interval := observe(b)
	check := b.changes(map[int64]int64{1: 4}, 1)
	for range 4 {
		b.add(1, 1)
	}
	check()
	if got := b.quiet(interval); got.WALPending == 0 {
		t.Errorf("nothing is pending: %+v", got)
	}
	for range 2 {
		if err := release(); err != nil {
			t.Errorf("release: %v", err)
		}
	}
	if err := b.Settle(t.Context()); err != nil {
		t.Errorf("Settle after the release: %v", err)
	}
	if got := interval(); got.WALPending != 0 {
		t.Errorf("%d bytes are pending after the release", got.WALPending)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pinner.Pin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Pin with a context that had ended: %v", err)
	}
}

// closePinned: Close waits for no snapshot, and ends it.
func (s *suite) closePinned(t *testing.T) {
	b := s.start(t, engine.Needs{})
	pinner := optional[engine.Pinner](b, "this engine has no log that a reader could keep")
	release, err := pinner.Pin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.add(1, 5)
	want := b.balance(1)
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := release(); err != nil {
		t.Errorf("release after Close: %v", err)
	}
	if _, err := pinner.Pin(t.Context()); err == nil || b.Classify(err) != "closed" {
		t.Errorf("Pin after Close: %v", err)
	}
	if got := s.start(t, engine.Needs{}).balance(1); got != want {
		t.Errorf("the account holds %d, want %d", got, want)
	}
}
