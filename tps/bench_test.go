package tps

import (
	"context"
	"testing"
)

// BenchmarkBurst is what the harness itself costs a transaction of a burst: a
// goroutine's life, two looks at the clock and the trace.
func BenchmarkBurst(b *testing.B) {
	const n = 100_000
	r := newRunner(Config{
		Op:           func(context.Context, uint64, *Trace) error { return nil },
		Transactions: n,
	})
	r.prepareBurst()
	b.ReportAllocs()
	for b.Loop() {
		r.burst(b.Context(), false)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/transaction")
}

// BenchmarkTally is what recording costs a transaction of a loop, and of a burst
// after its clock has stopped.
func BenchmarkTally(b *testing.B) {
	t := newTally(0)
	tr := Trace{Intended: 10, Called: 200, Timing: Timing{300, 40_000, 50_000, 60_000, 70_000, 900_000, 0}, Done: 1_000_000}
	for b.Loop() {
		t.add(&tr, 1)
	}
}
