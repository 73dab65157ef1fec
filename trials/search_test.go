package trials

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// stepTaken is what a search asked for and was told.
type stepTaken struct {
	rate    float64
	phase   Phase
	verdict Decision
}

// drive runs a search to its end.
func drive(t rapid.TB, s *Search, verdict func(rate float64, phase Phase) Decision) (log []stepTaken) {
	t.Helper()
	for rate, ok := s.Next(); ok; rate, ok = s.Next() {
		if rate < s.least || rate > s.most {
			t.Fatalf("%g is asked for, not from %g to %g", rate, s.least, s.most)
		}
		step := stepTaken{rate, s.Phase(), verdict(rate, s.Phase())}
		log = append(log, step)
		s.Report(Verdict{Decision: step.verdict})
		checkKnown(t, s, log)
		if len(log) > MaxSteps(s.most) {
			t.Fatalf("more than %d steps", MaxSteps(s.most))
		}
	}
	return log
}

// count tells how often a rate held, and how often it did not.
func count(log []stepTaken, rate float64) (held, lost int) {
	for _, step := range log {
		switch {
		case step.rate != rate:
		case step.verdict == Pass:
			held++
		default:
			lost++
		}
	}
	return held, lost
}

// checkKnown checks what holds for what a search knows, after each step.
func checkKnown(t rapid.TB, s *Search, log []stepTaken) {
	t.Helper()
	o := s.Result()
	above := max(o.Failed, o.Unoffered)
	held, lost := count(log, o.Rate)
	heldAbove, lostAbove := count(log, above)
	_, more := s.Next()
	switch {
	case more != (o.State == Unfinished):
		t.Fatalf("%+v, but there is more to do: %t", o, more)
	case o.Failed != 0 && o.Unoffered != 0 || above != 0 && above <= o.Rate:
		t.Fatalf("%+v is no bracket", o)
	case o.Rate != 0 && (held == 0 || held < lost):
		t.Fatalf("%+v held %d times and did not %d times", o, held, lost)
	case above != 0 && heldAbove >= lostAbove && heldAbove > 0:
		t.Fatalf("%g of %+v held %d times and did not %d times", above, o, heldAbove, lostAbove)
	case (o.State == Found || o.State == AtLeast && o.Rate > 0) && held < 2:
		t.Fatalf("%+v held %d times", o, held)
	case o.State == Found && (o.Failed == 0 || o.Failed > 1.05*o.Rate || o.Unoffered != 0):
		t.Fatalf("%+v is not within a rung", o)
	case o.State == BelowMinimum && (o.Rate != 0 || o.Failed != s.least):
		t.Fatalf("%+v, but the least is %g", o, s.least)
	case o.State == AtLeast && o.Failed != 0:
		t.Fatalf("%+v did not hold, and so is no limit of this machine", o)
	}
}

func capacity(c float64) func(float64, Phase) Decision {
	return func(rate float64, _ Phase) Decision {
		if rate <= c {
			return Pass
		}
		return Fail
	}
}

// logUniform draws a rate such that every magnitude is as likely as another.
func logUniform(lowest, most float64) *rapid.Generator[float64] {
	return rapid.Custom(func(t *rapid.T) float64 {
		return math.Exp(rapid.Float64Range(math.Log(lowest), math.Log(most)).Draw(t, "log"))
	})
}

func TestSearchFindsAnyCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, first := logUniform(1, 1e7).Draw(t, "c"), logUniform(0.1, 1e8).Draw(t, "first")
		s := NewSearch(first, 1e9)
		c, first = max(c, 1), max(first, 1) // exp(log(1)) may be less
		log := drive(t, s, capacity(c))
		o := s.Result()
		if least := max(first/64, 1); c < least {
			if o != (Outcome{State: BelowMinimum, Failed: least}) {
				t.Fatalf("%+v for %g below %g", o, c, least)
			}
			return
		}
		if o.State != Found || o.Rate > c || o.Failed <= c || o.Failed > 1.05*o.Rate {
			t.Fatalf("%+v for %g", o, c)
		}
		// As MaxSteps says: while doubling the last rate fails, and twice; while
		// halving all but the last do. A rate is rounded by 0.05 % at most, by which
		// one more may be needed.
		up := math.Floor(math.Log2(c*1.0005/first)) + 3
		down := 2*math.Ceil(math.Log2(first/(c*0.9995))) + 1
		if limit := int(max(up, down)) + 4 + 4; len(log) > limit {
			t.Fatalf("%d steps for %g from %g, not %d", len(log), c, first, limit)
		}
	})
}

func TestSearchStopsAtTheHighestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, first := logUniform(1, 1e7).Draw(t, "most"), logUniform(1, 1e7).Draw(t, "first")
		s := NewSearch(first, most)
		drive(t, s, capacity(1e9))
		if o := s.Result(); o != (Outcome{State: AtLeast, Rate: max(most, 1)}) {
			t.Fatalf("%+v", o)
		}
	})
}

// The rate that is asked for is measured first, and the ends are reached, however
// close they are to it.
func TestSearchNearTheEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := logUniform(1.01, 1e7).Draw(t, "most")
		first := min(max(1, most*rapid.Float64Range(0.95, 1).Draw(t, "share")), most)
		s := NewSearch(first, most)
		if log := drive(t, s, capacity(1e9)); log[0].rate != first || s.Result().Rate != most {
			t.Fatalf("from %g to %g: %+v after %v", first, most, s.Result(), log)
		}
		first = rapid.Float64Range(1, 1.05).Draw(t, "first")
		s = NewSearch(first, most)
		if log := drive(t, s, capacity(0)); log[0].rate != min(first, most) || s.Result().Failed != 1 {
			t.Fatalf("from %g to %g: %+v after %v", first, most, s.Result(), log)
		}
	})
}

func TestSearchBoundByTheGenerator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, c := logUniform(2, 1e7).Draw(t, "g"), logUniform(2, 1e7).Draw(t, "c")
		s := NewSearch(logUniform(1, 32*min(g, c)).Draw(t, "first"), 1e9) // what holds is in reach
		drive(t, s, func(rate float64, _ Phase) Decision {
			if rate > g {
				return GeneratorBound
			}
			return capacity(c)(rate, "")
		})
		o := s.Result()
		if g < c && (o.State != AtLeast || o.Rate > g || o.Unoffered <= g || o.Unoffered > 1.05*o.Rate) {
			t.Fatalf("%+v: the generator ends at %g, the database at %g", o, g, c)
		}
		if o.State == Found && (o.Rate > c || o.Failed <= c) {
			t.Fatalf("%+v: the generator ends at %g, the database at %g", o, g, c)
		}
		if o.State == AtLeast && o.Rate > min(g, c) {
			t.Fatalf("%+v: the generator ends at %g, the database at %g", o, g, c)
		}
	})
}

// The answer lies where verdicts are noise, however they fall, or close below.
func TestSearchWithNoiseAtTheEdge(t *testing.T) {
	states := map[State]int{}
	rapid.Check(t, func(t *rapid.T) {
		c := logUniform(10, 1e7).Draw(t, "c")
		s := NewSearch(logUniform(1, 32*c/1.3).Draw(t, "first"), 1e9)
		noise := rapid.SampledFrom([]Decision{Pass, Fail, GeneratorBound})
		drive(t, s, func(rate float64, _ Phase) Decision {
			switch {
			case rate < c/1.3:
				return Pass
			case rate > c*1.3:
				return Fail
			}
			return noise.Draw(t, "verdict")
		})
		// What is below the noise always holds, and rates that held are a factor of two
		// apart, or astray rungs further down; but all that was measured may be noise.
		o := s.Result()
		lowest := c / 1.3 / 2
		if o.State == Found {
			lowest = c / 1.3 / 1.05
		}
		if o.Rate > c*1.3 || o.Rate < lowest && (o.Rate > 0 || o.State != Unsettled) {
			t.Fatalf("%+v for %g", o, c)
		}
		states[o.State]++
	})
	if states[Found] == 0 || states[AtLeast] == 0 {
		t.Errorf("the noise shows nothing: %v", states)
	}
}

