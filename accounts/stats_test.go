package accounts

import (
	"math"
	"slices"
	"testing"
)

// The tests of distributions have fixed seeds, so they give the same answer
// each time. Their significance is one in a thousand: a right implementation
// would fail one seed in a thousand.

// flat returns n equal weights.
func flat(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// chiSquare fails t if the counts are too far from the weights, which it scales
// to the same sum (Pearson's test; the critical value by Wilson and Hilferty's
// approximation).
func chiSquare(t *testing.T, name string, counts []int64, weights []float64) {
	t.Helper()
	var n, total float64
	for i := range counts {
		n += float64(counts[i])
		total += weights[i]
	}
	var stat float64
	for i := range counts {
		want := weights[i] / total * n
		if want < 5 {
			t.Fatalf("%s: cell %d expects %.2f draws: too few for the test", name, i, want)
		}
		stat += (float64(counts[i]) - want) * (float64(counts[i]) - want) / want
	}
	const z = 3.0902 // the normal distribution's quantile 0.999
	df := float64(len(counts) - 1)
	c := 2 / (9 * df)
	if limit := df * math.Pow(1-c+z*math.Sqrt(c), 3); stat > limit {
		t.Errorf("%s: chi-square %.1f with %v degrees of freedom, at most %.1f expected", name, stat, df, limit)
	}
}

// kolmogorov fails t if the empirical distribution of the sorted ranks is too
// far from cdf, the probability of a rank of at most k. For discrete values the
// test errs on the side of passing.
func kolmogorov(t *testing.T, name string, ranks []int64, cdf func(k int64) float64) {
	t.Helper()
	n := float64(len(ranks))
	var worst float64
	for i, k := range ranks {
		if i+1 < len(ranks) && ranks[i+1] == k {
			continue // compare at the last of equal ranks
		}
		worst = max(worst, math.Abs(float64(i+1)/n-cdf(k)))
	}
	const critical = 1.9495 // Kolmogorov's distribution, 0.001
	if limit := critical / math.Sqrt(n); worst > limit {
		t.Errorf("%s: largest distance %.5f, at most %.5f expected", name, worst, limit)
	}
}

// share fails t if hits of n draws are too far from probability p.
func share(t *testing.T, name string, hits, n int64, p float64) {
	t.Helper()
	const z = 3.2905 // two-sided, 0.001
	sd := math.Sqrt(p * (1 - p) / float64(n))
	if got := float64(hits) / float64(n); math.Abs(got-p) > z*sd {
		t.Errorf("%s: a share of %.5f, want %.5f ± %.5f", name, got, p, z*sd)
	}
}
