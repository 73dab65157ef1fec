package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/wal"
	"github.com/tpssim/tpssim/writer"
)

// defaultBusyTimeout is how long a connection waits for another one's lock.
const defaultBusyTimeout = 5 * time.Second

// pool is what services without a single writer do: connections that fight for
// SQLite's lock with a busy timeout and BEGIN IMMEDIATE.
//
// SQLite up to 3.51.2 can corrupt a WAL database when one connection checkpoints
// while another resets the WAL, so a checkpoint here waits until no transaction
// runs and lets none begin.
type pool struct {
	file
	health
	opt      Options
	mode     sqliteh.Checkpoint
	log      poolLog
	settings engine.Settings
	release  func() error
	free     chan *poolConn
	closed   chan struct{}
	closing  sync.Once
	conns    []*poolConn
	running  sync.RWMutex // read-held by each transaction, held by a checkpoint
	waiting  atomic.Int64 // transactions that have no connection, or not the lock

	mu    sync.Mutex
	stats engine.Stats // of it Batches, Busy, Commits and RolledBack
}

func openPool(ctx context.Context, opt Options) (engine.Engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opt.Foreign {
		return nil, errors.New("a database that is no account data set has no pool; use the queue")
	}
	policy, err := ParseCheckpoint(opt.Checkpoint, opt.CheckpointMode, int64(opt.Spec.PageSize))
	if err != nil {
		return nil, err
	}
	if err := checkPragmas(opt.Pragmas); err != nil {
		return nil, err
	}
	if opt.Connections == 0 {
		opt.Connections = 8
	}
	if opt.busyTimeout == 0 {
		opt.busyTimeout = defaultBusyTimeout
	}
	if policy.Idle { // nothing is idle here but while a checkpoint holds everybody up
		opt.Checkpoint = DefaultCheckpoint
	}
	p := &pool{opt: opt, closed: make(chan struct{}), mode: policy.Mode}
	p.log.limit = wal.Limit{Most: policy.Pages, Stall: policy.Stall}
	if err := p.file.open(opt); err != nil {
		return nil, err
	}
	if p.release, err = writer.Lock(p.path); err != nil {
		return nil, errors.Join(err, p.file.close())
	}
	if err := p.openConns(); err != nil {
		return nil, errors.Join(err, p.disconnect(), p.release(), p.file.close())
	}
	return p, nil
}

// checkPragmas refuses what several connections that write cannot do with; the
// writer has such a list of its own.
func checkPragmas(pragmas map[string]string) error {
	for name, value := range pragmas {
		switch name = strings.ToLower(name); {
		case name == "locking_mode", name == "query_only", name == "wal_autocheckpoint":
			return fmt.Errorf("pragma %s belongs to the pool and cannot be set", name)
		case name == "journal_mode" && strings.EqualFold(value, "off"):
			return errors.New("pragma journal_mode=off cannot roll back and is refused")
		}
	}
	return nil
}

// openConns opens the connections and reads the settings back.
func (p *pool) openConns() error {
	p.free = make(chan *poolConn, p.opt.Connections)
	for range p.opt.Connections {
		c, err := p.openConn()
		if err != nil {
			return err
		}
		p.conns = append(p.conns, c)
		p.free <- c
	}
	s, err := connSettings(p.conns[0].Conn)
	if err != nil {
		return err
	}
	s.Checkpoint = checkpointName(p.opt) + ", while nothing runs"
	s.MaxBatch, s.Savepoints, s.Readers = 1, "none", p.opt.Connections
	p.settings = s
	return nil
}

// disconnect waits for every connection to be free and closes it.
func (p *pool) disconnect() error {
	var errs []error
	for range p.conns {
		errs = append(errs, (<-p.free).close())
	}
	p.conns = nil
	return errors.Join(errs...)
}

