package accounts

import (
	"math/rand/v2"
	"slices"
)

// MaxPool is the largest number of transfers in a [Pool]: 64 MB of memory, and
// at most twice as many accounts whose balances the proof has to read.
const MaxPool = 4_000_000

// maxAmount is the largest amount of a transfer, in units of money.
const maxAmount = 100

// Streams of the pseudo-random generator: layout and transfers made from one
// seed must not repeat each other's numbers.
const (
	layoutStream   = 0x6c61796f7574 // "layout"
	transferStream = 0x7472616e73   // "trans"
)

// Transfer moves money from one account to another. From and To are ids and may
// be equal.
type Transfer struct {
	From, To int64
}

// Pool is a fixed list of transfers that a load uses round robin, so that the
// accounts it touches are known and bounded before it starts, however long it
// runs. A Pool never changes; any number of goroutines may share it.
type Pool struct {
	transfers []Transfer
}

// NewPool draws min(n, [MaxPool]) transfers, at least one. Both ids of a
// transfer are drawn independently from d and placed by l; n, d and l were made
// for the same number of accounts. Equal arguments give equal pools.
func NewPool(n int64, seed uint64, d Dist, l Layout) *Pool {
	p := &Pool{transfers: make([]Transfer, min(max(n, 1), MaxPool))}
	r := rand.New(rand.NewPCG(seed, transferStream))
	for i := range p.transfers {
		from := l.ID(d.Rank(r))
		p.transfers[i] = Transfer{From: from, To: l.ID(d.Rank(r))}
	}
	return p
}

// Len returns the number of slots, 1 to [MaxPool].
func (p *Pool) Len() int { return len(p.transfers) }

// At returns the i-th transfer of a load, i from 0: its slot in the pool, which
// is what the [Journal] counts by, the transfer, and its amount, 1 to 100. The
// amount depends on the slot alone, so that it needs no memory, and differs
// between neighbours, so that the proof tells one lost transfer from another.
func (p *Pool) At(i uint64) (slot int, t Transfer, amount int64) {
	slot = int(i % uint64(len(p.transfers)))
	return slot, p.transfers[slot], amountOf(slot)
}

func amountOf(slot int) int64 { return 1 + int64(slot%maxAmount) }

// Wrapped reports whether a load of total transfers used some slot twice.
func (p *Pool) Wrapped(total uint64) bool { return total > uint64(len(p.transfers)) }

// Accounts returns the ids that the transfers touch, each once, in ascending
// order. It takes time to sort two ids a transfer: some milliseconds for a
// hundred thousand transfers, up to a second for a full pool.
func (p *Pool) Accounts() []int64 {
	ids := make([]int64, 0, 2*len(p.transfers))
	for _, t := range p.transfers {
		ids = append(ids, t.From, t.To)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
