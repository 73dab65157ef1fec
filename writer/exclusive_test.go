package writer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

func TestExclusive(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, insert(1))
	for _, sql := range []string{
		"VACUUM", "ANALYZE", "PRAGMA user_version = 7", "INSERT INTO entry(id) VALUES (2)", "ALTER TABLE entry ADD COLUMN more",
	} {
		if err := w.Exclusive(t.Context(), func(c *writer.Conn) error { return second(c.Exec(sql)) }); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := w.Exclusive(t.Context(), func(c *writer.Conn) error { return errOwn }); err != errOwn {
		t.Errorf("got %v, want fn's own error", err)
	}
	do(t, w, func(tx *writer.Tx) error { return second(tx.Exec("UPDATE entry SET more = 1")) })
	if got := entries(t, w); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("the table holds %v, want 1 and 2", got)
	}
}

func TestExclusiveOwnTransaction(t *testing.T) {
	w := openTest(t, writer.Options{})
	for i, test := range []struct {
		sql  []string
		open bool
	}{
		{[]string{"BEGIN IMMEDIATE", "INSERT INTO entry(id) VALUES (0)", "COMMIT"}, false},
		{[]string{"BEGIN IMMEDIATE", "INSERT INTO entry(id) VALUES (1)", "ROLLBACK"}, false},
		{[]string{"BEGIN IMMEDIATE", "INSERT INTO entry(id) VALUES (2)"}, true},
		{[]string{"BEGIN"}, true}, // nothing read yet: the transaction's state is still "none"
		{[]string{"BEGIN", "SELECT count(*) FROM entry"}, true},
		{[]string{"SAVEPOINT mine", "INSERT INTO entry(id) VALUES (5)"}, true},
		{[]string{"SAVEPOINT mine"}, true},
		{[]string{"SAVEPOINT mine", "INSERT INTO entry(id) VALUES (7)", "RELEASE mine"}, false},
	} {
		err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
			for _, sql := range test.sql {
				if _, err := c.Exec(sql); err != nil {
					return err
				}
			}
			return nil
		})
		if test.open != errors.Is(err, writer.ErrOpenTx) || !test.open && err != nil {
			t.Errorf("%q: %v, want ErrOpenTx: %t", test.sql, err, test.open)
		}
		do(t, w, insert(100+i)) // the writer goes on
	}
	got := slices.DeleteFunc(entries(t, w), func(id int) bool { return id >= 100 })
	if !slices.Equal(got, []int{0, 7}) {
		t.Errorf("the table holds %v, want 0 and 7", got)
	}
}

// A schema change reaches statements that were prepared before it.
func TestExclusiveMigration(t *testing.T) {
	w := openTest(t, writer.Options{})
	columns := func() (n int) {
		if err := w.View(t.Context(), func(rx *writer.Rx) error {
			s := rx.Stmt("SELECT * FROM entry")
			_, err := s.Step()
			n = s.Columns()
			return err
		}); err != nil {
			t.Error(err)
		}
		return n
	}
	do(t, w, insert(1))
	before := columns()
	if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
		for _, sql := range []string{"BEGIN", "ALTER TABLE entry ADD COLUMN extra DEFAULT 5", "PRAGMA user_version = 2", "COMMIT"} {
			if _, err := c.Exec(sql); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	do(t, w, insert(2))
	if after := columns(); after != before+1 {
		t.Errorf("the reader sees %d columns, want %d", after, before+1)
	}
}

func TestViewEndsWithItsContext(t *testing.T) {
	w := openTest(t, writer.Options{Readers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	err := w.View(ctx, func(rx *writer.Rx) error {
		cancel()
		// By now the interrupt has most likely come and gone between two statements.
		time.Sleep(5 * time.Millisecond)
		return rx.QueryRow(endless).Scan()
	})
	if writer.Primary(err) != sqliteh.SQLITE_INTERRUPT || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want SQLITE_INTERRUPT and the context's error", err)
	}
	if got := entries(t, w); len(got) != 0 { // the only reader is fit for the next
		t.Errorf("the table holds %v", got)
	}
	inside, gate, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		result <- w.View(context.Background(), func(*writer.Rx) error { close(inside); <-gate; return nil })
	}()
	<-inside
	waiting, cancel := context.WithCancel(t.Context())
	go cancel()
	if err := w.View(waiting, func(*writer.Rx) error { return nil }); err != context.Canceled {
		t.Errorf("waiting for a reader: %v, want Canceled", err)
	}
	close(gate)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestViewIsOneSnapshot(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, insert(1))
	count := func(rx *writer.Rx) (n int) {
		if err := rx.QueryRow("SELECT count(*) FROM entry").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	if err := w.View(t.Context(), func(rx *writer.Rx) error {
		if n := count(rx); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
		do(t, w, insert(2))
		if n := count(rx); n != 1 {
			t.Errorf("%d rows in the same View, want still 1", n)
		}
		return errOwn
	}); err != errOwn {
		t.Errorf("got %v, want fn's own error", err)
	}
}

func TestBackupWhileWritesGoOn(t *testing.T) {
	w := openTest(t, writer.Options{Pragmas: noSync})
	do(t, w, func(tx *writer.Tx) error {
		return second(tx.Exec("INSERT INTO account(id, balance) VALUES (1, 1000), (2, 1000)"))
	})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				from := 1 + i%2
				do(t, w, func(tx *writer.Tx) error {
					return errors.Join(
						second(tx.Exec("UPDATE account SET balance = balance - 1 WHERE id = ?", from)),
						second(tx.Exec("UPDATE account SET balance = balance + 1 WHERE id = ?", 3-from)),
						second(tx.Exec("INSERT INTO entry(note) VALUES (1)")))
				})
			}
		})
	}
	dir := t.TempDir()
	for _, name := range []string{"a.db", "it's b.db"} {
		acknowledged := number(t, w, "SELECT count(*) FROM entry")
		path := filepath.Join(dir, name)
		if err := w.Backup(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		c := openFile(t, path, writer.Options{NoCreate: true})
		if sum := number(t, c, "SELECT sum(balance) FROM account"); sum != 2000 {
			t.Errorf("the copy's total is %d, want 2000", sum)
		}
		if n := number(t, c, "SELECT count(*) FROM entry"); n < acknowledged {
			t.Errorf("the copy holds %d entries, %d were there before", n, acknowledged)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	if got := names(t, dir); !slices.Equal(got, []string{"a.db", "it's b.db"}) {
		t.Errorf("the folder holds %q", got)
	}
}

// names returns what a folder holds.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		list = append(list, f.Name())
	}
	return list
}

