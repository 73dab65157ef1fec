package writer_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// exclusive runs statements between two batches.
func exclusive(t *testing.T, w *writer.Writer, statements ...string) {
	t.Helper()
	if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
		for _, sql := range statements {
			if _, err := c.Exec(sql); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Errorf("%q: %v", statements, err)
	}
}

// TestContract19WALBytes compares what the statistics say was written to the WAL
// with the file, where SQLite starts the WAL anew and where a reader keeps it from
// that, with a commit that is larger than all the log held before.
func TestContract19WALBytes(t *testing.T) {
	for _, reader := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "test.db")
		w := openFile(t, path, writer.Options{Checkpoint: writer.Checkpoint{Off: true}, Readers: 1})
		if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_TRUNCATE); err != nil {
			t.Fatal(err)
		}
		do(t, w, insert(1))
		fence(t, w)
		first, before := walSize(t, path), w.Stats()
		write := func() {
			if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_PASSIVE); err != nil {
				t.Fatal(err)
			}
			do(t, w, func(tx *writer.Tx) error {
				return second(tx.Exec("INSERT INTO entry(note) VALUES (zeroblob(100000))"))
			})
			fence(t, w)
		}
		want := int64(0)
		if reader {
			if err := w.View(t.Context(), func(rx *writer.Rx) error {
				err := rx.QueryRow("SELECT count(*) FROM entry").Scan(new(int)) // takes the snapshot
				write()
				return err
			}); err != nil {
				t.Fatal(err)
			}
			want = walSize(t, path) - first
		} else {
			write()
			want = walSize(t, path) - 32 // the header, and nothing of the old log
		}
		s := w.Stats()
		if got := int64(s.WALBytes - before.WALBytes); got != want || int64(s.WALPending) != want {
			t.Errorf("with a reader %t: %d bytes were written and %d are pending, want %d", reader, got, s.WALPending, want)
		}
		if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_PASSIVE); err != nil {
			t.Fatal(err)
		}
		if got := int64(w.Stats().Sub(s).CheckpointPages) * walFrame; got != want {
			t.Errorf("with a reader %t: the checkpoint moved %d bytes, want %d", reader, got, want)
		}
	}
}

// TestContract11IdleLeavesNothing: each small batch is checkpointed, although each
// leaves a log as long as the one before.
func TestContract11IdleLeavesNothing(t *testing.T) {
	w := openTest(t, writer.Options{Checkpoint: writer.Checkpoint{Idle: true}})
	// A request in the queue would put the checkpoint off, so nothing is sent
	// before it has run.
	checkpoints := func(n uint64) {
		for deadline := time.Now().Add(time.Minute); w.Stats().Checkpoints < n; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("checkpoint %d did not come: %+v", n, w.Stats())
			}
		}
	}
	do(t, w, insert(1))
	checkpoints(1)
	fence(t, w)
	before := w.Stats()
	for i := range 10 {
		do(t, w, func(tx *writer.Tx) error { return second(tx.Exec("UPDATE entry SET note = ?", i)) })
		checkpoints(before.Checkpoints + uint64(i) + 1)
	}
	fence(t, w)
	if got := w.Stats().Sub(before); got.WALPending != 0 || got.Checkpoints != 10 || got.CheckpointPages != 10 || got.WALBytes != 10*walFrame {
		t.Errorf("got %+v, want ten pages in ten checkpoints", got)
	}
}

// TestContract11LimitInBytes: a limit in bytes is so many pages of whatever size the
// database has, at least one; one in pages goes first.
func TestContract11LimitInBytes(t *testing.T) {
	for _, size := range []int64{1024, 8192} {
		for policy, pages := range map[writer.Checkpoint]uint64{
			{Bytes: 3*size + size/2}:              3,
			{Bytes: 1}:                            1,
			{Bytes: size, Pages: 2}:               2,
			{Bytes: math.MaxInt64}:                0,
			{Bytes: 1, Off: true}:                 0,
			{Bytes: 2 * size, Pages: math.MaxInt}: 0,
		} {
			w := openTest(t, writer.Options{Checkpoint: policy, Pragmas: map[string]string{"page_size": fmt.Sprint(size)}})
			if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_TRUNCATE); err != nil {
				t.Fatal(err)
			}
			before, first := w.Stats(), uint64(0)
			for n := range uint64(6) { // a page each
				do(t, w, insert(int(n)))
				fence(t, w)
				if first == 0 && w.Stats().Checkpoints > before.Checkpoints {
					first = n + 1
				}
			}
			if first != pages {
				t.Errorf("%+v with pages of %d: the first checkpoint came at %d pages, want %d (0: none)", policy, size, first, pages)
			}
		}
	}
}