// What drive and checkKnown check holds for all verdicts, and so for those of a
// machine that changes its mind at any time. Moods last, so that walks go astray.
func TestSearchEndsWhateverItIsTold(t *testing.T) {
	verdicts := rapid.SampledFrom([]Decision{Pass, Fail, GeneratorBound})
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]float64{0, 1, 1.001, 2, 10, 1e3, 1e9}).Draw(t, "most")
		longest := rapid.SampledFrom([]int{1, 10, 40}).Draw(t, "longest")
		s := NewSearch(logUniform(1, 1e9).Draw(t, "first"), most)
		mood, left := Pass, 0
		drive(t, s, func(float64, Phase) Decision {
			if left == 0 {
				mood, left = verdicts.Draw(t, "mood"), rapid.IntRange(1, longest).Draw(t, "left")
			}
			left--
			return mood
		})
	})
}

// told gives the verdicts in turn, as letters, and then those of a capacity.
func told(letters string, c float64) func(float64, Phase) Decision {
	verdicts := map[byte]Decision{'p': Pass, 'f': Fail, 'g': GeneratorBound}
	return func(rate float64, _ Phase) Decision {
		if letters == "" {
			return capacity(c)(rate, "")
		}
		v := verdicts[letters[0]]
		letters = letters[1:]
		return v
	}
}

func TestSearchWalks(t *testing.T) {
	for name, c := range map[string]struct {
		first, most float64
		verdict     func(float64, Phase) Decision
		rates       []float64
		want        Outcome
	}{
		"up, bisected, and three times each around the edge": {
			1000, 1e9, capacity(3000),
			[]float64{1000, 2000, 4000, 4000, 2828, 3364, 3084, 2954, 3084, 2954, 3084, 2954},
			Outcome{Found, 2954, 3084, 0},
		},
		"down": {
			1000, 1e9, capacity(300),
			[]float64{1000, 1000, 500, 500, 250, 353.6, 297.3, 324.2, 310.5, 297.3, 310.5, 297.3, 310.5},
			Outcome{Found, 297.3, 310.5, 0},
		},
		"nothing holds": {
			3, 1e9, capacity(0.5), []float64{3, 3, 1.5, 1.5, 1, 1}, Outcome{BelowMinimum, 0, 1, 0},
		},
		"nothing can be offered": {
			3, 1e9, told("gggggg", 0), []float64{3, 3, 1.5, 1.5, 1, 1}, Outcome{AtLeast, 0, 0, 1},
		},
		"the lowest rate holds": {
			1, 1e9, capacity(1), []float64{1, 2, 2, 1.414, 1.189, 1.091, 1.044, 1, 1.044, 1, 1.044}, Outcome{Found, 1, 1.044, 0},
		},
		"the highest rate holds": {
			300, 1000, capacity(1e9), []float64{300, 600, 1000, 1000}, Outcome{AtLeast, 1000, 0, 0},
		},
		"the generator ends where it failed anyhow": {
			1000, 1e9, told("ppgg", 3000),
			[]float64{1000, 2000, 4000, 4000, 2828, 3364, 3084, 2954, 3084, 2954, 3084, 2954},
			Outcome{Found, 2954, 3084, 0},
		},
		"a stall while bracketing is measured again": {
			1000, 1e9, told("pfp", 3000),
			[]float64{1000, 2000, 2000, 4000, 4000, 2828, 3364, 3084, 2954, 3084, 2954, 3084, 2954},
			Outcome{Found, 2954, 3084, 0},
		},
		"a stall while bisecting is walked out of": {
			1000, 1e9, told("pff"+"f", 1500), // at 1,414
			[]float64{1000, 2000, 2000, 1414, 1189, 1297, 1354, 1414, 1477, 1542, 1477, 1542, 1477, 1542},
			Outcome{Found, 1477, 1542, 0},
		},
		"two stalls in a row are bracketed again": {
			1000, 1e9, told("ff", 3000),
			[]float64{1000, 1000, 500, 707.1, 840.9, 917, 957.6, 1000, 1044, 1091, 1139, 1189, 2378, 4757, 4757, 3364, 2828, 3084, 2954, 3084, 2954, 3084, 2954},
			Outcome{Found, 2954, 3084, 0},
		},
		"two stalls in a row, twice": {
			1000, 1e9, told("ff"+"pppppppppp"+"ff", 3000),
			[]float64{1000, 1000, 500, 707.1, 840.9, 917, 957.6, 1000, 1044, 1091, 1139, 1189, 2378, 2378, 1682, 2000, 2181, 2278, 2378, 2484, 2594, 2709, 2828, 5657, 5657, 4000, 3364, 3084, 2954, 3084, 2954, 3084, 2954},
			Outcome{Unsettled, 2954, 3084, 0},
		},
		"what held once by chance": {
			1000, 1e9, told("pff"+"ffff"+"fffff", 0), // 1,000 did
			[]float64{1000, 2000, 2000, 1414, 1189, 1091, 1044, 1000, 957.6, 917, 878.1, 840.9, 420.4, 420.4, 210.2, 210.2, 105.1, 105.1, 52.56, 52.56, 26.28, 26.28, 15.625, 15.625},
			Outcome{BelowMinimum, 0, 15.625, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSearch(c.first, c.most)
			var rates []float64
			for _, step := range drive(t, s, c.verdict) {
				rates = append(rates, step.rate)
			}
			if !slices.Equal(rates, c.rates) {
				t.Errorf("rates %v\n want %v", rates, c.rates)
			}
			if o := s.Result(); o != c.want {
				t.Errorf("%+v, want %+v", o, c.want)
			}
			s.Report(Verdict{Decision: Fail})
			if _, ok := s.Next(); ok || s.Result() != c.want {
				t.Error("a report after the end changes it")
			}
		})
	}
}