func TestBackupRefusals(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, insert(1))
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Backup(t.Context(), taken); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("an existing file: %v", err)
	}
	if content, err := os.ReadFile(taken); err != nil || string(content) != "precious" {
		t.Errorf("the existing file now holds %q, %v", content, err)
	}
	if err := w.Backup(t.Context(), filepath.Join(dir, "no", "copy.db")); err == nil || !strings.HasPrefix(err.Error(), "writer.Backup: ") {
		t.Errorf("a missing folder: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Backup(ctx, filepath.Join(dir, "copy.db")); err != context.Canceled {
		t.Errorf("an ended context: %v", err)
	}
	// What an earlier attempt left is in nobody's way.
	if err := os.WriteFile(filepath.Join(dir, "copy.db-partial"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Backup(t.Context(), filepath.Join(dir, "copy.db")); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"copy.db", "taken"}) {
		t.Errorf("the folder holds %q", got)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Backup(t.Context(), filepath.Join(dir, "late.db")); err != writer.ErrClosed {
		t.Errorf("a closed writer: %v, want ErrClosed", err)
	}
}

func TestBackupCancelledLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	faults := &writertest.Faults{Before: func(e writertest.Event) {
		if e.SQL == "VACUUM INTO ?" {
			cancel()
		}
	}}
	w := openTest(t, writer.Options{Open: faults.Open})
	do(t, w, func(tx *writer.Tx) error {
		return second(tx.Exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO entry SELECT i, randomblob(500) FROM n"))
	})
	dir := t.TempDir()
	if err := w.Backup(ctx, filepath.Join(dir, "copy.db")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("the folder holds %q", got)
	}
}

// A statement that yields rows commits when it is reset, and that can fail.
func TestExclusiveCommitAfterRows(t *testing.T) {
	w := openTest(t, writer.Options{Pragmas: map[string]string{"foreign_keys": "on"}})
	exclusive(t, w, "CREATE TABLE card (id INTEGER PRIMARY KEY, owner REFERENCES account(id) DEFERRABLE INITIALLY DEFERRED)")
	const sql = "INSERT INTO card VALUES (1, 999) RETURNING id"
	for name, fn := range map[string]func(*writer.Conn) error{
		"Exec":     func(c *writer.Conn) error { return second(c.Exec(sql)) },
		"QueryRow": func(c *writer.Conn) error { return c.QueryRow(sql).Scan(new(int)) },
		"Query": func(c *writer.Conn) error {
			for _, err := range c.Query(sql) {
				return err
			}
			return nil
		},
		"Step": func(c *writer.Conn) error { return second(c.Stmt(sql).Step()) },
		"Reset": func(c *writer.Conn) error {
			s := c.Stmt(sql)
			defer s.Reset()
			return second(s.Step())
		},
	} {
		err := w.Exclusive(t.Context(), fn)
		if writer.Primary(err) != sqliteh.SQLITE_CONSTRAINT || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want SQLITE_CONSTRAINT once: nothing was committed", name, err)
		}
	}
	if n := number(t, w, "SELECT count(*) FROM card"); n != 0 {
		t.Errorf("%d rows refer to nothing", n)
	}
}

// Some pragmas do a piece of their work for each row.
func TestExclusiveExecRunsToTheEnd(t *testing.T) {
	w := openTest(t, writer.Options{Pragmas: map[string]string{"auto_vacuum": "incremental"}})
	do(t, w, func(tx *writer.Tx) error { return second(tx.Exec("INSERT INTO entry VALUES (1, zeroblob(100000))")) })
	do(t, w, func(tx *writer.Tx) error { return second(tx.Exec("DELETE FROM entry")) })
	exclusive(t, w, "PRAGMA incremental_vacuum")
	if n := number(t, w, "SELECT freelist_count FROM pragma_freelist_count"); n != 0 {
		t.Errorf("%d pages are still free", n)
	}
}

// Two Backups to one name must not publish each other's partial copy.
func TestBackupTwiceAtOnce(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "copy.db")
	copying, goOn := make(chan struct{}), make(chan struct{})
	var copies atomic.Int32
	faults := &writertest.Faults{Before: func(e writertest.Event) {
		if e.SQL == "VACUUM INTO ?" && copies.Add(1) == 1 {
			close(copying)
			<-goOn
		}
	}}
	w := openTest(t, writer.Options{Open: faults.Open})
	first := make(chan error, 1)
	go func() { first <- w.Backup(context.Background(), dst) }()
	<-copying
	if err := w.Backup(t.Context(), dst); !errors.Is(err, writer.ErrInUse) {
		t.Errorf("the second: %v, want ErrInUse", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
	if got := names(t, filepath.Dir(dst)); !slices.Equal(got, []string{"copy.db"}) {
		t.Errorf("the folder holds %q", got)
	}
}
