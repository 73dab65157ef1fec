package accounts

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	countersPerLine = 16 // uint32 counters in a cache line of 64 bytes

	// spreadLines is how many lines a small journal is spread over, 256 KB at
	// most: packed, its few lines would be written by all cores at once.
	spreadLines = 4096
)

// Journal counts, for each slot of a [Pool], how often its transfer was
// acknowledged. All methods may be called by any number of goroutines; [Check]
// reads the journal after the load has ended.
type Journal struct {
	// Neighbouring slots are acknowledged at nearly the same time by different
	// cores, so they must not share a cache line. The counters are a matrix of
	// one row a line; slots are numbered down its columns. Two slots share a
	// line only if they are a multiple of the number of lines apart. That is a
	// power of two, so a counter is found without a division.
	counters  []atomic.Uint32
	slots     int
	lineMask  uint
	lineShift uint

	mu     sync.Mutex
	groups map[any]int // index into doubts
	doubts [][]int     // slots, one list a group, in the order of their first
}

// NewJournal returns an empty journal for a pool of so many slots, 1 or more.
// It takes 4 to 8 bytes a slot, and up to 256 KB for a small pool.
func NewJournal(slots int) *Journal {
	lines := max((slots+countersPerLine-1)/countersPerLine, min(slots, spreadLines))
	shift := uint(bits.Len(uint(lines - 1))) // rounds up to a power of two
	return &Journal{
		counters:  make([]atomic.Uint32, countersPerLine<<shift),
		slots:     slots,
		lineMask:  1<<shift - 1,
		lineShift: shift,
		groups:    make(map[any]int),
	}
}

// counter returns the counter of slot.
func (j *Journal) counter(slot int) *atomic.Uint32 {
	s := uint(slot)
	return &j.counters[(s&j.lineMask)*countersPerLine+s>>j.lineShift]
}

// Ack records that the transfer in slot was acknowledged: it must be in the
// table once more. It is one atomic addition. A slot counts to 2^32-1, which a
// load that goes round robin reaches after 4 billion times the pool's length.
func (j *Journal) Ack(slot int) { j.counter(slot).Add(1) }

// Acked returns how often the transfer in slot was acknowledged.
func (j *Journal) Acked(slot int) uint32 { return j.counter(slot).Load() }

// InDoubt records that the COMMIT which carried the transfer in slot failed in
// a way that leaves open whether it reached the disk. Transfers of one group
// rode in one COMMIT, so they are all in the table or none is. group is any
// comparable value that identifies the COMMIT, such as the pointer to its
// error. A transfer in doubt is not acknowledged: do not call Ack for it.
func (j *Journal) InDoubt(slot int, group any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i, ok := j.groups[group]
	if !ok {
		i = len(j.doubts)
		j.groups[group] = i
		j.doubts = append(j.doubts, nil)
	}
	j.doubts[i] = append(j.doubts[i], slot)
}
