package writer

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// A hit makes touches half as frequent, down to one call in 1024, and a miss undoes
// half of the halvings.
func TestPace(t *testing.T) {
	hit, miss := touchMiss-1, touchMiss
	for _, c := range []struct {
		name  string
		took  []time.Duration
		calls int // from one touch to the next afterwards
	}{
		{"nothing known", nil, 1},
		{"miss", []time.Duration{miss}, 1},
		{"hit", []time.Duration{hit}, 2},
		{"no time at all", []time.Duration{0}, 2},
		{"two hits", []time.Duration{hit, hit}, 4},
		{"ten hits", slices.Repeat([]time.Duration{hit}, 10), 1024},
		{"more hits", slices.Repeat([]time.Duration{hit}, 15), 1024},
		{"ten hits, then a miss", append(slices.Repeat([]time.Duration{hit}, 10), miss), 32},
		{"ten hits, then four misses", append(slices.Repeat([]time.Duration{hit}, 10), miss, miss, miss, miss), 1},
		{"hits, then a long miss", []time.Duration{hit, hit, hit, time.Second}, 2},
		{"a miss between hits", []time.Duration{hit, hit, miss, hit}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p pace
			for _, took := range c.took {
				if missed := p.judge(took); missed != (took >= touchMiss) {
					t.Errorf("%v was a miss: %v", took, missed)
				}
			}
			const rounds = 5
			due, first := 0, 0
			for call := 1; call <= rounds*c.calls; call++ {
				if !p.due() {
					continue
				}
				if due++; due == 1 {
					first = call
				} else if (call-first)%c.calls != 0 {
					t.Errorf("call %d is due, %d after the first", call, call-first)
				}
			}
			if due != rounds {
				t.Errorf("%d of %d calls were due, want %d", due, rounds*c.calls, rounds)
			}
		})
	}
}

// Calls that are not touched allocate nothing.
func TestPaceAllocatesNothing(t *testing.T) {
	var w Writer
	w.prefetch = &prefetch{}
	w.prefetch.pace.shift.Store(31)
	touch := func(*Rx) error { t.Error("touched"); return nil }
	if n := testing.AllocsPerRun(1000, func() { w.touch(t.Context(), touch) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

// settle waits for those who came before it, not for those who come meanwhile, and
// for nobody longer than its patience.
func TestSettle(t *testing.T) {
	p := &prefetch{}
	p.settle(time.Hour) // nobody is inside
	before := p.epochs.enter()
	var settled sync.WaitGroup
	settled.Go(func() { p.settle(time.Hour) })
	for p.epochs.number.Load() < 2 {
		time.Sleep(settlePoll)
	}
	after := p.epochs.enter()
	if before == after {
		t.Fatal("who comes while settle waits is counted with those that it waits for")
	}
	before.Add(-1)
	settled.Wait()

	start := time.Now()
	p.settle(settlePatience)
	if took := time.Since(start); took < settlePatience {
		t.Errorf("settle waited %v for one who is inside", took)
	}
	after.Add(-1)
	p.settle(time.Hour)
	(*prefetch)(nil).settle(time.Hour)
}
