package tps

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestStages(t *testing.T) {
	full := Timing{Accepted: 12, Begun: 15, Started: 19, Ended: 24, Committing: 30, Committed: 37}
	stalled := func(ns int64) Timing {
		t := full
		t.Checkpointing = ns
		return t
	}
	for _, tt := range []struct {
		name  string
		trace Trace
		reads []int64
		want  [stageCount]int64
	}{
		{"full", Trace{Intended: 10, Called: 11, Timing: full, Done: 45}, nil, [stageCount]int64{2, 3, 4, 5, 6, 7, 8, stageReads: 0}},
		{"reads after the commit", Trace{Intended: 10, Called: 11, Timing: full, Done: 45}, []int64{2, 3}, [stageCount]int64{2, 3, 4, 5, 6, 7, 3, stageReads: 5}},
		{"reads before it too", Trace{Intended: 10, Called: 11, Timing: full, Done: 45}, []int64{9}, [stageCount]int64{1, 3, 4, 5, 6, 7, 0, stageReads: 9}},
		{"reads longer than there was time", Trace{Intended: 10, Called: 11, Timing: full, Done: 45}, []int64{100}, [stageCount]int64{0, 3, 4, 5, 6, 7, 0, stageReads: 10}},
		{"nothing stamped", Trace{Intended: 10, Called: 13, Done: 45}, nil, [stageCount]int64{3, 0, 0, 32, 0, 0, 0, stageReads: 0}},
		{"nothing stamped, reads", Trace{Intended: 10, Called: 13, Done: 45}, []int64{2}, [stageCount]int64{3, 0, 0, 30, 0, 0, 0, stageReads: 2}},
		{"no turn", Trace{Intended: 10, Called: 11, Timing: Timing{Accepted: 12, Begun: 15, Ended: 24, Committing: 24, Committed: 37}, Done: 45}, nil,
			[stageCount]int64{2, 3, 0, 9, 0, 13, 8, stageReads: 0}},
		{"never committed", Trace{Intended: 10, Called: 11, Timing: Timing{Accepted: 12}, Done: 45}, nil, [stageCount]int64{2, 0, 0, 0, 0, 0, 33, stageReads: 0}},
		{"backward and late stamps", Trace{Intended: 10, Called: 11, Timing: Timing{Accepted: 5, Begun: 99}, Done: 45}, nil, [stageCount]int64{0, 35, 0, 0, 0, 0, 0, stageReads: 0}},
		{"a checkpoint in the queue", Trace{Intended: 10, Called: 11, Timing: stalled(2), Done: 45}, nil, [stageCount]int64{2, 1, 4, 5, 6, 7, 8, stageCheckpoint: 2}},
		{"a checkpoint longer than the queue", Trace{Intended: 10, Called: 11, Timing: stalled(9), Done: 45}, nil, [stageCount]int64{2, 0, 4, 5, 6, 7, 8, stageCheckpoint: 3}},
		{"thought before it was queued", Trace{Intended: 1, Called: 2, Timing: full, Done: 45, thinkTime: 4}, []int64{3}, [stageCount]int64{7, 3, 4, 5, 6, 7, 5, stageReads: 3, stageThink: 4}},
		{"tried again", Trace{Intended: 1, Called: 2, Timing: full, Done: 45, retryTime: 7}, nil, [stageCount]int64{4, 3, 4, 5, 6, 7, 8, stageRetry: 7}},
		{"tried again, nothing stamped", Trace{Intended: 1, Called: 2, Done: 45, retryTime: 7, thinkTime: 3}, []int64{2}, [stageCount]int64{1, 0, 0, 31, 0, 0, 0, stageReads: 2, stageThink: 3, stageRetry: 7}},
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
			stamp.Draw(t, "ended"), stamp.Draw(t, "committing"), stamp.Draw(t, "committed"), stamp.Draw(t, "checkpointing")}
		tr.Think(stamp.Draw(t, "think"))
		tr.retryTime = stamp.Draw(t, "retry")
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

// What came before a retry is all of it retry, and the next attempt starts clean.
func TestRetry(t *testing.T) {
	tr := &Trace{Intended: 10, Called: 20, Timing: Timing{Accepted: 30, Committed: 70}}
	tr.Read(5)
	tr.Think(5)
	tr.Retry(100)
	tr.Read(7)
	tr.Think(11)
	tr.Timing = Timing{Accepted: 130, Begun: 135, Started: 140, Ended: 150, Committing: 160, Committed: 180}
	tr.Done = 200
	want := [stageCount]int64{10 + 30 - 11 - 7, 5, 5, 10, 10, 20, 20, stageReads: 7, stageThink: 11, stageRetry: 80}
	if got := tr.stages(); got != want || tr.Retries() != 1 {
		t.Errorf("%v after %d retries, want %v", got, tr.Retries(), want)
	}
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
