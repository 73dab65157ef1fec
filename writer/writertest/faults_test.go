package writertest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer/writertest"
)

// openDB opens a WAL database with a table t that holds the row 1.
func openDB(t *testing.T, f *writertest.Faults) (db sqliteh.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.db")
	db, err := f.Open(path, sqliteh.OpenFlagsDefault, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		writertest.Check(t, path)
	})
	for _, sql := range []string{"PRAGMA journal_mode=wal", "CREATE TABLE t(id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)"} {
		if err := run(t, db, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return db, path
}

func prepare(t *testing.T, db sqliteh.DB, sql string) sqliteh.Stmt {
	t.Helper()
	stmt, _, err := db.Prepare(sql, 0)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	t.Cleanup(func() { stmt.Finalize() })
	return stmt
}

func run(t *testing.T, db sqliteh.DB, sql string) error {
	t.Helper()
	stmt, _, err := db.Prepare(sql, 0)
	if err != nil {
		return err
	}
	defer stmt.Finalize()
	_, _, _, _, err = stmt.StepResult()
	return err
}

// committed counts t's rows as another connection sees them.
func committed(t *testing.T, path string) (n int64) {
	t.Helper()
	db, err := cgosqlite.Open(path, sqliteh.OpenFlagsDefault, "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	stmt, _, err := db.Prepare("SELECT count(*) FROM t", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Finalize()
	if _, err := stmt.Step(nil); err != nil {
		t.Fatal(err)
	}
	return stmt.ColumnInt64(0)
}

const none, read, write = sqliteh.SQLITE_TXN_NONE, sqliteh.SQLITE_TXN_READ, sqliteh.SQLITE_TXN_WRITE

// effect is a fault at one statement of a transaction, and what must come of it.
type effect struct {
	sql    string
	code   sqliteh.Code
	effect writertest.Effect
	cursor bool             // a SELECT is open meanwhile
	state  sqliteh.TxnState // after the fault
	rows   int64            // committed after the fault
	final  int64            // committed after an INSERT and a COMMIT that follow, as code would that did not look
}

var effects = []effect{
	{sql: "INSERT INTO t VALUES (3)", code: sqliteh.SQLITE_IOERR_WRITE, state: none, rows: 1, final: 2},
	{sql: "INSERT INTO t VALUES (3)", code: sqliteh.SQLITE_FULL, state: none, rows: 1, final: 2},
	{sql: "INSERT INTO t VALUES (3)", code: sqliteh.SQLITE_NOMEM, state: none, rows: 1, final: 2},
	{sql: "INSERT INTO t VALUES (3)", code: sqliteh.SQLITE_INTERRUPT, state: none, rows: 1, final: 2},
	{sql: "INSERT INTO t VALUES (3)", code: sqliteh.SQLITE_IOERR_WRITE, cursor: true, state: read, rows: 1, final: 2},
	{sql: "INSERT INTO t VALUES (3)", code: sqliteh.SQLITE_CONSTRAINT_UNIQUE, state: write, rows: 1, final: 3},
	{sql: "INSERT INTO t VALUES (3)", code: sqliteh.SQLITE_CORRUPT, state: write, rows: 1, final: 3},
	{sql: "INSERT INTO t VALUES (3)", code: sqliteh.SQLITE_FULL, effect: writertest.Leave, state: write, rows: 1, final: 3},
	{sql: "INSERT INTO t VALUES (3)", code: sqliteh.SQLITE_FULL, effect: writertest.Keep, state: write, rows: 1, final: 4},
	{sql: "SELECT id FROM t", code: sqliteh.SQLITE_IOERR_READ, state: none, rows: 1, final: 2},
	{sql: "SELECT id FROM t", code: sqliteh.SQLITE_INTERRUPT, state: write, rows: 1, final: 3},
	{sql: "COMMIT", code: sqliteh.SQLITE_BUSY, state: write, rows: 1, final: 3},
	{sql: "COMMIT", code: sqliteh.SQLITE_CONSTRAINT_FOREIGNKEY, state: write, rows: 1, final: 3},
	{sql: "COMMIT", code: sqliteh.SQLITE_IOERR_FSYNC, state: none, rows: 1, final: 2},
	{sql: "COMMIT", code: sqliteh.SQLITE_FULL, state: none, rows: 1, final: 2},
	{sql: "COMMIT", code: sqliteh.SQLITE_IOERR_FSYNC, effect: writertest.Keep, state: none, rows: 2, final: 3},
	{sql: "RELEASE s", code: sqliteh.SQLITE_BUSY, state: write, rows: 1, final: 3},
	{sql: "RELEASE s", code: sqliteh.SQLITE_IOERR, state: none, rows: 1, final: 2},
	{sql: "ROLLBACK TO s", code: sqliteh.SQLITE_NOMEM, state: none, rows: 1, final: 2},
}

func TestEffects(t *testing.T) {
	for _, c := range effects {
		for _, single := range []bool{false, true} {
			name := fmt.Sprintf("%s %s effect %d cursor %t StepResult %t", c.sql, c.code, c.effect, c.cursor, single)
			t.Run(name, func(t *testing.T) { c.check(t, single) })
		}
	}
}

// check injects the fault into Step, or with single into StepResult.
func (c effect) check(t *testing.T, single bool) {
	f := &writertest.Faults{}
	db, path := openDB(t, f)
	for _, sql := range []string{"BEGIN IMMEDIATE", "INSERT INTO t VALUES (2)", "SAVEPOINT s"} {
		if err := run(t, db, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	cursor := prepare(t, db, "SELECT id, 'the cursor' FROM t")
	if c.cursor {
		if _, err := cursor.Step(nil); err != nil {
			t.Fatal(err)
		}
	}
	f.Add(writertest.Rule{SQL: c.sql, Code: c.code, Effect: c.effect})
	stmt := prepare(t, db, c.sql)
	var err error
	if single {
		_, _, _, _, err = stmt.StepResult()
	} else {
		_, err = stmt.Step(nil)
	}
	if !errors.Is(err, sqliteh.ErrCode(c.code)) || f.Injected() != 1 {
		t.Fatalf("got error %v and %d faults, want %s and 1", err, f.Injected(), c.code)
	}
	if got := db.TxnState(""); got != c.state {
		t.Errorf("the state is %s, want %s", got, c.state)
	}
	if db.ExtendedErrCode() != c.code || db.ErrMsg() != "injected fault" {
		t.Errorf("the connection reports %s, %q", db.ExtendedErrCode(), db.ErrMsg())
	}
	if got := committed(t, path); got != c.rows {
		t.Errorf("%d rows are committed, want %d", got, c.rows)
	}
	if err := stmt.Reset(); (err != nil) == single {
		t.Errorf("Reset after the fault: %v; only after Step it reports the error again", err)
	}
	cursor.Reset()
	if err := run(t, db, "INSERT INTO t VALUES (4)"); err != nil {
		t.Errorf("the next statement: %v", err)
	}
	if err := run(t, db, "COMMIT"); (err == nil) != (c.state == write) {
		t.Errorf("COMMIT: %v", err)
	}
	if got := committed(t, path); got != c.final {
		t.Errorf("%d rows in the end, want %d", got, c.final)
	}
}

func TestRuleSelection(t *testing.T) {
	f := &writertest.Faults{}
	db, _ := openDB(t, f)
	f.Add(writertest.Rule{SQL: "insert", Nth: 2, Times: 2, Code: sqliteh.SQLITE_CONSTRAINT})
	f.Add(writertest.Rule{SQL: "INSERT", On: writertest.OnReaders, Times: -1, Code: sqliteh.SQLITE_READONLY})
	var failed []int
	for i := range 5 {
		if err := run(t, db, fmt.Sprintf("\n INSERT INTO t VALUES (%d)", 10+i)); err != nil {
			failed = append(failed, i)
		}
	}
	if !slices.Equal(failed, []int{1, 2}) {
		t.Errorf("inserts %v failed, want the second and third", failed)
	}
	f.Clear()
	f.Add(writertest.Rule{SQL: "SELECT id", AfterRows: 2, Code: sqliteh.SQLITE_IOERR_READ})
	stmt := prepare(t, db, "SELECT id FROM t")
	rows := 0
	for {
		row, err := stmt.Step(nil)
		if err != nil {
			break
		}
		if !row {
			t.Fatal("the SELECT came to its end")
		}
		rows++
	}
	if rows != 2 {
		t.Errorf("%d rows before the fault, want 2", rows)
	}
	f.Add(writertest.Rule{SQL: "DELETE", Prepare: true, Code: sqliteh.SQLITE_NOMEM})
	if err := run(t, db, "DELETE FROM t"); !errors.Is(err, sqliteh.ErrCode(sqliteh.SQLITE_NOMEM)) {
		t.Errorf("Prepare: %v, want SQLITE_NOMEM", err)
	}
	if err := run(t, db, "DELETE FROM t"); err != nil {
		t.Errorf("Prepare again: %v", err)
	}
}

func TestCheckpointFaults(t *testing.T) {
	f := &writertest.Faults{}
	db, _ := openDB(t, f)
	f.Add(writertest.Rule{SQL: "CHECKPOINT", Code: sqliteh.SQLITE_IOERR_FSYNC})
	if frames, done, err := db.Checkpoint("main", sqliteh.SQLITE_CHECKPOINT_PASSIVE); frames != -1 || done != -1 || err == nil {
		t.Errorf("IOERR: %d frames, %d done, %v; want -1, -1 and an error", frames, done, err)
	}
	f.Add(writertest.Rule{SQL: "CHECKPOINT RESTART", Code: sqliteh.SQLITE_BUSY})
	frames, done, err := db.Checkpoint("main", sqliteh.SQLITE_CHECKPOINT_RESTART)
	if frames <= 0 || done != frames || !errors.Is(err, sqliteh.ErrCode(sqliteh.SQLITE_BUSY)) {
		t.Errorf("BUSY: %d frames, %d done, %v; want all done and SQLITE_BUSY", frames, done, err)
	}
}

func TestEvents(t *testing.T) {
	var before, after []string
	f := &writertest.Faults{
		Before: func(e writertest.Event) { before = append(before, e.SQL) },
		After: func(e writertest.Event, err error) {
			if err != nil {
				after = append(after, e.SQL)
			}
		},
	}
	db, _ := openDB(t, f)
	before = nil
	f.Add(writertest.Rule{SQL: "BEGIN", Code: sqliteh.SQLITE_BUSY})
	db.BusyTimeout(0)
	run(t, db, "BEGIN")
	run(t, db, "SELECT 1")
	db.Checkpoint("main", sqliteh.SQLITE_CHECKPOINT_TRUNCATE)
	if want := []string{"BUSY TIMEOUT 0s", "BEGIN", "SELECT 1", "CHECKPOINT TRUNCATE"}; !slices.Equal(before, want) {
		t.Errorf("seen %q, want %q", before, want)
	}
	if want := []string{"BEGIN"}; !slices.Equal(after, want) {
		t.Errorf("failed %q, want %q", after, want)
	}
}

func TestAddPanicsOnARuleThatCannotMatch(t *testing.T) {
	for _, r := range []writertest.Rule{{SQL: "COMMIT"}, {Code: sqliteh.SQLITE_FULL}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Add(%+v) was accepted", r)
				}
			}()
			(&writertest.Faults{}).Add(r)
		}()
	}
}