func TestSearchKnowsWhatItHasSeen(t *testing.T) {
	s := NewSearch(1000, 1e9)
	for _, c := range []struct {
		verdict Decision // of the step before
		rate    float64  // that is measured next
		phase   Phase
		known   Outcome
	}{
		{"", 1000, Bracketing, Outcome{State: Unfinished}},
		{Pass, 2000, Bracketing, Outcome{Unfinished, 1000, 0, 0}},
		{Fail, 2000, Bracketing, Outcome{Unfinished, 1000, 0, 0}}, // once only
		{Fail, 1414, Bisecting, Outcome{Unfinished, 1000, 2000, 0}},
		{GeneratorBound, 1189, Bisecting, Outcome{Unfinished, 1000, 0, 1414}},
		{Pass, 1297, Bisecting, Outcome{Unfinished, 1189, 0, 1414}},
		{Pass, 1354, Bisecting, Outcome{Unfinished, 1297, 0, 1414}},
		{Fail, 1297, Settling, Outcome{Unfinished, 1297, 1354, 0}},
		{Fail, 1242, Settling, Outcome{Unfinished, 1297, 1354, 0}}, // as often as not
		{Pass, 1297, Settling, Outcome{Unfinished, 1297, 1354, 0}},
		{Fail, 1242, Settling, Outcome{Unfinished, 1242, 1297, 0}},
	} {
		if c.verdict != "" {
			s.Report(Verdict{Decision: c.verdict})
		}
		if rate, ok := s.Next(); rate != c.rate || !ok || s.Phase() != c.phase || s.Result() != c.known {
			t.Fatalf("after %q: %g, %t, %s, %+v, want %+v", c.verdict, rate, ok, s.Phase(), s.Result(), c)
		}
	}
}

