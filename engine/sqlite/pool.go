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
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/writer"
)

const (
	// defaultBusyTimeout is how long a connection waits for another one's lock.
	defaultBusyTimeout = 5 * time.Second
	// walFrameHeader is what each page costs in the WAL beside its content:
	// https://www.sqlite.org/fileformat2.html#walformat
	walFrameHeader = 24
)

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
	limit    int64 // pages of WAL above which a checkpoint is due; 0 means never
	mode     sqliteh.Checkpoint
	settings engine.Settings
	release  func() error
	free     chan *poolConn
	closed   chan struct{}
	closing  sync.Once
	conns    []*poolConn
	running  sync.RWMutex // read-held by each transaction, held by a checkpoint
	wal      atomic.Int64 // pages in the WAL
	written  atomic.Int64 // pages written to it so far

	mu    sync.Mutex
	stats engine.Stats
}

// poolConn is one connection with its statements.
type poolConn struct {
	*sqlconn.Conn
	stmts                          []sqliteh.Stmt
	begin, commit, rollback, query sqliteh.Stmt
	add, record, readBegin         sqliteh.Stmt
}

func openPool(ctx context.Context, opt Options) (engine.Engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
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
		policy.Pages = defaultCheckpointPages
	}
	p := &pool{opt: opt, closed: make(chan struct{}), limit: int64(policy.Pages), mode: policy.Mode}
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
	s, err := p.conns[0].settings()
	if err != nil {
		return err
	}
	s.Checkpoint = checkpointName(p.opt) + ", while nothing runs"
	s.MaxBatch, s.Savepoints, s.Readers = 1, "none", p.opt.Connections
	p.settings = s
	return nil
}

