package tps

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// stallingServer serves one transaction at a time in 1 ms, but number `at` takes
// `stall`. The semaphore is a channel, because a goroutine that waits for a mutex
// would keep the clock of a bubble from moving.
func stallingServer(at uint64, stall time.Duration) Op {
	free := make(chan struct{}, 1)
	return func(_ context.Context, i uint64, _ *Trace) error {
		free <- struct{}{}
		defer func() { <-free }()
		if i == at {
			time.Sleep(stall)
		} else {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
}

func TestClosedLoopByCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nums numbers
		res := mustRun(t, t.Context(), Config{
			Transactions: 100, Concurrency: 8,
			Op: func(_ context.Context, i uint64, _ *Trace) error {
				nums.add(i)
				time.Sleep(time.Second)
				return nil
			},
		})
		nums.checkDense(t, 100)
		if res.Elapsed != 13*time.Second || res.Acknowledged != 100 || res.Interrupted || len(res.Runs) != 1 || res.Runs[0].Cold {
			t.Errorf("%d in %v, interrupted %v, runs %+v", res.Acknowledged, res.Elapsed, res.Interrupted, res.Runs)
		}
		if res.Latency != res.Service || res.Stages.Lag.Max != 0 || res.Stages.Execute.Max != time.Second {
			t.Errorf("latency %+v, service %+v, lag %+v", res.Latency, res.Service, res.Stages.Lag)
		}
		if res.Load.Mode != ClosedLoop || res.Load.Concurrency != 8 {
			t.Errorf("load %+v", res.Load)
		}
	})
}

func TestClosedLoopByTime(t *testing.T) {
	for _, tt := range []struct {
		name  string
		n     int64
		acked int64
		took  time.Duration
	}{
		{"time only", 0, 4 * DefaultConcurrency, 12 * time.Second}, // those begun before 10 s are awaited
		{"time first", 1000, 4 * DefaultConcurrency, 12 * time.Second},
		{"count first", 70, 70, 6 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res := mustRun(t, t.Context(), Config{
					Duration: 10 * time.Second, Transactions: tt.n,
					Op: func(context.Context, uint64, *Trace) error { time.Sleep(3 * time.Second); return nil },
				})
				if res.Acknowledged != tt.acked || res.Elapsed != tt.took || res.Interrupted {
					t.Errorf("%d in %v, interrupted %v", res.Acknowledged, res.Elapsed, res.Interrupted)
				}
			})
		})
	}
}

// A warm-up is drained before measuring begins and leaves no trace but numbers.
func TestWarmup(t *testing.T) {
	for name, cfg := range map[string]Config{
		"closed": {Transactions: 20, Concurrency: 4, Warmup: 5 * time.Second},
		"open":   {Transactions: 20, Rate: 2, Warmup: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var nums numbers
				var running atomic.Int64
				warm, measuring := 0, false
				cfg.BeforeRun = func(context.Context, int, bool) error {
					if n := running.Load(); n != 0 {
						t.Errorf("%d of the warm-up still run", n)
					}
					warm, measuring = len(nums.seen), true
					return nil
				}
				cfg.Op = func(_ context.Context, i uint64, _ *Trace) error {
					running.Add(1)
					defer running.Add(-1)
					nums.add(i)
					if !measuring {
						time.Sleep(3 * time.Second)
						return errFake
					}
					time.Sleep(time.Second)
					return nil
				}
				res := mustRun(t, t.Context(), cfg)
				if want := map[string]int{"closed": 8, "open": 10}[name]; warm != want {
					t.Errorf("%d in the warm-up, want %d", warm, want)
				}
				nums.checkDense(t, warm+20)
				if res.Acknowledged != 20 || res.Failed != 0 || res.Latency.Max != time.Second {
					t.Errorf("acknowledged %d, failed %d, latency %+v", res.Acknowledged, res.Failed, res.Latency)
				}
			})
		})
	}
}

func TestWarmupCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		res := mustRun(t, ctx, Config{
			Duration: time.Minute, Concurrency: 2, Warmup: time.Minute,
			Op:        func(context.Context, uint64, *Trace) error { time.Sleep(time.Second); return nil },
			BeforeRun: func(context.Context, int, bool) error { t.Error("measured"); return nil },
		})
		if !res.Interrupted || res.Acknowledged != 0 || len(res.Runs) != 0 {
			t.Errorf("interrupted %v, acknowledged %d", res.Interrupted, res.Acknowledged)
		}
	})
}

func TestClosedLoopCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+1)
		defer cancel()
		res := mustRun(t, ctx, Config{
			Duration: time.Minute, Concurrency: 2,
			Op: func(context.Context, uint64, *Trace) error { time.Sleep(time.Second); return nil },
		})
		// The eleventh of each client is in flight when ctx ends, and is awaited.
		if !res.Interrupted || res.Acknowledged != 22 || res.Elapsed != 11*time.Second || res.TPS != 2 {
			t.Errorf("interrupted %v, %d in %v", res.Interrupted, res.Acknowledged, res.Elapsed)
		}
	})
}

// Coordinated omission: a stall of 2 s delays 200 arrivals at a rate, and that
// shows; in a closed loop the same stall is one slow transaction.
func TestCoordinatedOmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := mustRun(t, t.Context(), Config{Transactions: 1000, Rate: 100, Op: stallingServer(300, 2*time.Second)})
		if open.Latency.P90 < 900*time.Millisecond || open.Latency.P50 > 2*time.Millisecond || !near(open.Latency.Max, 2*time.Second) {
			t.Errorf("open: %+v", open.Latency)
		}
		closed := mustRun(t, t.Context(), Config{Transactions: 1000, Concurrency: 1, Op: stallingServer(300, 2*time.Second)})
		if !near(closed.Latency.P99, time.Millisecond) || closed.Latency.Max != 2*time.Second {
			t.Errorf("closed: %+v", closed.Latency)
		}
	})
}

func TestOpenLoop(t *testing.T) {
	for _, tt := range []struct {
		name    string
		n       int64
		d       time.Duration
		rate    float64
		arrived int64
		took    time.Duration
	}{
		{"by count", 50, 0, 100, 50, 500 * time.Millisecond}, // 49 intervals and 10 ms for the last
		{"by time", 0, 2 * time.Second, 100, 200, 2 * time.Second},
		{"count first", 50, time.Hour, 100, 50, 500 * time.Millisecond},
		{"time first", 50, 100 * time.Millisecond, 100, 10, 100 * time.Millisecond},
		{"lasts its time", 0, 3 * time.Second, 0.5, 2, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var nums numbers
				res := mustRun(t, t.Context(), Config{
					Transactions: tt.n, Duration: tt.d, Rate: tt.rate,
					Op: func(_ context.Context, i uint64, _ *Trace) error {
						nums.add(i)
						time.Sleep(10 * time.Millisecond)
						return nil
					},
				})
				nums.checkDense(t, int(tt.arrived))
				if res.Acknowledged != tt.arrived || res.Elapsed != tt.took || res.Interrupted || res.Dropped != 0 {
					t.Errorf("%d in %v, interrupted %v, dropped %d", res.Acknowledged, res.Elapsed, res.Interrupted, res.Dropped)
				}
				if res.Latency.Max != 10*time.Millisecond || res.Schedule.GeneratorBound {
					t.Errorf("latency %+v, warnings %q", res.Latency, res.Warnings)
				}
				if res.Load.Mode != OpenLoop || res.Load.Arrival != "constant" || res.Load.Rate != tt.rate {
					t.Errorf("load %+v", res.Load)
				}
			})
		})
	}
}

func TestOpenLoopDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nums numbers
		meter := new(Meter)
		res := mustRun(t, t.Context(), Config{
			Duration: time.Second, Rate: 100, MaxInFlight: 10, Meter: meter,
			Op: func(_ context.Context, i uint64, _ *Trace) error {
				nums.add(i)
				time.Sleep(time.Hour)
				return nil
			},
		})
		nums.checkDense(t, 10)
		if res.Acknowledged != 10 || res.Dropped != 90 || meter.Snapshot().Dropped != 90 {
			t.Errorf("acknowledged %d, dropped %d, warnings %q", res.Acknowledged, res.Dropped, res.Warnings)
		}
	})
}

