package writer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/wal"
)

// Writer owns the one connection that writes to a database. Its methods are safe
// for concurrent use.
type Writer struct {
	opt      Options
	path     string
	queue    *queue
	readers  *readers
	prefetch *prefetch     // nil when Options.Prefetch is 0
	release  func() error  // the lock file
	closing  chan struct{} // closed when Shutdown begins
	done     chan struct{} // closed when everything is closed
	once     sync.Once

	holding   atomic.Pointer[holder] // who runs on the writer goroutine
	watchMu   sync.Mutex             // held while a statement is interrupted
	failure   atomic.Pointer[error]  // storage failure
	statsMu   sync.Mutex
	stats     Stats
	blocked   wal.Blockage // guarded by statsMu
	backups   sync.RWMutex // read-held by each Backup, held to close
	closeErr  error        // set before done is closed
	watchStop func()

	// What follows belongs to the writer goroutine.
	conn    *conn
	sql     struct{ begin, commit, rollback, savepoint, release, rollbackTo, version, surprises *prepared }
	batch   batch
	careful int             // batches left that use savepoints after one failed without
	doubt   int             // functions left that share no savepoint after one failed that did
	waking  sync.WaitGroup  // those who wake the callers of a batch that is over
	spare   chan []*request // what they do not need any more, for batch.ran
	wal     walState
	pauses  pauses
}

