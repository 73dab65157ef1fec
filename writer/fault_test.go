package writer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// errRefused is what a function of these tests returns when it fails on purpose.
var errRefused = errors.New("refused")

// transcript notes what reaches SQLite.
type transcript struct {
	mu     sync.Mutex
	events []writertest.Event
}

func (tr *transcript) add(e writertest.Event) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.events = append(tr.events, e)
}

// all returns the events so far whose text contains part.
func (tr *transcript) all(part string) (found []writertest.Event) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, e := range tr.events {
		if strings.Contains(e.SQL, part) {
			found = append(found, e)
		}
	}
	return found
}

// wantBatchError fails t unless err is a *BatchError for op with the given primary
// code.
func wantBatchError(t *testing.T, who string, err error, op string, code sqliteh.Code, culprit bool) *writer.BatchError {
	t.Helper()
	be, ok := errors.AsType[*writer.BatchError](err)
	if !ok || be.Op != op || writer.Primary(err) != code || be.Culprit != culprit {
		t.Errorf("%s: got %v (%+v), want a BatchError of %s with %s, culprit %t", who, err, be, op, code, culprit)
		return &writer.BatchError{}
	}
	return be
}

// wantBalances fails t unless accounts 1, 2, ... hold what is wanted.
func wantBalances(t *testing.T, b *writertest.Bank, want ...int64) {
	t.Helper()
	for i, w := range want {
		if got, err := b.Balance(context.Background(), int64(i+1)); got != w || err != nil {
			t.Errorf("account %d holds %d (%v), want %d", i+1, got, err, w)
		}
	}
}

// move returns a function that moves amount and then returns err.
func move(from, to, amount int64, err error) func(*writer.Tx) error {
	return func(tx *writer.Tx) error { return errors.Join(writertest.Move(tx, from, to, amount), err) }
}

// execSQL returns a function that executes one statement.
func execSQL(sql string, args ...any) func(*writer.Tx) error {
	return func(tx *writer.Tx) error {
		_, err := tx.Exec(sql, args...)
		return err
	}
}

// rollbackCauses are the ways in which SQLite ends a transaction by itself.
var rollbackCauses = []struct {
	name  string
	real  bool // SQLite does it; otherwise a rule injects it
	rule  writertest.Rule
	setup []string
	limit time.Duration // TxTimeout
	fail  func(*writer.Tx) error
	code  sqliteh.Code
}{
	{
		name: "IOErrInUpdate",
		rule: writertest.Rule{SQL: "UPDATE account SET balance = 5", Code: sqliteh.SQLITE_IOERR_WRITE},
		fail: execSQL("UPDATE account SET balance = 5 WHERE id = 4"),
		code: sqliteh.SQLITE_IOERR,
	},
	{
		name: "IOErrInSelect",
		rule: writertest.Rule{SQL: "SELECT id FROM account", AfterRows: 2, Code: sqliteh.SQLITE_IOERR_READ},
		fail: func(tx *writer.Tx) error {
			for _, err := range tx.Query("SELECT id FROM account") {
				if err != nil {
					return err
				}
			}
			return nil
		},
		code: sqliteh.SQLITE_IOERR,
	},
	{
		name: "IOErrWithASelectOpen", // the connection's state is then READ
		rule: writertest.Rule{SQL: "UPDATE account SET balance = 5", Code: sqliteh.SQLITE_IOERR_WRITE},
		fail: func(tx *writer.Tx) error {
			if _, err := tx.Stmt("SELECT id FROM account").Step(); err != nil {
				return err
			}
			return execSQL("UPDATE account SET balance = 5 WHERE id = 4")(tx)
		},
		code: sqliteh.SQLITE_IOERR,
	},
	{
		name: "IOErrInPrepare", // as when the schema must be read again
		rule: writertest.Rule{SQL: "DELETE", Prepare: true, Code: sqliteh.SQLITE_IOERR_READ, Effect: writertest.RollBack},
		fail: execSQL("DELETE FROM account WHERE id = 4"),
		code: sqliteh.SQLITE_IOERR,
	},
	{
		name: "IOErrInSavepoint",
		rule: writertest.Rule{SQL: "SAVEPOINT", Nth: 3, Code: sqliteh.SQLITE_IOERR_WRITE},
		fail: execSQL("UPDATE account SET balance = 5 WHERE id = 4"),
		code: sqliteh.SQLITE_IOERR,
	},
	{
		name: "NoMem",
		rule: writertest.Rule{SQL: "UPDATE account SET balance = 5", Code: sqliteh.SQLITE_NOMEM},
		fail: execSQL("UPDATE account SET balance = 5 WHERE id = 4"),
		code: sqliteh.SQLITE_NOMEM,
	},
	{
		name:  "Full",
		real:  true,
		setup: []string{"CREATE TABLE heap (b BLOB)", "PRAGMA max_page_count = 20"},
		fail:  execSQL("INSERT INTO heap VALUES (zeroblob(1000000))"),
		code:  sqliteh.SQLITE_FULL,
	},
	{
		name:  "InterruptByTxTimeout",
		real:  true,
		limit: time.Second,
		fail: execSQL(`UPDATE account SET balance =
			(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n)`), // without end
		code: sqliteh.SQLITE_INTERRUPT,
	},
	{
		name: "InsertOrRollback",
		real: true,
		fail: execSQL("INSERT OR ROLLBACK INTO account VALUES (4, 5)"),
		code: sqliteh.SQLITE_CONSTRAINT,
	},
	{
		name:  "RaiseRollback",
		real:  true,
		setup: []string{"CREATE TRIGGER veto BEFORE DELETE ON account BEGIN SELECT RAISE(ROLLBACK, 'accounts stay'); END"},
		fail:  execSQL("DELETE FROM account WHERE id = 4"),
		code:  sqliteh.SQLITE_CONSTRAINT,
	},
}

