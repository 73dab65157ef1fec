package fastexec

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"
	"pgregory.net/rapid"
)

// database is a connection of a test's own with its statements.
type database struct {
	t     testing.TB
	db    sqliteh.DB
	stmts []sqliteh.Stmt
}

// extendedCodes is SQLITE_OPEN_EXRESCODE.
const extendedCodes sqliteh.OpenFlags = 0x02000000

// open opens a database with the table t(id, n), n at least 0, which holds (1, 10)
// and (2, 20).
func open(t testing.TB) *database {
	t.Helper()
	db, err := cgosqlite.Open(":memory:", sqliteh.OpenFlagsDefault|extendedCodes, "")
	if err != nil {
		t.Fatal(err)
	}
	d := &database{t: t, db: db}
	t.Cleanup(func() {
		for _, stmt := range d.stmts {
			stmt.Finalize()
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	d.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, n CHECK (n >= 0))")
	d.exec("INSERT INTO t VALUES (1, 10), (2, 20)")
	return d
}

// prepare prepares a statement that is finalized at the end of the test.
func (d *database) prepare(sql string) sqliteh.Stmt {
	d.t.Helper()
	stmt, _, err := d.db.Prepare(sql, 0)
	if err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	d.stmts = append(d.stmts, stmt)
	return stmt
}

// fast is prepare for a statement that is run from here.
func (d *database) fast(sql string) Stmt {
	d.t.Helper()
	s := Of(d.prepare(sql))
	if s == 0 {
		d.t.Fatalf("%s has no address: the driver was built in another way, or its functions are not found", sql)
	}
	return s
}

// exec executes a statement with the driver's methods.
func (d *database) exec(sql string) {
	d.t.Helper()
	if _, _, _, _, err := d.prepare(sql).StepResult(); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

// text returns a query's first column, all rows.
func (d *database) text(sql string) (rows []string) {
	d.t.Helper()
	stmt := d.prepare(sql)
	defer stmt.ResetAndClear()
	for {
		row, err := stmt.Step(nil)
		if err != nil {
			d.t.Fatalf("%s: %v", sql, err)
		}
		if !row {
			return rows
		}
		rows = append(rows, stmt.ColumnText(0))
	}
}

// content is all that t holds.
func (d *database) content() []string {
	return d.text("SELECT id || '=' || ifnull(n, 'NULL') FROM t ORDER BY id")
}

// unknown is for statements whose number of changed rows means nothing.
const unknown = -1

// run runs a call and compares its outcome.
func (d *database) run(what string, c Call, changed int64, part Part, code sqliteh.Code) {
	d.t.Helper()
	if n, p, got := c.Run(); p != part || got != code || code == sqliteh.SQLITE_OK && n != changed && changed != unknown {
		d.t.Errorf("%s: %d rows, part %d, %s; want %d, %d, %s", what, n, p, got, changed, part, code)
	}
}

// holds compares what t holds.
func (d *database) holds(what string, want ...string) {
	d.t.Helper()
	if got := d.content(); !slices.Equal(got, want) {
		d.t.Errorf("%s: the table holds %v, want %v", what, got, want)
	}
}

func TestStatements(t *testing.T) {
	d := open(t)
	update := d.fast("UPDATE t SET n = n + ? WHERE id = ?")
	d.run("update", Call{Stmt: update, N: 2, Values: [4]int64{5, 1}}, 1, Statement, sqliteh.SQLITE_OK)
	d.run("no such row", Call{Stmt: update, N: 2, Values: [4]int64{5, 9}}, 0, Statement, sqliteh.SQLITE_OK)
	d.run("no parameters", Call{Stmt: d.fast("UPDATE t SET n = n + 1")}, 2, Statement, sqliteh.SQLITE_OK)
	d.run("four", Call{Stmt: d.fast("UPDATE t SET n = n + ?1 + ?2 + ?3 + ?4 - 0xFFFFFFFFFF"), N: 4, Values: [4]int64{1, 2, 3, 0xFFFFFFFFFF}}, 2, Statement, sqliteh.SQLITE_OK)
	d.holds("updates", "1=22", "2=27")
	d.run("check", Call{Stmt: update, N: 2, Values: [4]int64{-100, 1}}, 0, Statement, sqliteh.SQLITE_CONSTRAINT_CHECK)
	insert := d.fast("INSERT INTO t VALUES (?, ?)")
	d.run("key", Call{Stmt: insert, N: 2, Values: [4]int64{1, 1}}, 0, Statement, sqliteh.SQLITE_CONSTRAINT_PRIMARYKEY)
	d.run("after failures", Call{Stmt: insert, N: 2, Values: [4]int64{-1 << 63, 1<<63 - 1}}, 1, Statement, sqliteh.SQLITE_OK)
	d.run("one bound, the other NULL", Call{Stmt: insert, N: 1, Values: [4]int64{3, 77}}, 1, Statement, sqliteh.SQLITE_OK)
	d.holds("inserts", "-9223372036854775808=9223372036854775807", "1=22", "2=27", "3=NULL")
	d.run("too many values", Call{Stmt: d.fast("DELETE FROM t WHERE id = ?"), N: 2, Values: [4]int64{1, 2}}, 0, Statement, sqliteh.SQLITE_RANGE)
	d.holds("after a value too many", "-9223372036854775808=9223372036854775807", "1=22", "2=27", "3=NULL")
}

// A statement is idle after its first row, and what a RETURNING changed is counted.
func TestRows(t *testing.T) {
	d := open(t)
	d.run("returning", Call{Stmt: d.fast("UPDATE t SET n = n + ? RETURNING n"), N: 1, Values: [4]int64{1}}, 2, Statement, sqliteh.SQLITE_OK)
	d.run("returning one", Call{Stmt: d.fast("DELETE FROM t WHERE id = ? RETURNING n"), N: 1, Values: [4]int64{1}}, 1, Statement, sqliteh.SQLITE_OK)
	d.holds("after RETURNING", "2=21")
	sel := d.prepare("SELECT id FROM t WHERE id >= ?")
	for range 2 {
		if _, part, code := (&Call{Stmt: Of(sel), N: 1, Values: [4]int64{2}}).Run(); part != Statement || code != sqliteh.SQLITE_OK {
			t.Errorf("a SELECT: part %d, %s", part, code)
		}
	}
	if state := d.db.TxnState(""); state != sqliteh.SQLITE_TXN_NONE {
		t.Errorf("a cursor is still open: %v", state)
	}
	if row, err := sel.Step(nil); row || err != nil {
		t.Errorf("the SELECT yields a row (%v): the binding is still there", err)
	}
	sel.ResetAndClear()
}

// Each of the statements before the main one may fail, and then the rest is not run.
func TestParts(t *testing.T) {
	d := open(t)
	begin, rollback := d.fast("BEGIN"), d.fast("ROLLBACK")
	savepoint, release, back := d.fast("SAVEPOINT s"), d.fast("RELEASE s"), d.fast("ROLLBACK TO s")
	add := Call{Stmt: d.fast("UPDATE t SET n = n + ?"), N: 1, Values: [4]int64{1}}
	with := func(release, savepoint Stmt) Call {
		c := add
		c.Release, c.Savepoint = release, savepoint
		return c
	}
	d.run("begin", Call{Stmt: begin}, unknown, Statement, sqliteh.SQLITE_OK)
	d.run("release without a savepoint", with(release, savepoint), 0, Release, sqliteh.SQLITE_ERROR)
	d.run("savepoint that fails", with(0, begin), 0, Savepoint, sqliteh.SQLITE_ERROR)
	d.holds("after failures", "1=10", "2=20")
	d.run("rollback to, without a savepoint", Call{Stmt: back}, 0, Statement, sqliteh.SQLITE_ERROR)
	d.run("savepoint", with(0, savepoint), 2, Statement, sqliteh.SQLITE_OK)
	d.run("release and savepoint", with(release, savepoint), 2, Statement, sqliteh.SQLITE_OK)
	d.holds("twice", "1=12", "2=22")
	d.run("rollback to the second", Call{Stmt: back}, unknown, Statement, sqliteh.SQLITE_OK)
	d.holds("undone", "1=11", "2=21")
	d.run("release alone, and a statement that fails", Call{Release: release, Stmt: add.Stmt, N: 1, Values: [4]int64{-15}}, 0, Statement, sqliteh.SQLITE_CONSTRAINT_CHECK)
	d.run("it was released", Call{Stmt: release}, 0, Statement, sqliteh.SQLITE_ERROR)
	d.run("rollback", Call{Stmt: rollback}, unknown, Statement, sqliteh.SQLITE_OK)
	d.holds("at the end", "1=10", "2=20")
}

// wrapper is a driver's statement in another type.
type wrapper struct{ sqliteh.Stmt }

func TestOf(t *testing.T) {
	d := open(t)
	stmt := d.prepare("SELECT 1")
	first, again, other := Of(stmt), Of(stmt), Of(d.prepare("SELECT 1"))
	if first == 0 || first != again || first == other {
		t.Error("a driver's statement has not one address of its own")
	}
	for _, other := range []sqliteh.Stmt{wrapper{stmt}, &wrapper{stmt}, nil} {
		if got := Of(other); got != 0 {
			t.Errorf("Of a %T is %#x, want 0", other, got)
		}
	}
}

// The same random statements come to the same with the driver's methods.
func TestLikeTheDriver(t *testing.T) {
	texts := []string{
		"UPDATE t SET n = n + ?2 WHERE id = ?1",
		"UPDATE OR FAIL t SET n = n + ?2 WHERE id >= ?1",
		"INSERT INTO t VALUES (?, ?)",
		"INSERT OR REPLACE INTO t VALUES (?, ?)",
		"DELETE FROM t WHERE id BETWEEN ? AND ?",
		"SELECT n FROM t WHERE id > ? AND n > ?",
	}
	ours, drivers := open(t), open(t)
	type pair struct {
		fast   Stmt
		driver sqliteh.Stmt
	}
	stmts := make(map[string]pair)
	for _, sql := range texts {
		stmts[sql] = pair{ours.fast(sql), drivers.prepare(sql)}
	}
	id := rapid.OneOf(rapid.Int64Range(-3, 12), rapid.Int64())
	rapid.Check(t, func(rt *rapid.T) {
		for range rapid.IntRange(1, 30).Draw(rt, "statements") {
			sql := rapid.SampledFrom(texts).Draw(rt, "sql")
			a, b := id.Draw(rt, "a"), id.Draw(rt, "b")
			changed, part, code := (&Call{Stmt: stmts[sql].fast, N: 2, Values: [4]int64{a, b, 1, 2}}).Run()
			want, err := byDriver(stmts[sql].driver, a, b)
			if part != Statement || fmt.Sprint(sqliteh.CodeAsError(code)) != fmt.Sprint(err) || err == nil && changed != want {
				rt.Errorf("%s with %d and %d changed %d rows, part %d, %s; the driver says %d and %v", sql, a, b, changed, part, code, want, err)
			}
		}
		if got, want := ours.content(), drivers.content(); !slices.Equal(got, want) {
			rt.Errorf("the table holds %v, with the driver %v", got, want)
		}
	})
}

// byDriver runs a statement with the driver's methods.
func byDriver(stmt sqliteh.Stmt, a, b int64) (changed int64, err error) {
	if err := stmt.BindInt64(1, a); err != nil {
		return 0, err
	}
	if err := stmt.BindInt64(2, b); err != nil {
		return 0, err
	}
	_, _, changed, _, err = stmt.StepResult()
	return changed, err
}

// A call allocates nothing.
func TestNoAllocations(t *testing.T) {
	d := open(t)
	call := Call{Stmt: d.fast("UPDATE t SET n = n + ? WHERE id = ?"), N: 2, Values: [4]int64{0, 1}}
	if n := testing.AllocsPerRun(100, func() { call.Run() }); n != 0 {
		t.Errorf("%v allocations a call, want none", n)
	}
}