// How a search ends follows from its votes alone, however it came to them.
func TestSearchEnds(t *testing.T) {
	for name, c := range map[string]struct {
		votes   map[int]votes
		reopens int
		state   State
	}{
		"a rung apart":                     {map[int]votes{0: {2, 1, 0}, 1: {1, 2, 0}}, 1, Found},
		"held once":                        {map[int]votes{0: {1, 1, 0}, 1: {0, 2, 0}}, 0, Unsettled},
		"held once, not offered above":     {map[int]votes{0: {1, 1, 0}, 1: {0, 0, 2}}, 0, Unsettled},
		"two rungs apart":                  {map[int]votes{0: {2, 0, 0}, 2: {0, 2, 0}}, 0, Unsettled},
		"astray twice":                     {map[int]votes{0: {2, 0, 0}, 1: {0, 2, 0}}, maxReopens, Unsettled},
		"not offered above":                {map[int]votes{0: {2, 0, 0}, 1: {0, 1, 2}}, 0, AtLeast},
		"failed more often than unoffered": {map[int]votes{0: {2, 0, 0}, 1: {0, 2, 2}}, 0, Found},
		"nothing above":                    {map[int]votes{4: {2, 0, 0}}, 0, AtLeast},
		"the lowest does not hold":         {map[int]votes{-4: {0, 2, 0}}, 0, BelowMinimum},
		"the lowest was not offered":       {map[int]votes{-4: {0, 0, 2}}, 0, AtLeast},
		"the lowest was not measured":      {map[int]votes{-3: {1, 2, 0}}, 0, Unsettled},
	} {
		s := NewSearch(1000, 1e9)
		s.bottom, s.top, s.votes, s.reopens, s.again = -4, 4, c.votes, c.reopens, confirmations
		if s.confirm(); s.state != c.state {
			t.Errorf("%s: %s, want %s", name, s.state, c.state)
		}
	}
}

// An answer that has held once is measured again; one that was lost is looked for
// further down.
func TestSearchConfirms(t *testing.T) {
	for _, c := range []struct {
		verdict Decision
		state   State
		next    int
	}{{Pass, Found, 0}, {Fail, Unfinished, -astray}} {
		s := NewSearch(1000, 1e9)
		s.phase, s.votes = Confirming, map[int]votes{0: {1, 1, 0}, 1: {0, 2, 0}}
		s.confirm()
		if s.state != Unfinished || s.rung != 0 {
			t.Fatalf("%s, at rung %d", s.state, s.rung)
		}
		s.Report(Verdict{Decision: c.verdict})
		if s.state != c.state || s.rung != c.next {
			t.Errorf("after %s: %s, at rung %d, want %s at %d", c.verdict, s.state, s.rung, c.state, c.next)
		}
	}
}

// At an end of the ladder a walk turns, as it cannot go on, and so it ends, however
// much there is against what it sees now.
func TestWalkTurnsAtTheEnds(t *testing.T) {
	for _, c := range []struct {
		rung    int
		before  votes
		verdict Decision
	}{{2, votes{0, 99, 0}, Pass}, {-2, votes{99, 0, 0}, Fail}} {
		s := NewSearch(1000, 1e9)
		s.bottom, s.low, s.high, s.top = -2, -1, 0, 2
		s.phase, s.rung, s.votes = Settling, c.rung, map[int]votes{c.rung: c.before}
		steps := 0
		for s.phase == Settling && steps < 99 {
			s.Report(Verdict{Decision: c.verdict})
			steps++
		}
		if steps != 1+SettlingSteps {
			t.Errorf("rung %d: %d steps", c.rung, steps)
		}
	}
}