// Open opens the database at path, creating it unless opt.NoCreate is set, and
// starts the writer. A ctx that has ended already is seen first; later it only
// reaches Init.
//
// Errors: ErrInUse when another Writer has it; an *Error from SQLite; an error
// that names the option that is wrong.
func Open(ctx context.Context, path string, opt Options) (_ *Writer, err error) {
	if opt, err = opt.withDefaults(); err != nil {
		return nil, fmt.Errorf("writer.Open: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if path, err = resolve(path, opt.NoCreate); err != nil {
		return nil, fmt.Errorf("writer.Open: %w", err)
	}
	release, err := Lock(path)
	if err != nil {
		return nil, fmt.Errorf("writer.Open: %w", err)
	}
	w := &Writer{
		opt:     opt,
		path:    path,
		queue:   newQueue(opt.QueueLen),
		release: release,
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		spare:   make(chan []*request, 1),
		wal:     walState{pause: restartPause},
	}
	opened := false
	defer func() {
		if !opened { // also when Init panics
			err = errors.Join(err, w.closeConns(), release())
		}
	}()
	if err := w.openConns(ctx); err != nil {
		return nil, fmt.Errorf("writer.Open: %w", err)
	}
	opened = true
	w.watch()
	go w.loop()
	return w, nil
}

// resolve returns the one name of the database at path, whatever links lead to
// it, so that the lock file stands beside the file itself.
func resolve(path string, mustExist bool) (string, error) {
	if path == "" || path == ":memory:" {
		return "", fmt.Errorf("%q is not a file: a database without a file has no readers and no durability", path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case err == nil:
		return real, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	case mustExist:
		return "", fmt.Errorf("there is no database %s: %w", path, fs.ErrNotExist)
	}
	if _, err := os.Lstat(path); err == nil { // SQLite would make the target, whose name has another lock file
		return "", fmt.Errorf("%s is a link to a file that is not there; name the database itself, or remove the link", path)
	}
	for _, log := range []string{path + "-wal", path + "-journal"} {
		if _, err := os.Stat(log); err == nil {
			return "", fmt.Errorf("%s is there but not its database; move it back beside its database, or remove it if its content does not matter", log)
		}
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("the folder of %s does not exist: %w", path, err)
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// openConns opens the writer's connection, runs Init and opens the readers.
func (w *Writer) openConns(ctx context.Context) error {
	flags := sqliteh.SQLITE_OPEN_READWRITE
	if !w.opt.NoCreate {
		flags |= sqliteh.SQLITE_OPEN_CREATE
	}
	var err error
	if w.conn, err = openConn(w.opt.Open, w.path, flags); err != nil {
		return err
	}
	c := w.conn
	c.busyTimeout(w.opt.BusyTimeout)
	if err := c.configure(w.opt.Pragmas); err != nil {
		return err
	}
	if err := c.db.AutoCheckpoint(0); err != nil {
		return c.wrap(err, "wal_autocheckpoint")
	}
	if err := w.wal.watch(c, w.opt.Checkpoint); err != nil {
		return err
	}
	for sql, p := range map[string]**prepared{
		"BEGIN IMMEDIATE": &w.sql.begin,
		"COMMIT":          &w.sql.commit,
		"ROLLBACK":        &w.sql.rollback,
		"SAVEPOINT tx":    &w.sql.savepoint,
		"RELEASE tx":      &w.sql.release,
		"ROLLBACK TO tx":  &w.sql.rollbackTo,
		versionSQL:        &w.sql.version,
		surprisesSQL:      &w.sql.surprises,
	} {
		if *p, err = c.pin(sql); err != nil {
			return err
		}
	}
	if w.opt.Init != nil {
		if err := w.exclusively(w.nested(ctx), w.opt.Init); err != nil {
			return fmt.Errorf("init: %w", err)
		}
		if err := w.failed(); err != nil {
			return err
		}
	}
	if w.readers, err = openReaders(w.opt, w.path); err != nil {
		return err
	}
	w.prefetch, err = openPrefetch(w.opt, w.path)
	return err
}

// closeConns closes the readers first, those for Touch before all, and the writer
// last, so that SQLite can clear the WAL away. After a storage failure the others are
// closed after it: with a reader still open SQLite leaves the WAL alone, and the next
// Open recovers what it holds.
func (w *Writer) closeConns() error {
	errs := []error{w.prefetch.close()}
	if w.failed() != nil && w.readers != nil {
		w.readers.holdWAL()
		errs = append(errs, w.conn.close(), w.readers.close())
		return errors.Join(errs...)
	}
	if w.readers != nil {
		errs = append(errs, w.readers.close())
	}
	if w.conn != nil {
		errs = append(errs, w.conn.close())
	}
	return errors.Join(errs...)
}

// Do runs fn in a transaction on the writer goroutine and returns how it ended,
// after COMMIT: nil, fn's own error, a *PanicError or a *BatchError. If ctx ends
// before fn was started, fn never runs and Do returns ctx's error. The package
// comment has the whole contract.
func (w *Writer) Do(ctx context.Context, fn func(*Tx) error) error {
	return w.DoCall(ctx, Call{Fn: fn})
}

// Call is a transaction with what a caller may say beside its function.
type Call struct {
	// Fn is the function, as for Do.
	Fn func(*Tx) error
	// Timing, if set, is filled in before DoCall returns, provided that Fn ran and
	// its batch came to COMMIT.
	Timing *Timing
	// Touch, if set, reads what Fn is going to read or write, so that the writer need
	// not wait for the disk. It is only a hint. With Options.Prefetch, DoCall runs it
	// on the caller's goroutine before Fn is queued, in a read transaction of its own,
	// which sees what was committed by then; when that finds everything in memory,
	// most calls go without. A read of what is not there fails at once where that can
	// be done (on Linux), and Touch is run again when it has been fetched, up to 20
	// times: one that goes on to its next row behind a failure has both fetched
	// at the same time. Its error is ignored: Fn will meet what is wrong. When it
	// panics, Fn does not run and DoCall returns the *PanicError. It must not call the
	// writer.
	Touch func(*Rx) error
}

// DoCall is Do with more to say.
func (w *Writer) DoCall(ctx context.Context, c Call) error {
	if c.Touch != nil && w.prefetch != nil {
		if err := w.touch(ctx, c.Touch); err != nil {
			return err
		}
	}
	r := newRequest(ctx)
	r.fn, r.timing = c.Fn, c.Timing
	return w.submit(r)
}

// Value is Do for a function that returns a value. The value is the zero value
// when the error is not nil.
func Value[T any](ctx context.Context, w *Writer, fn func(*Tx) (T, error)) (T, error) {
	var v T
	err := w.Do(ctx, func(tx *Tx) (err error) {
		v, err = fn(tx)
		return err
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// Exclusive runs fn on the writer's connection between two batches, with no
// transaction open: migrations, VACUUM, ANALYZE. It keeps its place in the queue,
// and nothing else runs meanwhile. A transaction that fn leaves open is rolled
// back, and ErrOpenTx returned. Panics are as for Do.
//
// Outside of a transaction of fn's own each statement commits by itself, so a
// storage failure of anything but a SELECT stops the writer as one at COMMIT does.
// What fn attaches it must detach: an attached database is neither checkpointed
// nor locked. The pragmas that Options.Pragmas refuses are set back when fn ends.
func (w *Writer) Exclusive(ctx context.Context, fn func(*Conn) error) error {
	r := newRequest(ctx)
	r.exclusive = fn
	return w.submit(r)
}

// Prepare compiles sql on the writer's connection as a [Tx] would, runs nothing and
// keeps the statement for those who ask for it. It keeps its place in the queue. Its
// errors are those of [Stmt]: ErrTxControl, ErrMultiple, or an *Error with SQLite's
// message. What names a table that is not there yet cannot be prepared.
func (w *Writer) Prepare(ctx context.Context, sql string) error {
	return w.Exclusive(ctx, func(c *Conn) error {
		_, err := c.conn.prepare(sql, false)
		return err
	})
}

// submit queues r and waits for its outcome.
func (w *Writer) submit(r *request) error {
	ctx := r.ctx
	if err := w.refuse(ctx); err != nil {
		return err
	}
	full, err := w.queue.push(r)
	if full {
		if w.opt.FailWhenFull {
			return ErrQueueFull
		}
		err = w.queue.waitPush(ctx, r)
	}
	if err != nil {
		return err
	}
	if ctx.Done() == nil {
		<-r.done
	} else {
		select {
		case <-r.done:
		case <-ctx.Done():
			if r.abandon() {
				return ctx.Err()
			}
			<-r.done
		}
	}
	err = r.outcome()
	r.free()
	return err
}

// refuse returns why a caller with ctx cannot wait for this writer.
func (w *Writer) refuse(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Value(nestedKey{w}) != nil {
		return ErrNested
	}
	return nil
}

// View runs fn in a read transaction on one of the read-only connections, on the
// caller's goroutine, and returns fn's error. It waits for a free connection until
// ctx ends; when ctx ends while fn runs, its statement is interrupted and the error
// wraps ctx's. fn sees one snapshot, taken at its first read.
//
// A View that calls Do while functions on the writer call View can wait for each
// other for good, when the readers run out; so can a View inside a View.
func (w *Writer) View(ctx context.Context, fn func(*Rx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.failed(); err != nil {
		return err
	}
	return w.readers.view(ctx, w.closing, fn)
}

// Shutdown refuses new work, finishes everything accepted, checkpoints and closes
// the database. When ctx ends first it returns ctx's error and goes on closing in
// the background. It waits for views, touches and backups that are running.
func (w *Writer) Shutdown(ctx context.Context) error {
	if ctx.Value(nestedKey{w}) != nil {
		return ErrNested
	}
	w.once.Do(func() {
		close(w.closing)
		w.queue.refuse(ErrClosed)
	})
	select {
	case <-w.done:
		return w.closeErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close is Shutdown without a limit. Called by a function that holds the writer
// it would wait for itself.
func (w *Writer) Close() error { return w.Shutdown(context.Background()) }

// Options returns the options in effect, defaults filled in.
func (w *Writer) Options() Options { return w.opt }

// fail stops the writer after a storage failure.
func (w *Writer) fail(cause error) {
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	if w.failure.CompareAndSwap(nil, &err) {
		w.queue.refuse(err)
		w.log(slog.LevelError, "stopped after a storage failure", "cause", cause)
	}
}

// failed returns the storage failure that stopped the writer, if any.
func (w *Writer) failed() error {
	if err := w.failure.Load(); err != nil {
		return *err
	}
	return nil
}

func (w *Writer) log(level slog.Level, msg string, args ...any) {
	if w.opt.Logger != nil {
		w.opt.Logger.Log(context.Background(), level, "writer: "+msg, append(args, "path", w.path)...)
	}
}

// epoch is the zero of Now.
var epoch = time.Now()

// Now returns the monotonic clock of [Timing], in nanoseconds.
func Now() int64 { return int64(time.Since(epoch)) }

// Timing says when a transaction passed each point of its way, in nanoseconds on
// the clock of [Now].
type Timing struct {
	Accepted   int64 // it entered the queue
	Begun      int64 // its batch began, or took it in
	Started    int64 // its function was started, after its batch-mates before it
	Ended      int64 // its function and savepoint ended
	Committing int64 // COMMIT started, after its batch-mates behind it
	Committed  int64 // COMMIT returned

	// Checkpointing is for how long, between Accepted and Begun, the writer
	// goroutine was held by checkpoints. If there were more than 16, those before
	// the last 16 are not counted.
	Checkpointing int64
}
