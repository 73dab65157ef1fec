package writer_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"
	"go.uber.org/goleak"

	"github.com/tpssim/tpssim/writer"
)

// TestMain fails when a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// errOwn is what a function of a test returns when it fails on purpose.
var errOwn = errors.New("funds are short")

// noSync is for tests of many small batches.
var noSync = map[string]string{"synchronous": "off"}

// openTest opens a writer on a new database with the tables of createTables. At
// the end of the test the writer is closed and the file is checked.
func openTest(t testing.TB, opt writer.Options) *writer.Writer {
	t.Helper()
	return openFile(t, filepath.Join(t.TempDir(), "test.db"), opt)
}

// openFile is openTest for a given file.
func openFile(t testing.TB, path string, opt writer.Options) *writer.Writer {
	t.Helper()
	if opt.Init == nil {
		opt.Init = createTables
	}
	if opt.MaxBatchTime == 0 {
		opt.MaxBatchTime = -1 // a slow machine must not decide what makes a batch
	}
	w, err := writer.Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		checkFile(t, path)
	})
	return w
}

// createTables is an Init that can run more than once.
func createTables(c *writer.Conn) error {
	for _, sql := range []string{
		"CREATE TABLE IF NOT EXISTS account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0))",
		"CREATE TABLE IF NOT EXISTS entry(id INTEGER PRIMARY KEY, note)",
	} {
		if _, err := c.Exec(sql); err != nil {
			return err
		}
	}
	return nil
}

// checkFile reports what SQLite's own check finds wrong with a closed database.
func checkFile(t testing.TB, path string) {
	t.Helper()
	_, err := writer.Open(context.Background(), path, writer.Options{NoCreate: true, Readers: -1, Init: func(c *writer.Conn) error {
		for row, err := range c.Query("PRAGMA integrity_check") {
			var finding string
			if err := errors.Join(err, row.Scan(&finding)); err != nil {
				return err
			}
			if finding != "ok" {
				t.Errorf("integrity_check of %s: %s", path, finding)
			}
		}
		return errChecked
	}})
	if !errors.Is(err, errChecked) {
		t.Errorf("cannot check %s: %v", path, err)
	}
}

// errChecked ends an Open that was for its Init alone.
var errChecked = errors.New("checked")

// insert returns a function that inserts one row.
func insert(id int) func(*writer.Tx) error {
	return func(tx *writer.Tx) error {
		_, err := tx.Exec("INSERT INTO entry(id) VALUES (?)", id)
		return err
	}
}

// entries returns the ids in the table entry.
func entries(t testing.TB, w *writer.Writer) []int {
	t.Helper()
	ids := []int{}
	if err := w.View(context.Background(), func(rx *writer.Rx) error {
		for row, err := range rx.Query("SELECT id FROM entry ORDER BY id") {
			var id int
			if err := errors.Join(err, row.Scan(&id)); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return ids
}

// number returns the first column of a query's first row, read in its own View.
func number(t testing.TB, w *writer.Writer, sql string, args ...any) (n int) {
	t.Helper()
	if err := w.View(context.Background(), func(rx *writer.Rx) error { return rx.QueryRow(sql, args...).Scan(&n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// hold keeps the writer busy, with an empty queue behind it, until release.
func hold(t testing.TB, w *writer.Writer) (release func()) {
	t.Helper()
	entered, gate, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		result <- w.Exclusive(context.Background(), func(*writer.Conn) error {
			close(entered)
			<-gate
			return nil
		})
	}()
	<-entered
	release = sync.OnceFunc(func() {
		close(gate)
		if err := <-result; err != nil {
			t.Errorf("Exclusive: %v", err)
		}
	})
	t.Cleanup(release)
	return release
}

// until waits for a condition that another goroutine brings about.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for start := time.Now(); !cond(); time.Sleep(20 * time.Microsecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("waited a minute for: %s", what)
		}
	}
}

// line queues requests one after the other while the writer is held, so that
// their order is known, and collects their outcomes.
type line struct {
	t    testing.TB
	w    *writer.Writer
	errs []chan error
}

// add queues one more function.
func (l *line) add(fn func(*writer.Tx) error) { l.addCtx(context.Background(), fn) }

// addCtx is add with a context.
func (l *line) addCtx(ctx context.Context, fn func(*writer.Tx) error) {
	l.t.Helper()
	l.queue(func() error { return l.w.Do(ctx, fn) })
}

// queue runs call, which must put one request into the queue.
func (l *line) queue(call func() error) {
	l.t.Helper()
	before := l.w.Stats().Queued
	result := make(chan error, 1)
	l.errs = append(l.errs, result)
	go func() { result <- call() }()
	until(l.t, "a request to be queued", func() bool { return l.w.Stats().Queued == before+1 })
}

// wait returns every outcome, in the order of the queue.
func (l *line) wait() []error {
	var errs []error
	for _, c := range l.errs {
		errs = append(errs, <-c)
	}
	return errs
}

// sizes collects the sizes of batches. Read it once the writer is held or closed.
type sizes struct {
	mu   sync.Mutex
	list []int
}

func (s *sizes) add(b writer.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, b.Size)
}

// after returns the sizes of all batches whose callers were woken before the call.
func (s *sizes) after(t testing.TB, w *writer.Writer) []int {
	t.Helper()
	if err := w.Exclusive(context.Background(), func(*writer.Conn) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

// spy counts what the writer asks SQLite for.
type spy struct {
	mu       sync.Mutex
	prepared map[string]int
	stepped  []string // SQL, in order
}

// open is an Options.Open.
func (s *spy) open(name string, flags sqliteh.OpenFlags, vfs string) (sqliteh.DB, error) {
	db, err := cgosqlite.Open(name, flags, vfs)
	if err != nil {
		return db, err
	}
	return spyDB{db, s}, nil
}

// reset forgets what was seen.
func (s *spy) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared, s.stepped = make(map[string]int), nil
}

// count returns how often sql was stepped.
func (s *spy) count(sql string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, have := range s.stepped {
		if have == sql {
			n++
		}
	}
	return n
}

func (s *spy) step(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stepped = append(s.stepped, sql)
}

type spyDB struct {
	sqliteh.DB
	spy *spy
}

func (db spyDB) Prepare(sql string, flags sqliteh.PrepareFlags) (sqliteh.Stmt, string, error) {
	stmt, rest, err := db.DB.Prepare(sql, flags)
	if err != nil {
		return nil, "", err
	}
	db.spy.mu.Lock()
	defer db.spy.mu.Unlock()
	if db.spy.prepared == nil {
		db.spy.prepared = make(map[string]int)
	}
	db.spy.prepared[sql]++
	return spyStmt{stmt, db.spy, sql}, rest, nil
}

type spyStmt struct {
	sqliteh.Stmt
	spy *spy
	sql string
}

func (s spyStmt) Step(types []sqliteh.ColumnType) (bool, error) {
	s.spy.step(s.sql)
	return s.Stmt.Step(types)
}

func (s spyStmt) StepResult() (row bool, rowid, changes int64, d time.Duration, err error) {
	s.spy.step(s.sql)
	return s.Stmt.StepResult()
}
