package writer

import (
	"context"
	"log/slog"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/wal"
)

const (
	// After a RESTART that did not succeed there is a pause, which doubles.
	restartPause    = time.Second
	maxRestartPause = 30 * time.Second
	// restartFactor is how far above the most that its limit may be the WAL must be
	// for a RESTART. The present limit is no measure for that: it is small where
	// checkpoints are dear, and a RESTART may be the dearest.
	restartFactor = 4
)

// walState follows the size of the write-ahead log. It belongs to the writer
// goroutine.
type walState struct {
	file       string
	pageSize   int
	limit      wal.Limit     // above which a checkpoint is due
	pages      int           // frames in the log after the last commit
	backfilled int           // of these, known to be in the database
	salt       [8]byte       // the log's, when all of it came to be in the database
	appended   uint64        // frames since grown was last called
	passiveAt  int           // the log's size for the next PASSIVE try
	restartAt  int64         // not before this time RESTART is tried again
	pause      time.Duration // after the next RESTART that fails
}

// keptPauses is how many checkpoints Timing knows of. One request waits for more
// only when the queue is so long that it waits for as many batches.
const keptPauses = 16

// pauses are the last times for which checkpoints held the writer goroutine, to
// which they belong.
type pauses struct {
	ring  [keptPauses]struct{ begun, ended int64 }
	count int   // ever; the latest is at (count-1) % keptPauses
	last  int64 // when the latest ended
}

func (p *pauses) add(begun, ended int64) {
	c := &p.ring[p.count%keptPauses]
	c.begun, c.ended = begun, ended
	p.count++
	p.last = ended
}

// since returns for how long checkpoints have held the writer since from.
func (p *pauses) since(from int64) (held int64) {
	if from >= p.last { // nearly always: each batch asks for each request
		return 0
	}
	for i := p.count - 1; i >= max(p.count-keptPauses, 0); i-- {
		c := &p.ring[i%keptPauses]
		if c.ended <= from {
			break
		}
		held += c.ended - max(c.begun, from)
	}
	return held
}

// most returns the WAL size, in pages of pageSize bytes, above which a checkpoint is
// due at the latest.
func (p Checkpoint) most(pageSize int) int {
	if p.Pages > 0 {
		return p.Pages
	}
	return int(min(max(p.Bytes/int64(pageSize), 1), math.MaxInt32))
}

// watch registers the commit hook that tells the log's size. It replaces SQLite's
// automatic checkpoint, which is a hook of the same kind. It is called again when
// somebody may have changed what it relies on.
func (l *walState) watch(c *conn, p Checkpoint) error {
	size, err := c.pragma("page_size")
	if err != nil {
		return err
	}
	if l.pageSize, err = strconv.Atoi(size); err != nil {
		return err
	}
	l.limit.Most, l.limit.Stall = p.most(l.pageSize), p.Stall // what it has learned stays
	l.file = c.path + "-wal"
	c.db.SetWALHook(func(schema string, pages int) {
		if schema != "main" { // a database that Exclusive has attached
			return
		}
		if l.restarted(pages) {
			l.pages, l.backfilled, l.passiveAt = 0, 0, 0
		}
		l.appended += uint64(pages - l.pages)
		l.pages = pages
	})
	return nil
}

// restarted reports whether the commit that left pages frames in the log started
// it anew. SQLite does so when all of it is in the database and no reader needs it;
// then a commit may also leave more frames than were there before, which only the
// salt in the log's header tells from frames that were appended.
func (l *walState) restarted(pages int) bool {
	return pages <= l.pages || l.pages > 0 && l.backfilled == l.pages && l.readSalt() != l.salt
}

// readSalt reads the salt from the log's header. Unlike the database and the -shm
// file SQLite keeps no lock on the log, so opening it here drops none:
// https://www.sqlite.org/fileformat2.html#walformat
func (l *walState) readSalt() (salt [8]byte) {
	f, err := os.Open(l.file)
	if err != nil {
		return l.salt // cannot tell
	}
	defer f.Close()
	if _, err := f.ReadAt(salt[:], 16); err != nil {
		return l.salt
	}
	return salt
}

