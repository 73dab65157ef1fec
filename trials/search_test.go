package trials

import (
	"fmt"
	"math"
	"slices"
	"strings"
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
		step := stepTaken{rate, s.Phase(), verdict(rate, s.Phase())}
		log = append(log, step)
		s.Report(Verdict{Decision: step.verdict})
		if len(log) > MaxSteps(s.most) {
			t.Fatalf("more than %d steps", MaxSteps(s.most))
		}
	}
	checkEnd(t, s, log)
	return log
}

// checkEnd checks what holds at the end of every search.
func checkEnd(t rapid.TB, s *Search, log []stepTaken) {
	t.Helper()
	o := s.Result()
	if o.State == Unfinished || o.Failed != 0 && o.Unoffered != 0 {
		t.Fatalf("the end is %+v", o)
	}
	if above := o.Failed + o.Unoffered; above != 0 && above <= o.Rate {
		t.Fatalf("%+v: what does not hold is not above what does", o)
	}
	if o.Rate == 0 {
		return
	}
	last := log[len(log)-1]
	if last != (stepTaken{o.Rate, Confirming, Pass}) {
		t.Fatalf("%+v was not measured again last: %+v", o, last)
	}
	passed := 0
	for _, step := range log[max(0, len(log)-3):] {
		if step == last {
			passed++
		}
	}
	if passed != 2 {
		t.Fatalf("%+v passed %d times when it was measured again", o, passed)
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
		log := drive(t, s, capacity(max(c, 1)))
		o := s.Result()
		c = max(c, 1) // exp(log(1)) may be less
		if least := max(max(first, 1)/64, 1); c < least {
			if o != (Outcome{State: BelowMinimum, Failed: least}) {
				t.Fatalf("%+v for %g below %g", o, c, least)
			}
			return
		}
		if o.State != Found || o.Rate > c || o.Failed <= c || o.Failed > 1.05*o.Rate {
			t.Fatalf("%+v for %g", o, c)
		}
		doublings := math.Ceil(math.Abs(math.Log2(c / max(first, 1))))
		if limit := 2 * (int(doublings) + 2 + 4 + 1); len(log) > limit {
			t.Fatalf("%d steps, at most %d are needed", len(log), limit)
		}
	})
}

func TestSearchStopsAtTheHighestRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, first := logUniform(1, 1e7).Draw(t, "most"), logUniform(1, 1e7).Draw(t, "first")
		s := NewSearch(first, most)
		for _, step := range drive(t, s, capacity(1e9)) {
			if step.rate > max(most, 1) {
				t.Fatalf("%g was tried", step.rate)
			}
		}
		if o := s.Result(); o != (Outcome{State: AtLeast, Rate: max(most, 1)}) {
			t.Fatalf("%+v", o)
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
		o := s.Result()
		// Rates that held are at most a factor of 2 apart.
		if o.Rate > c*1.3 || o.Rate < c/1.3/2 || o.State == BelowMinimum {
			t.Fatalf("%+v for %g", o, c)
		}
		states[o.State]++
	})
	if states[Found] == 0 || states[AtLeast] == 0 {
		t.Errorf("the noise shows nothing: %v", states)
	}
}

func TestSearchEndsWhateverItIsTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSearch(logUniform(1, 1e9).Draw(t, "first"), 1e9)
		verdict := rapid.SampledFrom([]Decision{Pass, Fail, Pass, Fail, GeneratorBound})
		drive(t, s, func(rate float64, phase Phase) Decision {
			o := s.Result()
			if above := o.Failed + o.Unoffered; above != 0 && rate >= above {
				t.Fatalf("%g is asked for although %g did not hold", rate, above)
			}
			if rate < o.Rate || (rate == o.Rate) != (phase == Confirming) {
				t.Fatalf("%g is asked for (%s) although %g held", rate, phase, o.Rate)
			}
			return verdict.Draw(t, "verdict")
		})
	})
}

