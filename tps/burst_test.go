package tps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// numbers collects the numbers that an Op was given.
type numbers struct {
	mu   sync.Mutex
	seen []uint64
}

func (s *numbers) add(i uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, i)
}

// checkDense checks that the numbers are 0 to n-1, each once.
func (s *numbers) checkDense(t *testing.T, n int) {
	t.Helper()
	slices.Sort(s.seen)
	if len(s.seen) != n {
		t.Fatalf("%d transactions ran, want %d", len(s.seen), n)
	}
	for k, i := range s.seen {
		if i != uint64(k) {
			t.Fatalf("number %d at place %d: not dense", i, k)
		}
	}
}

func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		var nums numbers
		var hooks []string
		note := func(name string) func(context.Context, int, bool) error {
			return func(_ context.Context, run int, cold bool) error {
				time.Sleep(time.Minute) // not timed
				hooks = append(hooks, fmt.Sprintf("%s %d %v", name, run, cold))
				return nil
			}
		}
		res := mustRun(t, t.Context(), Config{
			Transactions: n,
			Op: func(_ context.Context, i uint64, tr *Trace) error {
				nums.add(i)
				time.Sleep(time.Duration(i%n+1) * time.Millisecond)
				return nil
			},
			BeforeRun: note("before"), AfterRun: note("after"),
			Settle: func(context.Context) error {
				time.Sleep(500 * time.Millisecond)
				hooks = append(hooks, "settle")
				return nil
			},
		})
		nums.checkDense(t, 6*n)
		if res.Acknowledged != n || res.Elapsed != 500*time.Millisecond || res.TPS != 1000 || res.TPSSettled != 500 {
			t.Errorf("acknowledged %d in %v, tps %v, settled %v", res.Acknowledged, res.Elapsed, res.TPS, res.TPSSettled)
		}
		if l := res.Latency; l.Max != res.Elapsed || !near(l.P50, 250*time.Millisecond) || l.Mean != 250500*time.Microsecond {
			t.Errorf("latency %+v", l)
		}
		if len(res.Runs) != 6 || !res.Runs[0].Cold || res.Runs[1].Cold || res.MedianRun == 0 {
			t.Errorf("runs %+v, median %d", res.Runs, res.MedianRun)
		}
		want := []string{"before 0 true", "settle", "after 0 true", "before 1 false", "settle", "after 1 false"}
		if len(hooks) != 18 || !slices.Equal(hooks[:6], want) {
			t.Errorf("hooks %v", hooks)
		}
		if res.Load.Mode != Burst || res.Load.Transactions != n || res.Load.Concurrency != 0 || res.Interrupted {
			t.Errorf("load %+v, interrupted %v", res.Load, res.Interrupted)
		}
	})
}

// All of a burst is intended at its start: who starts late has lag.
func TestBurstIntendedAtStart(t *testing.T) {
	var clock atomic.Int64 // every look at the clock takes 1 ns
	res := mustRun(t, t.Context(), Config{
		Transactions: 100, Runs: 1,
		Now: func() int64 { return clock.Add(1) },
		Op:  func(context.Context, uint64, *Trace) error { return nil },
	})
	if res.Stages.Lag.Max < 100 || res.Latency.Max <= res.Service.Max || res.Latency.Max != res.Elapsed {
		t.Errorf("lag %+v, latency max %d, service max %d, elapsed %d", res.Stages.Lag, res.Latency.Max, res.Service.Max, res.Elapsed)
	}
	if res.Spawn <= 0 || res.Spawn > res.Elapsed {
		t.Errorf("spawn took %d of %d", res.Spawn, res.Elapsed)
	}
}

func TestBurstRuns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		runs  int
		takes time.Duration
		want  int
	}{
		{"short, default", 0, RepeatBelow - 1, 1 + DefaultRuns},
		{"long, default", 0, RepeatBelow, 1},
		{"short, asked", 2, 1, 3},
		{"long, asked", 2, RepeatBelow, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res := mustRun(t, t.Context(), Config{
					Transactions: 3, Runs: tt.runs,
					Op: func(context.Context, uint64, *Trace) error { time.Sleep(tt.takes); return nil },
				})
				if len(res.Runs) != tt.want || !res.Runs[0].Cold {
					t.Errorf("runs %+v, want %d", res.Runs, tt.want)
				}
				if (res.MedianRun == 0) != (tt.want == 1) {
					t.Errorf("run %d of %d is shown", res.MedianRun, len(res.Runs))
				}
			})
		})
	}
}