// TestContract04AutomaticRollback: two batch-mates have run, a third makes SQLite
// roll back and goes on regardless, two more have not started.
func TestContract04AutomaticRollback(t *testing.T) {
	for _, c := range rollbackCauses {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var seen transcript
			faults := &writertest.Faults{Before: seen.add}
			w := writertest.Open(t, writer.Options{Open: faults.Open, TxTimeout: c.limit})
			bank := writertest.NewBank(t, w, 4, 100)
			for _, sql := range c.setup {
				if err := w.Exclusive(t.Context(), func(conn *writer.Conn) error { _, err := conn.Exec(sql); return err }); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			if !c.real {
				faults.Add(c.rule)
			}
			runs := make([]int, 5)
			count := func(i int, fn func(*writer.Tx) error) func(*writer.Tx) error {
				return func(tx *writer.Tx) error { runs[i]++; return fn(tx) }
			}
			errs := writertest.Batch(t, w,
				count(0, move(1, 2, 10, nil)),
				count(1, move(1, 2, 10, errRefused)),
				count(2, func(tx *writer.Tx) error { goOnRegardless(t, tx, c.fail, c.name != "IOErrInSavepoint"); return nil }),
				count(3, move(2, 3, 10, nil)),
				count(4, move(2, 3, 10, errRefused)),
			)
			for i, n := range runs {
				if n != 1 {
					t.Errorf("function %d ran %d times", i, n)
				}
			}
			wantBatchError(t, "a mate that had run", errs[0], "abort", c.code, false)
			wantBatchError(t, "a mate that had failed", errs[1], "abort", c.code, false)
			wantBatchError(t, "the culprit", errs[2], "abort", c.code, true)
			if errs[3] != nil || !errors.Is(errs[4], errRefused) {
				t.Errorf("mates that had not started: %v and %v, want nil and their own error", errs[3], errs[4])
			}
			if got := seen.all("777"); len(got) != 0 {
				t.Errorf("%v reached SQLite after the rollback", got)
			}
			if !c.real && faults.Injected() != 1 {
				t.Errorf("%d faults were injected, want 1", faults.Injected())
			}
			wantBalances(t, bank, 100, 90, 110, 100)
		})
	}
}

