package writer

import (
	"testing"

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
