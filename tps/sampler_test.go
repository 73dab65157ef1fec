package tps

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// quick is an Op that takes 10 ms.
func quick(context.Context, uint64, *Trace) error { time.Sleep(10 * time.Millisecond); return nil }

// The samples of a load add up to it, whatever the load is.
func TestSeriesAddsUp(t *testing.T) {
	slow := func(_ context.Context, i uint64, _ *Trace) error {
		time.Sleep(time.Duration(i%4000) * time.Millisecond)
		if i%10 == 3 {
			return errFake
		}
		return nil
	}
	for name, cfg := range map[string]Config{
		"burst":  {Transactions: 4000, Runs: 1, Op: slow},
		"closed": {Duration: 3500 * time.Millisecond, Concurrency: 7, Op: slow, Warmup: 2500 * time.Millisecond},
		"open":   {Duration: 3500 * time.Millisecond, Rate: 77, MaxInFlight: 40, Op: slow},
		"direct": {Duration: 3500 * time.Millisecond, BatchSize: 8, BatchOp: func(context.Context, uint64, []error) error {
			time.Sleep(30 * time.Millisecond)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []Sample
				cfg.OnSample = func(s *Sample) {
					s.Queued = int64(len(seen))
					seen = append(seen, *s)
				}
				res := mustRun(t, t.Context(), cfg)
				var sum Sample
				for k, s := range res.Series {
					sum.Interval += s.Interval
					sum.Acknowledged += s.Acknowledged
					sum.Failed += s.Failed
					sum.Dropped += s.Dropped
					sum.Max = max(sum.Max, s.Max)
					if s.At != sum.Interval || s.Interval > time.Second || k < len(res.Series)-1 && s.Interval != time.Second {
						t.Errorf("sample %d: %+v", k, s)
					}
					if s.Acknowledged > 0 && (s.P50 == 0 && s.Max > 0 || s.P99 > s.Max || s.P50 > s.P99) {
						t.Errorf("sample %d: latencies %+v", k, s)
					}
				}
				if len(res.Series) < 4 || sum.Acknowledged != res.Acknowledged || sum.Failed != res.Failed || sum.Dropped != res.Dropped ||
					sum.Interval != res.Elapsed || sum.Max != res.Latency.Max {
					t.Errorf("%d samples add up to %+v; acknowledged %d, failed %d, dropped %d in %v, max %v", len(res.Series), sum,
						res.Acknowledged, res.Failed, res.Dropped, res.Elapsed, res.Latency.Max)
				}
				if last := len(res.Series) - 1; res.Series[last].Queued == 0 || res.Series[last].InFlight != 0 || len(res.Runs) == 1 && len(seen) != len(res.Series) {
					t.Errorf("what OnSample filled in is missing: %+v", res.Series[last])
				}
			})
		})
	}
}

