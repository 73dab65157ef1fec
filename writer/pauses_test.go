package writer

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPauses(t *testing.T) {
	var p pauses
	if p.since(1) != 0 {
		t.Error("there was no pause yet")
	}
	p.add(10, 20)
	p.add(30, 31)
	p.add(40, 50)
	for from, want := range map[int64]int64{1: 21, 10: 21, 15: 16, 20: 11, 25: 11, 31: 10, 45: 5, 50: 0, 60: 0} {
		if got := p.since(from); got != want {
			t.Errorf("since %d: %d, want %d", from, got, want)
		}
	}
}

// The ring answers as a list of the last pauses does, however many there were.
func TestPausesForgetTheOldest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pauses
		type pause struct{ begun, ended int64 }
		var all []pause
		now := int64(1)
		for range rapid.IntRange(0, 3*keptPauses).Draw(t, "pauses") {
			begun := now + rapid.Int64Range(0, 5).Draw(t, "gap")
			now = begun + rapid.Int64Range(0, 5).Draw(t, "length")
			p.add(begun, now)
			all = append(all, pause{begun, now})
		}
		from, want := rapid.Int64Range(1, now+5).Draw(t, "from"), int64(0)
		for _, c := range all[max(len(all)-keptPauses, 0):] {
			want += max(c.ended-max(c.begun, from), 0)
		}
		if got := p.since(from); got != want {
			t.Errorf("since %d of %v: %d, want %d", from, all, got, want)
		}
	})
}

func TestBlockage(t *testing.T) {
	var b blockage
	for _, step := range []struct {
		name         string
		frames, done int
		busy         bool
		now          int64
		want, later  time.Duration // at now, and 5 later
	}{
		{"nothing in the log", 0, 0, false, 10, 0, 0},
		{"all moved", 7, 7, false, 20, 0, 0},
		{"failed", -1, -1, false, 25, 0, 0},
		{"some left", 9, 7, false, 30, 0, 5},
		{"some left again", 12, 7, false, 40, 10, 15},
		{"failed meanwhile", -1, -1, true, 45, 15, 20},
		{"waited in vain", 12, 12, true, 50, 20, 25},
		{"all moved", 12, 12, false, 60, 30, 30},
		{"still all moved", 12, 12, false, 70, 30, 30},
		{"waited in vain, nothing left", 12, 12, true, 80, 30, 35},
		{"emptied", 0, 0, false, 90, 40, 40},
		{"another process checkpoints", -1, -1, true, 100, 40, 45},
		{"failed then", -1, -1, false, 105, 45, 50},
		{"emptied again", 0, 0, false, 110, 50, 50},
	} {
		b.note(step.frames, step.done, step.busy, step.now)
		if got := b.until(step.now); got != step.want {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
		if got := b.until(step.now + 5); got != step.later {
			t.Errorf("%s, 5 later: %v, want %v", step.name, got, step.later)
		}
	}
}
