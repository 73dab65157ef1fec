package writer_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"
	"go.uber.org/goleak"

	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// TestContract06BeginBusy: another process holds the lock, so nothing of the batch
// runs and everyone may try again.
func TestContract06BeginBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	w := writertest.OpenPath(t, path, writer.Options{BusyTimeout: -1})
	bank := writertest.NewBank(t, w, 2, 100)
	c := startChild(t, "lock", path)
	c.want("locked")
	var ran atomic.Int32
	try := func(tx *writer.Tx) error {
		ran.Add(1)
		return writertest.Move(tx, 1, 2, 10)
	}
	for _, err := range writertest.Batch(t, w, try, try, try) {
		be := wantBatchError(t, "each of the batch", err, "begin", sqliteh.SQLITE_BUSY, false)
		if be.InDoubt {
			t.Error("in doubt, but nothing ran")
		}
	}
	if ran.Load() != 0 {
		t.Errorf("%d functions ran without a transaction", ran.Load())
	}
	wantBalances(t, bank, 100, 100) // readers are not disturbed
	c.wait()
	if err := w.Do(t.Context(), try); err != nil {
		t.Errorf("after the lock was released: %v", err)
	}
	wantBalances(t, bank, 90, 110)
}

// TestContract05CtxEndsWhileBeginWaits: BEGIN waits for another process; a caller
// gives up meanwhile, and its function never runs.
func TestContract05CtxEndsWhileBeginWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	begun := make(chan struct{}, 100)
	faults := &writertest.Faults{Before: func(e writertest.Event) {
		if e.SQL == "BEGIN IMMEDIATE" {
			begun <- struct{}{}
		}
	}}
	w := writertest.OpenPath(t, path, writer.Options{Open: faults.Open, BusyTimeout: time.Minute})
	bank := writertest.NewBank(t, w, 2, 100)
	c := startChild(t, "lock", path)
	c.want("locked")

	release := writertest.Hold(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	abandoned, patient := make(chan error, 1), make(chan error, 1)
	go func() {
		abandoned <- w.Do(ctx, func(*writer.Tx) error { t.Error("ran after its ctx had ended"); return nil })
	}()
	writertest.WaitQueued(t, w, 1)
	go func() { patient <- bank.Transfer(context.Background(), 1, 2, 10) }()
	writertest.WaitQueued(t, w, 2)
	release()
	<-begun // the batch has both, and BEGIN is about to wait
	cancel()
	if err := <-abandoned; !errors.Is(err, context.Canceled) { // while the lock is held
		t.Errorf("the one that gave up: %v, want context.Canceled", err)
	}
	c.wait()
	if err := <-patient; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
	wantBalances(t, bank, 90, 110)
}

