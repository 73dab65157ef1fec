package trials

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSummarize(t *testing.T) {
	for name, c := range map[string]struct {
		values                        []float64
		median, low, high, confidence float64
		warnings                      []string
	}{
		"none":  {nil, 0, 0, 0, 0, []string{"there is no round"}},
		"one":   {[]float64{7}, 7, 7, 7, 0, []string{"need >= 6 samples for confidence interval at level 0.95"}},
		"five":  {[]float64{3, 1, 2, 5, 4}, 3, 1, 5, 0.9375, []string{"need >= 6 samples for confidence interval at level 0.95"}},
		"six":   {[]float64{3, 1, 2, 5, 4, 9}, 3.5, 1, 9, 0.96875, nil},
		"nine":  {[]float64{9, 8, 7, 6, 5, 4, 3, 2, 1}, 5, 2, 8, 0.9609375, nil},
		"equal": {[]float64{2, 2, 2, 2, 2, 2}, 2, 2, 2, 0.96875, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.values)
			s := Summarize(c.values)
			if s.Median != c.median || s.Low != c.low || s.High != c.high || math.Abs(s.Confidence-c.confidence) > 1e-9 || s.N != len(c.values) {
				t.Errorf("%+v", s)
			}
			if !slices.Equal(s.Values, before) || !slices.Equal(c.values, before) || s.Values == nil {
				t.Errorf("the values became %v and %v", c.values, s.Values)
			}
			if !slices.Equal(s.Warnings, c.warnings) || s.Warnings == nil {
				t.Errorf("warnings %q", s.Warnings)
			}
		})
	}
}

func TestCompareValues(t *testing.T) {
	for name, c := range map[string]struct {
		a, b     []float64
		ratio, p float64
		warnings []string
	}{
		"apart": {[]float64{11, 12, 13, 14}, []float64{1, 2, 3, 4}, 5, 2. / 70, nil}, // C(8, 4) = 70 ways
		"too few": {[]float64{11, 12, 13}, []float64{1, 2, 3}, 6, 2. / 20,
			[]string{"need >= 4 samples to detect a difference at alpha level 0.05"}},
		"equal":   {[]float64{5, 5, 5, 5, 5}, []float64{5, 5, 5, 5, 5}, 1, 1, []string{"all samples are equal"}},
		"zero":    {[]float64{1, 1, 1, 2}, []float64{0, 0, 0, 0}, 0, -1, nil},
		"nothing": {nil, []float64{1}, 0, 1, []string{"there is no round"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := CompareValues(c.a, c.b)
			if got.Ratio != c.ratio || c.p >= 0 && math.Abs(got.P-c.p) > 1e-9 || got.Noise != (got.P > Alpha) {
				t.Errorf("%+v", got)
			}
			if !slices.Equal(got.Warnings, c.warnings) || got.Warnings == nil {
				t.Errorf("warnings %q", got.Warnings)
			}
		})
	}
}

func TestPairedRatio(t *testing.T) {
	s := PairedRatio([]float64{2, 30, 400, 5, 0, 7}, []float64{1, 10, 100, 0, 0})
	if !slices.Equal(s.Values, []float64{2, 3, 4}) || s.Median != 3 || s.Low != 2 || s.High != 4 || s.Confidence != 0.75 {
		t.Errorf("%+v", s)
	}
	if want := "3 of 6 rounds have no ratio"; len(s.Warnings) != 2 || s.Warnings[1] != want {
		t.Errorf("warnings %q", s.Warnings)
	}
}

// noisy draws rounds around a mean, with a standard deviation as a share of it.
func noisy(rng *rand.Rand, n int, mean, noise float64) []float64 {
	values := make([]float64, n)
	for k := range values {
		values[k] = mean * (1 + noise*rng.NormFloat64())
	}
	return values
}

// within checks a frequency against its probability, four standard deviations wide:
// once in 16,000 seeds it is outside, and the seed is fixed.
func within(t *testing.T, what string, hits, trials int, low, high float64) {
	t.Helper()
	share := float64(hits) / float64(trials)
	spread := func(p float64) float64 { return 4 * math.Sqrt(p*(1-p)/float64(trials)) }
	if share < low-spread(low) || share > high+spread(high) {
		t.Errorf("%s in %.2f %% of %d trials, expected %.2f to %.2f %%", what, 100*share, trials, 100*low, 100*high)
	}
}