// The median run's figures are shown, all of them, with the span of the rest;
// the cold run is in neither.
func TestBurstMedian(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := []time.Duration{900, 500, 100, 300, 200, 400}
		var current time.Duration
		now := NewClock()
		res := mustRun(t, t.Context(), Config{
			Transactions: 30, Now: now,
			BeforeRun: func(_ context.Context, run int, _ bool) error {
				current = takes[run] * time.Millisecond
				return nil
			},
			Op: func(_ context.Context, _ uint64, tr *Trace) error {
				tr.Accepted, tr.Begun, tr.Started = now(), now(), now()
				time.Sleep(current)
				tr.Ended, tr.Committing, tr.Committed = now(), now(), now()
				return nil
			},
		})
		if res.MedianRun != 3 || res.TPS != 100 || res.TPSLow != 60 || res.TPSHigh != 300 {
			t.Errorf("median run %d, tps %v (%v to %v)", res.MedianRun, res.TPS, res.TPSLow, res.TPSHigh)
		}
		if res.Stages.Execute.Mean != 300*time.Millisecond || res.Latency.Max != 300*time.Millisecond {
			t.Errorf("execute %v, latency %v", res.Stages.Execute.Mean, res.Latency.Max)
		}
	})
}

func TestPick(t *testing.T) {
	cold, cut := Round{TPS: 50, Cold: true}, Round{TPS: 70, Interrupted: true}
	run := func(tps float64) Round { return Round{TPS: tps} }
	for _, tt := range []struct {
		name    string
		runs    []Round
		shown   int
		counted []int
	}{
		{"only cold", []Round{cold}, 0, []int{0}},
		{"one", []Round{cold, run(9)}, 1, []int{1}},
		{"even: the slower middle", []Round{cold, run(4), run(1), run(3), run(2)}, 4, []int{2, 4, 3, 1}},
		{"interrupted does not count", []Round{cold, run(4), cut}, 1, []int{1}},
		{"whole cold before a cut run", []Round{cold, cut}, 0, []int{0}},
		{"all cut: the furthest", []Round{{Cold: true, Interrupted: true, Acknowledged: 3}, {Interrupted: true, Acknowledged: 5}}, 1, []int{1}},
	} {
		if shown, counted := pick(tt.runs); shown != tt.shown || !slices.Equal(counted, tt.counted) {
			t.Errorf("%s: shown %d of %v, want %d of %v", tt.name, shown, counted, tt.shown, tt.counted)
		}
	}
}

func TestFailureClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		funds := errors.New("funds are short")
		cfg := Config{
			Transactions: 100, Runs: 1,
			Op: func(_ context.Context, i uint64, tr *Trace) error {
				tr.Read(int64(time.Millisecond))
				switch i % 10 {
				case 0:
					return fmt.Errorf("transfer %d: %w", i, funds)
				case 1:
					tr.Retry(tr.Called)
					tr.Retry(tr.Called)
					tr.Read(int64(time.Millisecond))
					return errFake
				}
				time.Sleep(time.Second)
				return nil
			},
		}
		res := mustRun(t, t.Context(), cfg)
		if res.Acknowledged != 80 || res.Failed != 20 || res.Errors["error"] != 20 || res.TPS != 80 {
			t.Errorf("acknowledged %d, failed %d, errors %v, tps %v", res.Acknowledged, res.Failed, res.Errors, res.TPS)
		}
		if res.Latency.P50 < 900*time.Millisecond {
			t.Errorf("failures flatter the latency: %+v", res.Latency)
		}
		if res.Retries != 20 || res.Reads.Acknowledged != 110 || res.Reads.TPS != 110 || res.Reads.Latency.Max != time.Millisecond {
			t.Errorf("retries %d, reads %+v", res.Retries, res.Reads)
		}
		cfg.Classify = func(err error) string {
			if errors.Is(err, funds) {
				return "funds"
			}
			return "other"
		}
		res = mustRun(t, t.Context(), cfg)
		if res.Errors["funds"] != 10 || res.Errors["other"] != 10 || len(res.Errors) != 2 {
			t.Errorf("errors %v", res.Errors)
		}
	})
}

func TestFailuresOfOtherRunsAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := mustRun(t, t.Context(), Config{
			Transactions: 10, Runs: 3,
			Op: func(_ context.Context, i uint64, _ *Trace) error {
				time.Sleep(time.Minute)
				if i == 3 { // of the cold run
					return errFake
				}
				return nil
			},
		})
		if res.Failed != 0 || res.Runs[0].Failed != 1 || !hasWarning(res, "1 transactions failed in runs other") {
			t.Errorf("failed %d, runs %+v, warnings %q", res.Failed, res.Runs, res.Warnings)
		}
	})
}

func hasWarning(res *Result, part string) bool {
	return slices.ContainsFunc(res.Warnings, func(w string) bool { return strings.Contains(w, part) })
}

func TestAllFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := mustRun(t, t.Context(), Config{
			Transactions: 10, Runs: 1,
			Op: func(context.Context, uint64, *Trace) error { return errFake },
		})
		if res.TPS != 0 || res.Failed != 10 || res.Latency != (Latency{}) || res.Interrupted {
			t.Errorf("%+v", res)
		}
	})
}

// Cancelled in the second run: those that were done count, those in flight fail
// as cancelled, and the whole cold run is what is shown.
func TestBurstCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		afterRun := 0
		cfg := Config{
			Transactions: 100,
			Op: func(ctx context.Context, i uint64, _ *Trace) error {
				if i == 150 {
					cancel()
				}
				if i >= 150 {
					<-ctx.Done()
					return fmt.Errorf("transfer: %w", ctx.Err())
				}
				time.Sleep(time.Second)
				return nil
			},
			AfterRun: func(ctx context.Context, _ int, _ bool) error { afterRun++; return ctx.Err() },
			Settle:   func(ctx context.Context) error { return ctx.Err() },
		}
		res := mustRun(t, ctx, cfg)
		if !res.Interrupted || len(res.Runs) != 2 || afterRun != 2 {
			t.Fatalf("interrupted %v, runs %+v, %d AfterRun", res.Interrupted, res.Runs, afterRun)
		}
		if res.MedianRun != 0 || res.Acknowledged != 100 {
			t.Errorf("run %d is shown with %d", res.MedianRun, res.Acknowledged)
		}
		if r := res.Runs[1]; !r.Interrupted || r.Failed == 0 || r.Acknowledged+r.Failed > 100 {
			t.Errorf("cut run %+v", r)
		}
	})
}

// Cancelled in the cold run: what was measured is kept.
func TestColdBurstCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond+1)
		defer cancel()
		res := mustRun(t, ctx, Config{
			Transactions: 100,
			Op: func(ctx context.Context, i uint64, _ *Trace) error {
				select {
				case <-time.After(time.Duration(i+1) * time.Millisecond):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			},
		})
		if !res.Interrupted || len(res.Runs) != 1 || res.Acknowledged != 50 || res.Failed != 50 || res.Errors[ClassCancelled] != 50 {
			t.Errorf("interrupted %v, runs %+v, errors %v", res.Interrupted, res.Runs, res.Errors)
		}
	})
}

func TestCancelledBeforeItBegan(t *testing.T) {
	ran := func(context.Context, uint64, *Trace) error { t.Error("ran"); return nil }
	for name, cfg := range map[string]Config{
		"burst":  {Op: ran, Transactions: 10},
		"closed": {Op: ran, Duration: time.Second, Warmup: time.Second},
		"open":   {Op: ran, Duration: time.Second, Rate: 100},
		"direct": {BatchOp: func(context.Context, uint64, []error) error { t.Error("ran"); return nil }, BatchSize: 3, Duration: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if res := mustRun(t, ctx, cfg); !res.Interrupted || len(res.Runs) != 0 || res.Load.Mode != Mode(name) {
				t.Errorf("interrupted %v, runs %v, load %+v", res.Interrupted, res.Runs, res.Load)
			}
			ctx, cancel = context.WithCancel(t.Context())
			defer cancel()
			cfg.Warmup = 0
			cfg.BeforeRun = func(ctx context.Context, _ int, _ bool) error { cancel(); return ctx.Err() }
			if res := mustRun(t, ctx, cfg); !res.Interrupted || len(res.Runs) != 0 {
				t.Errorf("cancelled by a hook: interrupted %v, runs %v", res.Interrupted, res.Runs)
			}
		})
	}
}

