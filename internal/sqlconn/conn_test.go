package sqlconn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder returns a folder without symbolic links in its path.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// open opens a connection and closes it when the test ends.
func open(t *testing.T, path string, how Access) *Conn {
	t.Helper()
	c, err := Open(nil, path, how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// made makes a database with a table of three rows and closes it.
func made(t *testing.T, path string) {
	t.Helper()
	c, err := Open(nil, path, Create)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"PRAGMA journal_mode = wal",
		"CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE)",
		"INSERT INTO t VALUES (1, 'one'), (2, x'0203'), (3, 33)",
	} {
		if err := c.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// files returns the names in a folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Every character of a file name is itself.
func TestNames(t *testing.T) {
	dir := folder(t)
	want := []string{"a b.db", "a#b.db", "a%20b.db", "a+b.db", "a?mode=memory.db", "a&b=c.db", "ä€.db"}
	for _, name := range want {
		made(t, filepath.Join(dir, name))
		c := open(t, filepath.Join(dir, name), Existing)
		if n, err := c.Integer("SELECT count(*) FROM t"); n != 3 || err != nil {
			t.Errorf("%q holds %d rows, %v", name, n, err)
		}
	}
	got := slices.DeleteFunc(files(t, dir), func(name string) bool { return !strings.HasSuffix(name, ".db") })
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the files are %q, want %q", got, want)
	}
}

func TestAccess(t *testing.T) {
	dir := folder(t)
	path := filepath.Join(dir, "test.db")
	for _, how := range []Access{Existing, ReadOnly, Immutable} {
		var sqlErr *Error
		if _, err := Open(nil, path, how); !errors.As(err, &sqlErr) || sqlErr.Primary() != sqliteh.SQLITE_CANTOPEN {
			t.Errorf("access %d to a file that is not there: %v", how, err)
		}
	}
	if left := files(t, dir); len(left) != 0 {
		t.Fatalf("opening made %q", left)
	}
	made(t, path)
	c, err := Open(nil, path, Immutable)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Integer("SELECT sum(a) FROM t"); n != 6 || err != nil {
		t.Errorf("immutable: %d, %v", n, err)
	}
	if left := files(t, dir); len(left) != 1 {
		t.Errorf("immutable access made %q", left)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for how, allowed := range map[Access]bool{Create: true, Existing: true, ReadOnly: false, Immutable: false} {
		c := open(t, path, how)
		err := c.Exec("INSERT INTO t(b) VALUES (NULL)")
		var sqlErr *Error
		if allowed != (err == nil) || !allowed && (!errors.As(err, &sqlErr) || sqlErr.Primary() != sqliteh.SQLITE_READONLY) {
			t.Errorf("access %d: writing gives %v", how, err)
		}
	}
}

func TestQueries(t *testing.T) {
	path := filepath.Join(folder(t), "test.db")
	made(t, path)
	c := open(t, path, Existing)
	for _, arg := range []any{int64(33), "one", []byte{2, 3}} {
		if n, err := c.Integer("SELECT count(*) FROM t WHERE b = ?1", arg); n != 1 || err != nil {
			t.Errorf("%T: %d, %v", arg, n, err)
		}
	}
	if _, err := c.Integer("SELECT ?1", 1.5); err == nil || !strings.Contains(err.Error(), "float64") {
		t.Errorf("a float64: %v", err)
	}
	if text, err := c.Text("SELECT b FROM t WHERE a < 0"); text != "" || err != nil {
		t.Errorf("no rows: %q, %v", text, err)
	}
	stop := errors.New("enough")
	rows := 0
	if err := c.Each("SELECT a FROM t ORDER BY a", func(s sqliteh.Stmt) error {
		if rows++; s.ColumnInt64(0) == 2 {
			return stop
		}
		return nil
	}); err != stop || rows != 2 {
		t.Errorf("a row's error: %v after %d rows", err, rows)
	}
	// The statement was finalized in spite of it: this needs the table for itself.
	if err := c.Exec("DROP TABLE t"); err != nil {
		t.Error(err)
	}
}

// One text is one statement: what follows the first would be lost.
func TestOneStatement(t *testing.T) {
	path := filepath.Join(folder(t), "test.db")
	made(t, path)
	c := open(t, path, Existing)
	if err := c.Exec("DELETE FROM t; DROP TABLE t"); err == nil {
		t.Error("two statements were taken")
	}
	if n, err := c.Integer("SELECT count(*) FROM t; \n"); n != 3 || err != nil {
		t.Errorf("the table holds %d rows, %v", n, err)
	}
}

// Errors have SQLite's message, its extended code, and the driver's error inside.
func TestErrors(t *testing.T) {
	path := filepath.Join(folder(t), "test.db")
	made(t, path)
	c := open(t, path, Existing)
	err := c.Exec("INSERT INTO t VALUES (9, 'one')")
	var sqlErr *Error
	var code sqliteh.ErrCode
	if !errors.As(err, &sqlErr) || sqlErr.Code != sqliteh.SQLITE_CONSTRAINT_UNIQUE || sqlErr.Primary() != sqliteh.SQLITE_CONSTRAINT ||
		!strings.Contains(err.Error(), "t.b") || !errors.As(err, &code) || sqliteh.Code(code) != sqliteh.SQLITE_CONSTRAINT_UNIQUE {
		t.Errorf("a second 'one': %v", err)
	}
	if err := c.Exec("SELEKT 1"); err == nil || !strings.Contains(err.Error(), "SELEKT") {
		t.Errorf("a syntax error: %v", err)
	}
	own := errors.New("not SQLite's")
	if err := Wrap(c.DB, own); err != own {
		t.Errorf("Wrap changed a foreign error to %v", err)
	}
	if err := Wrap(nil, sqliteh.CodeAsError(sqliteh.SQLITE_FULL)); !errors.As(err, &sqlErr) || sqlErr.Code != sqliteh.SQLITE_FULL {
		t.Errorf("Wrap without a connection: %v", err)
	}
}

// A query that would go on for ever ends with its context, and one that is done
// has nothing to fear from it.
func TestInterruptible(t *testing.T) {
	path := filepath.Join(folder(t), "test.db")
	made(t, path)
	c := open(t, path, Existing)
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Interruptible(ctx, func() error {
		rows := 0
		return c.Each("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", func(sqliteh.Stmt) error {
			if rows++; rows == 10 {
				cancel()
			}
			return nil
		})
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("an endless query: %v", err)
	}
	if err := c.Interruptible(t.Context(), func() error { return c.Exec("DELETE FROM t WHERE a = 1") }); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	own := fmt.Errorf("its own")
	if err := c.Interruptible(t.Context(), func() error { return own }); err != own {
		t.Errorf("an error without an interrupt: %v", err)
	}
}
