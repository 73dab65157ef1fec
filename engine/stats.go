package engine

import "time"

// Stats is what an engine has done since it was opened, or in an interval, and how
// it is now.
type Stats struct {
	Batches         int64
	Transactions    int64         // in the batches, also those that failed
	BatchSizes      []Bucket      // ascending; those with a count of 0 are left out
	Busy            time.Duration // from BEGIN to the end of COMMIT
	Commits         int64
	RolledBack      int64
	Checkpoints     int64
	CheckpointTime  time.Duration
	CheckpointPages int64 // moved into the database
	WALBytes        int64 // written to it
	// WALBlocked is for how long checkpoints could not empty the WAL because a
	// reader held an old snapshot, or because another process's writer or checkpoint
	// was in the way, until now if that goes on.
	WALBlocked  time.Duration
	Touched     int64 // transactions of a Toucher that were read ahead
	TouchMisses int64 // of these, slow enough to have come from the disk

	// What follows is of now.

	WALPending int64         // bytes in the WAL that are not in the database yet
	Queued     int64         // transactions that wait for their turn
	OldestWait time.Duration // of these; 0 also where nobody knows
	// Sizes of the files; 0 for one that is not there.
	DBBytes, WALFileBytes, SHMBytes int64
}

// Bucket counts the batches of more transactions than the bucket before it, up to
// Upto.
type Bucket struct {
	Upto, Count int64
}

// Sub returns what happened between before and s. What is of now is that of s.
func (s Stats) Sub(before Stats) Stats {
	s.Batches -= before.Batches
	s.Transactions -= before.Transactions
	s.Busy -= before.Busy
	s.Commits -= before.Commits
	s.RolledBack -= before.RolledBack
	s.Checkpoints -= before.Checkpoints
	s.CheckpointTime -= before.CheckpointTime
	s.CheckpointPages -= before.CheckpointPages
	s.WALBytes -= before.WALBytes
	s.WALBlocked -= before.WALBlocked
	s.Touched -= before.Touched
	s.TouchMisses -= before.TouchMisses
	// A bucket may reach beyond what one batch can have held beside the others.
	most := s.Transactions - s.Batches + 1
	var sizes []Bucket
	for _, b := range s.BatchSizes {
		for _, was := range before.BatchSizes {
			if was.Upto == b.Upto {
				b.Count -= was.Count
			}
		}
		if b.Count > 0 {
			sizes = append(sizes, Bucket{min(b.Upto, most), b.Count})
		}
	}
	s.BatchSizes = sizes
	return s
}

// BatchMean returns how many transactions a batch held in the mean, 0 without one.
func (s Stats) BatchMean() float64 {
	if s.Batches == 0 {
		return 0
	}
	return float64(s.Transactions) / float64(s.Batches)
}

// BatchQuantile returns the size that a share q of the batches, 0 to 1, does not
// exceed, rounded up to its bucket's end; 0 without a batch.
func (s Stats) BatchQuantile(q float64) int64 {
	var all, seen, size int64
	for _, b := range s.BatchSizes {
		all += b.Count
	}
	for _, b := range s.BatchSizes {
		size = b.Upto
		if seen += b.Count; float64(seen) >= q*float64(all) {
			break
		}
	}
	return size
}
