package writer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/writeback"
	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// store returns a function that inserts a row of 100,000 bytes.
func store(id int64) func(*writer.Tx) error {
	return execSQL("INSERT INTO heap VALUES (?, randomblob(100000))", id)
}

func heapTable(c *writer.Conn) error {
	_, err := c.Exec("CREATE TABLE IF NOT EXISTS heap (id INTEGER PRIMARY KEY, b BLOB)")
	return err
}

// heapIDs returns the ids in the table heap.
func heapIDs(t *testing.T, w *writer.Writer) map[int64]bool {
	t.Helper()
	ids := make(map[int64]bool)
	if err := w.View(context.Background(), func(rx *writer.Rx) error {
		for row, err := range rx.Query("SELECT id FROM heap") {
			var id int64
			if err := errors.Join(err, row.Scan(&id)); err != nil {
				return err
			}
			ids[id] = true
		}
		return nil
	}); err != nil {
		t.Fatalf("reading with a full disk: %v", err)
	}
	return ids
}

// A writer's large COMMIT does not leave all of its writing to the sync.
func TestLargeCommitBeginsBeforeItsSync(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the disk can be told to begin on Linux only")
	}
	w := writertest.Open(t, writer.Options{Init: heapTable})
	before := writeback.Begun()
	if err := w.Do(t.Context(), func(tx *writer.Tx) error {
		return errors.Join(store(1)(tx), store(2)(tx), store(3)(tx), store(4)(tx), store(5)(tx))
	}); err != nil {
		t.Fatal(err)
	}
	if writeback.Begun() == before {
		t.Error("half a megabyte waited for the sync")
	}
}

// TestContract04FullUnderLoad: many callers fill a database up to its page limit.
// What was acknowledged is there, what was not is not, and with more room all goes
// on.
func TestContract04FullUnderLoad(t *testing.T) {
	w := writertest.Open(t, writer.Options{Init: heapTable})
	bank := writertest.NewBank(t, w, 2, 100)
	limit := func(pages int) {
		t.Helper()
		if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
			return c.QueryRow("PRAGMA max_page_count = " + strconv.Itoa(pages)).Scan(new(int))
		}); err != nil {
			t.Fatal(err)
		}
	}
	limit(200)
	var wg sync.WaitGroup
	var next, failures atomic.Int64
	var acknowledged sync.Map
	for range 8 {
		wg.Go(func() {
			for failures.Load() < 20 {
				id := next.Add(1)
				err := w.Do(context.Background(), store(id))
				switch be, ok := errors.AsType[*writer.BatchError](err); {
				case err == nil:
					acknowledged.Store(id, true)
				case !ok || be.Op != "abort" || be.InDoubt || writer.Primary(err) != sqliteh.SQLITE_FULL:
					t.Errorf("got %v, want an abort with SQLITE_FULL", err)
					return
				default:
					failures.Add(1)
				}
			}
		})
	}
	wg.Wait()
	ids := heapIDs(t, w)
	for id := range next.Load() + 1 {
		if _, ok := acknowledged.Load(id); ok != ids[id] {
			t.Errorf("row %d: acknowledged %t, stored %t", id, ok, ids[id])
		}
	}
	if len(ids) == 0 {
		t.Error("nothing was stored before the database was full")
	}
	if err := bank.Transfer(t.Context(), 1, 2, 10); err != nil {
		t.Errorf("a transaction that needs no room: %v", err)
	}
	limit(10_000)
	if err := w.Do(t.Context(), store(next.Add(1))); err != nil {
		t.Errorf("with more room: %v", err)
	}
}

// TestContract07DiskFull fills a small file system for real: the WAL cannot grow,
// so COMMIT fails. Nothing that was acknowledged is lost, and once there is room
// the same writer goes on.
func TestContract07DiskFull(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "test.db")
	w := writertest.OpenPath(t, path, writer.Options{Init: heapTable})
	bank := writertest.NewBank(t, w, 2, 100)
	if err := w.Do(t.Context(), store(1)); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	fillDisk(t, ballast)

	acknowledged, doubtful := map[int64]bool{1: true}, map[int64]bool{}
	for id := int64(2); len(doubtful) < 3; id++ {
		if id > 1000 {
			t.Fatal("a full disk took 1000 rows of 100,000 bytes")
		}
		err := w.Do(t.Context(), store(id))
		if err == nil {
			acknowledged[id] = true // there was room in the WAL left to use again
			continue
		}
		if be := wantBatchError(t, "a full disk", err, "commit", sqliteh.SQLITE_FULL, false); !be.InDoubt {
			t.Errorf("COMMIT on a full disk is not in doubt: %v", err)
		}
		doubtful[id] = true
	}
	check := func() {
		t.Helper()
		ids := heapIDs(t, w)
		for id := range acknowledged {
			if !ids[id] {
				t.Errorf("row %d was acknowledged and is lost", id)
			}
		}
		for id := range ids {
			if !acknowledged[id] && !doubtful[id] {
				t.Errorf("row %d came from nowhere", id)
			}
		}
		if total, err := bank.Total(t.Context()); total != bank.Sum || err != nil {
			t.Errorf("the total is %d (%v), want %d", total, err, bank.Sum)
		}
	}
	check()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := w.Do(t.Context(), store(2000)); err != nil {
		t.Errorf("once there is room: %v", err)
	}
	acknowledged[2000] = true
	if err := bank.Transfer(t.Context(), 1, 2, 10); err != nil {
		t.Errorf("once there is room: %v", err)
	}
	check()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = writertest.OpenPath(t, path)
	bank.W = w
	check()
}

// TestContract07DiskFullAtClose: a disk that is full when the writer closes leaves
// the data in the WAL, and the next Open finds it there.
func TestContract07DiskFullAtClose(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "test.db")
	w, err := writer.Open(t.Context(), path, writer.Options{Init: heapTable, Checkpoint: writer.Checkpoint{Off: true}})
	if err != nil {
		t.Fatal(err)
	}
	for id := range int64(5) {
		if err := w.Do(t.Context(), store(id)); err != nil {
			t.Fatal(err)
		}
	}
	ballast := filepath.Join(dir, "ballast")
	fillDisk(t, ballast)
	if err := w.Close(); err != nil && writer.Primary(err) != sqliteh.SQLITE_FULL {
		t.Errorf("Close: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if ids := heapIDs(t, writertest.OpenPath(t, path)); len(ids) != 5 {
		t.Errorf("found %v, want five rows", ids)
	}
}

// smallDisk returns the folder of a file system of 4 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fillDisk writes to a file until its file system is full.
func fillDisk(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := bytes.Repeat([]byte{1}, 4096)
	for n := 0; ; n++ {
		if _, err := f.Write(block); err != nil {
			return
		}
		if n > 1<<20 {
			t.Fatal("the disk does not become full")
		}
	}
}