// filled writes commits of about ten pages each until n more checkpoints were tried
// and returns how many pages of the log each had to move, or 0 if readers hindered it.
func filled(t *testing.T, w *writer.Writer, n int) (moved []int) {
	t.Helper()
	for before := w.Stats(); len(moved) < n; {
		do(t, w, func(tx *writer.Tx) error {
			return second(tx.Exec("INSERT INTO entry(note) VALUES (zeroblob(40000))"))
		})
		fence(t, w)
		if s := w.Stats(); s.Checkpoints > before.Checkpoints {
			moved = append(moved, int(s.CheckpointPages-before.CheckpointPages))
			before = s
		}
	}
	return moved
}

// TestContract11LimitFollowsStall: the limit grows while checkpoints are shorter than
// they may be, and shrinks when they are longer. Nothing else changes it: not what
// Exclusive may have changed besides, nor a checkpoint that is no part of the policy.
func TestContract11LimitFollowsStall(t *testing.T) {
	for name, test := range map[string]struct {
		policy writer.Checkpoint
		limits []int
	}{
		"cheap":       {writer.Checkpoint{Pages: 2000, Stall: time.Hour}, []int{500, 625, 781, 976}},
		"dear":        {writer.Checkpoint{Pages: 2400, Stall: 1}, []int{600, 300, 250, 250}},
		"dear, bytes": {writer.Checkpoint{Bytes: 2400 * 4096, Stall: 1}, []int{600, 300, 250, 250}},
		"dear, mode":  {writer.Checkpoint{Pages: 2400, Stall: 1, Mode: sqliteh.SQLITE_CHECKPOINT_TRUNCATE}, []int{600, 300, 250}},
		"few":         {writer.Checkpoint{Pages: 50, Stall: 1}, []int{50, 50, 50}},
		"fixed":       {writer.Checkpoint{Pages: 300}, []int{300, 300, 300}},
	} {
		w := openTest(t, writer.Options{Checkpoint: test.policy, Pragmas: map[string]string{"synchronous": "off"}})
		if test.policy.Mode == sqliteh.SQLITE_CHECKPOINT_PASSIVE {
			do(t, w, insert(1))
			if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_TRUNCATE); err != nil {
				t.Fatal(err)
			}
		}
		for i, limit := range test.limits {
			if got := filled(t, w, 1)[0]; got < limit || got > limit+30 {
				t.Errorf("%s: checkpoint %d moved %d pages, with a limit of %d", name, i, got, limit)
			}
			exclusive(t, w, "PRAGMA query_only = on")
		}
	}
}

// TestContract11ReadersTeachNothing: what a reader hindered does not tell what pages
// cost, and however small the limit has become, waiting for readers begins at four
// times the most that it may be.
func TestContract11ReadersTeachNothing(t *testing.T) {
	var restarts atomic.Int32
	faults := &writertest.Faults{Before: func(e writertest.Event) {
		if e.SQL == "CHECKPOINT RESTART" {
			restarts.Add(1)
		}
	}}
	w := openTest(t, writer.Options{
		Open: faults.Open, Readers: 1, Checkpoint: writer.Checkpoint{Pages: 800, Stall: 1},
		Pragmas: map[string]string{"synchronous": "off"},
	})
	filled(t, w, 1) // and the limit is at its least, 250
	release := pinned(t, w)
	before := w.Stats().WALBytes
	pages := func() int { return int(w.Stats().WALBytes-before) / walFrame }
	for n := 1; restarts.Load() == 0; n++ {
		filled(t, w, 1)
		if got := pages(); restarts.Load() == 0 && (got < n*250 || got > n*280 || got > 4*800) {
			t.Fatalf("checkpoint %d came at %d pages", n, got)
		}
	}
	if got := pages(); got < 4*800-30 || got > 4*800+30 {
		t.Errorf("the first RESTART came at %d pages, want %d", got, 4*800)
	}
	release()
}

