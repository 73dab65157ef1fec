package scenarios_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/enginetest"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// A run that is cancelled proves and returns what it has.
func TestCancelled(t *testing.T) {
	for name, load := range map[string]tps.Config{
		"burst":  {Transactions: 3000},
		"closed": {Transactions: 20_000, Concurrency: 8},
		"open":   {Transactions: 20_000, Rate: 2000},
		"direct": {Transactions: 20_000, Duration: time.Hour, BatchSize: 10},
	} {
		t.Run(name, func(t *testing.T) {
			scenario := map[bool]string{true: "direct", false: "unbatched"}[load.BatchSize > 0]
			cfg := config(t, scenario, 5000)
			onSQLite(t, &cfg, sqlite.Options{})
			cfg.Load, cfg.Load.Meter = load, new(tps.Meter)
			cfg.Think = 100 * time.Microsecond // a burst must not be over before it is cancelled
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var watcher sync.WaitGroup
			watcher.Go(func() {
				for cfg.Load.Meter.Snapshot().Acknowledged < 100 && t.Context().Err() == nil {
					time.Sleep(100 * time.Microsecond)
				}
				cancel()
			})
			res := run(t, ctx, cfg)
			watcher.Wait()
			wantProof(t, res)
			if !res.Interrupted || res.Acknowledged < 100 || len(res.Runs) != 1 || !res.Runs[0].Interrupted {
				t.Errorf("interrupted %v, %d acknowledged, rounds %+v", res.Interrupted, res.Acknowledged, res.Runs)
			}
			if name == "burst" && res.Acknowledged == 3000 {
				t.Error("all of it ran")
			}
		})
	}
}

