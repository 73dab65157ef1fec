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

// walFrame is the size of one page of the default size in the WAL.
const walFrame = 4096 + 24

// fence waits until the writer has done what it does after a batch.
func fence(t *testing.T, w *writer.Writer) {
	t.Helper()
	if err := w.Exclusive(context.Background(), func(*writer.Conn) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// walSize returns the size of the WAL file. It uses stat only: opening and closing
// a file of the database would drop SQLite's locks in this process.
func walSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestContract07CheckpointFails: a checkpoint that fails on the storage stops the
// writer; what was acknowledged is in the WAL.
func TestContract07CheckpointFails(t *testing.T) {
	for _, code := range []sqliteh.Code{sqliteh.SQLITE_IOERR_FSYNC, sqliteh.SQLITE_CORRUPT, sqliteh.SQLITE_NOTADB} {
		t.Run(code.String(), func(t *testing.T) {
			faults := &writertest.Faults{}
			path := filepath.Join(t.TempDir(), "test.db")
			w := writertest.OpenPath(t, path, writer.Options{Open: faults.Open})
			bank := writertest.NewBank(t, w, 2, 100)
			if err := bank.Transfer(t.Context(), 1, 2, 10); err != nil {
				t.Fatal(err)
			}
			faults.Add(writertest.Rule{SQL: "CHECKPOINT", Code: code})
			if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_TRUNCATE); writer.Code(err) != code {
				t.Errorf("Checkpoint: %v, want %s", err, code)
			}
			wantStopped(t, w, path)
			wantBalances(t, writertest.NewBank(t, writertest.OpenPath(t, path), 2, 100), 90, 110)
		})
	}
}

// TestContract07CheckpointBusyOrFull: one that readers or a full disk hinder is
// reported, and the writer goes on.
func TestContract07CheckpointBusyOrFull(t *testing.T) {
	faults := &writertest.Faults{}
	w := writertest.Open(t, writer.Options{Open: faults.Open})
	bank := writertest.NewBank(t, w, 2, 100)
	for _, code := range []sqliteh.Code{sqliteh.SQLITE_BUSY, sqliteh.SQLITE_FULL} {
		faults.Add(writertest.Rule{SQL: "CHECKPOINT", Code: code})
		if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_RESTART); writer.Code(err) != code {
			t.Errorf("Checkpoint: %v, want %s", err, code)
		}
		if err := bank.Transfer(t.Context(), 1, 2, 1); err != nil {
			t.Errorf("after %s: %v", code, err)
		}
	}
}