func (p *pool) openConn() (*poolConn, error) {
	conn, err := sqlconn.Open(p.connect, p.path, sqlconn.Existing)
	if err != nil {
		return nil, err
	}
	c := &poolConn{Conn: conn}
	if err := p.prepare(c); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// prepare sets a fresh connection up and prepares its statements.
func (p *pool) prepare(c *poolConn) (err error) {
	c.DB.BusyTimeout(p.opt.busyTimeout)
	for name, value := range pragmas(p.opt.Pragmas) {
		if err := c.Exec("PRAGMA " + name + "=" + value); err != nil {
			return err
		}
		known, err := c.Integer("SELECT count(*) FROM pragma_pragma_list WHERE name = ?1", strings.ToLower(name))
		if err != nil {
			return err
		}
		if known == 0 { // SQLite ignores it
			return fmt.Errorf("SQLite has no pragma %s; correct the name", name)
		}
	}
	if err := c.DB.AutoCheckpoint(0); err != nil {
		return sqlconn.Wrap(c.DB, err)
	}
	c.DB.SetWALHook(func(_ string, pages int) { p.grown(int64(pages)) })
	for sql, dest := range map[string]*sqliteh.Stmt{
		"BEGIN IMMEDIATE": &c.begin, "COMMIT": &c.commit, "ROLLBACK": &c.rollback, "BEGIN": &c.readBegin,
		addSQL: &c.add, balanceSQL: &c.query, recordSQL: &c.record,
	} {
		if *dest, err = c.Prepare(sql); err != nil {
			return err
		}
		c.stmts = append(c.stmts, *dest)
	}
	return nil
}

// grown is told, inside each COMMIT, how many pages the WAL holds now.
func (p *pool) grown(pages int64) {
	before := p.wal.Swap(pages)
	if pages < before { // it was started anew
		before = 0
	}
	p.written.Add(pages - before)
}

// settings reads the effective settings.
func (c *poolConn) settings() (s engine.Settings, err error) {
	if s.JournalMode, err = c.Text("PRAGMA journal_mode"); err != nil {
		return s, err
	}
	var sync int64
	for name, dest := range map[string]*int64{
		"synchronous": &sync, "page_size": &s.PageSize, "cache_size": &s.CacheSize, "mmap_size": &s.MmapSize,
	} {
		if *dest, err = c.Integer("PRAGMA " + name); err != nil {
			return s, err
		}
	}
	s.Synchronous = synchronousName(sync)
	return s, nil
}

func (c *poolConn) close() error {
	for _, s := range c.stmts {
		s.Finalize()
	}
	return c.Close()
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

// step runs a bound statement once and resets it.
func (c *poolConn) step(s sqliteh.Stmt) (changed int64, err error) {
	_, _, changed, _, err = s.StepResult()
	if err != nil {
		return 0, sqlconn.Wrap(c.DB, err)
	}
	return changed, nil
}

func (c *poolConn) Balance(id int64) (int64, error) {
	c.query.BindInt64(1, id)
	defer c.query.ResetAndClear()
	row, err := c.query.Step(nil)
	switch {
	case err != nil:
		return 0, sqlconn.Wrap(c.DB, err)
	case !row:
		return 0, engine.ErrNoAccount
	}
	return c.query.ColumnInt64(0), nil
}

func (c *poolConn) Add(id, delta int64) error {
	c.add.BindInt64(1, delta)
	c.add.BindInt64(2, id)
	n, err := c.step(c.add)
	if err == nil && n != 1 {
		err = engine.ErrNoAccount
	}
	return err
}

func (c *poolConn) Record(from, to, amount int64) error {
	c.record.BindInt64(1, from)
	c.record.BindInt64(2, to)
	c.record.BindInt64(3, amount)
	_, err := c.step(c.record)
	return err
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
	c, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer func() { p.free <- c }()
	p.running.RLock()
	t.Begun = p.Now()
	err = p.update(c, t, fn)
	p.running.RUnlock()
	p.account(t, err)
	p.checkpointIfDue(c)
	return err
}

// update runs fn in a transaction of its own on c.
func (p *pool) update(c *poolConn, t *engine.Timing, fn func(engine.Tx) error) error {
	if _, err := c.step(c.begin); err != nil {
		return &writer.BatchError{Op: "begin", Err: err}
	}
	t.Started = writer.Now()
	err := recovered(func() error { return fn(c) })
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

// checkpointIfDue checkpoints when the WAL is above its limit. It waits for the
// transactions that run, and those that come wait for it: with more callers than
// connections there is never a moment when none runs by itself.
func (p *pool) checkpointIfDue(c *poolConn) {
	if p.limit == 0 || p.wal.Load() < p.limit {
		return
	}
	p.running.Lock()
	defer p.running.Unlock()
	if p.wal.Load() < p.limit || p.check() != nil {
		return // another one did it meanwhile
	}
	// The transaction before it was committed whatever becomes of this.
	if err := p.checkpoint(c, p.mode); err != nil && p.opt.Logger != nil {
		p.opt.Logger.Warn("checkpoint failed; the WAL keeps growing", "path", p.path, "err", err)
	}
}

// checkpoint runs while p.running is held.
func (p *pool) checkpoint(c *poolConn, mode sqliteh.Checkpoint) error {
	start := p.Now()
	_, _, err := c.DB.Checkpoint("main", mode)
	p.mu.Lock()
	p.stats.Checkpoints++
	p.stats.CheckpointTime += time.Duration(p.Now() - start)
	p.mu.Unlock()
	if err != nil {
		return p.committed(sqlconn.Wrap(c.DB, err))
	}
	p.wal.Store(0)
	return nil
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

func (p *pool) Observe() func() engine.Stats {
	p.mu.Lock()
	before, written := p.stats, p.written.Load()
	p.mu.Unlock()
	return func() engine.Stats {
		p.mu.Lock()
		s := p.stats
		p.mu.Unlock()
		s.Batches -= before.Batches
		s.Busy -= before.Busy
		s.Commits -= before.Commits
		s.RolledBack -= before.RolledBack
		s.Checkpoints -= before.Checkpoints
		s.CheckpointTime -= before.CheckpointTime
		s.BatchMean, s.BatchP50, s.BatchMax = 1, 1, 1
		frame := p.settings.PageSize + walFrameHeader
		s.WALBytes = (p.written.Load() - written) * frame
		s.WALPending = p.wal.Load() * frame
		return s
	}
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
		err = errors.Join(err, p.disconnect(), p.release(), p.file.close())
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
	return errors.Join(p.disconnect(), p.cache.Drop(), p.openConns())
}
