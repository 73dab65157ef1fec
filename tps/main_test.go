package tps

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errFake = errors.New("fake failure")

// mustRun runs cfg and checks what holds for every Result.
func mustRun(t *testing.T, ctx context.Context, cfg Config) *Result {
	t.Helper()
	res, err := Run(ctx, cfg)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	checkResult(t, res)
	return res
}

// checkResult checks the sums that hold in every Result.
func checkResult(t *testing.T, res *Result) {
	t.Helper()
	if res.Latency.Count != res.Acknowledged || res.Service.Count != res.Acknowledged {
		t.Errorf("latency holds %d, service %d of %d acknowledged", res.Latency.Count, res.Service.Count, res.Acknowledged)
	}
	var failed int64
	for _, n := range res.Errors {
		failed += n
	}
	if failed != res.Failed {
		t.Errorf("errors by class add up to %d, failed is %d", failed, res.Failed)
	}
	checkMeans(t, res)
	if res.TPSLow > res.TPS || res.TPS > res.TPSHigh {
		t.Errorf("tps %v is outside %v to %v", res.TPS, res.TPSLow, res.TPSHigh)
	}
	if res.TPSSettled > res.TPS {
		t.Errorf("tps settled %v exceeds tps %v", res.TPSSettled, res.TPS)
	}
	for _, list := range []bool{res.Argv == nil, res.Runs == nil, res.Errors == nil, res.Series == nil, res.Warnings == nil} {
		if list {
			t.Error("a list is nil")
		}
	}
}

// checkMeans checks that the stages add up to the latency. Each mean is cut to
// whole nanoseconds, so they may lose one each.
func checkMeans(t *testing.T, res *Result) {
	t.Helper()
	s := res.Stages
	sum := s.Lag.Mean + s.Queue.Mean + s.Turn.Mean + s.Execute.Mean + s.Hold.Mean + s.Commit.Mean + s.Wake.Mean
	if s.Reads != nil {
		sum += s.Reads.Mean
	}
	if diff := res.Latency.Mean - sum; diff < 0 || diff >= stageCount {
		t.Errorf("stage means add up to %v, the latency's mean is %v", sum, res.Latency.Mean)
	}
}

// near tells whether got is want within the three digits of a histogram.
func near(got, want time.Duration) bool {
	diff := max(got-want, want-got)
	return float64(diff) <= 0.001*float64(want)
}
