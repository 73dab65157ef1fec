package accounts

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// MaxTheta is the highest exponent of [NewZipfian].
const MaxTheta = 2.0

// smoothRank is a rank from which on every draw is accepted. The integral over
// k's step and k^-theta differ there by a share of theta(theta+1)/(24k^2),
// less than 2^-53, while the comparison's own rounding grows with k: near 2^53
// it would refuse every fifth draw for nothing, and not evenly.
const smoothRank = 1 << 26

// zipfian draws from the power law by rejection-inversion: the histogram of
// k^-theta is covered by the integral of x^-theta shifted by half a step, which
// can be inverted in closed form; a draw is accepted at once when it falls in
// the part of the step where the two agree, else after one comparison. See
// W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
// monotone discrete distributions", ACM Transactions on Modeling and Computer
// Simulation 6(3), 1996, pages 169-184.
//
// Rejected: the table-free approximation of Gray et al. (1994) that YCSB made
// common. It sums n terms before it starts, excludes theta = 1 and is inexact
// for the ranks after the second.
type zipfian struct {
	n      int64
	theta  float64
	low    float64 // integral at the left end of rank 1's step
	high   float64 // integral at the right end of rank n's step
	accept float64 // a draw this close below its rank needs no comparison
}

// NewZipfian returns the distribution in which rank k of n is drawn with a
// probability proportional to k^-theta. n is 1 to [MaxRows]; theta is above 0
// and at most [MaxTheta], 1 included. A higher theta is more skewed; YCSB's is
// 0.99. It takes no time to set up, whatever n, and needs fewer than 1.2
// uniform numbers for a draw.
func NewZipfian(n int64, theta float64) (Dist, error) {
	if err := checkRows("zipfian", n); err != nil {
		return nil, err
	}
	if !(theta > 0 && theta <= MaxTheta) {
		return nil, fmt.Errorf("accounts: zipfian with theta = %v: choose more than 0 and at most %v", theta, MaxTheta)
	}
	z := &zipfian{n: n, theta: theta}
	z.low = z.integral(1.5) - 1
	z.high = z.integral(float64(n) + 0.5)
	z.accept = 2 - z.inverse(z.integral(2.5)-z.weight(2))
	return z, nil
}

func (z *zipfian) Rank(r *rand.Rand) int64 {
	for {
		u := z.high + r.Float64()*(z.low-z.high)
		x := z.inverse(u)
		// Rounding can put the ends a hair outside.
		k := min(max(math.Round(x), 1), float64(z.n))
		if k >= smoothRank || k-x <= z.accept || u >= z.integral(k+0.5)-z.weight(k) {
			return int64(k)
		}
	}
}

// weight is x^-theta.
func (z *zipfian) weight(x float64) float64 { return math.Exp(-z.theta * math.Log(x)) }

// integral is an integral of weight: (x^(1-theta) - 1) / (1-theta), whose limit
// at theta = 1 is ln(x).
func (z *zipfian) integral(x float64) float64 {
	l := math.Log(x)
	return l * expm1Over((1-z.theta)*l)
}

// inverse is the inverse of integral.
func (z *zipfian) inverse(u float64) float64 {
	// Rounding may carry t below -1, where the logarithm is not defined.
	t := max((1-z.theta)*u, -1)
	return math.Exp(u * log1pOver(t))
}

// expm1Over is (e^x - 1) / x, continued to 1 at 0, so that theta = 1 is no
// special case and theta close to 1 loses no digits.
func expm1Over(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Expm1(x) / x
}

// log1pOver is ln(1+x) / x, continued to 1 at 0.
func log1pOver(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Log1p(x) / x
}