// goOnRegardless changes one account, lets fail make SQLite roll that back, and
// then tries every way to reach SQLite. half makes it a transfer by halves.
func goOnRegardless(t *testing.T, tx *writer.Tx, fail func(*writer.Tx) error, half bool) {
	const poison = "UPDATE account SET balance = balance + 777 WHERE id = 3"
	if half {
		if _, err := tx.Exec("UPDATE account SET balance = balance - 10 WHERE id = 1"); err != nil {
			t.Errorf("the first half: %v", err)
		}
	}
	early := tx.Stmt(poison)
	if err := fail(tx); err == nil {
		t.Error("the statement did not fail")
	}
	_, byHandle := early.Exec()
	_, byExec := tx.Exec(poison)
	_, byStmt := tx.Stmt(poison).Exec()
	byQuery := tx.QueryRow("SELECT 777").Scan(new(int))
	for i, err := range []error{byHandle, byExec, byStmt, byQuery} {
		if !errors.Is(err, writer.ErrTxAborted) {
			t.Errorf("way %d after the rollback: %v, want ErrTxAborted", i, err)
		}
	}
}

// TestContract04FullWithStatementJournal: where SQLite keeps a journal for the
// statement, a full database undoes that statement alone, and the batch goes on.
func TestContract04FullWithStatementJournal(t *testing.T) {
	w := writertest.Open(t)
	bank := writertest.NewBank(t, w, 4, 100)
	if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
		if _, err := c.Exec("CREATE TABLE heap (id INTEGER PRIMARY KEY, b BLOB NOT NULL UNIQUE)"); err != nil {
			return err
		}
		_, err := c.Exec("PRAGMA max_page_count = 20")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	errs := writertest.Batch(t, w,
		move(1, 2, 10, nil),
		execSQL("INSERT INTO heap SELECT id, randomblob(100000) FROM account"),
		move(2, 3, 10, nil),
	)
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("batch-mates: %v and %v", errs[0], errs[2])
	}
	if _, ok := errs[1].(*writer.Error); !ok || writer.Primary(errs[1]) != sqliteh.SQLITE_FULL {
		t.Errorf("got %v, want SQLITE_FULL unwrapped", errs[1])
	}
	wantBalances(t, bank, 90, 100, 110, 100)
}

// commitFailures are the ways in which COMMIT fails.
var commitFailures = []struct {
	name    string
	rule    writertest.Rule
	inDoubt bool
	stops   bool // the writer
	kept    bool // the batch is in the file
}{
	{name: "Busy", rule: writertest.Rule{Code: sqliteh.SQLITE_BUSY}},
	{name: "FullLost", rule: writertest.Rule{Code: sqliteh.SQLITE_FULL}, inDoubt: true},
	{name: "FullKept", rule: writertest.Rule{Code: sqliteh.SQLITE_FULL, Effect: writertest.Keep}, inDoubt: true, kept: true},
	{name: "IOErrLost", rule: writertest.Rule{Code: sqliteh.SQLITE_IOERR_WRITE}, inDoubt: true, stops: true},
	{name: "IOErrKept", rule: writertest.Rule{Code: sqliteh.SQLITE_IOERR_FSYNC, Effect: writertest.Keep}, inDoubt: true, stops: true, kept: true},
	{name: "Corrupt", rule: writertest.Rule{Code: sqliteh.SQLITE_CORRUPT}, stops: true},
	{name: "NotADB", rule: writertest.Rule{Code: sqliteh.SQLITE_NOTADB}, stops: true},
}

