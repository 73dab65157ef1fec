package writer

import (
	"iter"
	"math/bits"
	"time"
)

// Stats is what a Writer has done since it was opened, and what it is doing now.
// All but the gauges at the end only grow.
type Stats struct {
	Batches       uint64        // batches that ran at least one function
	FailedBatches uint64        // of these, ended by a *BatchError
	Commits       uint64        // of these, committed
	Transactions  uint64        // functions that ran and were answered
	RolledBack    uint64        // of these, undone: own error, panic or failed batch
	Statements    uint64        // statements executed by functions
	BusyTime      time.Duration // from BEGIN to the end of COMMIT, all batches
	CommitTime    time.Duration // COMMIT alone
	WALBytes      uint64        // written to the WAL; with the first commit, also what an earlier writer left in it

	Checkpoints     uint64        // checkpoints tried
	CheckpointTime  time.Duration // the writer was held by them
	CheckpointPages uint64        // pages moved into the database

	// WALBlocked is for how long the WAL could not be emptied because a reader,
	// whose snapshot is older than what the WAL holds, was in the way. It is counted
	// from the end of a checkpoint that left pages behind, or gave up waiting for
	// readers, to the end of the first one after it that moved everything, and
	// includes a blockage that goes on. Only checkpoints notice that one begins or
	// ends: without them nothing is counted. Another process's writer or checkpoint
	// that hinders one counts as a reader does.
	WALBlocked time.Duration

	Touched     uint64 // calls whose Touch was run
	TouchMisses uint64 // of these, so slow that they will have read from the disk

	BatchSizes Histogram // functions per batch

	// Gauges.
	WALPending   uint64        // bytes of WAL that are not in the database yet
	Queued       int           // requests that wait in the queue
	OldestWait   time.Duration // how long the oldest of them has waited
	Holder       string        // the function that runs on the writer now, "" if none
	HolderHeldBy time.Duration // how long it has run
}

// Sub returns what happened between prev and s. Gauges are those of s.
func (s Stats) Sub(prev Stats) Stats {
	s.Batches -= prev.Batches
	s.FailedBatches -= prev.FailedBatches
	s.Commits -= prev.Commits
	s.Transactions -= prev.Transactions
	s.RolledBack -= prev.RolledBack
	s.Statements -= prev.Statements
	s.BusyTime -= prev.BusyTime
	s.CommitTime -= prev.CommitTime
	s.WALBytes -= prev.WALBytes
	s.Checkpoints -= prev.Checkpoints
	s.CheckpointTime -= prev.CheckpointTime
	s.CheckpointPages -= prev.CheckpointPages
	s.WALBlocked -= prev.WALBlocked
	s.Touched -= prev.Touched
	s.TouchMisses -= prev.TouchMisses
	for i := range s.BatchSizes {
		s.BatchSizes[i] -= prev.BatchSizes[i]
	}
	return s
}

// Stats returns the writer's statistics. A batch is counted once its callers were
// woken.
func (w *Writer) Stats() Stats {
	w.statsMu.Lock()
	s := w.stats
	s.WALBlocked = w.blocked.Until(Now())
	w.statsMu.Unlock()
	if p := w.prefetch; p != nil {
		s.TouchMisses = p.misses.Load() // before those that it is a part of
		s.Touched = p.touched.Load()
	}
	s.Queued = w.queue.len()
	if t := w.queue.oldest(); t != 0 {
		s.OldestWait = time.Duration(Now() - t)
	}
	if h := w.holding.Load(); h != nil {
		s.Holder, s.HolderHeldBy = h.name(), h.held()
	}
	return s
}

// Histogram counts sizes in buckets that are exact up to 8 and at most 1/4 wide
// above, like the buckets of an HDR histogram with two significant bits.
type Histogram [8 + 4*28]uint64

// bucket returns the index of size's bucket; size is 1 or more.
func bucket(size int) int {
	if size <= 8 {
		return size - 1
	}
	exp := bits.Len(uint(size)) // 4 and more
	i := 8 + (exp-4)*4 + (size>>(exp-3))&3
	return min(i, len(Histogram{})-1)
}

// upper returns the largest size of bucket i.
func upper(i int) int {
	if i < 8 {
		return i + 1
	}
	exp, sub := (i-8)/4+4, (i-8)%4
	return (4+sub+1)<<(exp-3) - 1
}

func (h *Histogram) add(size int) { h[bucket(size)]++ }

// Count returns how many sizes were counted.
func (h Histogram) Count() uint64 {
	var n uint64
	for _, c := range h {
		n += c
	}
	return n
}

// Buckets yields the buckets that are not empty, in ascending order: the largest
// size that each holds and how many sizes were counted in it.
func (h Histogram) Buckets() iter.Seq2[int, uint64] {
	return func(yield func(upto int, count uint64) bool) {
		for i, c := range h {
			if c > 0 && !yield(upper(i), c) {
				return
			}
		}
	}
}

// Quantile returns the size that a share q of all sizes does not exceed, rounded
// up to its bucket's end; 0 when nothing was counted. Quantile(1) is the maximum.
func (h Histogram) Quantile(q float64) int {
	total := h.Count()
	if total == 0 {
		return 0
	}
	want := max(uint64(q*float64(total)+0.5), 1)
	var seen uint64
	last := 0
	for i, c := range h {
		if c == 0 {
			continue
		}
		last = i
		if seen += c; seen >= want {
			break
		}
	}
	return upper(last)
}