// TestContract09CloseBesideDo: a thousand callers go on until they are refused.
// What each was told is what the database holds; nobody hangs, nothing is left.
func TestContract09CloseBesideDo(t *testing.T) {
	const callers = 1000
	ignore := goleak.IgnoreCurrent()
	var seen transcript
	faults := &writertest.Faults{Before: seen.add}
	path := filepath.Join(t.TempDir(), "test.db")
	w := writertest.OpenPath(t, path, writer.Options{Open: faults.Open, MaxBatch: 64, Readers: 2})
	if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
		_, err := c.Exec("CREATE TABLE seen (id INTEGER PRIMARY KEY)")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var next, done atomic.Int64
	var outcomes sync.Map // id to error
	enough := make(chan struct{})
	for range callers {
		wg.Go(func() {
			for {
				id := next.Add(1)
				err := w.Do(context.Background(), func(tx *writer.Tx) error {
					_, err := tx.Exec("INSERT INTO seen VALUES (?)", id)
					return err
				})
				outcomes.Store(id, err)
				if err != nil {
					return
				}
				if done.Add(1) == callers {
					close(enough)
				}
			}
		})
	}
	<-enough
	for range 4 { // idempotent, also beside itself
		wg.Go(func() {
			if err := w.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	wantReadersClosedFirst(t, &seen)
	goleak.VerifyNone(t, ignore)

	stored := make(map[int64]bool)
	if err := writertest.OpenPath(t, path).View(t.Context(), func(rx *writer.Rx) error {
		for row, err := range rx.Query("SELECT id FROM seen") {
			var id int64
			if err := errors.Join(err, row.Scan(&id)); err != nil {
				return err
			}
			stored[id] = true
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for id, outcome := range outcomes.Range {
		err, _ := outcome.(error)
		if stored[id.(int64)] != (err == nil) {
			t.Errorf("transaction %d: stored %t, and its caller was told %v", id, stored[id.(int64)], err)
		}
		if err != nil && !errors.Is(err, writer.ErrClosed) {
			t.Errorf("transaction %d: %v, want ErrClosed", id, err)
		}
	}
}

// wantReadersClosedFirst also checks that a checkpoint came before.
func wantReadersClosedFirst(t *testing.T, seen *transcript) {
	t.Helper()
	var order []bool // read-only?
	for _, e := range seen.all("CLOSE") {
		order = append(order, e.ReadOnly())
	}
	if want := []bool{true, true, false}; !slices.Equal(order, want) {
		t.Errorf("connections were closed in the order %v (true is a reader), want %v", order, want)
	}
	if len(seen.all("CHECKPOINT")) == 0 {
		t.Error("closed without a checkpoint")
	}
}

// TestContract09CloseWaitsForViews: a View that runs keeps its snapshot until its
// end, and the writer still leaves nothing behind.
func TestContract09CloseWaitsForViews(t *testing.T) {
	w := writertest.Open(t)
	bank := writertest.NewBank(t, w, 2, 100)
	inside, goOn := make(chan struct{}), make(chan struct{})
	var viewEnded atomic.Bool
	viewed := make(chan error, 1)
	go func() {
		viewed <- w.View(context.Background(), func(rx *writer.Rx) error {
			var before, after int64
			if err := rx.QueryRow("SELECT balance FROM account WHERE id = 1").Scan(&before); err != nil {
				return err
			}
			close(inside)
			<-goOn
			err := rx.QueryRow("SELECT balance FROM account WHERE id = 1").Scan(&after)
			if before != after {
				t.Errorf("the snapshot moved from %d to %d", before, after)
			}
			viewEnded.Store(true)
			return err
		})
	}()
	<-inside
	if err := bank.Transfer(t.Context(), 1, 2, 10); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Shutdown(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown with a ctx that has ended: %v", err)
	}
	if err := w.Do(t.Context(), func(*writer.Tx) error { return nil }); !errors.Is(err, writer.ErrClosed) {
		t.Errorf("Do during Shutdown: %v", err)
	}
	if err := w.View(t.Context(), func(*writer.Rx) error { return nil }); !errors.Is(err, writer.ErrClosed) {
		t.Errorf("View during Shutdown: %v", err)
	}
	closed := make(chan error, 1)
	go func() {
		err := w.Close()
		if !viewEnded.Load() {
			t.Error("Close returned while a View ran")
		}
		closed <- err
	}()
	close(goOn)
	if err := errors.Join(<-viewed, <-closed); err != nil {
		t.Error(err)
	}
}

// TestContract10InUse: a second writer is refused, whatever name it uses.
func TestContract10InUse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "test.db")
	w := writertest.OpenPath(t, path)
	writertest.NewBank(t, w, 2, 100)
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	linkDir := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(dir, linkDir); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, name := range []string{path, "test.db", "./test.db", link, filepath.Join(linkDir, "test.db"), filepath.Join(linkDir, "link.db")} {
		if second, err := writer.Open(t.Context(), name, writer.Options{}); !errors.Is(err, writer.ErrInUse) {
			t.Errorf("Open(%s): %v, want ErrInUse", name, err)
			if err == nil {
				second.Close()
			}
		}
	}
	c := startChild(t, "open", path)
	c.want("in use: true")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock file after Close: %v", err)
	}
	other := startChild(t, "open", path)
	other.want("open")
	if _, err := writer.Open(t.Context(), link, writer.Options{}); !errors.Is(err, writer.ErrInUse) {
		t.Errorf("Open beside another process: %v, want ErrInUse", err)
	}
	other.stdin.Close()
	other.want("closed: <nil>")
}

// TestContract10LockOfADeadProcess: the lock dies with its process, the file does
// not matter.
func TestContract10LockOfADeadProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	c := startChild(t, "open", path)
	c.want("open")
	c.kill()
	if _, err := os.Stat(path + "-lock"); err != nil {
		t.Fatalf("the killed process left no lock file: %v", err)
	}
	writertest.NewBank(t, writertest.OpenPath(t, path), 2, 100)
}

// TestContract10OneWriterAtATime: of many that open the same file at once, no two
// ever hold it together, although each removes the lock file when it closes.
func TestContract10OneWriterAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	var holders, opened atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				release, err := writer.Lock(path)
				if errors.Is(err, writer.ErrInUse) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock together", n)
				}
				opened.Add(1)
				holders.Add(-1)
				if err := release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if opened.Load() == 0 {
		t.Error("nobody got the lock")
	}
}

// TestContract10LinkToNothing: SQLite would make the file that the link names, and
// its lock file would stand elsewhere from then on.
func TestContract10LinkToNothing(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(filepath.Join(t.TempDir(), "real.db"), link); err != nil {
		t.Fatal(err)
	}
	w, err := writer.Open(t.Context(), link, writer.Options{})
	if err == nil {
		w.Close()
		t.Error("opened through a link to nothing")
	}
}

// TestContract10ReleaseRemovesItsOwn: to release a lock twice, or after somebody
// removed its file, must not take the next holder's away.
func TestContract10ReleaseRemovesItsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	for name, lose := range map[string]func(release func() error) error{
		"Twice":   func(release func() error) error { return release() },
		"Removed": func(func() error) error { return os.Remove(path + "-lock") },
	} {
		first, err := writer.Lock(path)
		if err := errors.Join(err, lose(first)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		second, err := writer.Lock(path)
		if err := errors.Join(err, first()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := writer.Lock(path); !errors.Is(err, writer.ErrInUse) {
			t.Errorf("%s: a third: %v, want ErrInUse while the second holds it", name, err)
		}
		if err := second(); err != nil {
			t.Error(err)
		}
	}
}