// Arrivals that the generator emits late count from when they were due.
func TestOpenLoopLateGenerator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := mustRun(t, t.Context(), Config{
			Transactions: 100, Rate: 100, LatencyLimit: 50 * time.Millisecond,
			Sleep: func(_ context.Context, d time.Duration) { time.Sleep(d + 45*time.Millisecond) },
			Op:    func(context.Context, uint64, *Trace) error { return nil },
		})
		if res.Latency.Max != 45*time.Millisecond || res.Service.Max != 0 || res.Stages.Lag.Max != res.Latency.Max {
			t.Errorf("latency %+v, service %+v", res.Latency, res.Service)
		}
		if res.Late != 0 || res.Skipped != 0 || !res.Schedule.GeneratorBound || res.Schedule.LateP99 != 45*time.Millisecond {
			t.Errorf("%d late, %d skipped, %+v", res.Late, res.Skipped, res.Schedule)
		}
		if !res.Schedule.GeneratorBound {
			t.Errorf("warnings %q", res.Warnings)
		}
	})
}

// What is too late before it starts is skipped, by the generator and by an Op
// alike, and is neither acknowledged nor failed nor late.
func TestOpenLoopSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		outcomes := map[string]int{}
		meter := new(Meter)
		res := mustRun(t, t.Context(), Config{
			Transactions: 100, Rate: 100, LatencyLimit: 20 * time.Millisecond, Meter: meter,
			Sleep: func(_ context.Context, d time.Duration) { time.Sleep(d + 45*time.Millisecond) },
			Op: func(_ context.Context, i uint64, tr *Trace) error {
				switch i % 4 {
				case 0:
					return fmt.Errorf("transfer %d: %w", i, ErrSkipped)
				case 1:
					time.Sleep(30 * time.Millisecond)
				}
				return nil
			},
			Record: func(_ uint64, _ *Trace, class string) {
				mu.Lock()
				defer mu.Unlock()
				outcomes[class]++
			},
		})
		// Each pause lets one arrival be 45 ms late and the next four 35, 25, 15, 5;
		// the first arrival of all is on time. So 60 are late for more than 20 ms, and
		// of the 41 others every fourth is skipped in its turn and every fourth late.
		if res.Skipped != 60+11 && res.Skipped != 59+11 || res.Acknowledged+res.Skipped != 100 || res.Late == 0 || res.Failed != 0 || res.Dropped != 0 {
			t.Errorf("acknowledged %d, skipped %d, late %d, failed %d, dropped %d", res.Acknowledged, res.Skipped, res.Late, res.Failed, res.Dropped)
		}
		if int64(outcomes[""]) != res.Acknowledged || outcomes[ClassSkipped] == 0 || len(outcomes) != 2 || meter.Snapshot().Skipped != res.Skipped {
			t.Errorf("recorded %v, metered %+v", outcomes, meter.Snapshot())
		}
		if res.Schedule.Arrivals != 100 {
			t.Errorf("%+v", res.Schedule)
		}
	})
}

// A rate that changes, arrivals in bursts, and what an open loop says of itself.
func TestOpenLoopStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stages := []Stage{{Duration: time.Second, From: 100, To: 100}, {Duration: time.Second, From: 100, To: 300}}
		res := mustRun(t, t.Context(), Config{
			Stages: stages, BurstSize: 10, Warmup: time.Second,
			Op: func(context.Context, uint64, *Trace) error { time.Sleep(500 * time.Millisecond); return nil },
		})
		if res.Acknowledged != 300 || res.Elapsed < 2*time.Second || res.Load.BurstSize != 10 || !slices.Equal(res.Load.Stages, stages) {
			t.Errorf("acknowledged %d in %v, load %+v", res.Acknowledged, res.Elapsed, res.Load)
		}
		// Bursts of ten are due every tenth of a second at first and come 0.5 s later
		// to an end; at the end there are three times as many.
		k := res.Schedule
		if k.Arrivals != 300 || k.Length != 2*time.Second || k.Backlog < 120 || k.Backlog > 140 || k.BacklogMax < k.Backlog || k.BacklogMax > 150 || k.GeneratorBound {
			t.Errorf("%+v", k)
		}
	})
}

// A rate that cannot be reached ends, and says what was never started.
func TestOpenLoopGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := mustRun(t, t.Context(), Config{
			Duration: time.Second, Rate: 100,
			Sleep: func(context.Context, time.Duration) { time.Sleep(3 * time.Second) },
			Op:    func(context.Context, uint64, *Trace) error { return nil },
		})
		if res.Acknowledged != 1 || res.Dropped != 99 || res.Interrupted || !res.Schedule.GeneratorBound {
			t.Errorf("acknowledged %d, dropped %d, interrupted %v, warnings %q", res.Acknowledged, res.Dropped, res.Interrupted, res.Warnings)
		}
	})
}