// TestContract10OneConnectionWrites watches every connection under a load of
// transactions, views and checkpoints.
func TestContract10OneConnectionWrites(t *testing.T) {
	var seen transcript
	faults := &writertest.Faults{Before: seen.add}
	w := writertest.Open(t, writer.Options{Open: faults.Open, Readers: 4, Checkpoint: writer.Checkpoint{Pages: 8}})
	bank := writertest.NewBank(t, w, 16, 1000)
	var wg sync.WaitGroup
	for g := range int64(8) {
		wg.Go(func() {
			for i := range int64(100) {
				if err := bank.Transfer(context.Background(), 1+g, 1+(g+i)%16, 1); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 100 {
				if total, err := bank.Total(context.Background()); total != bank.Sum || err != nil {
					t.Errorf("a view sees a total of %d (%v), want %d", total, err, bank.Sum)
				}
			}
		})
	}
	for _, mode := range []sqliteh.Checkpoint{sqliteh.SQLITE_CHECKPOINT_PASSIVE, sqliteh.SQLITE_CHECKPOINT_FULL,
		sqliteh.SQLITE_CHECKPOINT_RESTART, sqliteh.SQLITE_CHECKPOINT_TRUNCATE} {
		if err := w.Checkpoint(t.Context(), mode); err != nil && writer.Primary(err) != sqliteh.SQLITE_BUSY {
			t.Errorf("%s: %v", mode, err)
		}
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Error(err)
	}

	harmless := []string{"OPEN", "CLOSE", "BUSY TIMEOUT", "BEGIN", "ROLLBACK", "PRAGMA", "SELECT"}
	writers := make(map[int]bool)
	for _, e := range seen.all("") {
		checkpoint := strings.HasPrefix(e.SQL, "CHECKPOINT")
		if checkpoint && e.Txn != sqliteh.SQLITE_TXN_NONE {
			t.Errorf("%s in the middle of a batch", e.SQL)
		}
		if !e.ReadOnly() {
			writers[e.Conn] = true
			continue
		}
		if e.Flags&(sqliteh.SQLITE_OPEN_READWRITE|sqliteh.SQLITE_OPEN_CREATE) != 0 {
			t.Errorf("a reader was opened with %s", e.Flags)
		}
		if e.SQL == "BEGIN IMMEDIATE" || !slices.ContainsFunc(harmless, func(p string) bool { return strings.HasPrefix(e.SQL, p) }) {
			t.Errorf("a reader ran %q", e.SQL)
		}
		if e.Txn == sqliteh.SQLITE_TXN_WRITE {
			t.Errorf("a reader was in a write transaction at %q", e.SQL)
		}
	}
	if len(writers) != 1 {
		t.Errorf("%d connections were opened for writing, want 1", len(writers))
	}
	if len(seen.all("CHECKPOINT")) < 6 {
		t.Errorf("only %d checkpoints: the load did not reach the limit", len(seen.all("CHECKPOINT")))
	}
}

// TestContract10CheckpointAfterCallersWoke holds the checkpoint until the caller
// whose batch caused it is back.
func TestContract10CheckpointAfterCallersWoke(t *testing.T) {
	var committed atomic.Bool
	back, checked := make(chan struct{}), make(chan struct{}, 10)
	faults := &writertest.Faults{Before: func(e writertest.Event) {
		if e.SQL == "COMMIT" {
			committed.Store(true)
		}
		if !committed.Load() || !strings.HasPrefix(e.SQL, "CHECKPOINT") {
			return
		}
		select {
		case <-back:
		case <-time.After(30 * time.Second):
			t.Error("the checkpoint came before Do returned")
		}
		checked <- struct{}{}
	}}
	w := writertest.Open(t, writer.Options{Open: faults.Open, Checkpoint: writer.Checkpoint{Pages: 1}})
	bank := writertest.NewBank(t, w, 2, 100)
	if err := bank.Transfer(t.Context(), 1, 2, 10); err != nil {
		t.Fatal(err)
	}
	close(back)
	<-checked
}

func TestContract11Policies(t *testing.T) {
	write := func(t *testing.T, bank *writertest.Bank, n int) {
		t.Helper()
		for range n {
			if err := bank.Transfer(context.Background(), 1, 2, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	open := func(t *testing.T, policy writer.Checkpoint) (*writertest.Bank, *transcript, string) {
		seen := &transcript{}
		faults := &writertest.Faults{Before: seen.add}
		path := filepath.Join(t.TempDir(), "test.db")
		w := writertest.OpenPath(t, path, writer.Options{Open: faults.Open, Checkpoint: policy})
		return writertest.NewBank(t, w, 2, 1000), seen, path
	}
	t.Run("Off", func(t *testing.T) {
		bank, seen, path := open(t, writer.Checkpoint{Off: true, Pages: 1})
		write(t, bank, 100)
		fence(t, bank.W)
		if n := len(seen.all("CHECKPOINT")); n != 0 {
			t.Errorf("%d checkpoints, want none", n)
		}
		if pending := int64(bank.W.Stats().WALPending); pending < 100*walFrame || pending > walSize(t, path) {
			t.Errorf("%d bytes are pending in a WAL of %d", pending, walSize(t, path))
		}
		if err := bank.W.Close(); err != nil || len(seen.all("CHECKPOINT")) == 0 {
			t.Errorf("Close: %v, with %d checkpoints; want one", err, len(seen.all("CHECKPOINT")))
		}
	})
	t.Run("Idle", func(t *testing.T) {
		bank, seen, _ := open(t, writer.Checkpoint{Idle: true})
		write(t, bank, 1)
		until(t, "a checkpoint while idle", func() bool { return len(seen.all("CHECKPOINT PASSIVE")) > 0 })
		until(t, "nothing pending", func() bool { return bank.W.Stats().WALPending == 0 })
	})
	t.Run("Pages", func(t *testing.T) {
		bank, seen, path := open(t, writer.Checkpoint{Pages: 50})
		write(t, bank, 200)
		fence(t, bank.W)
		if n := len(seen.all("CHECKPOINT PASSIVE")); n < 2 || n > 200/50+1 {
			t.Errorf("%d checkpoints for 200 pages with a limit of 50", n)
		}
		if size := walSize(t, path); size > 60*walFrame {
			t.Errorf("without readers the WAL grew to %d bytes, far above its limit", size)
		}
	})
	t.Run("Truncate", func(t *testing.T) {
		bank, seen, path := open(t, writer.Checkpoint{Pages: 1, Mode: sqliteh.SQLITE_CHECKPOINT_TRUNCATE})
		write(t, bank, 1)
		fence(t, bank.W)
		if size := walSize(t, path); size != 0 {
			t.Errorf("the WAL has %d bytes after %v", size, seen.all("CHECKPOINT"))
		}
	})
}

// TestContract11BusyTimeoutIsRestored: a checkpoint that waits for readers does so
// for a short time only, and BEGIN's patience is as before afterwards, however the
// checkpoint ended.
func TestContract11BusyTimeoutIsRestored(t *testing.T) {
	for _, c := range []struct {
		timeout       time.Duration
		during, after string
	}{
		{3 * time.Second, "BUSY TIMEOUT 50ms", "BUSY TIMEOUT 3s"},
		{10 * time.Millisecond, "BUSY TIMEOUT 10ms", "BUSY TIMEOUT 10ms"},
		{-1, "BUSY TIMEOUT 0s", "BUSY TIMEOUT 0s"},
	} {
		var seen transcript
		faults := &writertest.Faults{Before: seen.add}
		w := writertest.Open(t, writer.Options{Open: faults.Open, BusyTimeout: c.timeout, Readers: -1})
		for _, fail := range []bool{false, true} {
			if fail {
				faults.Add(writertest.Rule{SQL: "CHECKPOINT RESTART", Code: sqliteh.SQLITE_BUSY})
			}
			before := len(seen.all(""))
			if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_RESTART); (err != nil) != fail {
				t.Errorf("Checkpoint: %v", err)
			}
			var got []string
			for _, e := range seen.all("")[before:] {
				if e.SQL != "ROLLBACK" { // which ends whatever an Exclusive left open
					got = append(got, e.SQL)
				}
			}
			if want := []string{c.during, "CHECKPOINT RESTART", c.after}; !slices.Equal(got, want) {
				t.Errorf("with BusyTimeout %v and a checkpoint that fails %t: %q, want %q", c.timeout, fail, got, want)
			}
		}
	}
}

// relay keeps snapshots open without a gap: each reader keeps its own until three
// more have begun, so at least three overlap at any time, and none is long.
type relay struct {
	w       *writer.Writer
	mu      sync.Mutex
	changed sync.Cond
	begun   int
	stopped bool
}

func (r *relay) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.changed.Broadcast()
}

// run reads until stop is called.
func (r *relay) run(t *testing.T) {
	for stopped := false; !stopped; {
		err := r.w.View(context.Background(), func(rx *writer.Rx) error {
			var n int
			if err := rx.QueryRow("SELECT count(*) FROM wide").Scan(&n); err != nil { // takes the snapshot
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.begun++
			r.changed.Broadcast()
			for want := r.begun + 3; r.begun < want && !r.stopped; {
				r.changed.Wait()
			}
			stopped = r.stopped
			return nil
		})
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// wideTable makes rows of a quarter of a page.
func wideTable(c *writer.Conn) error {
	if _, err := c.Exec("CREATE TABLE wide (id INTEGER PRIMARY KEY, b BLOB)"); err != nil {
		return err
	}
	_, err := c.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
		INSERT INTO wide SELECT i, zeroblob(1000) FROM n`)
	return err
}

// TestContract11OverlappingReaders: readers that overlap without a gap keep
// PASSIVE from ever finishing; RESTART gets through, and the WAL stays bounded
// while many times its size is written.
func TestContract11OverlappingReaders(t *testing.T) {
	const limit, restart = 64, 4 * 64 // pages
	var busy atomic.Int32
	faults := &writertest.Faults{After: func(e writertest.Event, err error) {
		if err != nil && e.SQL == "CHECKPOINT RESTART" {
			busy.Add(1)
		}
	}}
	path := filepath.Join(t.TempDir(), "test.db")
	w := writertest.OpenPath(t, path, writer.Options{
		Open: faults.Open, Readers: 6, Init: wideTable, Checkpoint: writer.Checkpoint{Pages: limit},
		Pragmas: map[string]string{"synchronous": "off"}, // it is about size, not durability
	})
	if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_TRUNCATE); err != nil {
		t.Fatal(err)
	}
	r := &relay{w: w}
	r.changed.L = &r.mu
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() { r.run(t) })
	}
	defer func() { r.stop(); wg.Wait() }()

	// A RESTART that met a reader which was too slow is followed by a pause, and the
	// WAL grows meanwhile: then what counts is that a later one gets through.
	written := func() int64 { return int64(w.Stats().WALBytes) }
	start, peak, shrank := written(), int64(0), 0
	pending := int64(0)
	deadline := time.Now().Add(time.Minute)
	for i := 0; written()-start < 10*restart*walFrame || shrank < 5; i++ {
		if time.Now().After(deadline) {
			t.Fatalf("the WAL was emptied %d times in %d transactions", shrank, i)
		}
		if err := w.Do(t.Context(), func(tx *writer.Tx) error {
			_, err := tx.Exec("UPDATE wide SET b = randomblob(1000) WHERE id % 100 = ?", i%100)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		fence(t, w)
		now := int64(w.Stats().WALPending)
		if now < pending {
			shrank++
		}
		pending = now
		if busy.Load() == 0 {
			peak = max(peak, walSize(t, path))
		}
	}
	if limit := int64(restart+100) * walFrame; peak > limit {
		t.Errorf("the WAL grew to %d bytes, want at most %d", peak, limit)
	}
	t.Logf("wrote %d bytes through a WAL of %d; %d of the checkpoints were refused", written()-start, peak, busy.Load())
}

// TestContract11LongReader: while one snapshot stays open for good, RESTART is
// tried ever more seldom, and PASSIVE once for each limit's worth of pages.
func TestContract11LongReader(t *testing.T) {
	const limit = 16
	var mu sync.Mutex
	var passive int
	var tries []time.Time
	faults := &writertest.Faults{Before: func(e writertest.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch e.SQL {
		case "CHECKPOINT PASSIVE":
			passive++
		case "CHECKPOINT RESTART":
			tries = append(tries, time.Now())
		}
	}}
	w := writertest.Open(t, writer.Options{
		Open: faults.Open, Checkpoint: writer.Checkpoint{Pages: limit}, Pragmas: map[string]string{"synchronous": "off"},
	})
	bank := writertest.NewBank(t, w, 2, 100_000)
	inside, goOn, viewed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		viewed <- w.View(context.Background(), func(rx *writer.Rx) error {
			err := rx.QueryRow("SELECT id FROM account").Scan(new(int))
			close(inside)
			<-goOn
			return err
		})
	}()
	<-inside
	before := w.Stats().WALBytes
	for range 500 {
		if err := bank.Transfer(t.Context(), 1, 2, 1); err != nil {
			t.Fatal(err)
		}
	}
	fence(t, w)
	pages := int(w.Stats().WALBytes-before) / walFrame
	mu.Lock()
	if len(tries) == 0 {
		t.Error("RESTART was never tried, far above the limit")
	}
	for i, pause := 1, time.Second; i < len(tries); i, pause = i+1, 2*pause {
		if gap := tries[i].Sub(tries[i-1]); gap < pause {
			t.Errorf("RESTART %d came %v after the one before, want %v", i, gap, pause)
		}
	}
	if passive == 0 || passive > pages/limit+1 {
		t.Errorf("%d PASSIVE checkpoints for %d pages with a limit of %d", passive, pages, limit)
	}
	mu.Unlock()
	close(goOn)
	if err := errors.Join(<-viewed, w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_RESTART)); err != nil {
		t.Errorf("after the reader: %v", err)
	}
	if pending := w.Stats().WALPending; pending != 0 {
		t.Errorf("%d bytes are still pending after the reader", pending)
	}
}

// TestContract15RefusedPragmaHasNoEffect: SQLite applies many pragmas when they
// are prepared, so they must be refused before. This one would bring the automatic
// checkpoint back.
func TestContract15RefusedPragmaHasNoEffect(t *testing.T) {
	w := writertest.Open(t)
	for _, sql := range []string{
		"PRAGMA wal_autocheckpoint = 1",
		" ; /* a comment */ pragma wal_autocheckpoint(1)",
		"EXPLAIN PRAGMA wal_autocheckpoint = 1",
		"explain query plan -- why not\n PRAGMA wal_autocheckpoint = 1",
	} {
		if err := w.Do(t.Context(), execSQL(sql)); !errors.Is(err, writer.ErrTxControl) {
			t.Errorf("%q in Do: %v, want ErrTxControl", sql, err)
		}
		if err := w.View(t.Context(), func(rx *writer.Rx) error { _, err := rx.Stmt(sql).Exec(); return err }); !errors.Is(err, writer.ErrTxControl) {
			t.Errorf("%q in View: %v, want ErrTxControl", sql, err)
		}
		if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
			var pages int
			err := c.QueryRow("PRAGMA wal_autocheckpoint").Scan(&pages)
			if pages != 0 {
				t.Errorf("%q took effect: wal_autocheckpoint is %d", sql, pages)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