// take waits for a free connection.
func (p *pool) take(ctx context.Context) (*poolConn, error) {
	if err := cmp.Or(p.check(), ctx.Err()); err != nil {
		return nil, err
	}
	select {
	case c := <-p.free:
		return c, nil
	case <-p.closed:
		return nil, writer.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pool) Update(ctx context.Context, t *engine.Timing, fn func(engine.Tx) error) error {
	if t == nil {
		t = new(engine.Timing)
	}
	t.Accepted = p.Now()
	held := p.log.held(t.Accepted)
	p.waiting.Add(1)
	c, err := p.take(ctx)
	if err != nil {
		p.waiting.Add(-1)
		return err
	}
	defer func() { p.free <- c }()
	p.running.RLock()
	t.Begun = p.Now()
	t.Checkpointing = p.log.held(t.Begun) - held
	err = p.update(c, t, fn)
	p.running.RUnlock()
	p.account(t, err)
	p.checkpointIfDue(c)
	return err
}

// update runs fn in a transaction of its own on c.
func (p *pool) update(c *poolConn, t *engine.Timing, fn func(engine.Tx) error) error {
	_, err := c.step(c.begin)
	p.waiting.Add(-1)
	if err != nil {
		return &writer.BatchError{Op: "begin", Err: err}
	}
	t.Started = writer.Now()
	err = recovered(func() error { return fn(c) })
	t.Ended = writer.Now()
	if err != nil {
		if c.DB.TxnState("") != sqliteh.SQLITE_TXN_NONE {
			_, rollbackErr := c.step(c.rollback)
			if rollbackErr != nil {
				err = errors.Join(err, rollbackErr)
			}
		}
		return err
	}
	t.Committing = writer.Now()
	_, err = c.step(c.commit)
	t.Committed = writer.Now()
	if err == nil {
		return nil
	}
	if c.DB.TxnState("") != sqliteh.SQLITE_TXN_NONE {
		_, rollbackErr := c.step(c.rollback)
		err = errors.Join(err, rollbackErr)
	}
	return commitError(p.committed(err))
}

// account counts one transaction.
func (p *pool) account(t *engine.Timing, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Batches++
	if t.Started > 0 { // behind BEGIN IMMEDIATE, so that only one of them holds the lock
		end := t.Committed
		if end == 0 {
			end = p.Now()
		}
		p.stats.Busy += time.Duration(end - t.Started)
	}
	if err == nil {
		p.stats.Commits++
	} else {
		p.stats.RolledBack++
	}
}

func (p *pool) View(ctx context.Context, fn func(engine.Rx) error) (err error) {
	c, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer func() { p.free <- c }()
	p.running.RLock()
	defer p.running.RUnlock()
	if _, err := c.step(c.readBegin); err != nil {
		return err
	}
	defer func() {
		if _, rollbackErr := c.step(c.rollback); rollbackErr != nil {
			err = errors.Join(err, rollbackErr)
		}
	}()
	return fn(c)
}

func (p *pool) Settle(ctx context.Context) error {
	return p.alone(ctx, func(c *poolConn) error { return p.checkpoint(c, sqliteh.SQLITE_CHECKPOINT_TRUNCATE) })
}

// Reset empties the ledger.
func (p *pool) Reset(ctx context.Context) error {
	return p.alone(ctx, func(c *poolConn) error { return c.Exec(clearSQL) })
}

// alone runs fn on a connection while no transaction runs.
func (p *pool) alone(ctx context.Context, fn func(*poolConn) error) error {
	c, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer func() { p.free <- c }()
	p.running.Lock()
	defer p.running.Unlock()
	return fn(c)
}

func (p *pool) Settings() engine.Settings { return p.settings }

func (p *pool) Stats() engine.Stats {
	s := p.counted()
	s.Transactions = s.Batches
	if s.Batches > 0 {
		s.BatchSizes = []engine.Bucket{{Upto: 1, Count: s.Batches}}
	}
	s.Queued = p.waiting.Load()
	p.sizes(&s)
	return s
}

// counted returns what was counted so far.
func (p *pool) counted() engine.Stats {
	s := p.log.stats(p.settings.PageSize)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Batches, s.Busy, s.Commits, s.RolledBack = p.stats.Batches, p.stats.Busy, p.stats.Commits, p.stats.RolledBack
	return s
}

// Quiet implements engine.Engine: each transaction is counted before Update
// returns.
func (p *pool) Quiet(ctx context.Context) error { return cmp.Or(p.check(), ctx.Err()) }

// Pin implements engine.Pinner.
func (p *pool) Pin(ctx context.Context) (release func() error, err error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return p.pin(ctx, p.settings.JournalMode)
}

// ForeignWrites cannot tell its own connections from others' by data_version,
// which counts what any other connection did; it reports none. The lock file
// keeps other writers of this program away.
func (p *pool) ForeignWrites(context.Context) (bool, error) { return false, p.check() }

func (p *pool) Classify(err error) string { return classify(err) }

func (p *pool) InDoubt(err error) (any, bool) { return inDoubt(err) }

func (p *pool) Now() int64 { return writer.Now() }

func (p *pool) Close() error {
	err := p.check()
	p.closing.Do(func() {
		close(p.closed)
		err = errors.Join(err, p.pins.close(), p.disconnect(), p.release(), p.file.close())
	})
	return err
}

// Cold implements engine.Cacher.
func (p *pool) Cold(ctx context.Context) error {
	if err := cmp.Or(p.check(), ctx.Err()); err != nil {
		return err
	}
	if p.cache == nil {
		return errNoPageCache
	}
	closed := p.disconnect()
	var s engine.Stats
	if p.sizes(&s); s.WALFileBytes == 0 { // otherwise a reader still has it, and it goes on
		p.log.removed()
	}
	return errors.Join(closed, p.cache.Drop(), p.openConns())
}