// moved notes what a checkpoint answered: frames in the log, of which done are in
// the database. It returns how many it moved there.
func (l *walState) moved(frames, done int) int {
	if frames < 0 { // it failed, or the database is not in WAL mode
		return 0
	}
	n := done - l.backfilled
	if frames == 0 { // TRUNCATE answers when the log is empty already
		n = l.pages - l.backfilled
	}
	l.pages, l.backfilled = frames, done
	if frames > 0 && done == frames {
		l.salt = l.readSalt()
	}
	return max(n, 0)
}

// bytes returns the size of n frames.
func (l *walState) bytes(n uint64) uint64 { return n * uint64(l.pageSize+wal.FrameHeader) }

// grown returns the bytes written to the log since it was last called.
func (l *walState) grown() uint64 {
	n := l.appended
	l.appended = 0
	return l.bytes(n)
}

// checkpointIfDue applies the checkpoint policy between two batches.
func (w *Writer) checkpointIfDue() {
	p, l := w.opt.Checkpoint, &w.wal
	if p.Off || w.failed() != nil || l.pages == l.backfilled && l.pages < restartFactor*l.limit.Most {
		w.publishWAL()
		return
	}
	switch {
	case l.pages >= restartFactor*l.limit.Most && Now() >= l.restartAt:
		if w.checkpoint(sqliteh.SQLITE_CHECKPOINT_RESTART) == nil {
			l.pause, l.restartAt = restartPause, 0
		} else {
			l.restartAt = Now() + int64(l.pause)
			l.pause = min(2*l.pause, maxRestartPause)
		}
	case l.pages >= max(l.passiveAt, l.limit.Pages()):
		w.checkpoint(p.Mode)
	case p.Idle && w.queue.len() == 0:
		w.checkpoint(sqliteh.SQLITE_CHECKPOINT_PASSIVE)
	}
	w.publishWAL()
}

// checkpoint runs one checkpoint on the writer's connection and counts it.
func (w *Writer) checkpoint(mode sqliteh.Checkpoint) error {
	l := &w.wal
	start := Now()
	if mode != sqliteh.SQLITE_CHECKPOINT_PASSIVE {
		w.conn.busyTimeout(min(wal.Patience, w.opt.BusyTimeout))
		defer w.conn.busyTimeout(w.opt.BusyTimeout)
	}
	w.prefetch.settle(min(settlePatience, w.opt.BusyTimeout))
	frames, done, err := w.conn.db.Checkpoint("main", mode)
	if err != nil {
		err = w.conn.wrap(err, "checkpoint "+mode.String())
	}
	moved := l.moved(frames, done)
	code := Primary(err)
	busy := code == sqliteh.SQLITE_BUSY || code == sqliteh.SQLITE_LOCKED
	w.statsMu.Lock()
	end := Now() // under the mutex, so that nobody was told of a later time in a blockage that ends now
	w.stats.Checkpoints++
	w.stats.CheckpointTime += time.Duration(end - start)
	w.stats.CheckpointPages += uint64(moved)
	w.blocked.Note(frames, done, busy, end)
	w.statsMu.Unlock()
	w.pauses.add(start, end)
	// What waits for readers although the policy does not tells nothing of pages.
	if err == nil && done == frames && (mode == sqliteh.SQLITE_CHECKPOINT_PASSIVE || mode == w.opt.Checkpoint.Mode) {
		l.limit.Took(moved, time.Duration(end-start))
	}
	if frames >= 0 {
		l.passiveAt = frames + l.limit.Pages()
	}
	switch {
	case err == nil, busy: // readers; the next one gets further
	case isStorageFailure(err):
		w.fail(err)
	default:
		w.log(slog.LevelWarn, "checkpoint failed; the WAL keeps growing", "err", err)
	}
	return err
}

// publishWAL tells the statistics what was written to the log and what it holds.
func (w *Writer) publishWAL() {
	written := w.wal.grown()
	pending := w.wal.bytes(uint64(w.wal.pages - w.wal.backfilled))
	w.statsMu.Lock()
	w.stats.WALBytes += written
	w.stats.WALPending = pending
	w.statsMu.Unlock()
}

// Checkpoint moves the WAL's content into the database between two batches.
// PASSIVE takes what readers allow and does not wait; FULL, RESTART and TRUNCATE
// wait up to 50 ms for readers and return SQLITE_BUSY when that was not enough.
func (w *Writer) Checkpoint(ctx context.Context, mode sqliteh.Checkpoint) error {
	return w.Exclusive(ctx, func(*Conn) error {
		err := w.checkpoint(mode)
		w.publishWAL()
		return err
	})
}