// Steady leaves out the first interval and a last one that is shorter.
func TestSteady(t *testing.T) {
	second := func(tps float64) Sample { return Sample{Interval: time.Second, TPS: tps} }
	short := Sample{Interval: time.Second / 2, TPS: 1}
	for _, tt := range []struct {
		name   string
		series []Sample
		want   Steady
	}{
		{"a drain behind the load", []Sample{second(5), second(7), {At: 9 * time.Second, Interval: time.Second, TPS: 1}}, Steady{1, 7, 0}},
		{"none", nil, Steady{}},
		{"one", []Sample{second(5)}, Steady{}},
		{"two, the last short", []Sample{second(5), short}, Steady{}},
		{"one steady second", []Sample{second(5), second(7), short}, Steady{1, 7, 0}},
		{"three", []Sample{second(5), second(7), second(9), second(11)}, Steady{3, 9, 2}},
		{"three and a short one", []Sample{second(5), second(7), second(9), second(11), short}, Steady{3, 9, 2}},
	} {
		if got := steady(tt.series, time.Second, 5*time.Second); got.Samples != tt.want.Samples || got.Mean != tt.want.Mean || math.Abs(got.StdDev-tt.want.StdDev) > 1e-12 {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// Interim sees what was measured and ends any load; that is no interruption.
func TestInterim(t *testing.T) {
	for name, cfg := range map[string]Config{
		"closed": {Duration: time.Hour, Concurrency: 5, Op: quick},
		"open":   {Duration: time.Hour, Rate: 500, Op: quick},
		"rare":   {Duration: time.Hour, Rate: 0.01, Op: quick},
		"direct": {Duration: time.Hour, BatchSize: 5, BatchOp: func(context.Context, uint64, []error) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last *Result
				cfg.Interim = func(res *Result) string {
					last = res
					if len(res.Series) == 3 {
						return "enough"
					}
					return ""
				}
				res := mustRun(t, t.Context(), cfg)
				if res.Stopped != "enough" || res.Interrupted || res.Elapsed < 3*time.Second || res.Elapsed > 3*time.Second+20*time.Millisecond {
					t.Errorf("stopped %q, interrupted %v, after %v", res.Stopped, res.Interrupted, res.Elapsed)
				}
				if name != "rare" && (last.TPS < 450 || last.Acknowledged < 1350 || last.Latency.P99 != 10*time.Millisecond || last.Load.Mode != res.Load.Mode) {
					t.Errorf("the interim result: %v TPS, %d acknowledged, latency %+v, load %+v", last.TPS, last.Acknowledged, last.Latency, last.Load)
				}
				if res.Acknowledged < last.Acknowledged || res.Failed != 0 {
					t.Errorf("acknowledged %d, %d of them before; %d failed", res.Acknowledged, last.Acknowledged, res.Failed)
				}
			})
		})
	}
}

// A burst that is under way drains; no round follows it.
func TestInterimOfBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := mustRun(t, t.Context(), Config{
			Transactions: 300, Runs: 4, SampleEvery: 100 * time.Millisecond,
			Op: func(_ context.Context, i uint64, _ *Trace) error {
				time.Sleep(time.Duration(i) * time.Millisecond)
				return nil
			},
			Interim: func(res *Result) string {
				if res.Acknowledged > 100 && res.Latency.Count == 0 {
					return "enough"
				}
				return ""
			},
		})
		if res.Stopped != "enough" || res.Interrupted || res.Acknowledged != 300 || len(res.Runs) != 1 {
			t.Errorf("stopped %q, interrupted %v, acknowledged %d, runs %+v", res.Stopped, res.Interrupted, res.Acknowledged, res.Runs)
		}
	})
}

// Record is told of every transaction of the measured load, and of none before.
func TestRecord(t *testing.T) {
	fails := func(ctx context.Context, i uint64, tr *Trace) error {
		if i%5 == 0 {
			return errFake
		}
		return quick(ctx, i, tr)
	}
	for name, cfg := range map[string]Config{
		"burst":  {Transactions: 50, Runs: 1, Op: fails},
		"closed": {Transactions: 50, Concurrency: 3, Op: fails},
		"open":   {Transactions: 50, Rate: 100, Warmup: time.Second, Op: fails},
		"direct": {Transactions: 50, Runs: 1, BatchSize: 7, BatchOp: func(_ context.Context, first uint64, errs []error) error {
			time.Sleep(time.Millisecond)
			for k := range errs {
				if (first+uint64(k))%5 == 0 {
					errs[k] = errFake
				}
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				recorded := make(chan string, 1000)
				cfg.Record = func(i uint64, tr *Trace, class string) {
					if tr.Done <= tr.Called && class == "" || (i%5 == 0) != (class == "failed") {
						t.Errorf("%d: class %q, trace %+v", i, class, tr)
					}
					recorded <- class
				}
				cfg.Classify = func(err error) string {
					if !errors.Is(err, errFake) {
						return "other"
					}
					return "failed"
				}
				res := mustRun(t, t.Context(), cfg)
				want := 0
				for _, run := range res.Runs {
					want += int(run.Acknowledged + run.Failed)
				}
				if len(recorded) != want || want < 50 {
					t.Errorf("%d recorded, want %d", len(recorded), want)
				}
			})
		})
	}
}
