package wal

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

func TestLimit(t *testing.T) {
	type took struct {
		pages int
		d     time.Duration
		want  int // the limit afterwards
	}
	for name, tt := range map[string]struct {
		limit Limit
		first int
		took  []took
	}{
		"none":                      {Limit{}, 0, []took{{100, time.Hour, 0}, {100, 0, 0}}},
		"fixed":                     {Limit{Most: 4000}, 4000, []took{{4000, time.Hour, 4000}, {4000, 0, 4000}}},
		"cheap":                     {Limit{Most: 4000, Stall: 10 * ms}, 1000, []took{{1000, 2 * ms, 1250}, {1300, 2 * ms, 1562}, {1562, 2 * ms, 1952}, {1952, 2 * ms, 2440}, {2440, 2 * ms, 3050}, {3050, 3 * ms, 3812}, {3812, 4 * ms, 4000}, {4000, 4 * ms, 4000}}},
		"dear":                      {Limit{Most: 4000, Stall: 10 * ms}, 1000, []took{{1000, 16 * ms, 625}, {625, 10 * ms, 625}, {625, 7500 * time.Microsecond, 625}, {625, 7500*time.Microsecond - 1, 781}}},
		"by half at most":           {Limit{Most: 4000, Stall: 10 * ms}, 1000, []took{{1000, time.Second, 500}, {500, time.Second, 250}, {250, time.Second, 250}, {250, math.MaxInt64, 250}}},
		"small ones do not grow":    {Limit{Most: 4000, Stall: 10 * ms}, 1000, []took{{999, 1, 1000}, {1, 1, 1000}, {0, 1, 1000}, {1000, 1, 1250}}},
		"small ones may shrink":     {Limit{Most: 4000, Stall: 10 * ms}, 1000, []took{{800, 11 * ms, 727}, {1, 20 * ms, 363}}},
		"nothing moved":             {Limit{Most: 4000, Stall: 10 * ms}, 1000, []took{{0, time.Hour, 1000}, {-1, time.Hour, 1000}}},
		"never grows by too much":   {Limit{Most: 4000, Stall: 10 * ms}, 1000, []took{{9000, 20 * ms, 1000}, {1_000_000, 10*ms + 1, 1000}}},
		"most is below the least":   {Limit{Most: 100, Stall: 10 * ms}, 100, []took{{100, time.Hour, 100}, {100, 1, 100}}},
		"most is one":               {Limit{Most: 1, Stall: 1}, 1, []took{{1, time.Hour, 1}, {1, 0, 1}}},
		"most is little above":      {Limit{Most: 300, Stall: 10 * ms}, 250, []took{{250, 1, 300}, {300, time.Hour, 250}}},
		"no limit at all":           {Limit{Most: math.MaxInt32, Stall: math.MaxInt64}, math.MaxInt32 / 4, []took{{math.MaxInt32, 1, 671088638}}},
		"a stall of a nanosecond":   {Limit{Most: 4000, Stall: 1}, 1000, []took{{1000, 2, 500}, {500, 1, 500}, {500, 0, 625}}},
		"no time at all is no dear": {Limit{Most: 4000, Stall: 10 * ms}, 1000, []took{{1000, 0, 1250}}},
	} {
		l := tt.limit
		if got := l.Pages(); got != tt.first {
			t.Errorf("%s: at first %d, want %d", name, got, tt.first)
		}
		for i, k := range tt.took {
			l.Took(k.pages, k.d)
			if got := l.Pages(); got != k.want {
				t.Errorf("%s: %d after checkpoint %d, want %d", name, got, i, k.want)
			}
		}
	}
}

// The policy may be given anew, as when the size of pages has changed: what was
// learned stays, within it.
func TestLimitWithAnotherMost(t *testing.T) {
	l := Limit{Most: 4000, Stall: 10 * ms}
	l.Took(1000, 2*ms)
	for _, tt := range []struct{ most, want int }{{1000, 1000}, {100, 100}, {8000, 1250}, {0, 0}} {
		if l.Most = tt.most; l.Pages() != tt.want {
			t.Errorf("with %d at most it is %d, want %d", tt.most, l.Pages(), tt.want)
		}
	}
}

// cost is that of a checkpoint: a fixed part, and so much for each page.
type cost struct{ fixed, page time.Duration }

func (c cost) of(pages int) time.Duration { return c.fixed + time.Duration(pages)*c.page }

// anyLimit and anyCost draw what disks and policies may be.
func anyLimit(t *rapid.T) Limit {
	return Limit{
		Most:  rapid.IntRange(1, 100_000).Draw(t, "most"),
		Stall: time.Duration(rapid.Int64Range(int64(100*time.Microsecond), int64(time.Second)).Draw(t, "stall")),
	}
}

