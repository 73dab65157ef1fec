package sqlite

import (
	"sync"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/internal/wal"
	"github.com/tpssim/tpssim/writer"
)

// poolLog follows the WAL of a pool and its checkpoints. The writer knows its own.
type poolLog struct {
	mu       sync.Mutex
	limit    wal.Limit     // above which a checkpoint is due; Most 0 means never
	pages    int           // in the WAL
	moved    int           // of these, known to be in the database
	restarts bool          // the next commit may start the WAL anew: all of it was moved
	dueAt    int           // pages in the WAL at which the next checkpoint is due
	written  int64         // pages so far
	count    int64         // checkpoints so far
	took     time.Duration // by them
	copied   int64         // pages, by them
	since    int64         // when the one that runs began, 0 if none does
	blocked  wal.Blockage
}

// removed is told that SQLite has emptied the WAL and removed it, as it does when
// the last connection is closed. What was counted stays.
func (l *poolLog) removed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages, l.moved, l.dueAt, l.restarts = 0, 0, 0, false
	l.blocked.Note(0, 0, false, writer.Now())
}

// grown is told, after each COMMIT, how many pages the WAL held then. What two
// connections tell may come in the wrong order.
func (l *poolLog) grown(pages int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case pages > l.pages:
		l.written += int64(pages - l.pages)
		l.pages = pages
	case l.restarts:
		l.written += int64(pages)
		l.pages, l.moved, l.dueAt = pages, 0, 0
	}
	l.restarts = false
}

// due reports whether it is time for a checkpoint.
func (l *poolLog) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit.Most > 0 && l.pages >= max(l.dueAt, l.limit.Pages())
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

// answer is what a checkpoint told, and what is known of it besides.
type answer struct {
	pages, done int  // in the WAL, and of these in the database; negative if it failed or there is no WAL
	busy        bool // it gave up waiting for readers
	pinned      bool // a reader may keep the next commit from starting the WAL anew
	policy      bool // it ran as the policy has it, which its cost is for
}

// end notes what the checkpoint answered.
func (l *poolLog) end(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := writer.Now()
	took := time.Duration(now - l.since)
	l.count++
	l.took += took
	l.since = 0
	l.blocked.Note(a.pages, a.done, a.busy, now)
	if a.pages < 0 {
		return
	}
	copied := max(a.done-l.moved, 0)
	if a.pages == 0 { // so TRUNCATE answers when it has emptied the WAL
		copied = l.pages - l.moved
	}
	l.copied += int64(copied)
	l.restarts = a.done >= a.pages
	if l.restarts && a.policy && !a.busy {
		l.limit.Took(copied, took)
	}
	if l.restarts && !a.pinned && !a.busy { // it will, with however many pages
		a.pages, a.done = 0, 0
	}
	l.pages, l.moved, l.dueAt = a.pages, a.done, a.pages+l.limit.Pages()
}

// stats returns what was counted so far and what is pending.
func (l *poolLog) stats(pageSize int64) engine.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.Stats{
		Checkpoints:     l.count,
		CheckpointTime:  l.took,
		CheckpointPages: l.copied,
		WALBytes:        l.written * (pageSize + wal.FrameHeader),
		WALBlocked:      l.blocked.Until(writer.Now()),
		WALPending:      int64(l.pages-l.moved) * (pageSize + wal.FrameHeader),
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
		c.DB.BusyTimeout(min(wal.Patience, c.patience))
		defer c.DB.BusyTimeout(c.patience)
	}
	pages, done, err := c.DB.Checkpoint("main", mode)
	code := writer.Primary(err)
	busy := code == sqliteh.SQLITE_BUSY || code == sqliteh.SQLITE_LOCKED
	p.log.end(answer{pages: pages, done: done, busy: busy, pinned: p.pins.held(), policy: mode == p.mode})
	if err != nil {
		return p.committed(sqlconn.Wrap(c.DB, err))
	}
	return nil
}
