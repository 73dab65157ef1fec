package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/writer"
)

// queued is the engine on the batching writer.
type queued struct {
	file
	health
	foreign  bool // no account data set
	closing  sync.Once
	closeErr error // once closing is done
	opt      writer.Options
	settings engine.Settings
	w        *writer.Writer
	version  int64 // PRAGMA data_version of the writer's connection when it was opened
}

func openQueued(ctx context.Context, opt Options) (engine.Engine, error) {
	policy, err := ParseCheckpoint(opt.Checkpoint, opt.CheckpointMode, 0)
	if err != nil {
		return nil, err
	}
	mode, ok := savepointModes[opt.Savepoints]
	if !ok {
		return nil, fmt.Errorf("savepoints %q is none of each, none, on-failure", opt.Savepoints)
	}
	e := &queued{foreign: opt.Foreign, opt: writer.Options{
		MaxBatch:     opt.MaxBatch,
		MaxBatchTime: opt.MaxBatchTime,
		BatchWindow:  opt.BatchWindow,
		QueueLen:     opt.Queue,
		Savepoints:   mode,
		Readers:      opt.Readers,
		Prefetch:     opt.Prefetch,
		Pragmas:      pragmas(opt),
		NoCreate:     true,
		Checkpoint:   policy,
		Logger:       opt.Logger,
		BusyTimeout:  opt.busyTimeout,
		Open:         opt.Open,
	}}
	if err := e.file.open(opt); err != nil {
		return nil, err
	}
	if err := e.openWriter(ctx); err != nil {
		return nil, errors.Join(err, e.file.close())
	}
	e.settings.Checkpoint = checkpointName(opt)
	e.settings.Savepoints = opt.Savepoints
	if e.settings.Savepoints == "" {
		e.settings.Savepoints = "each"
	}
	return e, nil
}

// checkpointName describes the checkpoint policy in the words of its flags.
func checkpointName(opt Options) string {
	policy := opt.Checkpoint
	if policy == "" {
		policy = DefaultCheckpoint
	}
	if opt.CheckpointMode != "" && opt.CheckpointMode != "passive" {
		policy += " " + opt.CheckpointMode
	}
	return policy
}

// openWriter opens the writer and reads its settings back.
func (e *queued) openWriter(ctx context.Context) error {
	w, err := writer.Open(ctx, e.path, e.opt)
	if err != nil {
		return err
	}
	e.w = w
	err = w.Exclusive(ctx, func(c *writer.Conn) error {
		s, err := readSettings(c.Rx)
		if err != nil {
			return err
		}
		s.Checkpoint, s.Savepoints = e.settings.Checkpoint, e.settings.Savepoints
		e.settings = s
		return c.QueryRow("PRAGMA data_version").Scan(&e.version)
	})
	if err != nil {
		return errors.Join(err, w.Close())
	}
	effective := w.Options()
	e.settings.MaxBatch, e.settings.MaxBatchTime = effective.MaxBatch, max(effective.MaxBatchTime, 0)
	e.settings.BatchWindow = effective.BatchWindow
	e.settings.Queue, e.settings.Readers = effective.QueueLen, effective.Readers
	e.settings.Prefetch = effective.Prefetch
	return nil
}

func (e *queued) Update(ctx context.Context, t *engine.Timing, fn func(engine.Tx) error) error {
	if err := e.check(); err != nil {
		return err
	}
	return stopped(e.w.DoCall(ctx, writer.Call{
		Fn:     func(tx *writer.Tx) error { return fn(account{tx.Rx}) },
		Timing: (*writer.Timing)(t),
	}))
}

// UpdateTouching implements engine.Toucher.
func (e *queued) UpdateTouching(ctx context.Context, t *engine.Timing, touch func(engine.Rx) error, fn func(engine.Tx) error) error {
	if err := e.check(); err != nil {
		return err
	}
	return stopped(e.w.DoCall(ctx, writer.Call{
		Fn:     func(tx *writer.Tx) error { return fn(account{tx.Rx}) },
		Timing: (*writer.Timing)(t),
		Touch:  func(rx *writer.Rx) error { return touch(account{rx}) },
	}))
}

func (e *queued) View(ctx context.Context, fn func(engine.Rx) error) error {
	if err := e.check(); err != nil {
		return err
	}
	return stopped(e.w.View(ctx, func(rx *writer.Rx) error { return fn(account{rx}) }))
}

func (e *queued) Settle(ctx context.Context) error {
	if err := e.check(); err != nil {
		return err
	}
	if e.settings.JournalMode != "wal" {
		return nil
	}
	return stopped(e.w.Checkpoint(ctx, sqliteh.SQLITE_CHECKPOINT_TRUNCATE))
}

// Reset empties the ledger, which would otherwise grow from round to round.
func (e *queued) Reset(ctx context.Context) error {
	if e.foreign {
		return cmp.Or(e.check(), ctx.Err())
	}
	return e.exclusive(ctx, func(c *writer.Conn) error {
		_, err := c.Exec(clearSQL)
		return err
	})
}