func anyCost(t *rapid.T) cost {
	return cost{
		fixed: time.Duration(rapid.Int64Range(0, int64(200*ms)).Draw(t, "fixed")),
		page:  time.Duration(rapid.Int64Range(0, int64(100*time.Microsecond)).Draw(t, "page")),
	}
}

// settle gives l checkpoints of that cost, each of the whole limit, until it no
// longer changes, and returns how many it took.
func settle(t *rapid.T, l *Limit, c cost) int {
	for n := range 100_000 {
		before := l.Pages()
		l.Took(before, c.of(before))
		if l.Pages() == before {
			return n
		}
		if up, shorter := l.Pages() > before, c.of(before) < l.Stall-l.Stall/4; up != shorter {
			t.Fatalf("a checkpoint of %d pages took %v of %v, and the limit became %d", before, c.of(before), l.Stall, l.Pages())
		}
	}
	t.Fatalf("%+v never settles with %+v", *l, c)
	return 0
}

// settled fails unless a checkpoint of the whole limit takes from three quarters of
// Stall to Stall, or the limit is at a bound and cannot do better.
func settled(t *rapid.T, l *Limit, c cost) {
	switch pages, d := l.Pages(), c.of(l.Pages()); {
	case d >= l.Stall-l.Stall/4 && d <= l.Stall:
	case d < l.Stall-l.Stall/4 && pages == l.Most:
	case d > l.Stall && pages == l.least():
	default:
		t.Errorf("%+v settled at checkpoints of %v", *l, d)
	}
}

// Whatever a page costs, the limit settles where checkpoints take as long as they
// may, and stays there.
func TestLimitSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, c := anyLimit(t), anyCost(t)
		settle(t, &l, c)
		settled(t, &l, c)
		// So it does when the cost changes, as when other keys are written.
		c = anyCost(t)
		settle(t, &l, c)
		settled(t, &l, c)
	})
}

// It never turns around on its way: what shrinks it once does not let it grow
// afterwards, and the other way round.
func TestLimitDoesNotSwing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, c := anyLimit(t), anyCost(t)
		c.page = min(c.page, l.Stall/8) // the limit counts whole pages, so one must be a small step
		direction := 0
		for range 100_000 {
			before := l.Pages()
			l.Took(before, c.of(before))
			switch step := l.Pages() - before; {
			case step == 0:
				return
			case direction != 0 && (step > 0) != (direction > 0):
				t.Fatalf("%+v went from %d, the other way, with %+v", l, before, c)
			default:
				direction = step
			}
		}
	})
}

// One checkpoint that takes long for another reason is forgotten soon: it at most
// halves the limit, and four that are cheap make up for that. Where a full one takes
// between three quarters and all of Stall there is no reason to grow, so it stays smaller only
// as far as checkpoints stay above three quarters of it.
func TestLimitRecovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, c := anyLimit(t), anyCost(t)
		settle(t, &l, c)
		before := l.Pages()
		l.Took(before, max(c.of(before), l.Stall)+time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "outlier")))
		if l.Pages() < before/2 {
			t.Fatalf("one checkpoint brought it from %d to %d", before, l.Pages())
		}
		if n := settle(t, &l, c); c.of(before) < l.Stall-l.Stall/4 && (n > 5 || l.Pages() != before) {
			t.Errorf("%d checkpoints after it the limit is %d, was %d", n, l.Pages(), before)
		}
		settled(t, &l, c)
	})
}

// Whatever it is told, the limit stays within its bounds.
func TestLimitStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Most: rapid.IntRange(0, math.MaxInt32).Draw(t, "most"), Stall: time.Duration(rapid.Int64Min(0).Draw(t, "stall"))}
		for range rapid.IntRange(0, 50).Draw(t, "checkpoints") {
			l.Took(rapid.IntRange(-1, math.MaxInt32).Draw(t, "pages"), time.Duration(rapid.Int64Min(0).Draw(t, "took")))
			if got := l.Pages(); got > l.Most || got < l.least() || l.Stall == 0 && got != l.Most {
				t.Fatalf("%d in %+v", got, l)
			}
		}
	})
}

func TestBlockage(t *testing.T) {
	var b Blockage
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
		b.Note(step.frames, step.done, step.busy, step.now)
		if got := b.Until(step.now); got != step.want {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
		if got := b.Until(step.now + 5); got != step.later {
			t.Errorf("%s, 5 later: %v, want %v", step.name, got, step.later)
		}
	}
}
