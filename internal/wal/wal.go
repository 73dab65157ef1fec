// Package wal has the rules of who checkpoints a SQLite write-ahead log: how large
// it may grow before a checkpoint is due, and for how long it counts as blocked by
// readers. The single writer and the pool of connections follow the same ones, and
// the C loop of package cloop repeats those of [Limit] in C.
//
// It knows neither a clock nor a database: the callers say how long a checkpoint
// took and what it answered.
package wal

import "time"

const (
	// FrameHeader is what each page costs in the log beside its content, in bytes:
	// https://www.sqlite.org/fileformat2.html#walformat
	FrameHeader = 24
	// Patience is how long a checkpoint that waits for readers does so, at most:
	// everybody who writes waits for it.
	Patience = 50 * time.Millisecond
	// DefaultMost and DefaultStall are the [Limit] of who asks for none. 4000 pages
	// are 16 MB at 4 KiB a page.
	DefaultMost  = 4000
	DefaultStall = 10 * time.Millisecond
	// Least is where a Limit stops shrinking, in pages: the two syncs of a
	// checkpoint cost what copying some hundreds of pages does, so smaller ones
	// would hold the writer for longer in sum and hardly for less each time.
	Least = 250
)

// Limit is the size of the log above which a checkpoint is due, in pages.
//
// With a Stall it follows what checkpoints cost. Where the same pages are written
// again and again a checkpoint of 4000 pages copies few and a large log is cheaper;
// where each page is another one it copies them all, and holds the writer ten times
// as long. No fixed number of pages is good for both, so what is fixed is the time.
//
// A checkpoint that took longer than Stall shrinks the limit in proportion, one that
// took less than three quarters of it lets the limit grow by a quarter, and between
// the two it stays. The gap is what keeps it from swinging: as long as a checkpoint
// costs a fixed part and so much for each page, shrinking ends no lower than Stall
// and growing no higher than fifteen sixteenths of it.
//
// The zero Limit is one at which no checkpoint is ever due.
type Limit struct {
	// Most is what the limit never exceeds, at most math.MaxInt32.
	Most int
	// Stall is how long one checkpoint is to take. 0 means that this does not
	// matter: the limit is Most.
	Stall time.Duration

	pages int // the present limit, 0 until it has changed
}

// Pages returns the present limit, between Most and the smaller of Most and [Least].
// Before any checkpoint told what one costs it is a quarter of Most: too much is felt
// at once, too little is made up for by the next few checkpoints.
func (l *Limit) Pages() int {
	switch {
	case l.Stall <= 0:
		return l.Most
	case l.pages == 0:
		return max(l.Most/4, l.least())
	}
	return min(l.pages, l.Most)
}

// least returns where the limit stops shrinking.
func (l *Limit) least() int { return min(Least, l.Most) }

// Took is told of a checkpoint after which nothing in the log was left to move, and
// which took d. It had pages of the log to move: those that an earlier one had moved
// are not among them. One that moved fewer than the limit cannot make it grow, since
// it does not tell what a full one costs.
//
// A checkpoint that readers hindered, or that waited for them without that being the
// policy, tells nothing of the cost of pages and is not for Took.
func (l *Limit) Took(pages int, d time.Duration) {
	now := l.Pages()
	switch {
	case l.Stall <= 0 || pages <= 0:
	case d > l.Stall:
		fits := int(float64(pages) * (float64(l.Stall) / float64(d)))
		l.pages = max(min(fits, now), now/2, l.least()) // by half at most: it may be an outlier
	case d < l.Stall-l.Stall/4 && pages >= now:
		l.pages = min(now+now/4, l.Most)
	}
}

// Blockage is for how long readers kept the log from being emptied. Only attempts
// to empty it tell: it begins at the end of the first that readers hindered and is
// over at the end of the first after that which moved everything. The zero value is
// a log that nobody has hindered yet.
type Blockage struct {
	since int64         // when the present one began, 0 if there is none
	total time.Duration // of those that are over
}

// Note takes what a checkpoint that ended at now, in nanoseconds and not 0, answered:
// frames in the log, of which done are in the database, and whether it gave up
// waiting. Frames are negative when it failed or there is no log; who found another
// process's checkpoint in the way gave up before it knew of any.
func (b *Blockage) Note(frames, done int, busy bool, now int64) {
	switch blocked := busy || done < frames; {
	case blocked && b.since == 0:
		b.since = now
	case blocked, frames < 0: // it goes on, or there was no answer about readers
	case b.since != 0:
		b.total = b.Until(now)
		b.since = 0
	}
}

// Until returns how long all blockages were until now, a present one included.
func (b *Blockage) Until(now int64) time.Duration {
	if b.since == 0 {
		return b.total
	}
	return b.total + time.Duration(now-b.since)
}
