package sqlite

import (
	"sync"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/writer"
)

// walFrameHeader is what each page costs in the WAL beside its content:
// https://www.sqlite.org/fileformat2.html#walformat
const walFrameHeader = 24

// checkpointBusy is how long a checkpoint waits for readers, at most, and everybody
// for it. The writer's does so for as long.
const checkpointBusy = 50 * time.Millisecond

// poolLog follows the WAL of a pool and its checkpoints. The writer knows its own.
type poolLog struct {
	limit int64 // pages of WAL above which a checkpoint is due; 0 means never

	mu        sync.Mutex
	pages     int64         // in the WAL
	moved     int64         // of these, known to be in the database
	restarts  bool          // the next commit may start the WAL anew: all of it was moved
	dueAt     int64         // pages in the WAL at which the next checkpoint is due
	written   int64         // pages so far
	count     int64         // checkpoints so far
	took      time.Duration // by them
	copied    int64         // pages, by them
	since     int64         // when the one that runs began, 0 if none does
	blocked   int64         // when the present blockage by readers began, 0 if there is none
	blockages time.Duration // those that are over
}

// removed is told that SQLite has emptied the WAL and removed it, as it does when
// the last connection is closed. What was counted stays.
func (l *poolLog) removed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages, l.moved, l.dueAt, l.restarts = 0, 0, 0, false
	l.unblocked(writer.Now())
}

// unblocked ends the present blockage, if there is one.
func (l *poolLog) unblocked(now int64) {
	l.blockages, l.blocked = l.blockedUntil(now), 0
}

// blockedUntil returns how long all blockages were until now.
func (l *poolLog) blockedUntil(now int64) time.Duration {
	if l.blocked == 0 {
		return l.blockages
	}
	return l.blockages + time.Duration(now-l.blocked)
}

// note follows blockages with the rule of the writer: only attempts to empty the
// WAL tell, one begins with the first that left pages behind or gave up waiting,
// and is over with the first that moved everything. A failure tells nothing.
func (l *poolLog) note(pages, done int64, busy bool, now int64) {
	switch blocked := busy || done < pages; {
	case blocked && l.blocked == 0:
		l.blocked = now
	case !blocked && pages >= 0:
		l.unblocked(now)
	}
}

// grown is told, after each COMMIT, how many pages the WAL held then. What two
// connections tell may come in the wrong order.
func (l *poolLog) grown(pages int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case pages > l.pages:
		l.written += pages - l.pages
		l.pages = pages
	case l.restarts:
		l.written += pages
		l.pages, l.moved, l.dueAt = pages, 0, l.limit
	}
	l.restarts = false
}

// due reports whether it is time for a checkpoint.
func (l *poolLog) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit > 0 && l.pages >= max(l.dueAt, l.limit)
}

// held returns for how long checkpoints had held everybody up at the moment now.
func (l *poolLog) held(now int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == 0 {
		return int64(l.took)
	}
	return int64(l.took) + max(now-l.since, 0)
}

// begin notes that a checkpoint begins.
func (l *poolLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = writer.Now()
}

// end notes what the checkpoint answered: pages in the WAL, of which done are in
// the database, and whether it gave up waiting for readers. pinned says that a
// reader may keep the next commit from starting the WAL anew.
func (l *poolLog) end(pages, done int64, busy, pinned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := writer.Now()
	l.count++
	l.took += time.Duration(now - l.since)
	l.since = 0
	l.note(pages, done, busy, now)
	if pages < 0 { // it failed, or there is no WAL
		return
	}
	if pages == 0 { // so TRUNCATE answers when it has emptied the WAL
		l.copied += l.pages - l.moved
	} else {
		l.copied += max(done-l.moved, 0)
	}
	l.restarts = done >= pages
	if l.restarts && !pinned && !busy { // it will, with however many pages
		pages, done = 0, 0
	}
	l.pages, l.moved, l.dueAt = pages, done, pages+l.limit
}

// stats returns what was counted so far and what is pending.
func (l *poolLog) stats(pageSize int64) engine.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.Stats{
		Checkpoints:     l.count,
		CheckpointTime:  l.took,
		CheckpointPages: l.copied,
		WALBytes:        l.written * (pageSize + walFrameHeader),
		WALBlocked:      l.blockedUntil(writer.Now()),
		WALPending:      (l.pages - l.moved) * (pageSize + walFrameHeader),
	}
}

// checkpointIfDue checkpoints when the WAL is above its limit. It waits for the
// transactions that run, and those that come wait for it: with more callers than
// connections there is never a moment when none runs by itself.
func (p *pool) checkpointIfDue(c *poolConn) {
	if !p.log.due() {
		return
	}
	p.running.Lock()
	defer p.running.Unlock()
	if !p.log.due() || p.check() != nil {
		return // another one did it meanwhile
	}
	// The transaction before it was committed whatever becomes of this.
	if err := p.checkpoint(c, p.mode); err != nil && p.opt.Logger != nil {
		p.opt.Logger.Warn("checkpoint failed; the WAL keeps growing", "path", p.path, "err", err)
	}
}

// checkpoint runs while p.running is held.
func (p *pool) checkpoint(c *poolConn, mode sqliteh.Checkpoint) error {
	p.log.begin()
	if mode != sqliteh.SQLITE_CHECKPOINT_PASSIVE {
		c.DB.BusyTimeout(min(checkpointBusy, c.patience))
		defer c.DB.BusyTimeout(c.patience)
	}
	pages, done, err := c.DB.Checkpoint("main", mode)
	code := writer.Primary(err)
	busy := code == sqliteh.SQLITE_BUSY || code == sqliteh.SQLITE_LOCKED
	p.log.end(int64(pages), int64(done), busy, p.pins.held())
	if err != nil {
		return p.committed(sqlconn.Wrap(c.DB, err))
	}
	return nil
}