// Cancelled between two rounds, the rounds before count.
func TestCancelledBetweenRounds(t *testing.T) {
	for _, cache := range []string{scenarios.CacheCold, scenarios.CacheWarm} {
		t.Run(cache, func(t *testing.T) {
			cfg := config(t, scenarios.Default, 5000)
			onSQLite(t, &cfg, sqlite.Options{})
			cfg.Load, cfg.Cache = tps.Config{Transactions: 50, Runs: 5}, cache
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			open := cfg.Open
			cfg.Open = func(ctx context.Context, needs engine.Needs) (engine.Engine, error) {
				e, err := open(ctx, needs)
				return &canceller{Engine: e, Cacher: e.(engine.Cacher), cancel: cancel}, err
			}
			res, err := scenarios.Run(ctx, cfg)
			if errors.Is(err, errors.ErrUnsupported) || err != nil && strings.Contains(err.Error(), "--cache") {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			wantProof(t, res)
			if !res.Interrupted || len(res.Runs) != 2 || res.Runs[1].Acknowledged != 50 {
				t.Errorf("interrupted %v, rounds %+v", res.Interrupted, res.Runs)
			}
		})
	}
}

// canceller cancels the run when the third round is prepared.
type canceller struct {
	engine.Engine
	engine.Cacher
	resets int
	cancel func()
}

func (c *canceller) Settle(ctx context.Context) error {
	err := c.Engine.Settle(ctx)
	if c.resets == 3 {
		c.cancel() // what follows meets a context that has ended
	}
	return err
}

func (c *canceller) Reset(ctx context.Context) error {
	c.resets++
	return c.Engine.Reset(ctx)
}

// The state of the caches is what was asked for, in every round.
func TestCache(t *testing.T) {
	for cache, want := range map[string]func(share float64) bool{
		scenarios.CacheAsIs: func(share float64) bool { return true },
		scenarios.CacheCold: func(share float64) bool { return share < 0.5 },
		scenarios.CacheWarm: func(share float64) bool { return share > 0.9 },
	} {
		t.Run(cache, func(t *testing.T) {
			cfg := config(t, scenarios.Default, 200_000)
			onSQLite(t, &cfg, sqlite.Options{})
			cfg.Load, cfg.Cache = tps.Config{Transactions: 2000, Runs: 2}, cache
			var shares []float64
			open, onDisk := cfg.Open, false
			cfg.Open = func(ctx context.Context, needs engine.Needs) (engine.Engine, error) {
				e, err := open(ctx, needs)
				if err != nil {
					return nil, err
				}
				c := e.(engine.Cacher)
				if err := c.Cold(ctx); err != nil {
					t.Skip(err)
				}
				share, err := c.Resident()
				onDisk = share < 0.5
				return &thermometer{Engine: e, Cacher: c, shares: &shares}, err
			}
			var stages = map[string]bool{}
			var mu sync.Mutex
			cfg.Progress = func(stage string, done, total int) {
				mu.Lock()
				defer mu.Unlock()
				stages[stage] = stages[stage] || done == total
			}
			res := run(t, t.Context(), cfg)
			wantProof(t, res)
			wantStages := map[string]bool{"reading balances": true, "checking balances": true}
			if cache == scenarios.CacheWarm {
				wantStages["warming the cache"] = true
			}
			if !maps.Equal(stages, wantStages) {
				t.Errorf("progress told of %v, want %v", stages, wantStages)
			}
			if !onDisk {
				t.Skip("this file system keeps its files in memory")
			}
			if len(shares) != 3 {
				t.Errorf("%d rounds", len(shares))
			}
			for _, share := range shares {
				if !want(share) {
					t.Errorf("the rounds began with %.2f of the data set in memory", shares)
					break
				}
			}
			if cache == scenarios.CacheAsIs && shares[0] > 0.5 {
				t.Errorf("reading the balances beforehand left %.2f of the data set in memory", shares[0])
			}
		})
	}
}

// thermometer notes how much is cached when a round begins.
type thermometer struct {
	engine.Engine
	engine.Cacher
	shares *[]float64
	ready  bool // a round is about to begin
}

func (m *thermometer) Reset(ctx context.Context) error {
	m.ready = true
	return m.Engine.Reset(ctx)
}

func (m *thermometer) Stats() engine.Stats {
	if m.ready {
		share, _ := m.Resident()
		*m.shares = append(*m.shares, share)
		m.ready = false
	}
	return m.Engine.Stats()
}

// stage is an engine in memory whose surroundings are as a test wants them.
type stage struct {
	*enginetest.Memory
	synchronous string
	resident    float64
	readTime    time.Duration
}

func (s *stage) Settings() engine.Settings {
	got := s.Memory.Settings()
	got.Synchronous = s.synchronous
	return got
}
func (s *stage) View(ctx context.Context, fn func(engine.Rx) error) error {
	time.Sleep(s.readTime)
	return s.Memory.View(ctx, fn)
}
func (s *stage) Cold(context.Context) error    { return nil }
func (s *stage) Preserve(f func() error) error { return f() }
func (s *stage) Resident() (float64, error)    { return s.resident, nil }

func TestWarnings(t *testing.T) {
	closed := tps.Config{Transactions: 50, Concurrency: 2}
	for name, tt := range map[string]struct {
		set  func(*scenarios.Config, *stage)
		want string // "" means no warning at all
	}{
		"none":     {func(*scenarios.Config, *stage) {}, ""},
		"idle":     {func(c *scenarios.Config, s *stage) { c.Reads, s.readTime = 3, 10*time.Millisecond }, "were with their reads"},
		"a little": {func(c *scenarios.Config, s *stage) { c.Reads, s.readTime = 1, 100*time.Microsecond }, ""},
		"open": {func(c *scenarios.Config, s *stage) {
			c.Load = tps.Config{Transactions: 20, Rate: 10}
		}, ""},
		"pool wraps": {func(c *scenarios.Config, s *stage) {
			s.CommitTime = time.Microsecond
			c.Load = tps.Config{Duration: 10 * time.Millisecond, Concurrency: 2}
		}, "a pool of 2000 transfers again and again"},
		"resident":      {func(c *scenarios.Config, s *stage) { s.resident = 0.97 }, "the whole data set was in memory"},
		"resident warm": {func(c *scenarios.Config, s *stage) { s.resident, c.Cache = 1, scenarios.CacheWarm }, "the whole data set was in memory"},
		"resident cold": {func(c *scenarios.Config, s *stage) { s.resident, c.Cache = 1, scenarios.CacheCold }, ""},
		"half resident": {func(c *scenarios.Config, s *stage) { s.resident = 0.5 }, ""},
		"fast sync":     {func(c *scenarios.Config, s *stage) { s.synchronous, s.CommitTime = "full", 5*time.Microsecond }, "too fast for a sync"},
		"fast and off":  {func(c *scenarios.Config, s *stage) { s.synchronous, s.CommitTime = "off", 5*time.Microsecond }, ""},
		"slow sync":     {func(c *scenarios.Config, s *stage) { s.synchronous = "extra" }, ""},
		"foreign":       {func(c *scenarios.Config, s *stage) { s.Foreign.Store(true) }, "another program wrote"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(t, scenarios.Default, 1000)
				cfg.Load = closed
				m := enginetest.NewMemory(cfg.Spec)
				m.CommitTime = time.Millisecond
				s := &stage{Memory: m, synchronous: "normal"}
				tt.set(&cfg, s)
				onEngine(&cfg, m, s)
				res := run(t, t.Context(), cfg)
				wantProof(t, res)
				// The collector's pauses are real time, the rest is not.
				res.Warnings = slices.DeleteFunc(res.Warnings, func(w string) bool { return strings.HasPrefix(w, "garbage collector") })
				switch {
				case tt.want == "" && len(res.Warnings) > 0:
					t.Errorf("unexpected warnings: %q", res.Warnings)
				case tt.want != "" && (len(res.Warnings) != 1 || !warned(res, tt.want)):
					t.Errorf("the warnings are %q, want one with %q", res.Warnings, tt.want)
				}
			})
		})
	}
}

