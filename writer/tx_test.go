package writer_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
)

func TestContract15TransactionControlIsRefused(t *testing.T) {
	w := openTest(t, writer.Options{})
	statements := []string{
		"BEGIN", "BEGIN IMMEDIATE", "COMMIT", "END", "ROLLBACK", "ROLLBACK TO tx", "SAVEPOINT a", "RELEASE tx",
		"ATTACH ':memory:' AS other", "DETACH other", "PRAGMA synchronous = off", "PRAGMA user_version",
		"EXPLAIN PRAGMA synchronous = off", "explain query plan pragma user_version", "EXPLAIN COMMIT",
	}
	prefixes := []string{"", " \t\r\n\f", ";", " ; ;", "-- comment\n", "/* comment */", "--\n/**/;--x\n\t", "/* -- */ ; /* \n */", "\ufeff"}
	for _, statement := range statements {
		for _, prefix := range prefixes {
			for _, sql := range []string{prefix + statement, prefix + strings.ToLower(statement), prefix + statement + " ; -- end"} {
				do(t, w, func(tx *writer.Tx) error {
					if _, err := tx.Exec(sql); err != writer.ErrTxControl {
						t.Errorf("Tx %q: %v, want ErrTxControl", sql, err)
					}
					return nil
				})
				if err := w.View(t.Context(), func(rx *writer.Rx) error { return rx.QueryRow(sql).Scan() }); err != writer.ErrTxControl {
					t.Errorf("View %q: %v, want ErrTxControl", sql, err)
				}
			}
		}
	}
}

