package tps

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPace(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		rate    float64
		elapsed time.Duration
		sent    int64
		want    time.Duration
	}{
		{100, 0, 0, 0},                // the first is due at the start
		{100, 0, 1, 10 * ms},          // the second one interval later
		{100, 4 * ms, 1, 6 * ms},      // part of it has passed
		{100, 10 * ms, 1, 0},          // due now
		{100, time.Second, 5, 0},      // late: at once
		{100, 0, 250, 2500 * ms},      // ahead of the schedule
		{0.5, time.Second, 1, 1000e6}, // less than one a second
		{MaxRate, 5, 7, 2},            // one a nanosecond
		{3, 0, 3_000_000, 1_000_000 * time.Second},
		{1e-300, 0, 1, math.MaxInt64}, // beyond what a Duration holds
	} {
		if got := (Pacer{tt.rate}).Pace(tt.elapsed, tt.sent); got != tt.want {
			t.Errorf("rate %v, elapsed %v, sent %d: wait %v, want %v", tt.rate, tt.elapsed, tt.sent, got, tt.want)
		}
	}
}

func TestArrivals(t *testing.T) {
	for _, tt := range []struct {
		rate float64
		d    time.Duration
		want int64
	}{
		{100, time.Second, 100}, {100, 0, 0}, {100, 1, 1}, {100, 10 * time.Millisecond, 1},
		{100, 10*time.Millisecond + 1, 2}, {0.5, time.Second, 1}, {0.5, 3 * time.Second, 2},
		{3, time.Second, 3}, {MaxRate, time.Microsecond, 1000},
		{MaxRate, math.MaxInt64, mostArrivals},
	} {
		if got := (Pacer{tt.rate}).Arrivals(tt.d); got != tt.want {
			t.Errorf("rate %v, %v: %d arrivals, want %d", tt.rate, tt.d, got, tt.want)
		}
	}
}

// Arrivals and Due agree, and Due never goes backward.
func TestPacerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pacer{rapid.Float64Range(0.01, 1e6).Draw(t, "rate")}
		d := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "d"))
		n := p.Arrivals(d)
		if p.Due(n-1) >= d || p.Due(n) < d {
			t.Fatalf("%d arrivals before %v, but due at %v and %v", n, d, p.Due(n-1), p.Due(n))
		}
		i := rapid.Int64Range(0, 1e9).Draw(t, "i")
		if p.Due(i) > p.Due(i+1) {
			t.Fatalf("arrival %d is due at %v, the next at %v", i, p.Due(i), p.Due(i+1))
		}
	})
}
