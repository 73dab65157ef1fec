// Package writertest helps to test programs that use package writer.
//
// [Open] gives a test a database of its own and, when the test ends, proves that
// it was left whole: closed without an error, free of corruption, nothing left
// beside the file. [Batch] makes functions meet in one batch, in a known order.
// [Bank] is a table of accounts whose total must never change. [Faults] makes
// chosen statements, commits and checkpoints fail, and does to the database what
// SQLite does to it in such a case.
//
// The package does not simulate power loss: what a kernel has accepted is there
// when the file is opened again.
package writertest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
)

// patience is how long the helpers wait for something that must come. It only
// bounds how long a broken test hangs.
const patience = 30 * time.Second

// Open opens a Writer on a new database in t's temporary folder; see [OpenPath].
// At most one Options may be passed; none means the zero value.
func Open(t testing.TB, opts ...writer.Options) *writer.Writer {
	t.Helper()
	return OpenPath(t, filepath.Join(t.TempDir(), "test.db"), opts...)
}

// OpenPath opens a Writer on the database at path. When t ends the Writer is
// closed, if it was not already, and [Check] looks at what it left. An error of
// Close fails the test, with one exception: where Options.Open is set, faults are
// expected, and a Writer that stopped with ErrFailed may leave its WAL behind; the
// database is then recovered from it before it is checked.
//
// Without a MaxBatchTime batches may run for any time: how fast the machine is would
// else decide which functions meet in one.
func OpenPath(t testing.TB, path string, opts ...writer.Options) *writer.Writer {
	t.Helper()
	var opt writer.Options
	switch len(opts) {
	case 0:
	case 1:
		opt = opts[0]
	default:
		t.Fatalf("writertest.OpenPath: %d Options, at most one is used", len(opts))
	}
	if opt.MaxBatchTime == 0 {
		opt.MaxBatchTime = -1
	}
	w, err := writer.Open(context.Background(), path, opt)
	if err != nil {
		t.Fatalf("writertest.OpenPath: %v", err)
	}
	t.Cleanup(func() {
		err := w.Close()
		switch {
		case errors.Is(err, writer.ErrFailed) && opt.Open != nil:
			Recover(t, path)
		case err != nil:
			t.Errorf("writertest: close: %v", err)
		}
		Check(t, path)
	})
	return w
}

// Check fails t unless the closed database at path passes PRAGMA integrity_check
// and foreign_key_check and no -wal, -shm, -journal or -lock file is left beside
// it.
func Check(t testing.TB, path string) {
	t.Helper()
	for _, suffix := range []string{"-wal", "-shm", "-journal", "-lock"} {
		if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("writertest: %s is left after close (%v)", path+suffix, err)
		}
	}
	withDB(t, path, func(db sqliteh.DB) {
		for _, row := range rows(t, db, "PRAGMA integrity_check") {
			if row != "ok" {
				t.Errorf("writertest: integrity_check of %s: %s", path, row)
			}
		}
		for _, row := range rows(t, db, "PRAGMA foreign_key_check") {
			t.Errorf("writertest: foreign_key_check of %s: a row of %s refers to nothing", path, row)
		}
	})
}

// Recover opens the database at path as SQLite does after a crash, which replays
// its WAL, and closes it again, which clears the WAL away. It removes the lock
// file that a killed process leaves.
func Recover(t testing.TB, path string) {
	t.Helper()
	release, err := writer.Lock(path)
	if err != nil {
		t.Fatalf("writertest.Recover: %v", err)
	}
	withDB(t, path, func(db sqliteh.DB) { rows(t, db, "SELECT count(*) FROM sqlite_schema") })
	if err := release(); err != nil {
		t.Errorf("writertest.Recover: %v", err)
	}
}

// withDB runs fn with a plain read-write connection: unlike a read-only one it
// leaves nothing beside the file.
func withDB(t testing.TB, path string, fn func(sqliteh.DB)) {
	t.Helper()
	db, err := cgosqlite.Open(path, sqliteh.SQLITE_OPEN_READWRITE, "")
	if err != nil {
		t.Fatalf("writertest: open %s: %v", path, err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Errorf("writertest: close %s: %v", path, err)
		}
	}()
	db.BusyTimeout(patience)
	fn(db)
}

// rows returns the first column of a query's rows.
func rows(t testing.TB, db sqliteh.DB, sql string) []string {
	t.Helper()
	stmt, _, err := db.Prepare(sql, 0)
	if err != nil {
		t.Fatalf("writertest: %s: %v: %s", sql, err, db.ErrMsg())
	}
	defer stmt.Finalize()
	var out []string
	for {
		row, err := stmt.Step(nil)
		if err != nil {
			t.Fatalf("writertest: %s: %v: %s", sql, err, db.ErrMsg())
		}
		if !row {
			return out
		}
		out = append(out, stmt.ColumnText(0))
	}
}

// Hold keeps w busy until release is called, so that requests pile up behind it.
// It returns once w is held. release may be called more than once, and is called
// when t ends.
func Hold(t testing.TB, w *writer.Writer) (release func()) {
	t.Helper()
	held, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.Exclusive(context.Background(), func(*writer.Conn) error {
			close(held)
			<-free
			return nil
		})
	}()
	select {
	case <-held:
	case err := <-ended:
		t.Fatalf("writertest.Hold: the writer cannot be held: %v", err)
	case <-time.After(patience):
		t.Fatalf("writertest.Hold: the writer was not free within %v", patience)
	}
	release = sync.OnceFunc(func() {
		close(free)
		if err := <-ended; err != nil {
			t.Errorf("writertest.Hold: %v", err)
		}
	})
	t.Cleanup(release)
	return release
}

// WaitQueued returns once at least n requests wait in w's queue.
func WaitQueued(t testing.TB, w *writer.Writer, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); w.Stats().Queued < n; {
		if time.Now().After(deadline) {
			t.Fatalf("writertest.WaitQueued: %d requests in the queue, want %d", w.Stats().Queued, n)
		}
		runtime.Gosched()
	}
}

// Batch runs fns in one batch, in their order, and returns what Do returned for
// each. Options.MaxBatch and QueueLen must allow len(fns), and nobody else may be
// using w.
func Batch(t testing.TB, w *writer.Writer, fns ...func(*writer.Tx) error) []error {
	t.Helper()
	release := Hold(t, w)
	errs := make([]error, len(fns))
	var wg sync.WaitGroup
	for i, fn := range fns {
		wg.Go(func() { errs[i] = w.Do(context.Background(), fn) })
		WaitQueued(t, w, i+1)
	}
	release()
	wg.Wait()
	return errs
}
