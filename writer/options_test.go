package writer_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/writer"
)

func TestOptionsThatAreRefused(t *testing.T) {
	pragma := func(name, value string) writer.Options {
		return writer.Options{Pragmas: map[string]string{name: value}}
	}
	for _, test := range []struct {
		opt  writer.Options
		want string
	}{
		{writer.Options{MaxBatch: -1}, "MaxBatch is -1"},
		{writer.Options{QueueLen: -1}, "QueueLen is -1"},
		{writer.Options{BatchWindow: -time.Second}, "BatchWindow is -1s"},
		{writer.Options{TxTimeout: -time.Second}, "TxTimeout is -1s"},
		{writer.Options{Checkpoint: writer.Checkpoint{Pages: -1}}, "Checkpoint.Pages is -1"},
		{writer.Options{Checkpoint: writer.Checkpoint{Bytes: -1}}, "Checkpoint.Bytes is -1"},
		{writer.Options{Checkpoint: writer.Checkpoint{Stall: -time.Second}}, "Checkpoint.Stall is -1s"},
		{writer.Options{Checkpoint: writer.Checkpoint{Mode: 4}}, "Checkpoint.Mode is 4"},
		{writer.Options{Savepoints: 3}, "Savepoints is 3"},
		{writer.Options{Savepoints: -1}, "Savepoints is -1"},
		{pragma("busy_timeout", "1"), "belongs to the writer"},
		{pragma("WAL_AutoCheckpoint", "1"), "belongs to the writer"},
		{pragma("query_only", "on"), "belongs to the writer"},
		{pragma("locking_mode", "exclusive"), "belongs to the writer"},
		{pragma("writable_schema", "on"), "belongs to the writer"},
		{pragma("journal_mode", "OFF"), "cannot roll back"},
		{pragma("cache_size", "1; DROP TABLE t"), "not a plain name and value"},
		{pragma("cache size", "1"), "not a plain name and value"},
		{pragma("cache_size", ""), "not a plain name and value"},
		{pragma("journal_mode", "banana"), "journal_mode is"},
		{pragma("synchronous", "banana"), "synchronous is"},
		{pragma("page_size", "1000"), "page_size is"},
		{pragma("foreign_keys", "banana"), "foreign_keys is"},
		{pragma("syncronous", "full"), "syncronous"},
	} {
		path := filepath.Join(t.TempDir(), "test.db")
		w, err := writer.Open(t.Context(), path, test.opt)
		if err == nil {
			w.Close()
			t.Errorf("%q: opened", test.want)
			continue
		}
		if !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "writer.Open: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %q, want %q in it", err, test.want)
		}
		if _, err := os.Stat(path + "-lock"); err == nil {
			t.Errorf("%q: the lock was not released", test.want)
		}
	}
}

// The limit adapts unless it is given, and does not change when the effective
// options are used again.
func TestCheckpointDefaults(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ given, want writer.Checkpoint }{
		{writer.Checkpoint{}, writer.Checkpoint{Pages: 4000, Stall: 10 * ms}},
		{writer.Checkpoint{Idle: true}, writer.Checkpoint{Idle: true, Pages: 4000, Stall: 10 * ms}},
		{writer.Checkpoint{Stall: ms}, writer.Checkpoint{Pages: 4000, Stall: ms}},
		{writer.Checkpoint{Pages: 5}, writer.Checkpoint{Pages: 5}},
		{writer.Checkpoint{Bytes: 5}, writer.Checkpoint{Bytes: 5}},
		{writer.Checkpoint{Pages: 5, Stall: ms}, writer.Checkpoint{Pages: 5, Stall: ms}},
		{writer.Checkpoint{Bytes: 5, Stall: ms}, writer.Checkpoint{Bytes: 5, Stall: ms}},
		{writer.Checkpoint{Pages: math.MaxInt}, writer.Checkpoint{Pages: math.MaxInt32}},
	} {
		for _, given := range []writer.Checkpoint{test.given, test.want} {
			if got := openTest(t, writer.Options{Checkpoint: given}).Options().Checkpoint; got != test.want {
				t.Errorf("%+v became %+v, want %+v", given, got, test.want)
			}
		}
	}
}