func TestOpenLoopCancelled(t *testing.T) {
	for name, tt := range map[string]struct {
		rate      float64
		want      int64
		cancelled int64
	}{
		"while emitting":           {100, 95, 6}, // the last 50 ms are in flight
		"after the last, by time":  {0.1, 1, 0},
		"in flight after the last": {100, 95, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second+1)
				defer cancel()
				cfg := Config{
					Duration: 10 * time.Second, Rate: tt.rate,
					Op: func(ctx context.Context, _ uint64, _ *Trace) error {
						select {
						case <-time.After(55 * time.Millisecond):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					},
				}
				if name == "in flight after the last" {
					cfg.Duration, cfg.Transactions = 0, 101
				}
				res := mustRun(t, ctx, cfg)
				if !res.Interrupted || res.Acknowledged != tt.want || res.Errors[ClassCancelled] != tt.cancelled || res.Dropped != 0 {
					t.Errorf("interrupted %v, acknowledged %d, errors %v, dropped %d", res.Interrupted, res.Acknowledged, res.Errors, res.Dropped)
				}
			})
		})
	}
}

func TestDirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nums numbers
		var sizes []int
		meter := new(Meter)
		res := mustRun(t, t.Context(), Config{
			Transactions: 25, BatchSize: 10, Runs: 2, Meter: meter,
			BatchOp: func(_ context.Context, first uint64, errs []error) error {
				sizes = append(sizes, len(errs))
				for k := range errs {
					if errs[k] != nil {
						t.Error("an error of the batch before")
					}
					nums.add(first + uint64(k))
				}
				time.Sleep(time.Second)
				if len(errs) == 5 {
					return errFake // all of them
				}
				errs[3] = errFake
				return nil
			},
		})
		nums.checkDense(t, 75)
		if !slices.Equal(sizes, []int{10, 10, 5, 10, 10, 5, 10, 10, 5}) {
			t.Errorf("batches %v", sizes)
		}
		if res.Acknowledged != 18 || res.Failed != 7 || res.TPS != 6 || len(res.Runs) != 2+1 {
			t.Errorf("acknowledged %d, failed %d, tps %v, runs %+v", res.Acknowledged, res.Failed, res.TPS, res.Runs)
		}
		if res.Latency.Max != time.Second || res.Stages.Execute.Mean != time.Second || res.Load.Mode != Direct {
			t.Errorf("latency %+v, load %+v", res.Latency, res.Load)
		}
		if p := meter.Snapshot(); p.Acknowledged != 18 || p.Failed != 7 {
			t.Errorf("meter %+v", p)
		}
	})
}

func TestDirectCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		res := mustRun(t, ctx, Config{
			Duration: 10 * time.Second, BatchSize: 4,
			BatchOp: func(ctx context.Context, _ uint64, errs []error) error {
				time.Sleep(time.Second)
				errs[0] = ctx.Err()
				return nil
			},
		})
		if !res.Interrupted || res.Acknowledged != 11 || res.Errors[ClassCancelled] != 1 || res.Elapsed != 3*time.Second {
			t.Errorf("interrupted %v, acknowledged %d, errors %v", res.Interrupted, res.Acknowledged, res.Errors)
		}
	})
}

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter := new(Meter)
		if p := meter.Snapshot(); p != (Progress{}) {
			t.Errorf("before: %+v", p)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			mustRun(t, t.Context(), Config{
				Transactions: 10, Concurrency: 1, Warmup: 5 * time.Second, Meter: meter,
				Op: func(_ context.Context, i uint64, _ *Trace) error {
					time.Sleep(time.Second)
					if i == 7 {
						return errFake
					}
					return nil
				},
			})
		}()
		time.Sleep(2500 * time.Millisecond)
		if p, want := meter.Snapshot(), (Progress{Phase: WarmingUp, Duration: 5 * time.Second, Elapsed: 2500 * time.Millisecond, Acknowledged: 2}); p != want {
			t.Errorf("warm-up: %+v, want %+v", p, want)
		}
		time.Sleep(7 * time.Second)
		if p, want := meter.Snapshot(), (Progress{Phase: Measuring, Transactions: 10, Elapsed: 4500 * time.Millisecond, Acknowledged: 3, Failed: 1}); p != want {
			t.Errorf("measuring: %+v, want %+v", p, want)
		}
		<-done
		if p := meter.Snapshot(); p.Phase != Preparing || p.Acknowledged != 9 || p.Failed != 1 {
			t.Errorf("after: %+v", p)
		}
	})
}
