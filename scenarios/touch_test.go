package scenarios_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/enginetest"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// reader is an engine in memory that takes every hint, and counts the transactions
// whose own accounts it named.
type reader struct {
	*enginetest.Memory
	t       *testing.T
	right   atomic.Int64
	updates atomic.Int64 // without a hint
}

// hint collects the accounts that are read.
type hint struct {
	engine.Rx
	ids map[int64]bool
}

func (h *hint) Balance(id int64) (int64, error) {
	h.ids[id] = true
	return h.Rx.Balance(id)
}

// checked is a transaction that compares what it changes with its hint.
type checked struct {
	engine.Tx
	ids map[int64]bool
	hit *int
}

func (c checked) Add(id, delta int64) error {
	if c.ids[id] {
		*c.hit++
	}
	return c.Tx.Add(id, delta)
}

func (r *reader) Settings() engine.Settings {
	s := r.Memory.Settings()
	s.Prefetch = 4
	return s
}

func (r *reader) Update(ctx context.Context, t *engine.Timing, fn func(engine.Tx) error) error {
	r.updates.Add(1)
	return r.Memory.Update(ctx, t, fn)
}

func (r *reader) UpdateTouching(ctx context.Context, t *engine.Timing, touch func(engine.Rx) error, fn func(engine.Tx) error) error {
	ids := map[int64]bool{}
	if err := r.View(ctx, func(rx engine.Rx) error { return touch(&hint{rx, ids}) }); err != nil {
		r.t.Errorf("touch: %v", err)
	}
	hit := 0
	err := r.Memory.Update(ctx, t, func(tx engine.Tx) error { return fn(checked{tx, ids, &hit}) })
	if hit == 2 && len(ids) <= 2 {
		r.right.Add(1)
	}
	return err
}

// Scenarios with a queue name the accounts that they are about to change, all others
// do without.
func TestTouch(t *testing.T) {
	for _, s := range scenarios.All {
		if s.Direct { // Memory has no batches
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			cfg := config(t, s.Name, 5000)
			r := &reader{Memory: enginetest.NewMemory(cfg.Spec), t: t}
			onEngine(&cfg, r.Memory, r)
			cfg.Load = tps.Config{Transactions: 200, Concurrency: 8}
			res := run(t, t.Context(), cfg)
			wantProof(t, res)
			want := res.Acknowledged
			if !s.Touches() {
				want = 0
			}
			if got := r.right.Load(); got != want || (r.updates.Load() == 0) != s.Touches() {
				t.Errorf("%d of %d transactions had named their accounts, want %d; %d gave no hint",
					got, res.Acknowledged, want, r.updates.Load())
			}
			if res.Settings.Prefetch != 4 {
				t.Errorf("settings %+v", res.Settings)
			}
		})
	}
}

// With and without prefetch the same is proved, and it shows in the result.
func TestPrefetch(t *testing.T) {
	for _, connections := range []int{0, 4} {
		cfg := config(t, "mixed", 5000)
		onSQLite(t, &cfg, sqlite.Options{Prefetch: connections})
		cfg.Load = tps.Config{Transactions: 500, Concurrency: 16}
		res := run(t, t.Context(), cfg)
		wantProof(t, res)
		w := res.Writer
		if res.Acknowledged != 500 || res.Settings.Prefetch != connections || (w.Touched > 0) != (connections > 0) || w.TouchMisses > w.Touched {
			t.Errorf("%d connections: %d acknowledged, %d touched, %d misses, settings %+v",
				connections, res.Acknowledged, w.Touched, w.TouchMisses, res.Settings)
		}
	}
}