// exclusive runs fn on the writer's connection, unless the engine was stopped.
func (e *queued) exclusive(ctx context.Context, fn func(*writer.Conn) error) error {
	if err := e.check(); err != nil {
		return err
	}
	return stopped(e.w.Exclusive(ctx, fn))
}

func (e *queued) Settings() engine.Settings { return e.settings }

func (e *queued) Stats() engine.Stats {
	s := e.w.Stats()
	st := engine.Stats{
		Batches:         int64(s.Batches),
		Transactions:    int64(s.Transactions),
		Busy:            s.BusyTime,
		Commits:         int64(s.Commits),
		RolledBack:      int64(s.RolledBack),
		Checkpoints:     int64(s.Checkpoints),
		CheckpointTime:  s.CheckpointTime,
		CheckpointPages: int64(s.CheckpointPages),
		WALBytes:        int64(s.WALBytes),
		WALBlocked:      s.WALBlocked,
		Touched:         int64(s.Touched),
		TouchMisses:     int64(s.TouchMisses),
		WALPending:      int64(s.WALPending),
		Queued:          int64(s.Queued),
		OldestWait:      s.OldestWait,
	}
	for upto, count := range s.BatchSizes.Buckets() {
		st.BatchSizes = append(st.BatchSizes, engine.Bucket{Upto: int64(min(upto, e.settings.MaxBatch)), Count: int64(count)})
	}
	e.sizes(&st)
	return st
}

// Quiet implements engine.Engine: the writer counts a batch after it has woken its
// callers, and before it does anything else.
func (e *queued) Quiet(ctx context.Context) error {
	return e.exclusive(ctx, func(*writer.Conn) error { return nil })
}

// Pin implements engine.Pinner.
func (e *queued) Pin(ctx context.Context) (release func() error, err error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	return e.pin(ctx, e.settings.JournalMode)
}

func (e *queued) ForeignWrites(ctx context.Context) (foreign bool, err error) {
	err = e.exclusive(ctx, func(c *writer.Conn) error {
		var version int64
		err := c.QueryRow("PRAGMA data_version").Scan(&version)
		foreign = err == nil && version != e.version
		return err
	})
	return foreign, err
}

func (e *queued) Classify(err error) string { return classify(err) }

func (e *queued) InDoubt(err error) (group any, ok bool) { return inDoubt(err) }

func (e *queued) Now() int64 { return writer.Now() }

func (e *queued) Close() error {
	e.closing.Do(func() {
		e.closeErr = errors.Join(e.check(), e.pins.close(), stopped(e.w.Close()), e.file.close())
	})
	return e.closeErr
}

// Cold implements engine.Cacher.
func (e *queued) Cold(ctx context.Context) error {
	if err := cmp.Or(e.check(), ctx.Err()); err != nil {
		return err
	}
	if e.cache == nil {
		return errNoPageCache
	}
	if err := e.w.Close(); err != nil {
		return stopped(err)
	}
	dropped := e.cache.Drop()
	// Whatever ends meanwhile, the engine must be open again afterwards.
	return errors.Join(dropped, e.openWriter(context.WithoutCancel(ctx)))
}

// Batch implements engine.Batcher: BEGIN, each function in a savepoint unless
// savepoints are off, COMMIT, all on the writer's goroutine.
func (e *queued) Batch(ctx context.Context, errs []error, fn func(i int, tx engine.Tx) error) error {
	return e.exclusive(ctx, func(c *writer.Conn) error {
		if _, err := c.Exec("BEGIN IMMEDIATE"); err != nil {
			return &writer.BatchError{Op: "begin", Err: err}
		}
		for i := range errs {
			if err := e.one(c, func() error { return fn(i, account{c.Rx}) }, &errs[i]); err != nil {
				_, rollbackErr := c.Exec("ROLLBACK")
				return errors.Join(err, rollbackErr)
			}
		}
		if _, err := c.Exec("COMMIT"); err != nil {
			return commitError(e.committed(err))
		}
		return nil
	})
}

// one runs one transaction of a batch and keeps its outcome in own. The error is
// for the batch.
func (e *queued) one(c *writer.Conn, fn func() error, own *error) error {
	savepoint := e.opt.Savepoints != writer.SavepointNone
	if savepoint {
		if _, err := c.Stmt("SAVEPOINT tx").Exec(); err != nil {
			return err
		}
	}
	*own = recovered(fn)
	if !savepoint {
		return *own
	}
	if *own != nil {
		if _, err := c.Stmt("ROLLBACK TO tx").Exec(); err != nil {
			return errors.Join(*own, err)
		}
	}
	_, err := c.Stmt("RELEASE tx").Exec()
	return err
}

// recovered runs fn and turns a panic into its error.
func recovered(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &writer.PanicError{Value: v}
		}
	}()
	return fn()
}