func TestPragmasAreInForce(t *testing.T) {
	read := func(query func(string, ...any) writer.Row, name string) (value string) {
		if err := query("PRAGMA " + name).Scan(&value); err != nil {
			t.Error(err)
		}
		return value
	}
	for _, test := range []struct {
		pragmas map[string]string
		want    map[string]string
	}{
		{nil, map[string]string{"journal_mode": "wal", "synchronous": "2", "cache_size": "-65536", "temp_store": "2", "wal_autocheckpoint": "0", "busy_timeout": "5000"}},
		{
			map[string]string{"Synchronous": "NORMAL", "cache_size": "-1000", "foreign_keys": "ON", "page_size": "8192", "auto_vacuum": "incremental", "application_id": "77"},
			map[string]string{"journal_mode": "wal", "synchronous": "1", "cache_size": "-1000", "foreign_keys": "1", "page_size": "8192", "auto_vacuum": "2", "application_id": "77"},
		},
		{map[string]string{"journal_mode": "delete"}, map[string]string{"journal_mode": "delete"}},
	} {
		w := openTest(t, writer.Options{Pragmas: test.pragmas})
		if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
			for name, want := range test.want {
				if got := read(c.QueryRow, name); got != want {
					t.Errorf("%v: %s is %s, want %s", test.pragmas, name, got, want)
				}
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		do(t, w, insert(1))
		if n := number(t, w, "SELECT count(*) FROM entry"); n != 1 {
			t.Errorf("%v: the View sees %d rows, want 1", test.pragmas, n)
		}
		if err := w.View(t.Context(), func(rx *writer.Rx) error {
			return rx.QueryRow("INSERT INTO entry(id) VALUES (2) RETURNING id").Scan()
		}); err == nil {
			t.Error("a View wrote")
		}
	}
}

// An empty journal mode leaves a database as it is found.
func TestJournalModeStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	for _, step := range []struct{ asked, want string }{{"", "delete"}, {"wal", "wal"}, {"", "wal"}, {"delete", "delete"}, {"", "delete"}} {
		w := openFile(t, path, writer.Options{Pragmas: map[string]string{"Journal_Mode": step.asked}})
		if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
			var got string
			if err := c.QueryRow("PRAGMA journal_mode").Scan(&got); err != nil || got != step.want {
				t.Errorf("asked for %q it is %q (%v), want %q", step.asked, got, err, step.want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		do(t, w, insert(0))
		do(t, w, func(tx *writer.Tx) error { _, err := tx.Exec("DELETE FROM entry"); return err })
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenPaths(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"", ":memory:"} {
		if _, err := writer.Open(t.Context(), path, writer.Options{}); err == nil || !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("%q: %v", path, err)
		}
	}
	missing := filepath.Join(dir, "missing.db")
	if _, err := writer.Open(t.Context(), missing, writer.Options{NoCreate: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("NoCreate: %v, want ErrNotExist", err)
	}
	if _, err := writer.Open(t.Context(), filepath.Join(dir, "no", "folder.db"), writer.Options{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "folder") {
		t.Errorf("a missing folder: %v", err)
	}
	for _, suffix := range []string{"-wal", "-journal"} {
		log := filepath.Join(dir, "lost.db") + suffix
		if err := os.WriteFile(log, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := writer.Open(t.Context(), filepath.Join(dir, "lost.db"), writer.Options{})
		if err == nil || !strings.Contains(err.Error(), log) {
			t.Errorf("a %s without its database: %v", suffix, err)
		}
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := writer.Open(ctx, missing, writer.Options{}); err != context.Canceled {
		t.Errorf("an ended context: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("refused Opens left %v behind (%v)", left, err)
	}
}

// SQLite counts the timeout in milliseconds in a C int, and a month does not fit.
func TestBusyTimeoutOfAMonth(t *testing.T) {
	for _, timeout := range []time.Duration{30 * 24 * time.Hour, math.MaxInt64} {
		w := openTest(t, writer.Options{BusyTimeout: timeout})
		if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
			var got int
			if err := c.QueryRow("PRAGMA busy_timeout").Scan(&got); err != nil || got != math.MaxInt32 {
				t.Errorf("%v became %d ms (%v), want %d", timeout, got, err, math.MaxInt32)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// A name may hold what means something in a URI.
func TestOpenStrangeNames(t *testing.T) {
	for _, name := range []string{"a b.db", "q?mode=memory.db", "h#1.db", "p%41.db", "näh.db", "a:b.db"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		w := openFile(t, path, writer.Options{})
		do(t, w, insert(1))
		if got := entries(t, w); len(got) != 1 {
			t.Errorf("%q: the table holds %v", name, got)
		}
		if err := w.Close(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 || left[0].Name() != name {
			t.Errorf("%q: the folder holds %v (%v)", name, left, err)
		}
	}
}

func TestInitFailureClosesEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	for name, init := range map[string]func(*writer.Conn) error{
		"Error": func(c *writer.Conn) error { return errors.Join(createTables(c), errOwn) },
		"OpenTx": func(c *writer.Conn) error {
			_, err := c.Exec("BEGIN")
			return err
		},
		"Panic": func(*writer.Conn) error { panic(errOwn) },
	} {
		var err error
		func() {
			defer func() {
				if v, ok := recover().(error); ok {
					err = v
				}
			}()
			_, err = writer.Open(t.Context(), path, writer.Options{Init: init})
		}()
		if !errors.Is(err, errOwn) && !errors.Is(err, writer.ErrOpenTx) {
			t.Errorf("%s: %v", name, err)
		}
		release, err := writer.Lock(path)
		if err != nil {
			t.Fatalf("%s: the lock is still held: %v", name, err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
	}
	w := openFile(t, path, writer.Options{})
	do(t, w, insert(1))
}

func TestViewWithoutReaders(t *testing.T) {
	w, err := writer.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), writer.Options{Readers: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.View(t.Context(), func(*writer.Rx) error { return nil }); err == nil || !strings.Contains(err.Error(), "without readers") {
		t.Errorf("got %v", err)
	}
}
