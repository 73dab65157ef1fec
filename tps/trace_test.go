package tps

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestStages(t *testing.T) {
	full := Timing{Accepted: 12, Begun: 15, Started: 19, Ended: 24, Committing: 30, Committed: 37}
	for _, tt := range []struct {
		name  string
		trace Trace
		reads []int64
		want  [stageCount]int64
	}{
		{"full", Trace{Intended: 10, Called: 11, Timing: full, Done: 45}, nil, [...]int64{2, 3, 4, 5, 6, 7, 8, 0}},
		{"reads after the commit", Trace{Intended: 10, Called: 11, Timing: full, Done: 45}, []int64{2, 3}, [...]int64{2, 3, 4, 5, 6, 7, 3, 5}},
		{"reads before it too", Trace{Intended: 10, Called: 11, Timing: full, Done: 45}, []int64{9}, [...]int64{1, 3, 4, 5, 6, 7, 0, 9}},
		{"reads longer than there was time", Trace{Intended: 10, Called: 11, Timing: full, Done: 45}, []int64{100}, [...]int64{0, 3, 4, 5, 6, 7, 0, 10}},
		{"nothing stamped", Trace{Intended: 10, Called: 13, Done: 45}, nil, [...]int64{3, 0, 0, 32, 0, 0, 0, 0}},
		{"nothing stamped, reads", Trace{Intended: 10, Called: 13, Done: 45}, []int64{2}, [...]int64{3, 0, 0, 30, 0, 0, 0, 2}},
		{"no turn", Trace{Intended: 10, Called: 11, Timing: Timing{Accepted: 12, Begun: 15, Ended: 24, Committing: 24, Committed: 37}, Done: 45}, nil,
			[...]int64{2, 3, 0, 9, 0, 13, 8, 0}},
		{"never committed", Trace{Intended: 10, Called: 11, Timing: Timing{Accepted: 12}, Done: 45}, nil, [...]int64{2, 0, 0, 0, 0, 0, 33, 0}},
		{"backward and late stamps", Trace{Intended: 10, Called: 11, Timing: Timing{Accepted: 5, Begun: 99}, Done: 45}, nil, [...]int64{0, 35, 0, 0, 0, 0, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, d := range tt.reads {
				tt.trace.Read(d)
			}
			if got := tt.trace.stages(); got != tt.want {
				t.Errorf("stages = %v, want %v", got, tt.want)
			}
		})
	}
}

// Whatever is stamped, the stages are never negative and add up to the latency.
func TestStagesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stamp := rapid.Int64Range(0, 1000)
		tr := Trace{Intended: rapid.Int64Range(1, 300).Draw(t, "intended")}
		tr.Called = tr.Intended + rapid.Int64Range(0, 300).Draw(t, "lag")
		tr.Done = tr.Called + rapid.Int64Range(0, 300).Draw(t, "service")
		tr.Timing = Timing{stamp.Draw(t, "accepted"), stamp.Draw(t, "begun"), stamp.Draw(t, "started"),
			stamp.Draw(t, "ended"), stamp.Draw(t, "committing"), stamp.Draw(t, "committed")}
		for _, d := range rapid.SliceOfN(stamp, 0, 10).Draw(t, "reads") {
			tr.Read(d)
		}
		spans := tr.stages()
		var sum int64
		for _, span := range spans {
			sum += span
		}
		if sum != tr.Done-tr.Intended {
			t.Fatalf("%v add up to %d, want %d", spans, sum, tr.Done-tr.Intended)
		}
		if slices.Min(spans[:]) < 0 {
			t.Fatalf("negative stage in %v", spans)
		}
	})
}

func TestReadsBeyondMax(t *testing.T) {
	tr := Trace{Intended: 1, Called: 1, Done: 1000}
	for range MaxReads + 3 {
		tr.Read(10)
	}
	ty := newTally(0)
	ty.add(&tr, 1)
	if ty.reads != MaxReads+3 || ty.readLatency.count != MaxReads {
		t.Errorf("counted %d reads, %d latencies", ty.reads, ty.readLatency.count)
	}
	if got := tr.stages()[stageReads]; got != 10*(MaxReads+3) {
		t.Errorf("reads took %d", got)
	}
}

func TestTraceDoesNotAllocate(t *testing.T) {
	tr := &Trace{Intended: 1, Called: 2, Done: 1000}
	if n := testing.AllocsPerRun(100, func() { tr.Read(1); _ = tr.stages() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
