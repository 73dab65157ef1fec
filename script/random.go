package script

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// The parameters that pgbench allows.
const (
	minGaussian                   = 2.0
	minZipfian, maxZipfian        = 1.001, 1000.0
	transactionStream      uint64 = 0x7470737363726970 // sets these random numbers apart from others of the seed
	mixStream              uint64 = 0x747073736d697831
)

// mix64 spreads a number over all bits, so that seeds that differ by one have
// nothing in common: the finalizer of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014).
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// random computes a random function: an integer between the first two arguments,
// both included.
func (e *Env) random(n *node, args [3]value) (value, error) {
	low, high, err := integers(args[0], args[1])
	if err != nil {
		return value{}, err
	}
	span, err := integerArithmetic(opSubtract, high, low)
	if err == nil {
		span, err = integerArithmetic(opAdd, span, 1)
	}
	switch {
	case low > high:
		return value{}, fmt.Errorf("the range of a random number from %d to %d is empty", low, high)
	case err != nil:
		return value{}, errors.New("the range of a random number is too large: it holds more values than there are integers")
	case n.op == opRandom:
		return intValue(low + e.rng.Int64N(span)), nil
	}
	parameter, err := args[2].toDouble()
	if err != nil {
		return value{}, err
	}
	// The conditions are written so that a NaN fails them.
	switch n.op {
	case opExponential:
		if !(parameter > 0) {
			return value{}, fmt.Errorf("random_exponential with the parameter %v: it is above 0", parameter)
		}
		return intValue(low + exponential(e.rng, span, parameter)), nil
	case opGaussian:
		if !(parameter >= minGaussian) {
			return value{}, fmt.Errorf("random_gaussian with the parameter %v: it is at least %v", parameter, minGaussian)
		}
		return intValue(low + gaussian(e.rng, span, parameter)), nil
	}
	if !(parameter >= minZipfian && parameter <= maxZipfian) {
		return value{}, fmt.Errorf("random_zipfian with the parameter %v: it is %v to %v", parameter, minZipfian, maxZipfian)
	}
	// A call has the same arguments each time in nearly every script.
	z := &e.zipfians[n.slot]
	if z.n != span || z.s != parameter {
		*z = newZipfian(span, parameter)
	}
	return intValue(low - 1 + z.rank(e.rng)), nil
}

// scale turns x in [0,1) into an integer from 0 to n-1. Rounding can carry the
// product to n.
func scale(n int64, x float64) int64 {
	if p := x * float64(n); p < float64(n) {
		return min(int64(p), n-1)
	}
	return n - 1
}

// exponential draws i from 0 to n-1 with the probability that pgbench's manual
// gives: f(i) - f(i+1) with f(x) = exp(-p x/n) / (1 - exp(-p)), an exponential
// distribution cut off at p. It is drawn by inverting its distribution function.
func exponential(r *rand.Rand, n int64, p float64) int64 {
	u := r.Float64()
	return scale(n, -math.Log1p(u*math.Expm1(-p))/p)
}

// gaussian draws i from 0 to n-1 as pgbench's manual says: a standard normal
// distribution cut off at -p and +p, whose range is divided into n equal parts. At
// p = 2 or more a draw is refused once in 22 times or less.
func gaussian(r *rand.Rand, n int64, p float64) int64 {
	for {
		if z := r.NormFloat64(); z >= -p && z < p {
			return scale(n, (z+p)/(2*p))
		}
	}
}

// zipfian draws k from 1 to n with a probability proportional to k^-s, s above 1, by
// rejection-inversion: the histogram of k^-s is covered by the integral of x^-s
// shifted by half a step, which is inverted in closed form; a draw is accepted at
// once if it falls where the two agree, else after a comparison. See W. Hörmann and
// G. Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", ACM Transactions on Modeling and Computer Simulation 6(3), 1996,
// pages 169-184.
//
// Rejected: the method of Devroye (1986, page 550) that pgbench uses. It draws from
// the unbounded distribution and refuses what is above n, which near s = 1 is nearly
// everything. The distribution is the same.
type zipfian struct {
	n      int64
	s      float64
	low    float64 // integral at the left end of rank 1's step
	high   float64 // integral at the right end of rank n's step
	accept float64 // a draw this close below its rank needs no comparison
}

// smoothRank is a rank from which on every draw is accepted: the integral over a step
// and the weight of its rank differ there by a share of s(s+1)/(24k^2), while the
// comparison's own rounding grows with k. For an s for which that is not little, no
// draw comes so far.
const smoothRank = 1 << 26

func newZipfian(n int64, s float64) zipfian {
	z := zipfian{n: n, s: s}
	z.low = z.integral(1.5) - 1
	z.high = z.integral(float64(n) + 0.5)
	z.accept = 2 - z.inverse(z.integral(2.5)-z.weight(2))
	return z
}

func (z *zipfian) rank(r *rand.Rand) int64 {
	for {
		u := z.high + r.Float64()*(z.low-z.high)
		x := z.inverse(u)
		// Rounding can put the ends outside.
		k := max(math.Round(x), 1)
		if k >= float64(z.n) {
			k = float64(z.n)
		}
		if k >= smoothRank || k-x <= z.accept || u >= z.integral(k+0.5)-z.weight(k) {
			return min(int64(k), z.n) // a double of n may be above n
		}
	}
}

// weight is x^-s.
func (z *zipfian) weight(x float64) float64 { return math.Exp(-z.s * math.Log(x)) }

// integral is an integral of weight: (1 - x^(1-s)) / (s-1).
func (z *zipfian) integral(x float64) float64 {
	return -math.Expm1((1-z.s)*math.Log(x)) / (z.s - 1)
}

// inverse is the inverse of integral.
func (z *zipfian) inverse(u float64) float64 {
	// Rounding may carry the argument below -1, where the logarithm is not defined.
	return math.Exp(math.Log1p(max((1-z.s)*u, -1)) / (1 - z.s))
}
