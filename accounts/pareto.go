package accounts

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// The parameters of the article "100000 TPS over a billion rows" (2025): its
// number of rows and its skew.
const (
	ParetoR int64   = 1_000_000_000
	ParetoP float64 = 0.9995

	// MinParetoRows is the smallest table that [NewPareto] accepts. With the
	// article's parameters nearly all draws lie below half a million; a table
	// smaller than that would cut the distribution's body off and no longer be
	// the article's.
	MinParetoRows int64 = 1_000_000
)

// minParetoShare is the least share of draws that must fall into the table:
// the others are drawn again, and below this a load would mostly draw.
const minParetoShare = 0.01

// pareto draws x uniformly from [0,1) and returns the rank
//
//	1 + floor(r * (x^a + 1 - (1-x)^(1/a)) / 2),  a = ln(1-p) / ln(p)
//
// which rises with x from 1 to r.
type pareto struct {
	n    int64
	r, a float64
}

// NewPareto returns the article's distribution over n accounts. A share p of
// the draws falls, roughly, on the first r*(1-p) ranks; [ParetoR] and [ParetoP]
// are the article's own values, with which the median rank is about 22,800 and
// 95 % are below 100,000. r is not the number of rows: it stays the same on a
// smaller table, so that as many accounts are hot as in the article, and draws
// above n are drawn again.
//
// It returns an error if n is below [MinParetoRows] or above [MaxRows], r is
// not 1 to [MaxRows], p is not between 0 and 1, or less than one draw in a
// hundred would fall into the table.
func NewPareto(n, r int64, p float64) (Dist, error) {
	if err := checkRows("pareto", n); err != nil {
		return nil, err
	}
	switch {
	case n < MinParetoRows:
		return nil, fmt.Errorf("accounts: pareto over %d accounts: it needs %d: seed more rows, or choose another distribution (zipfian, uniform, hotspot)",
			n, MinParetoRows)
	case r < 1 || r > MaxRows:
		return nil, fmt.Errorf("accounts: pareto with r = %d: choose 1 to %d", r, MaxRows)
	case !(p > 0 && p < 1):
		return nil, fmt.Errorf("accounts: pareto with p = %v: choose more than 0 and less than 1", p)
	}
	d := &pareto{n: n, r: float64(r), a: math.Log1p(-p) / math.Log(p)}
	if share := d.shareBelow(float64(n)); share < minParetoShare {
		return nil, fmt.Errorf("accounts: pareto with r = %d and p = %v puts only %.2g of its draws into %d accounts: choose a smaller r or seed more rows",
			r, p, share, n)
	}
	return d, nil
}

func (d *pareto) Rank(r *rand.Rand) int64 {
	for {
		if id := d.at(r.Float64()); id < float64(d.n) {
			return 1 + int64(id)
		}
	}
}

// at is the article's formula before rounding.
func (d *pareto) at(x float64) float64 {
	// 1 - (1-x)^(1/a), without the cancellation near 0 where the hot ids are.
	v := -math.Expm1(math.Log1p(-x) / d.a)
	// ln(x) <= x-1, so below this bound x^a is under e^-100: even times r far
	// too small to change an id, and not worth the logarithm.
	if d.a*(x-1) > -100 {
		v += math.Pow(x, d.a)
	}
	return d.r * v / 2
}

// shareBelow returns the probability that a draw before rejection is below id:
// the x at which the formula, which rises with x, reaches it.
func (d *pareto) shareBelow(id float64) float64 {
	lo, hi := 0.0, 1.0
	for range 60 {
		if mid := (lo + hi) / 2; d.at(mid) < id {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