// TestContract07CommitFails also shows sentence 2: everyone whose function ran is
// told of the failure, whatever became of the function itself.
func TestContract07CommitFails(t *testing.T) {
	for _, c := range commitFailures {
		t.Run(c.name, func(t *testing.T) {
			faults := &writertest.Faults{}
			path := filepath.Join(t.TempDir(), "test.db")
			w := writertest.OpenPath(t, path, writer.Options{Open: faults.Open})
			bank := writertest.NewBank(t, w, 3, 100)
			if err := bank.Transfer(t.Context(), 3, 1, 1); err != nil {
				t.Fatal(err)
			}
			c.rule.SQL = "COMMIT"
			faults.Add(c.rule)
			errs := writertest.Batch(t, w,
				move(1, 2, 10, nil),
				move(1, 2, 10, errRefused),
				func(tx *writer.Tx) error { panic(writertest.Move(tx, 1, 2, 10)) },
				func(tx *writer.Tx) error { runtime.Goexit(); return nil },
				move(1, 2, 10, nil),
			)
			for i, err := range errs {
				be := wantBatchError(t, fmt.Sprint("function ", i), err, "commit", c.rule.Code&0xff, false)
				if be.InDoubt != c.inDoubt {
					t.Errorf("function %d: in doubt %t, want %t", i, be.InDoubt, c.inDoubt)
				}
			}
			want := []int64{101, 100, 99}
			if c.kept {
				want = []int64{81, 120, 99}
			}
			if c.stops {
				wantStopped(t, w, path)
				w = writertest.OpenPath(t, path)
				bank = writertest.NewBank(t, w, 3, 100)
			}
			wantBalances(t, bank, want...)
			if err := bank.Transfer(t.Context(), 2, 3, 1); err != nil {
				t.Errorf("the next transaction: %v", err)
			}
		})
	}
}

// wantStopped fails t unless w refuses everything with ErrFailed, and leaves the
// WAL for the next one to recover when it is closed.
func wantStopped(t *testing.T, w *writer.Writer, path string) {
	t.Helper()
	ctx := context.Background()
	never := func(*writer.Tx) error { t.Error("a function ran on a writer that had stopped"); return nil }
	for name, err := range map[string]error{
		"Do":         w.Do(ctx, never),
		"View":       w.View(ctx, func(*writer.Rx) error { t.Error("a View ran"); return nil }),
		"Checkpoint": w.Checkpoint(ctx, sqliteh.SQLITE_CHECKPOINT_PASSIVE),
		"Exclusive":  w.Exclusive(ctx, func(*writer.Conn) error { t.Error("an Exclusive ran"); return nil }),
		"Backup":     w.Backup(ctx, path+"-copy"),
		"Close":      w.Close(),
		"Close 2":    w.Close(),
		"Do closed":  w.Do(ctx, never),
	} {
		if !errors.Is(err, writer.ErrFailed) {
			t.Errorf("%s: %v, want ErrFailed", name, err)
		}
	}
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		t.Errorf("the WAL after Close: %v, want it in place", err)
	}
	if _, err := os.Stat(path + "-lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock file after Close: %v, want it gone", err)
	}
}

// TestContract07FailureReachesWhoWaits: one caller's COMMIT fails; one waits in
// the queue, one for room in it.
func TestContract07FailureReachesWhoWaits(t *testing.T) {
	faults := &writertest.Faults{}
	w := writertest.Open(t, writer.Options{Open: faults.Open, MaxBatch: 1, QueueLen: 2})
	writertest.NewBank(t, w, 2, 100)
	faults.Add(writertest.Rule{SQL: "COMMIT", Code: sqliteh.SQLITE_IOERR_FSYNC})
	release := writertest.Hold(t, w)
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() {
			errs[i] = w.Do(context.Background(), func(tx *writer.Tx) error {
				if i > 0 {
					t.Errorf("function %d ran", i)
				}
				return writertest.Move(tx, 1, 2, 10)
			})
		})
		if i < 2 {
			writertest.WaitQueued(t, w, i+1)
		}
	}
	for writer.Blocked(w) == 0 {
		runtime.Gosched()
	}
	release()
	wg.Wait()
	wantBatchError(t, "the one whose COMMIT failed", errs[0], "commit", sqliteh.SQLITE_IOERR, false)
	for i, err := range errs[1:] {
		if !errors.Is(err, writer.ErrFailed) {
			t.Errorf("waiting caller %d: %v, want ErrFailed", i+1, err)
		}
	}
}

