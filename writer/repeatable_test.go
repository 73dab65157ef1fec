package writer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
)

// surprises are statements that do more than their text says. Each writes a random
// number into drawn, so that it shows whether the statement was executed twice.
var surprises = []struct {
	name  string
	setup []string // the table drawn(id INTEGER PRIMARY KEY, n) is there, and holds (1, 0)
	sql   string
	shown string // what the function that executed it sees and what is to stay; "" is the number
}{
	{
		name:  "Trigger",
		setup: []string{"CREATE TRIGGER t AFTER UPDATE ON account BEGIN UPDATE drawn SET n = random(); END"},
		sql:   "UPDATE account SET balance = ? WHERE id = 1",
	},
	{
		name:  "TempTrigger",
		setup: []string{"CREATE TEMP TRIGGER t AFTER DELETE ON main.account BEGIN UPDATE drawn SET n = random(); END"},
		sql:   "DELETE FROM account WHERE id = ?",
	},
	{
		name: "InsteadOf",
		setup: []string{
			"CREATE VIEW v AS SELECT id, balance FROM account",
			"CREATE TRIGGER t INSTEAD OF UPDATE ON v BEGIN UPDATE drawn SET n = random(); END",
		},
		sql: "UPDATE v SET balance = ? WHERE id = 1",
	},
	{
		name:  "ViewInFrom",
		setup: []string{"CREATE VIEW v AS SELECT random() AS r"},
		sql:   "UPDATE drawn SET n = r FROM v WHERE id = ?",
	},
	{
		name: "ViewInIn", // half of the rows, whichever
		setup: []string{
			"CREATE VIEW v AS SELECT id FROM drawn WHERE random() > 0",
			"WITH RECURSIVE i(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM i WHERE i < 200) INSERT INTO drawn SELECT i, 0 FROM i",
		},
		sql:   "UPDATE drawn SET n = ? WHERE id IN v",
		shown: "SELECT group_concat(n) FROM drawn",
	},
	{
		name: "ForeignKeyDefault",
		setup: []string{
			"PRAGMA foreign_keys = on",
			"CREATE TABLE owner(id INTEGER PRIMARY KEY)",
			"CREATE TABLE card(owner DEFAULT (2 + abs(random() % 9999)) REFERENCES owner ON DELETE SET /* to the */ DEFAULT)",
			"WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 10000) INSERT INTO owner SELECT i FROM i",
			"INSERT INTO card VALUES (1)",
		},
		sql:   "DELETE FROM owner WHERE id = ?",
		shown: "SELECT owner FROM card",
	},
	{
		name:  "OrReplaceTakesTheDefault",
		setup: []string{"CREATE TABLE d(a NOT NULL DEFAULT (random()), b)", "INSERT INTO d VALUES (1, NULL)"},
		sql:   "UPDATE OR /* or */ replace d SET a = b WHERE a = ?",
		shown: "SELECT a FROM d",
	},
	{
		name:  "ConflictClauseTakesTheDefault",
		setup: []string{"CREATE TABLE d(a NOT NULL ON CONFLICT replace DEFAULT (random()), b)", "INSERT INTO d VALUES (1, NULL)"},
		sql:   "UPDATE d SET a = b WHERE a = ?",
		shown: "SELECT a FROM d",
	},
	{
		name: "CheckAtRandom",
		setup: []string{
			"CREATE TABLE d(a CHECK (a = 0 OR random() > 0))",
			"WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 200) INSERT INTO d SELECT 0 FROM i",
		},
		sql:   "UPDATE OR IGNORE d SET a = ?",
		shown: "SELECT group_concat(a) FROM d",
	},
	{
		name: "AttachedTrigger", // which is to be detached, but if it is not
		setup: []string{
			"ATTACH ':memory:' AS more",
			"CREATE TABLE more.a(n)",
			"CREATE TABLE more.b(n)",
			"INSERT INTO more.b VALUES (0)",
			"INSERT INTO more.a VALUES (0)",
			"CREATE TRIGGER more.t AFTER UPDATE ON a BEGIN UPDATE b SET n = random(); END",
		},
		sql:   "UPDATE a SET n = ?",
		shown: "SELECT n FROM more.b",
	},
}

// shownBy returns what a surprise shows, as text.
func shownBy(rx *writer.Rx, sql string) (shown string, err error) {
	if sql == "" {
		sql = "SELECT n FROM drawn WHERE id = 1"
	}
	err = rx.QueryRow(sql).Scan(&shown)
	return shown, err
}