func TestContract15RefusedControlChangesNothing(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, func(tx *writer.Tx) error {
		err := insert(1)(tx)
		tx.Exec("COMMIT")
		tx.Exec("EXPLAIN PRAGMA synchronous = off") // would take effect when prepared
		tx.Exec("INSERT INTO entry(id) VALUES (2); COMMIT")
		if err != nil {
			return err
		}
		return errOwn
	}, errOwn)
	if got := entries(t, w); len(got) != 0 {
		t.Errorf("the table holds %v, want nothing", got)
	}
	if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
		var sync int
		if err := c.QueryRow("PRAGMA synchronous").Scan(&sync); err != nil || sync != 2 {
			t.Errorf("synchronous is %d, %v; want 2", sync, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestContract15MultipleStatements(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, func(tx *writer.Tx) error {
		for _, sql := range []string{
			"INSERT INTO entry(id) VALUES (1); INSERT INTO entry(id) VALUES (2)",
			"INSERT INTO entry(id) VALUES (1); COMMIT",
			"INSERT INTO entry(id) VALUES (1); -- x\n;/* y */ junk",
		} {
			if _, err := tx.Exec(sql); err != writer.ErrMultiple {
				t.Errorf("%q: %v, want ErrMultiple", sql, err)
			}
		}
		_, err := tx.Exec("INSERT INTO entry(id) VALUES (3); ;; -- the end\n /* of it */ ")
		return err
	})
	if got := entries(t, w); !slices.Equal(got, []int{3}) {
		t.Errorf("the table holds %v, want 3", got)
	}
}

// leaked is what a function may keep by mistake.
type leaked struct {
	tx   *writer.Tx
	rx   *writer.Rx
	stmt writer.Stmt
	row  writer.Row
}

// check reports what of l still works.
func (l leaked) check(t *testing.T, when string) {
	t.Helper()
	errs := map[string]error{
		"Tx.Exec":          second(l.tx.Exec("INSERT INTO entry(id) VALUES (66)")),
		"Tx.QueryRow":      l.tx.QueryRow("SELECT 1").Scan(),
		"Tx.Stmt":          second(l.tx.Stmt("SELECT 1").Step()),
		"Rx.QueryRow":      l.rx.QueryRow("SELECT 1").Scan(),
		"Stmt.Exec":        second(l.stmt.Exec()),
		"Stmt.Step":        second(l.stmt.BindInt64(1, 1).BindText(2, "x").BindBlob(1, nil).BindNull(1).BindFloat64(1, 1).Step()),
		"Row.Scan":         l.row.Scan(new(int)),
		"Row.Stmt().Step":  second(l.row.Stmt().Step()),
		"Tx.Exec, control": second(l.tx.Exec("COMMIT")),
	}
	for _, err := range l.tx.Query("SELECT 1") {
		errs["Tx.Query"] = err
	}
	for what, err := range errs {
		if err != writer.ErrTxDone {
			t.Errorf("%s %s: %v, want ErrTxDone", what, when, err)
		}
	}
	s := l.row.Stmt()
	s.Reset()
	if s.Int64(0) != 0 || s.Float64(0) != 0 || s.Text(0) != "" || s.Blob(0) != nil || !s.IsNull(0) || s.Columns() != 0 || s.Name(0) != "" {
		t.Errorf("a row %s still has values", when)
	}
	if l.tx.LastInsertID() != 0 {
		t.Errorf("LastInsertID %s is not 0", when)
	}
}

func TestContract15UsedAfterItsFunction(t *testing.T) {
	w := openTest(t, writer.Options{Readers: 1})
	var l leaked
	do(t, w, func(tx *writer.Tx) error {
		l.tx, l.stmt = tx, tx.Stmt("INSERT INTO entry(id) VALUES (?)")
		l.row = tx.QueryRow("SELECT 42")
		return insert(1)(tx)
	})
	if err := w.View(t.Context(), func(rx *writer.Rx) error { l.rx = rx; return nil }); err != nil {
		t.Fatal(err)
	}
	l.check(t, "after its function")
	do(t, w, func(tx *writer.Tx) error { // the same connection, the same texts
		if err := insert(2)(tx); err != nil {
			return err
		}
		s := tx.Stmt("SELECT 42")
		if _, err := s.Step(); err != nil {
			return err
		}
		l.check(t, "in another transaction")
		if s.Int64(0) != 42 {
			t.Error("a handle of another transaction disturbed this one's row")
		}
		return nil
	})
	if got := entries(t, w); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("the table holds %v, want 1 and 2", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l.check(t, "after Close")
}

func TestContract15RowIsGone(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, func(tx *writer.Tx) error {
		row := tx.QueryRow("SELECT 42")
		var n int
		if err := row.Scan(&n); err != nil || n != 42 {
			t.Errorf("got %d, %v", n, err)
		}
		if err := row.Scan(&n); err == nil {
			t.Error("a second Scan of QueryRow's row must not give zeros without an error")
		}
		for r, err := range tx.Query("SELECT 43") {
			row = r
			if err != nil {
				return err
			}
		}
		if err := row.Scan(&n); err == nil {
			t.Error("a row that outlived its loop must not give zeros without an error")
		}
		return nil
	})
}

func TestContract15Nested(t *testing.T) {
	dir := t.TempDir()
	w := openFile(t, dir+"/a.db", writer.Options{})
	other := openFile(t, dir+"/b.db", writer.Options{})
	ctx := context.WithValue(t.Context(), leaked{}, "mine")
	if err := w.Do(ctx, func(tx *writer.Tx) error {
		ctx := tx.Context()
		if ctx.Value(leaked{}) != "mine" {
			t.Error("Tx.Context has lost the caller's values")
		}
		ctx, cancel := context.WithCancel(ctx) // derived ones count as well
		defer cancel()
		for what, err := range map[string]error{
			"Do":         w.Do(ctx, never(t, "a nested request")),
			"Value":      second(writer.Value(ctx, w, func(*writer.Tx) (int, error) { return 0, nil })),
			"Exclusive":  w.Exclusive(ctx, func(*writer.Conn) error { return nil }),
			"Checkpoint": w.Checkpoint(ctx, sqliteh.SQLITE_CHECKPOINT_PASSIVE),
			"Backup":     w.Backup(ctx, dir+"/copy.db"),
			"Shutdown":   w.Shutdown(ctx),
		} {
			if err != writer.ErrNested {
				t.Errorf("%s: %v, want ErrNested", what, err)
			}
		}
		if err := w.View(ctx, func(rx *writer.Rx) error { return nil }); err != nil {
			t.Errorf("View, which does not wait for the writer: %v", err)
		}
		return other.Do(ctx, insert(1)) // another writer is another matter
	}); err != nil {
		t.Error(err)
	}
}

// endless is a SELECT that does not end within any test's patience.
const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT sum(i) FROM n"

func TestContract17TxTimeout(t *testing.T) {
	w := openTest(t, writer.Options{TxTimeout: 20 * time.Millisecond})
	release := hold(t, w)
	l := line{t: t, w: w}
	l.add(insert(1))
	l.add(func(tx *writer.Tx) error {
		if err := insert(2)(tx); err != nil {
			return err
		}
		err := tx.QueryRow(endless).Scan()
		if !errors.Is(err, writer.ErrTxTimeout) || writer.Primary(err) != sqliteh.SQLITE_INTERRUPT {
			t.Errorf("the long SELECT: %v, want ErrTxTimeout and SQLITE_INTERRUPT", err)
		}
		if later := insert(3)(tx); !errors.Is(later, writer.ErrTxTimeout) {
			t.Errorf("a later statement: %v, want ErrTxTimeout", later)
		}
		return err
	})
	l.add(insert(4))
	release()
	errs := l.wait()
	if errs[0] != nil || !errors.Is(errs[1], writer.ErrTxTimeout) || errs[2] != nil {
		t.Errorf("outcomes are %v", errs)
	}
	if _, ok := errors.AsType[*writer.BatchError](errs[1]); ok {
		t.Errorf("an interrupted SELECT failed the batch: %v", errs[1])
	}
	if got := entries(t, w); !slices.Equal(got, []int{1, 4}) {
		t.Errorf("the table holds %v, want 1 and 4", got)
	}
}

// logBuffer collects log lines of several goroutines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), part)
}

// blockedInGo holds the writer without a statement that could be interrupted.
func blockedInGo(inside chan<- struct{}, gate <-chan struct{}) func(*writer.Tx) error {
	return func(*writer.Tx) error {
		inside <- struct{}{}
		<-gate
		return nil
	}
}

func TestContract17TheHolderIsNamed(t *testing.T) {
	var log logBuffer
	w := openTest(t, writer.Options{TxTimeout: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if h := w.Stats().Holder; h != "" {
		t.Errorf("%s holds an idle writer", h)
	}
	inside, gate, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { result <- w.Do(context.Background(), blockedInGo(inside, gate)) }()
	<-inside
	until(t, "the log to name the function", func() bool { return log.has("blockedInGo") })
	if s := w.Stats(); !strings.Contains(s.Holder, "blockedInGo") || s.HolderHeldBy < 10*time.Millisecond {
		t.Errorf("Stats name %q for %v", s.Holder, s.HolderHeldBy)
	}
	close(gate)
	if err := <-result; err != nil { // Go code cannot be interrupted, and it used no statement
		t.Error(err)
	}
	until(t, "the holder to be forgotten", func() bool { return w.Stats().Holder == "" })
}
