package tps

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// dues returns when the first most arrivals of s are due.
func dues(s Schedule, most int) (list []time.Duration) {
	arrivals := s.Start()
	for len(list) < most {
		due, ok := arrivals.Next()
		if !ok {
			break
		}
		list = append(list, due)
	}
	return list
}

func TestSchedule(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	ramp := []Stage{{Duration: 2 * s, From: 0, To: 4}}
	for _, tt := range []struct {
		name     string
		schedule Schedule
		want     []time.Duration // of the first, at most eight
		expected float64
		length   time.Duration
	}{
		{"constant", ConstantRate(4, s), []time.Duration{0, 250 * ms, 500 * ms, 750 * ms}, 4, s},
		{"one more than whole", ConstantRate(4, s+1), []time.Duration{0, 250 * ms, 500 * ms, 750 * ms, s}, 5, s + 1},
		{"less than one a second", ConstantRate(0.5, 5*s), []time.Duration{0, 2 * s, 4 * s}, 3, 5 * s},
		{"a third of a second", ConstantRate(3, s), []time.Duration{0, 333333333, 666666666}, 3, s},
		{"one a nanosecond", ConstantRate(MaxRate, 5), []time.Duration{0, 1, 2, 3, 4}, 5, 5},
		{"without end", ConstantRate(1, 0), []time.Duration{0, s, 2 * s, 3 * s, 4 * s, 5 * s, 6 * s, 7 * s}, math.Inf(1), 0},
		{"beyond what a Duration holds", ConstantRate(1e-300, 0), slices.Concat([]time.Duration{0}, slices.Repeat([]time.Duration{math.MaxInt64}, 7)), math.Inf(1), 0},
		{"bursts", Schedule{Stages: []Stage{{s, 4, 4}}, BurstSize: 2}, []time.Duration{0, 0, 500 * ms, 500 * ms}, 4, s},
		{"the last burst is whole", Schedule{Stages: []Stage{{s, 4, 4}}, BurstSize: 3}, []time.Duration{0, 0, 0, 750 * ms, 750 * ms, 750 * ms}, 6, s},
		{"a ramp from nothing", Schedule{Stages: ramp}, []time.Duration{0, s, 1414213562, 1732050807}, 4, 2 * s},
		{"a ramp to nothing", Schedule{Stages: []Stage{{2 * s, 4, 0}}}, []time.Duration{0, 267949192, 585786437, s}, 4, 2 * s},
		{"a pause between two stages", Schedule{Stages: []Stage{{s, 2, 2}, {s, 0, 0}, {s, 1, 1}}}, []time.Duration{0, 500 * ms, 2 * s}, 3, 3 * s},
		{"stages go on where the last ended", Schedule{Stages: []Stage{{s, 1.5, 1.5}, {s, 1.5, 1.5}}}, []time.Duration{0, 666666666, 1333333333}, 3, 2 * s},
	} {
		if got := dues(tt.schedule, 8); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if got := tt.schedule.Expected(); got != tt.expected {
			t.Errorf("%s: %v expected, want %v", tt.name, got, tt.expected)
		}
		if got := tt.schedule.Length(); got != tt.length {
			t.Errorf("%s: length %v, want %v", tt.name, got, tt.length)
		}
	}
}

// Whatever the stages: arrivals ascend, lie within the schedule, are as many as
// expected, and once there are none, there are none.
func TestScheduleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Schedule
		for range rapid.IntRange(1, 4).Draw(t, "stages") {
			s.Stages = append(s.Stages, Stage{
				Duration: time.Duration(rapid.Int64Range(1, int64(10*time.Second)).Draw(t, "duration")),
				From:     rapid.Float64Range(0, 500).Draw(t, "from"),
				To:       rapid.Float64Range(0, 500).Draw(t, "to"),
			})
		}
		s.BurstSize = rapid.IntRange(0, 5).Draw(t, "burst")
		s.Arrival = rapid.SampledFrom([]Arrival{"", ConstantArrival, PoissonArrival}).Draw(t, "arrival")
		s.Seed = rapid.Uint64().Draw(t, "seed")

		got := dues(s, math.MaxInt)
		if !slices.IsSorted(got) {
			t.Fatalf("%v", got)
		}
		if len(got) > 0 && (got[0] < 0 || got[len(got)-1] > s.Length()) {
			t.Fatalf("from %v to %v of %v", got[0], got[len(got)-1], s.Length())
		}
		// One that is due exactly when a stage ends may be rounded to either side of it.
		if s.Arrival != PoissonArrival && math.Abs(float64(len(got))-s.Expected()) > 1 {
			t.Fatalf("%d arrivals, %v expected", len(got), s.Expected())
		}
		if !slices.Equal(got, dues(s, math.MaxInt)) {
			t.Fatal("the same seed gave other arrivals")
		}
		arrivals := s.Start()
		for range len(got) + 3 {
			arrivals.Next()
		}
		if _, ok := arrivals.Next(); ok {
			t.Fatal("an arrival after the last one")
		}
	})
}

// The gaps of a Poisson process are exponential: mean and standard deviation are
// 1/rate, and 1-1/e of them are shorter than that. Bursts and ramps keep the rate.
func TestPoissonArrivals(t *testing.T) {
	const n, rate = 100_000, 2000.0
	s := Schedule{Stages: []Stage{{Duration: 0, From: rate, To: rate}}, Arrival: PoissonArrival, Seed: 7}
	got := dues(s, n)
	var sum, squares, short float64
	for k := 1; k < n; k++ {
		gap := (got[k] - got[k-1]).Seconds() * rate
		sum += gap
		squares += gap * gap
		if gap < 1 {
			short++
		}
	}
	mean := sum / (n - 1)
	deviation := math.Sqrt(squares/(n-1) - mean*mean)
	// Five standard errors.
	if math.Abs(mean-1) > 5/math.Sqrt(n) || math.Abs(deviation-1) > 5*math.Sqrt(2.0/n) || math.Abs(short/(n-1)-(1-1/math.E)) > 5*0.5/math.Sqrt(n) {
		t.Errorf("mean %v, deviation %v, %v shorter than the mean", mean, deviation, short/(n-1))
	}

	ramp := Schedule{Stages: []Stage{{Duration: 10 * time.Second, From: 0, To: 20_000}}, Arrival: PoissonArrival, BurstSize: 10, Seed: 8}
	all := dues(ramp, math.MaxInt)
	half, _ := slices.BinarySearch(all, 5*time.Second)
	// A Poisson number of bursts: the deviation of a count is the root of it.
	if bursts := float64(len(all)) / 10; math.Abs(bursts-10_000) > 5*100 {
		t.Errorf("%v bursts, 10,000 expected", bursts)
	}
	if first := float64(half) / 10; math.Abs(first-2500) > 5*50 {
		t.Errorf("%v bursts in the first half of the ramp, 2,500 expected", first)
	}
	if slices.Equal(dues(s, 100), dues(Schedule{Stages: s.Stages, Arrival: PoissonArrival, Seed: 9}, 100)) {
		t.Error("another seed gave the same arrivals")
	}
}
