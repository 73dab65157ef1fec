package trials

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHolm(t *testing.T) {
	for name, c := range map[string]struct{ p, want []float64 }{
		"none":         {nil, []float64{}},
		"one":          {[]float64{0.03}, []float64{0.03}},
		"two":          {[]float64{0.03, 0.02}, []float64{0.04, 0.04}},
		"four":         {[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		"at most 1":    {[]float64{0.9, 0.4, 0.6}, []float64{1, 1, 1}},
		"equal":        {[]float64{0.01, 0.01, 0.01}, []float64{0.03, 0.03, 0.03}},
		"0 and 1":      {[]float64{1, 0}, []float64{1, 0}},
		"none smaller": {[]float64{0.02, 0.021, 0.022}, []float64{0.06, 0.06, 0.06}},
	} {
		before := slices.Clone(c.p)
		got := Holm(c.p)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) || got == nil || !slices.Equal(c.p, before) {
			t.Errorf("%s: %v became %v", name, before, got)
		}
	}
}

// Whatever the p-values are: none gets smaller, nor larger than times their number,
// their order stays, what is equal stays so, and it does not matter how they are listed.
func TestHolmHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 12).Draw(t, "p")
		adjusted := Holm(p)
		smallest := slices.Index(p, slices.Min(p))
		if want := min(1, float64(len(p))*p[smallest]); math.Abs(adjusted[smallest]-want) > 1e-12 {
			t.Fatalf("the smallest of %v became %v", p, adjusted[smallest])
		}
		for k := range p {
			if adjusted[k] < p[k] || adjusted[k] > 1 || adjusted[k] > float64(len(p))*p[k]+1e-12 && adjusted[k] > slices.Max(adjusted[:k+1]) {
				t.Fatalf("%v became %v", p, adjusted)
			}
			for n := range p {
				if p[n] < p[k] && adjusted[n] > adjusted[k] || p[n] == p[k] && adjusted[n] != adjusted[k] {
					t.Fatalf("%v became %v", p, adjusted)
				}
			}
		}
		order := rapid.Permutation(Order(len(p), 1)).Draw(t, "order")
		shuffled := make([]float64, len(p))
		for k, from := range order {
			shuffled[k] = p[from]
		}
		for k, got := range Holm(shuffled) {
			if got != adjusted[order[k]] {
				t.Fatalf("%v became %v, and in another order %v", p, adjusted, got)
			}
		}
	})
}