// TestContract14SavepointCannotEnd: a RELEASE or ROLLBACK TO that fails aborts the
// batch, whether SQLite rolled it back with it or not.
func TestContract14SavepointCannotEnd(t *testing.T) {
	for _, sql := range []string{"RELEASE", "ROLLBACK TO"} {
		for _, code := range []sqliteh.Code{sqliteh.SQLITE_BUSY, sqliteh.SQLITE_IOERR_WRITE, sqliteh.SQLITE_NOMEM} {
			t.Run(sql+" "+code.String(), func(t *testing.T) {
				faults := &writertest.Faults{}
				w := writertest.Open(t, writer.Options{Open: faults.Open})
				bank := writertest.NewBank(t, w, 3, 100)
				var own error
				rule := writertest.Rule{SQL: sql, Nth: 2, Code: code} // the second function's
				if sql == "ROLLBACK TO" {
					own, rule.Nth = errRefused, 1
				}
				faults.Add(rule)
				errs := writertest.Batch(t, w,
					move(1, 2, 10, nil),
					move(1, 2, 10, own),
					move(2, 3, 10, nil),
				)
				wantBatchError(t, "a mate that had run", errs[0], "abort", code&0xff, false)
				wantBatchError(t, "the culprit", errs[1], "abort", code&0xff, true)
				if own != nil && !errors.Is(errs[1], own) {
					t.Errorf("the culprit's own error is not in %v", errs[1])
				}
				if errors.Is(errs[0], errRefused) {
					t.Errorf("a mate was told the culprit's own error: %v", errs[0])
				}
				if errs[2] != nil {
					t.Errorf("a mate that had not started: %v", errs[2])
				}
				wantBalances(t, bank, 100, 90, 110)
			})
		}
	}
}

// TestContract16DeferredConstraint is also 2 and 7 with a COMMIT that SQLite
// itself refuses: the transaction is then still open.
func TestContract16DeferredConstraint(t *testing.T) {
	var seen transcript
	faults := &writertest.Faults{Before: seen.add}
	w := writertest.Open(t, writer.Options{
		Open:    faults.Open,
		Pragmas: map[string]string{"foreign_keys": "on"},
		Init: func(c *writer.Conn) error {
			_, err := c.Exec(`CREATE TABLE card (id INTEGER PRIMARY KEY,
				owner INTEGER NOT NULL REFERENCES account(id) DEFERRABLE INITIALLY DEFERRED)`)
			return err
		},
	})
	bank := writertest.NewBank(t, w, 2, 100)
	errs := writertest.Batch(t, w,
		move(1, 2, 10, nil),
		execSQL("INSERT INTO card VALUES (1, 999)"),
		move(1, 2, 10, errRefused),
		func(*writer.Tx) error { panic("broken") },
	)
	for i, err := range errs {
		be := wantBatchError(t, fmt.Sprint("function ", i), err, "commit", sqliteh.SQLITE_CONSTRAINT, false)
		if be.InDoubt {
			t.Errorf("function %d: in doubt, but SQLite refused COMMIT", i)
		}
	}
	wantBalances(t, bank, 100, 100)
	rollbacks := slices.DeleteFunc(seen.all("ROLLBACK"), func(e writertest.Event) bool { return e.SQL != "ROLLBACK" || e.Txn != sqliteh.SQLITE_TXN_WRITE })
	if len(rollbacks) != 1 {
		t.Errorf("got %v, want one ROLLBACK of what COMMIT left open", rollbacks)
	}
	// A violation that is mended before COMMIT harms nobody.
	errs = writertest.Batch(t, w,
		execSQL("INSERT INTO card VALUES (1, 999)"),
		execSQL("UPDATE card SET owner = 2"),
		move(1, 2, 10, nil),
	)
	if err := errors.Join(errs...); err != nil {
		t.Errorf("a batch that mends its violation: %v", err)
	}
	wantBalances(t, bank, 90, 110)
}