// Rungs that contradict each other are added up, and the answer follows.
func TestIsotonicAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		votes         map[int]votes
		answer, above int
	}{
		"nothing":                   {nil, -97, 1000},
		"in order":                  {map[int]votes{0: {3, 0, 0}, 1: {2, 2, 0}, 2: {1, 2, 0}, 3: {0, 3, 0}}, 1, 2},
		"all hold":                  {map[int]votes{0: {1, 0, 0}, 5: {1, 0, 0}}, 5, 1000},
		"none holds":                {map[int]votes{0: {0, 1, 0}, -5: {1, 2, 0}}, -97, -5},
		"one stall below":           {map[int]votes{0: {1, 1, 0}, 1: {0, 1, 0}, 2: {3, 0, 0}, 3: {0, 3, 0}}, 2, 3}, // 3 of 4
		"luck above":                {map[int]votes{0: {3, 0, 0}, 1: {0, 3, 0}, 2: {2, 0, 0}, 3: {0, 1, 0}}, 0, 1}, // 2 of 5
		"a contradiction that ties": {map[int]votes{0: {0, 2, 0}, 1: {2, 0, 0}}, 1, 1000},
		"three in a row":            {map[int]votes{0: {1, 4, 0}, 1: {2, 3, 0}, 2: {4, 0, 1}, 3: {0, 1, 0}}, -97, 0}, // 7 of 15
		"not offered does not hold": {map[int]votes{0: {2, 0, 0}, 1: {1, 1, 1}, 2: {0, 0, 1}}, 0, 1},
	} {
		s := NewSearch(1000, 1e9)
		s.top, s.votes = 999, c.votes
		if answer, above := s.answer(); answer != c.answer || above != c.above {
			t.Errorf("%s: %d below %d, want %d below %d", name, answer, above, c.answer, c.above)
		}
	}
}

// searchNoisy searches for a rate under which a step holds with the chance that holds
// gives for its distance from the capacity, as log(capacity / rate). It returns how
// far the answer is off, as log(answer / capacity), and the steps.
func searchNoisy(t *testing.T, seed uint64, holds func(distance float64, r *rand.Rand) bool) (off float64, steps int) {
	const capacity, first = 65_000.0, 3000.0
	r := rand.New(rand.NewPCG(seed, 1))
	s := NewSearch(first, 1e9)
	log := drive(t, s, func(rate float64, _ Phase) Decision {
		if holds(math.Log(capacity/rate), r) {
			return Pass
		}
		return Fail
	})
	return math.Log(s.Result().Rate / capacity), len(log)
}

// Two searches on the same machine are to agree within 10 %, though steps there do
// not. The seeds are fixed, so that the shares are always the same; the limit
// is well below what other seeds give too, 0.91, and above what comes of bisecting by
// the best of three verdicts in a row: 0.82 and 0.19.
func TestSearchesAgree(t *testing.T) {
	const (
		searches = 1000
		least    = 0.85 // of the pairs
		rung     = math.Ln2 / Rungs
	)
	for name, holds := range map[string]func(float64, *rand.Rand) bool{
		// 8 % below the capacity 73 % of the steps hold, as far above it 27 %.
		"noise of 8 %": func(distance float64, r *rand.Rand) bool {
			return r.Float64() < 1/(1+math.Exp(-distance/0.08))
		},
		// A clear edge, but whatever the rate a step of four fails.
		"a machine that stands still": func(distance float64, r *rand.Rand) bool {
			return r.Float64() < 0.75/(1+math.Exp(-distance/0.02))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var off []float64
			total, agreed := 0, 0
			for seed := range uint64(searches) {
				o, steps := searchNoisy(t, seed, holds)
				off = append(off, o)
				total += steps
				if seed%2 == 1 && math.Abs(o-off[seed-1]) <= math.Log(1.1) {
					agreed++
				}
			}
			slices.Sort(off)
			median, share, steps := off[searches/2], float64(agreed)/(searches/2), float64(total)/searches
			t.Logf("%.3f of the pairs agree, the median is off by %.3f, %.1f steps", share, median, steps)
			if share < least || math.Abs(median) > rung+0.005 {
				t.Errorf("%.3f of the pairs agree, the median is off by %.3f", share, median)
			}
		})
	}
}
