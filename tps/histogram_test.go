package tps

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A histogram, and two merged ones, agree with the sorted values.
func TestHistogramAgainstSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	whole, left, right := newHistogram(), newHistogram(), newHistogram()
	var values []int64
	var sum int64
	for k := range 20_000 {
		d := rng.Int64N(1 << (10 + k%30))
		values = append(values, d)
		sum += d
		whole.record(d, 1)
		if k%3 == 0 {
			left.record(d, 1)
		} else {
			right.record(d, 1)
		}
	}
	slices.Sort(values)
	left.merge(right)
	got := whole.summary()
	if merged := left.summary(); merged != got {
		t.Errorf("merged %+v, want %+v", merged, got)
	}
	if got.Count != 20_000 || got.Mean != time.Duration(sum/20_000) || got.Max != time.Duration(values[len(values)-1]) {
		t.Errorf("count, mean, max = %d, %d, %d", got.Count, got.Mean, got.Max)
	}
	for _, q := range []struct {
		got   time.Duration
		share float64
	}{{got.P50, .5}, {got.P90, .9}, {got.P99, .99}, {got.P999, .999}} {
		if want := time.Duration(values[int(q.share*20_000)-1]); !near(q.got, want) {
			t.Errorf("p%v = %d, want %d", 100*q.share, q.got, want)
		}
	}
}

func TestHistogramEdges(t *testing.T) {
	h := newHistogram()
	if got := h.summary(); got != (Latency{}) {
		t.Errorf("empty: %+v", got)
	}
	h.record(-5, 1)
	h.record(0, 1)
	h.record(maxLatency, 1)
	if h.clamped != 0 {
		t.Errorf("clamped %d values inside the range", h.clamped)
	}
	h.record(maxLatency+1, 2)
	h.record(1<<62, 1)
	got := h.summary()
	if h.clamped != 3 || got.Count != 6 || got.Max != time.Hour || got.P99 != time.Hour {
		t.Errorf("clamped %d, %+v", h.clamped, got)
	}
}

// More nanoseconds than an int64 holds.
func TestHistogramHugeSum(t *testing.T) {
	h := newHistogram()
	h.record(maxLatency, 1<<40)
	if got := h.summary().Mean; got != time.Hour {
		t.Errorf("mean = %v", got)
	}
}