// Whoever interrupts a run does not wait for a long thought to end.
func TestThinkInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, scenarios.Default, 1000)
		cfg.Load = tps.Config{Transactions: 40, Concurrency: 4}
		cfg.Think = time.Hour
		inMemory(&cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		res := run(t, ctx, cfg)
		wantProof(t, res)
		if took := time.Since(began); !res.Interrupted || took > time.Minute {
			t.Errorf("it took %v, interrupted %v", took, res.Interrupted)
		}
	})
}

// Thinking holds the writer: transactions that think come one after the other.
func TestThink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, scenarios.Default, 1000)
		cfg.Load = tps.Config{Transactions: 40, Runs: 1}
		cfg.Think = 3 * time.Millisecond
		inMemory(&cfg).CommitTime = time.Millisecond
		res := run(t, t.Context(), cfg)
		wantProof(t, res)
		if res.Elapsed != 160*time.Millisecond || res.Stages.Execute.Max != 3*time.Millisecond || math.Abs(res.Load.ThinkBound-1000.0/3) > 1e-9 {
			t.Errorf("40 transactions took %v, one at most %v; bound %v", res.Elapsed, res.Stages.Execute.Max, res.Load.ThinkBound)
		}
	})
}

// The same seed gives the same run; another one another.
func TestSeed(t *testing.T) {
	runs := map[string]string{}
	for _, seed := range []uint64{1, 1, 2} {
		cfg := config(t, scenarios.Default, 1000)
		cfg.Load = tps.Config{Transactions: 500, Runs: 1}
		cfg.RandomSeed, cfg.FailRate = seed, 0.1
		m := inMemory(&cfg)
		res := run(t, t.Context(), cfg)
		wantProof(t, res)
		ids, balances := make([]int64, 1000), make([]int64, 1000)
		for i := range ids {
			ids[i] = int64(i + 1)
		}
		if err := m.Balances(t.Context(), ids, balances, nil); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(balances, res.Runs[0].Failed, res.Runs[1].Failed, res.Locality)
		key := fmt.Sprint(seed)
		if before, again := runs[key]; again && got != before {
			t.Errorf("seed %d gave two different runs", seed)
		}
		runs[key] = got
	}
	if runs["1"] == runs["2"] {
		t.Error("two seeds gave the same run")
	}
}

// Errors of the engine around the load end the run, and the engine is closed.
func TestEngineErrors(t *testing.T) {
	broken := errors.New("it is broken")
	for _, where := range []string{"open", "before", "reset", "settle", "foreign", "after", "close"} {
		t.Run(where, func(t *testing.T) {
			cfg := config(t, scenarios.Default, 1000)
			cfg.Load = tps.Config{Transactions: 10, Runs: 1}
			m := enginetest.NewMemory(cfg.Spec)
			e := &faulty{Memory: m, where: where, err: broken}
			onEngine(&cfg, m, e)
			if where == "open" {
				cfg.Open = func(context.Context, engine.Needs) (engine.Engine, error) { return nil, broken }
			}
			res, err := scenarios.Run(t.Context(), cfg)
			switch {
			case where == "after": // what was measured stands, but unproved
				if err != nil || res.Acknowledged != 10 || res.Verify.OK || !res.Verify.Checked || !strings.Contains(res.Verify.Detail, "it is broken") {
					t.Errorf("Run: %+v, %v", res, err)
				}
			case !errors.Is(err, broken):
				t.Errorf("Run: %v", err)
			}
			if want := map[bool]int{true: 0, false: 1}[where == "open"]; e.closed != want {
				t.Errorf("closed %d times, want %d", e.closed, want)
			}
		})
	}
}

// faulty fails in one place.
type faulty struct {
	*enginetest.Memory
	where         string
	err           error
	reads, closed int
}

func (f *faulty) at(where string, err error) error {
	if f.where == where {
		return f.err
	}
	return err
}
func (f *faulty) Balances(ctx context.Context, ids, balances []int64, progress func(int)) error {
	f.reads++
	return f.at(map[int]string{1: "before", 2: "after"}[f.reads], f.Memory.Balances(ctx, ids, balances, progress))
}
func (f *faulty) Reset(ctx context.Context) error  { return f.at("reset", f.Memory.Reset(ctx)) }
func (f *faulty) Settle(ctx context.Context) error { return f.at("settle", f.Memory.Settle(ctx)) }
func (f *faulty) ForeignWrites(ctx context.Context) (bool, error) {
	foreign, err := f.Memory.ForeignWrites(ctx)
	return foreign, f.at("foreign", err)
}
func (f *faulty) Close() error {
	f.closed++
	return f.at("close", f.Memory.Close())
}