func TestHookErrors(t *testing.T) {
	hook := func(context.Context, int, bool) error { return errFake }
	for want, cfg := range map[string]Config{
		"tps: before run 0: fake failure":       {BeforeRun: hook},
		"tps: after run 0: fake failure":        {AfterRun: hook},
		"tps: settle after run 0: fake failure": {Settle: func(context.Context) error { return errFake }},
	} {
		cfg.Op = func(context.Context, uint64, *Trace) error { return nil }
		for _, cfg.Concurrency = range []int{0, 1} {
			cfg.Transactions = 2
			if _, err := Run(t.Context(), cfg); !errors.Is(err, errFake) || err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
		}
	}
}

// Many goroutines in real time: run it under -race.
func TestBurstManyGoroutines(t *testing.T) {
	const n = 5000
	var ran atomic.Int64
	gate := make(chan struct{}, 1)
	now := NewClock()
	meter := new(Meter)
	res := mustRun(t, t.Context(), Config{
		Transactions: n, Runs: 2, Now: now, Meter: meter,
		Op: func(_ context.Context, i uint64, tr *Trace) error {
			tr.Accepted = now()
			gate <- struct{}{}
			tr.Begun, tr.Started = now(), now()
			ran.Add(1)
			tr.Ended, tr.Committing, tr.Committed = now(), now(), now()
			<-gate
			if i%100 == 0 {
				return errFake
			}
			return nil
		},
	})
	if ran.Load() != 3*n || res.Acknowledged != n-n/100 || res.Failed != n/100 {
		t.Errorf("ran %d, acknowledged %d, failed %d", ran.Load(), res.Acknowledged, res.Failed)
	}
	if p := meter.Snapshot(); p.Phase != Preparing || p.Run != 2 || p.Acknowledged != n-n/100 || p.Failed != n/100 {
		t.Errorf("meter %+v", p)
	}
}

// The memory of a waiting transaction is that of its goroutine and what it holds.
func TestBytesPerWaiting(t *testing.T) {
	const n, holds = 2000, 10_000
	var waiting sync.WaitGroup
	waiting.Add(n)
	held := make([][]byte, n) // on the heap, where the compiler cannot drop it
	res := mustRun(t, t.Context(), Config{
		Transactions: n, Runs: 1,
		Op: func(_ context.Context, i uint64, _ *Trace) error {
			if i < n { // the cold run
				held[i] = make([]byte, holds)
				waiting.Done()
				waiting.Wait() // until all wait
				time.Sleep(2 * memorySampleEvery)
			}
			return nil
		},
	})
	if got := res.BytesPerWaiting; got < holds/2 || got > 4*holds {
		t.Errorf("%d bytes for each, which holds %d", got, holds)
	}
}

func TestMemoryPeak(t *testing.T) {
	p := memoryPeak{before: heapAndStacks(), waiting: memoryMinWaiting, bytes: 4096 * memoryMinWaiting}
	if got := p.perWaiting(); got != 4096 {
		t.Errorf("got %d", got)
	}
	p.observe(memoryMinWaiting-1, 0)
	p.observe(10*memoryMinWaiting, memoryMinWaiting+1)
	if p.waiting != memoryMinWaiting || p.bytes != 4096*memoryMinWaiting {
		t.Error("a smaller crowd, or one beside many that are done, replaced the larger one")
	}
	p.observe(10*memoryMinWaiting, memoryMinWaiting)
	if p.waiting != 10*memoryMinWaiting || p.bytes >= 4096*memoryMinWaiting {
		t.Errorf("a larger crowd was not taken: %+v", p.bytes)
	}
	p = memoryPeak{before: p.before, waiting: memoryMinWaiting}
	p.waiting--
	if got := p.perWaiting(); got != 0 {
		t.Errorf("%d of a crowd too small", got)
	}
}

// A hook that fails in a later round does not take away what was measured.
func TestBurstRoundsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("the disk is full")
		res, err := Run(t.Context(), Config{
			Transactions: 10,
			Op:           func(context.Context, uint64, *Trace) error { time.Sleep(time.Millisecond); return nil },
			BeforeRun: func(_ context.Context, run int, _ bool) error {
				if run == 3 {
					return full
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Runs) != 3 || res.Acknowledged != 10 {
			t.Errorf("%d runs, %d acknowledged", len(res.Runs), res.Acknowledged)
		}
		if want := "only 3 of 6 rounds were run: tps: before run 3: the disk is full"; !slices.Contains(res.Warnings, want) {
			t.Errorf("warnings %q", res.Warnings)
		}
	})
}
