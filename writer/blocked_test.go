package writer_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// pinned holds a reader's snapshot open until release.
func pinned(t *testing.T, w *writer.Writer) (release func()) {
	t.Helper()
	reading, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.View(context.Background(), func(rx *writer.Rx) error {
			err := rx.QueryRow("SELECT count(*) FROM entry").Scan(new(int)) // takes the snapshot
			close(reading)
			<-goOn
			return err
		})
	}()
	<-reading
	return func() {
		t.Helper()
		close(goOn)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestContract19WALBlocked: a reader in the way of checkpoints shows from the first
// that it hinders to the first that it does not.
func TestContract19WALBlocked(t *testing.T) {
	w := openFile(t, filepath.Join(t.TempDir(), "test.db"), writer.Options{Checkpoint: writer.Checkpoint{Off: true}, Readers: 1})
	checkpoint := func(mode sqliteh.Checkpoint, want sqliteh.Code) {
		t.Helper()
		if err := w.Checkpoint(t.Context(), mode); writer.Primary(err) != want {
			t.Errorf("%s: %v, want %s", mode, err, want)
		}
	}
	checkpoint(sqliteh.SQLITE_CHECKPOINT_TRUNCATE, sqliteh.SQLITE_OK)
	release := pinned(t, w)
	do(t, w, insert(1))
	start := writer.Now()
	if s := w.Stats(); s.WALBlocked != 0 {
		t.Errorf("blocked for %v before any checkpoint", s.WALBlocked)
	}
	checkpoint(sqliteh.SQLITE_CHECKPOINT_PASSIVE, sqliteh.SQLITE_OK) // takes what the reader allows
	first := w.Stats()
	checkpoint(sqliteh.SQLITE_CHECKPOINT_RESTART, sqliteh.SQLITE_BUSY)
	second := w.Stats()
	if grown := second.Sub(first).WALBlocked; grown < second.CheckpointTime-first.CheckpointTime {
		t.Errorf("blocked for %v more after a checkpoint that waited for %v", grown, second.CheckpointTime-first.CheckpointTime)
	}
	release()
	if s := w.Stats(); s.WALBlocked <= second.WALBlocked {
		t.Errorf("no checkpoint has shown yet that the reader is gone, but the time stands at %v", s.WALBlocked)
	}
	checkpoint(sqliteh.SQLITE_CHECKPOINT_TRUNCATE, sqliteh.SQLITE_OK)
	over := w.Stats()
	if most := writer.Now() - start; int64(over.WALBlocked) > most || over.WALPending != 0 {
		t.Errorf("blocked for %v in %d ns, %d bytes pending", over.WALBlocked, most, over.WALPending)
	}
	do(t, w, insert(2))
	checkpoint(sqliteh.SQLITE_CHECKPOINT_PASSIVE, sqliteh.SQLITE_OK)
	if s := w.Stats(); s.WALBlocked != over.WALBlocked {
		t.Errorf("it grew from %v to %v without a reader", over.WALBlocked, s.WALBlocked)
	}
}

// TestContract19HinderedFromOutside: a checkpoint that another process's kept from
// learning anything of the log is hindered all the same.
func TestContract19HinderedFromOutside(t *testing.T) {
	faults := &writertest.Faults{}
	w := openTest(t, writer.Options{Open: faults.Open, Checkpoint: writer.Checkpoint{Off: true}})
	faults.Add(writertest.Rule{SQL: "CHECKPOINT", Code: sqliteh.SQLITE_BUSY, Effect: writertest.Leave})
	if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_PASSIVE); writer.Primary(err) != sqliteh.SQLITE_BUSY {
		t.Fatal(err)
	}
	during := w.Stats().WALBlocked
	if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_PASSIVE); err != nil {
		t.Fatal(err)
	}
	after := w.Stats().WALBlocked
	if during <= 0 || after < during || w.Stats().WALBlocked != after {
		t.Errorf("blocked for %v while it was, %v and then %v afterwards", during, after, w.Stats().WALBlocked)
	}
}

// TestContract19Checkpointing: a request that waited while the writer was held by a
// checkpoint says for how long; one that came afterwards does not.
func TestContract19Checkpointing(t *testing.T) {
	w := openTest(t, writer.Options{Checkpoint: writer.Checkpoint{Off: true}})
	call := func(tm *writer.Timing) error {
		return w.DoCall(context.Background(), writer.Call{Fn: insert(int(writer.Now())), Timing: tm})
	}
	var before, behind, after writer.Timing
	release := hold(t, w)
	l := line{t: t, w: w}
	l.queue(func() error { return call(&before) })
	l.queue(func() error { return w.Checkpoint(context.Background(), sqliteh.SQLITE_CHECKPOINT_PASSIVE) })
	l.queue(func() error { return call(&behind) })
	held := w.Stats()
	release()
	for _, err := range l.wait() {
		if err != nil {
			t.Error(err)
		}
	}
	fence(t, w)
	took := w.Stats().Sub(held).CheckpointTime
	if err := call(&after); err != nil {
		t.Error(err)
	}
	if before.Checkpointing != 0 || after.Checkpointing != 0 {
		t.Errorf("%d ns of checkpoints before any, %d after all", before.Checkpointing, after.Checkpointing)
	}
	if behind.Checkpointing != int64(took) || behind.Checkpointing > behind.Begun-behind.Accepted {
		t.Errorf("%d ns of a checkpoint that took %v, in %+v", behind.Checkpointing, took, behind)
	}
}
