package script

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The tests of distributions have fixed seeds, so they give the same answer each
// time. Their significance is one in a thousand.

// chiSquare fails t if the counts are too far from the weights, which it scales to
// the same sum (Pearson's test; the critical value by Wilson and Hilferty's
// approximation). Cells that expect too few draws are joined with the next.
func chiSquare(t *testing.T, name string, counts, weights []float64) {
	t.Helper()
	var n, total float64
	for i := range counts {
		n += counts[i]
		total += weights[i]
	}
	var stat, cells, got, want float64
	for i := range counts {
		got += counts[i]
		want += weights[i] / total * n
		if want < 10 && i < len(counts)-1 {
			continue
		}
		if want >= 1 {
			stat += (got - want) * (got - want) / want
			cells++
		}
		got, want = 0, 0
	}
	const z = 3.0902 // the normal distribution's quantile 0.999
	c := 2 / (9 * (cells - 1))
	if limit := (cells - 1) * math.Pow(1-c+z*math.Sqrt(c), 3); cells < 2 || stat > limit {
		t.Errorf("%s: chi-square %.1f in %v cells, at most %.1f expected", name, stat, cells, limit)
	}
}

// weigh calls weight for 1 to n.
func weigh(n int, weight func(k float64) float64) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = weight(float64(i + 1))
	}
	return w
}

// The expected probabilities are those of the formulas in pgbench's manual.
func TestDistributions(t *testing.T) {
	phi := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	exponentially := func(n int, p float64) []float64 {
		f := func(k float64) float64 { return math.Exp(-p*(k-1)/float64(n)) / (1 - math.Exp(-p)) }
		return weigh(n, func(k float64) float64 { return f(k) - f(k+1) })
	}
	normally := func(n int, p float64) []float64 {
		mu := float64(n+1) / 2
		f := func(k float64) float64 { return phi(2*p*(k-mu)/float64(n)) / (2*phi(p) - 1) }
		return weigh(n, func(k float64) float64 { return f(k+0.5) - f(k-0.5) })
	}
	zipf := func(n int, s float64) []float64 {
		return weigh(n, func(k float64) float64 { return math.Pow(k, -s) })
	}
	const low = -40
	for _, tt := range []struct {
		call    string
		weights []float64
	}{
		{"random(%d, %d)", weigh(60, func(float64) float64 { return 1 })},
		{"random_exponential(%d, %d, 0.01)", exponentially(50, 0.01)},
		{"random_exponential(%d, %d, 3)", exponentially(50, 3)},
		{"random_exponential(%d, %d, 40.0)", exponentially(1000, 40)},
		{"random_gaussian(%d, %d, 2)", normally(50, 2)},
		{"random_gaussian(%d, %d, 2.5)", normally(51, 2.5)},
		{"random_gaussian(%d, %d, 8)", normally(100, 8)},
		{"random_zipfian(%d, %d, 1.001)", zipf(1000, 1.001)},
		{"random_zipfian(%d, %d, 1.07)", zipf(2, 1.07)},
		{"random_zipfian(%d, %d, 2.5)", zipf(100, 2.5)},
		{"random_zipfian(%d, %d, 12)", zipf(5, 12)},
	} {
		call := fmt.Sprintf(tt.call, low, low+len(tt.weights)-1)
		s := mustParse(t, "\\set x "+call+"\nSELECT :x;")
		env := mustEnv(t, s, nil)
		counts := make([]float64, len(tt.weights))
		for i := range uint64(100_000) {
			env.Reset(7, i) // consecutive transactions, so that their independence is tested too
			if err := env.Run(Before, nil); err != nil {
				t.Fatal(err)
			}
			x := env.values[s.slots["x"]].i - low
			if x < 0 || x >= int64(len(counts)) {
				t.Fatalf("%s = %d", call, x+low)
			}
			counts[x]++
		}
		chiSquare(t, call, counts, tt.weights)
	}
}

// The ends of the parameters and of the ranges stay in range.
func TestExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int64{1, 2, 3, 1 << 53, 1<<53 + 1, math.MaxInt64} {
		for range 2000 {
			for _, p := range []float64{1e-300, 1e-9, 1, 700, 1e300} {
				if k := exponential(r, n, p); k < 0 || k >= n {
					t.Fatalf("exponential(%d, %v) = %d", n, p, k)
				}
			}
			for _, p := range []float64{2, 40, 1e300} {
				if k := gaussian(r, n, p); k < 0 || k >= n {
					t.Fatalf("gaussian(%d, %v) = %d", n, p, k)
				}
			}
			for _, s := range []float64{minZipfian, 2, 50, maxZipfian} {
				z := newZipfian(n, s)
				if k := z.rank(r); k < 1 || k > n {
					t.Fatalf("zipfian(%d, %v) = %d", n, s, k)
				}
			}
		}
	}
	if scale(10, 1) != 9 || scale(math.MaxInt64, math.Nextafter(1, 0)) == math.MaxInt64 {
		t.Error("scale leaves the range")
	}
}

// A steep Zipfian over a huge range has the ratios that the manual gives.
func TestZipfianOfManyRows(t *testing.T) {
	r, z := rand.New(rand.NewPCG(3, 4)), newZipfian(1e9, 1.5)
	counts := make([]float64, 11)
	for range 300_000 {
		if k := z.rank(r); k <= 10 {
			counts[k-1]++
		} else {
			counts[10]++
		}
	}
	const zeta = 2.612375348685488 // of 1.5; the rest above 1e9 is 6e-5
	weights := weigh(10, func(k float64) float64 { return math.Pow(k, -1.5) })
	rest := zeta - 2/math.Sqrt(1e9)
	for _, w := range weights {
		rest -= w
	}
	chiSquare(t, "zipfian", counts, append(weights, rest))
}

// The random numbers of a transaction depend on the seed and its number alone.
func TestRepeatable(t *testing.T) {
	s := mustParse(t, "\\set a random(1, 1000000000)\n\\set b random_zipfian(1, 1000000, 1.2)\nSELECT :a, :b;")
	draw := func(env *Env, seed, i uint64) [2]int64 {
		env.Reset(seed, i)
		if err := env.Run(Before, nil); err != nil {
			t.Fatal(err)
		}
		return [2]int64{env.values[0].i, env.values[1].i}
	}
	env := mustEnv(t, s, nil)
	first := map[[2]int64]bool{}
	for i := range uint64(1000) {
		first[draw(env, 5, i)] = true
	}
	if len(first) < 999 {
		t.Errorf("%d different pairs in 1000 transactions", len(first))
	}
	other := mustEnv(t, s, nil)
	for _, i := range []uint64{999, 0, 500, 500} {
		if a, b := draw(env, 5, i), draw(other, 5, i); a != b {
			t.Errorf("transaction %d draws %v and %v", i, a, b)
		}
		if first[draw(other, 6, i)] {
			t.Errorf("transaction %d draws the same with another seed", i)
		}
	}
}