func TestSearchWalks(t *testing.T) {
	wave := func(rates ...float64) (twice []float64) {
		for _, r := range rates {
			twice = append(twice, r, r)
		}
		return twice
	}
	for name, c := range map[string]struct {
		first, most float64
		verdict     func(float64, Phase) Decision
		rates       []float64
		want        Outcome
	}{
		"up, then bisected and measured again": {
			1000, 1e9, capacity(3000),
			wave(1000, 2000, 4000, 2828, 3363, 3084, 2953, 2953),
			Outcome{Found, 2953, 3084, 0},
		},
		"down": {
			1000, 1e9, capacity(300),
			wave(1000, 500, 250, 353.6, 297.3, 324.2, 310.5, 297.3),
			Outcome{Found, 297.3, 310.5, 0},
		},
		"nothing holds": {
			3, 1e9, capacity(0.5), wave(3, 1.5, 1), Outcome{BelowMinimum, 0, 1, 0},
		},
		"nothing can be offered": {
			3, 1e9, func(float64, Phase) Decision { return GeneratorBound }, wave(3, 1.5, 1), Outcome{AtLeast, 0, 0, 1},
		},
		"the lowest rate holds": {
			1, 1e9, capacity(1), wave(1, 2, 1.414, 1.189, 1.09, 1.044, 1), Outcome{Found, 1, 1.044, 0},
		},
		"the highest rate holds": {
			300, 1000, capacity(1e9), wave(300, 600, 1000, 1000), Outcome{AtLeast, 1000, 0, 0},
		},
		"above the generator it fails anyhow": {
			1000, 1e9, func(rate float64, _ Phase) Decision {
				if rate == 4000 {
					return GeneratorBound
				}
				return capacity(3000)(rate, "")
			},
			wave(1000, 2000, 4000, 2828, 3363, 3084, 2953, 2953), Outcome{Found, 2953, 3084, 0},
		},
		"a candidate that fails again, with one close below": {
			1000, 1e9, func(rate float64, p Phase) Decision {
				if p == Confirming && rate == 2953 {
					return Fail
				}
				return capacity(3000)(rate, p)
			},
			wave(1000, 2000, 4000, 2828, 3363, 3084, 2953, 2953, 2828), Outcome{Found, 2828, 2953, 0},
		},
		"a candidate that fails again, with a bracket below": {
			1000, 1e9, func(rate float64, p Phase) Decision {
				if p == Confirming && rate > 1500 {
					return Fail
				}
				return capacity(2100)(rate, p)
			},
			wave(1000, 2000, 4000, 2828, 2378, 2181, 2089, 2089, 2000, 1414, 1682, 1834, 1915, 1915, 1834, 1682, 1414),
			Outcome{Unsettled, 1414, 1682, 0},
		},
		"all that held fails again": {
			4, 1e9, func(rate float64, p Phase) Decision {
				if p == Confirming && rate > 1 {
					return Fail
				}
				return capacity(4)(rate, p)
			},
			wave(4, 8, 5.657, 4.757, 4.362, 4.177, 4, 2, 2.828, 3.363, 3.668, 3.83, 3.83, 3.668, 3.512, 3.512, 3.363, 2.828, 2, 1, 1),
			Outcome{Unsettled, 1, 2, 0},
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
			before := *s
			s.Report(Verdict{Decision: Fail})
			if s.state != before.state || s.Result() != c.want {
				t.Error("a report after the end changes it")
			}
		})
	}
}

func TestSearchKnowsWhatItHasSeen(t *testing.T) {
	s := NewSearch(1000, 1e9)
	if o := s.Result(); o != (Outcome{State: Unfinished}) {
		t.Errorf("before the first step: %+v", o)
	}
	for _, d := range []Decision{Pass, Fail, Pass, Fail, Fail} {
		s.Report(Verdict{Decision: d})
	}
	if o := s.Result(); o != (Outcome{Unfinished, 1000, 2000, 0}) {
		t.Errorf("after 1000 held and 2000 did not: %+v", o)
	}
	if rate, ok := s.Next(); rate != 1414 || !ok || s.Phase() != Bisecting {
		t.Errorf("next is %g, %t, %s", rate, ok, s.Phase())
	}
}

func TestBallot(t *testing.T) {
	letters := map[rune]Decision{'p': Pass, 'f': Fail, 'g': GeneratorBound}
	for verdicts, want := range map[string]Decision{
		"pp": Pass, "pfp": Pass, "fpp": Pass, "gpp": Pass, "ff": Fail, "pff": Fail, "gff": Fail,
		"gg": GeneratorBound, "pgg": GeneratorBound, "fgg": GeneratorBound, "pfg": GeneratorBound, "gfp": GeneratorBound,
		"p": "", "f": "", "g": "", "pf": "", "pg": "", "fg": "", "": "",
	} {
		var b ballot
		for k, letter := range verdicts {
			if _, ok := b.decided(); ok {
				t.Errorf("%s: decided after %d", verdicts, k)
			}
			b.add(letters[letter])
		}
		d, ok := b.decided()
		if ok != (want != "") || ok && d != want {
			t.Errorf("%s: %s, %t", verdicts, d, ok)
		}
	}
}

func TestMiddleCanBeTyped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := logUniform(1, 1e8).Draw(t, "low")
		high := low * rapid.Float64Range(1.05, 2).Draw(t, "ratio")
		mid := middle(low, high)
		if mid <= low || mid >= high || math.Abs(mid/math.Sqrt(low*high)-1) > 0.0006 {
			t.Fatalf("%g between %g and %g", mid, low, high)
		}
		if digits := strings.Trim(strings.ReplaceAll(fmt.Sprintf("%.9f", mid), ".", ""), "0"); len(digits) > 4 {
			t.Fatalf("%.9f has %d digits", mid, len(digits))
		}
	})
}