// Arms that do not differ are told apart in about Alpha of all cases: the test is
// exact, so that the most that is possible below Alpha with so few ranks is known.
func TestSameArms(t *testing.T) {
	const trials = 4000
	for n, size := range map[int]float64{5: 0.0317, 6: 0.0411, 8: 0.0499} {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		flagged, outside, missed := 0, 0, 0
		var reach Summary
		for range trials {
			a, b := noisy(rng, n, 1e5, 0.03), noisy(rng, n, 1e5, 0.03)
			if !CompareValues(a, b).Noise {
				flagged++
			}
			if r := PairedRatio(a, b); r.Low > 1 || r.High < 1 {
				outside++
			}
			if reach = Summarize(a); reach.Low > 1e5 || reach.High < 1e5 {
				missed++
			}
		}
		within(t, "told apart", flagged, trials, size, size)
		within(t, "1 was outside the interval of the ratio", outside, trials, 1-reach.Confidence, 1-reach.Confidence)
		within(t, "the median was outside its interval", missed, trials, 1-reach.Confidence, 1-reach.Confidence)
	}
}

// Eight rounds with 3 % noise find a difference of 20 %.
func TestDifferentArms(t *testing.T) {
	const trials = 1000
	rng := rand.New(rand.NewPCG(2, 3))
	for range trials {
		a, b := noisy(rng, 8, 1.2e5, 0.03), noisy(rng, 8, 1e5, 0.03)
		c, r := CompareValues(a, b), PairedRatio(a, b)
		if c.Noise || math.Abs(c.Ratio-1.2) > 0.12 {
			t.Fatalf("%v and %v: %+v", a, b, c)
		}
		if r.Low <= 1 || math.Abs(r.Median-1.2) > 0.12 {
			t.Fatalf("%v and %v: %+v", a, b, r)
		}
	}
}

// A drift over the rounds hides a difference from what does not know the rounds,
// and not from the ratio of each round.
func TestDrift(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	a, b := noisy(rng, 8, 1.1e5, 0.01), noisy(rng, 8, 1e5, 0.01)
	for k := range a {
		a[k] *= 1 + float64(k)/4
		b[k] *= 1 + float64(k)/4
	}
	if c := CompareValues(a, b); !c.Noise {
		t.Errorf("the drift does not hide anything: %+v", c)
	}
	if r := PairedRatio(a, b); r.Low < 1.05 || r.High > 1.15 || r.Low > 1.1 || r.High < 1.1 {
		t.Errorf("%+v", r)
	}
}

// What is measured in another unit, or in another order of the rounds, comes to
// the same.
func TestInvariances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "rounds")
		values := rapid.SliceOfN(rapid.Float64Range(1, 1e6), n, n)
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		unit := math.Ldexp(1, rapid.IntRange(-20, 20).Draw(t, "unit")) // exact
		order := rapid.Permutation(Order(n, 1)).Draw(t, "order")
		scaled := func(values []float64) (list []float64) {
			for _, k := range order {
				list = append(list, values[k]*unit)
			}
			return list
		}
		s, s2 := Summarize(a), Summarize(scaled(a))
		if s.Low > s.Median || s.Median > s.High || !slices.Contains(a, s.Low) || !slices.Contains(a, s.High) {
			t.Fatalf("%+v", s)
		}
		if s2.Median != s.Median*unit || s2.Low != s.Low*unit || s2.High != s.High*unit || s2.Confidence != s.Confidence {
			t.Fatalf("%+v became %+v", s, s2)
		}
		c, c2 := CompareValues(a, b), CompareValues(scaled(a), scaled(b))
		if c.Ratio != c2.Ratio || c.P != c2.P || c.P <= 0 || c.P > 1 {
			t.Fatalf("%+v became %+v", c, c2)
		}
		if back := CompareValues(b, a); math.Abs(back.P-c.P) > 1e-9 || math.Abs(back.Ratio*c.Ratio-1) > 1e-9 {
			t.Fatalf("%+v, and the other way %+v", c, back)
		}
		r, r2 := PairedRatio(a, b), PairedRatio(scaled(a), scaled(b))
		if r.Median != r2.Median || r.Low != r2.Low || r.High != r2.High || r.N != n {
			t.Fatalf("%+v became %+v", r, r2)
		}
	})
}
