package accounts

import (
	"fmt"
	"math/rand/v2"
)

// Dist is a distribution of traffic over accounts. Rank draws a rank in 1..n,
// where n was given to the constructor; where ranks differ in traffic, rank 1
// is the hottest. It uses no other randomness than r, so equal generators give
// equal ranks. A Dist holds no changing state: any number of goroutines may
// share it, each with its own r.
type Dist interface {
	Rank(r *rand.Rand) int64
}

// checkRows refuses a number of accounts that no data set has.
func checkRows(name string, n int64) error {
	if n < 1 || n > MaxRows {
		return fmt.Errorf("accounts: %s over %d accounts: choose 1 to %d rows", name, n, MaxRows)
	}
	return nil
}

type uniform struct{ n int64 }

// NewUniform returns the distribution that draws each of n ranks equally often,
// n from 1 to [MaxRows].
func NewUniform(n int64) (Dist, error) {
	if err := checkRows("uniform", n); err != nil {
		return nil, err
	}
	return uniform{n}, nil
}

func (u uniform) Rank(r *rand.Rand) int64 { return 1 + r.Int64N(u.n) }

type hotspot struct {
	hot, cold int64 // accounts
	traffic   float64
}

// NewHotspot returns the distribution in which a share of the n accounts, the
// first ranks, gets a share of the traffic, and the rest gets what is left;
// within each part all ranks are drawn equally often. shareOfAccounts lies
// between 0 and 1, both excluded; it is rounded down to whole accounts, but
// leaves at least one on each side, so n is at least 2. shareOfTraffic is 0 to
// 1; below shareOfAccounts the first ranks are the cold ones.
func NewHotspot(n int64, shareOfAccounts, shareOfTraffic float64) (Dist, error) {
	if err := checkRows("hotspot", n); err != nil {
		return nil, err
	}
	// The conditions are written so that a NaN fails them.
	switch {
	case n < 2:
		return nil, fmt.Errorf("accounts: hotspot over one account: choose 2 rows or more")
	case !(shareOfAccounts > 0 && shareOfAccounts < 1):
		return nil, fmt.Errorf("accounts: hotspot of a share %v of the accounts: choose more than 0 and less than 1", shareOfAccounts)
	case !(shareOfTraffic >= 0 && shareOfTraffic <= 1):
		return nil, fmt.Errorf("accounts: hotspot with a share %v of the traffic: choose 0 to 1", shareOfTraffic)
	}
	hot := min(max(1, int64(shareOfAccounts*float64(n))), n-1)
	return hotspot{hot: hot, cold: n - hot, traffic: shareOfTraffic}, nil
}

func (h hotspot) Rank(r *rand.Rand) int64 {
	// Float64 is below 1, so a traffic share of 0 or 1 is exact.
	if r.Float64() < h.traffic {
		return 1 + r.Int64N(h.hot)
	}
	return 1 + h.hot + r.Int64N(h.cold)
}
