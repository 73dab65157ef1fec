package accounts

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// Layout says which account has a rank: a one-to-one mapping of 1..n to itself.
// Where the hot accounts lie decides how many pages a load touches. A Layout
// holds no changing state; any number of goroutines may share it.
type Layout interface {
	ID(rank int64) int64
}

// Clustered is the layout in which rank k is account k: hot accounts are
// neighbours and share pages, as in the article.
type Clustered struct{}

// ID returns rank.
func (Clustered) ID(rank int64) int64 { return rank }

// feistelRounds is the number of rounds. Four make a Feistel network of good
// round functions indistinguishable from random (Luby and Rackoff, 1988); two
// more make up for plain multiplications as round functions.
const feistelRounds = 6

// scattered is a Feistel network over the numbers of an even number of bits
// that hold 0..n-1, with cycle-walking: a result of n or more is put in again
// until one falls below n, which ends because a permutation's cycles close.
//
// Rejected: multiplication by a number coprime to n. It is O(1) too, but puts
// neighbouring ranks at a constant distance, so that with an unlucky factor
// whole runs of them still share pages.
type scattered struct {
	n    uint64
	half uint // bits in each half
	keys [feistelRounds]uint64
}

// NewScattered returns a layout that scatters the ranks over 1..n in an order
// that only the seed decides, so that hot accounts lie on different pages. It
// needs O(1) space and O(1) time: the domain of the network is less than 4n
// (when n > 1), so a rank takes on average less than 4 passes of six rounds,
// and less than 1.1 for a million or a billion accounts. n is 1 to [MaxRows]. ID
// panics on a rank outside 1..n.
func NewScattered(n int64, seed uint64) (Layout, error) {
	if err := checkRows("scattered layout", n); err != nil {
		return nil, err
	}
	s := &scattered{n: uint64(n)}
	s.half = uint(max(1, (bits.Len64(s.n-1)+1)/2))
	r := rand.New(rand.NewPCG(seed, layoutStream))
	for i := range s.keys {
		s.keys[i] = r.Uint64()
	}
	return s, nil
}

func (s *scattered) ID(rank int64) int64 {
	x := uint64(rank - 1)
	if x >= s.n { // also rank < 1, which has wrapped around
		panic(fmt.Sprintf("accounts: rank %d is outside 1..%d", rank, s.n))
	}
	for {
		if x = s.permute(x); x < s.n {
			return int64(x) + 1
		}
	}
}

// permute maps the domain of 2*half bits one-to-one to itself.
func (s *scattered) permute(x uint64) uint64 {
	mask := uint64(1)<<s.half - 1
	left, right := x>>s.half, x&mask
	for _, key := range s.keys {
		left, right = right, left^mix(right^key)>>(64-s.half)
	}
	return left<<s.half | right
}

// mix spreads every bit of x to the upper half of the result: the finalizer of
// MurmurHash3 without its last shift, which only serves the lower bits.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x
}