// A statement with surprises is not executed again when a batch-mate fails: what its
// function saw is what stays.
func TestSurprisesAreNotRepeated(t *testing.T) {
	for _, test := range surprises {
		t.Run(test.name, func(t *testing.T) {
			w := openShared(t, writer.Options{})
			exclusive(t, w, "CREATE TABLE drawn(id INTEGER PRIMARY KEY, n)", "INSERT INTO drawn VALUES (1, 0)")
			batchOf(t, w, pay(2, 1), pay(2, 1)) // the schema is known, and changes
			exclusive(t, w, test.setup...)
			var saw string
			_, errs := batchOf(t, w, pay(2, 1), func(tx *writer.Tx) (err error) {
				if _, err := tx.Exec(test.sql, 1); err != nil {
					return err
				}
				saw, err = shownBy(tx.Rx, test.shown)
				return err
			}, own(3))
			if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], errOwn) {
				t.Fatal(errs)
			}
			if err := w.Exclusive(context.Background(), func(c *writer.Conn) error {
				stays, err := shownBy(c.Rx, test.shown)
				if stays != saw || saw == "0" {
					t.Errorf("the function saw %s, and what stays is %s", saw, stays)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
			exclusive(t, w, "DROP TABLE IF EXISTS d") // a check at random fails again when the file is checked
		})
	}
}

// The schema may change in a batch, in a function that fails, and by another process.
func TestSchemaChangesBetweenShares(t *testing.T) {
	const trigger = "CREATE TRIGGER t AFTER UPDATE ON account BEGIN UPDATE drawn SET n = random(); END"
	draw := func(saw *string) func(*writer.Tx) error {
		return func(tx *writer.Tx) (err error) {
			if err := update(tx, 1, 1); err != nil {
				return err
			}
			*saw, err = shownBy(tx.Rx, "")
			return err
		}
	}
	shows := func(t *testing.T, w *writer.Writer, saw string) {
		t.Helper()
		if err := w.View(t.Context(), func(rx *writer.Rx) error {
			stays, err := shownBy(rx, "")
			if stays != saw || saw == "0" {
				t.Errorf("the function saw %s, and what stays is %s", saw, stays)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	path := t.TempDir() + "/test.db"
	w := openFile(t, path, writer.Options{Pragmas: noSync})
	exclusive(t, w, "INSERT INTO account VALUES (1, 100), (2, 100), (3, 100)",
		"CREATE TABLE drawn(id INTEGER PRIMARY KEY, n)", "INSERT INTO drawn VALUES (1, 0)")

	var saw string
	seen, errs := batchOf(t, w, pay(2, 1), execSQL(trigger), draw(&saw), own(3))
	if err := errors.Join(errs[:3]...); err != nil || !seen[0].Shared || seen[2].Shared {
		t.Errorf("%v; they saw %+v, want sharing until the trigger came", err, seen)
	}
	shows(t, w, saw)

	exclusive(t, w, "DROP TRIGGER t")
	tune(t, w, writer.ForgetDoubt)
	seen, errs = batchOf(t, w, pay(2, 1), func(tx *writer.Tx) error {
		return errors.Join(execSQL(trigger)(tx), update(tx, 3, 1), errOwn)
	}, pay(2, 1))
	if errs[0] != nil || !errors.Is(errs[1], errOwn) || errs[2] != nil || seen[2].Shared {
		t.Errorf("%v; they saw %+v", errs, seen)
	}
	tune(t, w, writer.ForgetDoubt)
	if seen, _ := batchOf(t, w, pay(2, 1), pay(2, 1)); !seen[1].Shared {
		t.Errorf("a trigger that was undone ends the sharing: %+v", seen[1])
	}
	if got := number(t, w, "SELECT balance FROM account WHERE id = 2"); got != 105 {
		t.Errorf("account 2 holds %d, want 105", got)
	}

	elsewhere(t, path, trigger)
	if _, errs = batchOf(t, w, pay(2, 1), draw(&saw), own(3)); errors.Join(errs[:2]...) != nil {
		t.Error(errs)
	}
	shows(t, w, saw)

	exclusive(t, w, "DROP TRIGGER t")
	tune(t, w, writer.ForgetDoubt)
	batchOf(t, w, pay(2, 1), execSQL(strings.Replace(trigger, "CREATE", "CREATE TEMP", 1))) // which the version does not show
	if _, errs = batchOf(t, w, pay(2, 1), draw(&saw), own(3)); errors.Join(errs[:2]...) != nil {
		t.Error(errs)
	}
	shows(t, w, saw)
}

// elsewhere executes a statement on a connection that is not the writer's.
func elsewhere(t *testing.T, path, sql string) {
	t.Helper()
	db, err := cgosqlite.Open(path, sqliteh.SQLITE_OPEN_READWRITE, "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	stmt, _, err := db.Prepare(sql, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Finalize()
	if _, err := stmt.Step(nil); err != nil {
		t.Fatal(err)
	}
}

func TestRepeatable(t *testing.T) {
	for sql, want := range map[string]bool{
		"UPDATE account SET balance = balance + ? WHERE id = ?":            true,
		"-- x\nupdate account set balance = ?1 where id = ?2 returning id": true,
		"UPDATE OR FAIL account SET balance = balance - ?":                 true,
		"UPDATE OR IGNORE account SET inside = frombalance":                true,
		"DELETE FROM account WHERE id = ?":                                 true,
		"DELETE FROM account":                                              true,
		"UPDATE account SET balance = random() WHERE id = ?":               false,
		"UPDATE account SET at = CURRENT_TIMESTAMP":                        false,
		"UPDATE account SET at = current_date":                             false,
		"DELETE FROM account WHERE at < Current_Time":                      false,
		"UPDATE account SET n = r FROM v":                                  false,
		"UPDATE account SET n = 1 WHERE id IN v":                           false,
		"UPDATE account SET n = 1 WHERE ?1IN v":                            false,
		"UPDATE account SET n = 1 WHERE id/**/in\"v\"":                     false,
		"DELETE FROM account WHERE id NOT IN[v]":                           false,
		"UPDATE OR REPLACE account SET balance = NULL":                     false,
		"UPDATE more.account SET balance = 1":                              false,
		"UPDATE account SET balance = (SELECT 1)":                          false,
		"INSERT INTO account VALUES (?, ?)":                                false,
		"WITH x AS (SELECT 1) UPDATE account SET balance = 1":              false,
		"REPLACE INTO account VALUES (?, ?)":                               false,
		"SELECT 1":                                                         false,
		"VACUUM":                                                           false,
		"":                                                                 false,
	} {
		if got := writer.Repeatable(sql); got != want {
			t.Errorf("%q: %t, want %t", sql, got, want)
		}
	}
}

// The number of rows that a RETURNING changed is its own, not that of the statement
// before, with integers alone and with a text.
func TestChangedByReturning(t *testing.T) {
	w := openShared(t, writer.Options{})
	for _, arg := range []any{1, "1"} {
		do(t, w, func(tx *writer.Tx) error {
			if n, err := tx.Exec("UPDATE account SET balance = balance + ? WHERE id > 1", arg); n != 3 || err != nil {
				t.Errorf("%d rows (%v), want 3", n, err)
			}
			if n, err := tx.Exec("UPDATE account SET balance = balance + ? WHERE id = 1 RETURNING id", arg); n != 1 || err != nil {
				t.Errorf("%d rows (%v) after a RETURNING, want 1", n, err)
			}
			n, err := tx.Exec("UPDATE account SET balance = balance + ? WHERE id = 9 RETURNING id", arg)
			if n != 0 {
				t.Errorf("%d rows after a RETURNING without one, want 0", n)
			}
			return err
		})
	}
}

// A handle whose statement was evicted must not reach the memory that SQLite freed.
func TestContract14StaleHandleAfterEviction(t *testing.T) {
	w := openShared(t, writer.Options{})
	do(t, w, func(tx *writer.Tx) error {
		old := tx.Stmt("UPDATE account SET balance = 0 WHERE id = ?")
		for i := range 600 {
			if _, err := tx.Exec(fmt.Sprintf("INSERT INTO entry VALUES (%d, 'x')", i)); err != nil {
				return err
			}
		}
		if _, err := old.BindInt64(1, 1).Exec(); err != writer.ErrStmtStale {
			t.Errorf("%v, want ErrStmtStale", err)
		}
		return nil
	})
	if got := number(t, w, "SELECT sum(balance) FROM account"); got != 400 {
		t.Errorf("the accounts hold %d, want 400", got)
	}
}