// TestContract11NeverIsNotAlways: a limit that no WAL reaches.
func TestContract11NeverIsNotAlways(t *testing.T) {
	w := openTest(t, writer.Options{Checkpoint: writer.Checkpoint{Pages: math.MaxInt}})
	do(t, w, insert(1))
	fence(t, w)
	if n := w.Stats().Checkpoints; n != 0 {
		t.Errorf("%d checkpoints of a small WAL", n)
	}
}

// TestContract11AutomaticCheckpointStaysOff: a PRAGMA in Exclusive cannot bring
// SQLite's own checkpoint back, or leave the writer without its patience.
func TestContract11AutomaticCheckpointStaysOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	w := openFile(t, path, writer.Options{Checkpoint: writer.Checkpoint{Off: true}})
	for _, sql := range []string{
		"PRAGMA wal_autocheckpoint = 1", "PRAGMA busy_timeout = 1", "PRAGMA query_only = on", "PRAGMA locking_mode = exclusive",
	} {
		exclusive(t, w, sql)
		before := w.Stats()
		for i := range 3 {
			do(t, w, func(tx *writer.Tx) error { return second(tx.Exec("INSERT INTO entry(note) VALUES (?)", i)) })
		}
		fence(t, w)
		if got := w.Stats().Sub(before).WALBytes; got < 3*walFrame {
			t.Errorf("after %s %d bytes of WAL were counted for three commits", sql, got)
		}
	}
	if pending, size := int64(w.Stats().WALPending), walSize(t, path)-32; pending != size {
		t.Errorf("%d bytes are pending of a log of %d that nobody checkpoints", pending, size)
	}
	if err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
		for name, want := range map[string]string{
			"wal_autocheckpoint": "0", "busy_timeout": "5000", "query_only": "0", "locking_mode": "normal",
		} {
			var got string
			if err := c.QueryRow("PRAGMA " + name).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s (%v), want %s", name, got, err, want)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestContract11AttachedDatabase: what is written to a database that Exclusive has
// attached says nothing about the writer's own log.
func TestContract11AttachedDatabase(t *testing.T) {
	w := openTest(t, writer.Options{Checkpoint: writer.Checkpoint{Off: true}})
	do(t, w, insert(1))
	fence(t, w)
	before := w.Stats()
	exclusive(t, w, "ATTACH '"+filepath.Join(t.TempDir(), "other.db")+"' AS other", "PRAGMA other.journal_mode = wal",
		"CREATE TABLE other.heap (b BLOB)", "INSERT INTO other.heap VALUES (zeroblob(100000))", "DETACH other")
	after := w.Stats()
	if after.WALBytes != before.WALBytes || after.WALPending != before.WALPending {
		t.Errorf("the statistics went from %+v to %+v", before, after)
	}
}

// TestContract07ExclusiveCommitFails: a commit is a commit wherever it runs.
func TestContract07ExclusiveCommitFails(t *testing.T) {
	for name, statements := range map[string][]string{
		"Commit":     {"BEGIN", "UPDATE account SET balance = balance + 5 WHERE id = 1", "COMMIT"},
		"Autocommit": {"UPDATE account SET balance = balance + 5 WHERE id = 1"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := &writertest.Faults{}
			path := filepath.Join(t.TempDir(), "test.db")
			w := writertest.OpenPath(t, path, writer.Options{Open: faults.Open})
			writertest.NewBank(t, w, 2, 100)
			faults.Add(writertest.Rule{SQL: statements[len(statements)-1], Code: sqliteh.SQLITE_IOERR_FSYNC})
			err := w.Exclusive(context.Background(), func(c *writer.Conn) error {
				for _, sql := range statements {
					c.Exec(sql) // fn may well drop the error
				}
				return nil
			})
			if err != nil || faults.Injected() != 1 {
				t.Fatalf("Exclusive: %v, with %d faults", err, faults.Injected())
			}
			wantStopped(t, w, path)
		})
	}
}
