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
	const hit, miss = false, true
	for _, c := range []struct {
		name   string
		missed []bool
		calls  int // from one touch to the next afterwards
	}{
		{"nothing known", nil, 1},
		{"miss", []bool{miss}, 1},
		{"hit", []bool{hit}, 2},
		{"two hits", []bool{hit, hit}, 4},
		{"ten hits", slices.Repeat([]bool{hit}, 10), 1024},
		{"more hits", slices.Repeat([]bool{hit}, 15), 1024},
		{"ten hits, then a miss", append(slices.Repeat([]bool{hit}, 10), miss), 32},
		{"ten hits, then four misses", append(slices.Repeat([]bool{hit}, 10), miss, miss, miss, miss), 1},
		{"hits, then a miss", []bool{hit, hit, hit, miss}, 2},
		{"a miss between hits", []bool{hit, hit, miss, hit}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p pace
			for _, missed := range c.missed {
				p.judge(missed)
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
