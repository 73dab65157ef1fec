package writer_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
)

// gauges are the fields of Stats that may shrink.
var gauges = map[string]bool{"WALPending": true, "Queued": true, "OldestWait": true, "Holder": true, "HolderHeldBy": true}

// counters calls fn with every counter of s.
func counters(s writer.Stats, fn func(name string, n int64)) {
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch {
		case gauges[name]:
		case f.Kind() == reflect.Array:
			for j := range f.Len() {
				fn(name, int64(f.Index(j).Uint()))
			}
		case f.CanUint():
			fn(name, int64(f.Uint()))
		default:
			fn(name, f.Int())
		}
	}
}

func TestContract19CountersOnlyGrow(t *testing.T) {
	w := openTest(t, writer.Options{MaxBatch: 10, Pragmas: noSync, Checkpoint: writer.Checkpoint{Pages: 3}})
	work := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for i := range 20 {
				w.Do(context.Background(), func(tx *writer.Tx) error {
					switch err := insert(g*20 + i)(tx); {
					case i%3 == 0:
						return errOwn
					case i%10 == 1:
						_, err = tx.Exec("INSERT OR ROLLBACK INTO entry(id) VALUES (?)", g*20+i)
						return err
					default:
						return err
					}
				})
			}
		})
	}
	go func() { wg.Wait(); close(work) }()
	for last, done := w.Stats(), false; !done; {
		select {
		case <-work:
			done = true
		default:
		}
		now := w.Stats()
		counters(now.Sub(last), func(name string, n int64) {
			if n < 0 {
				t.Errorf("%s fell by %d", name, -n)
			}
		})
		last = now
	}
	s := w.Stats()
	if s.RolledBack == 0 || s.FailedBatches == 0 || s.Checkpoints == 0 {
		t.Errorf("the work was meant to fail in places and to checkpoint: %+v", s)
	}
}

func TestContract19WhatIsCounted(t *testing.T) {
	w := openTest(t, writer.Options{})
	flush := func() writer.Stats { // a batch is counted after its callers were woken
		t.Helper()
		if err := w.Exclusive(t.Context(), func(c *writer.Conn) error { return c.QueryRow("SELECT 1").Scan() }); err != nil {
			t.Fatal(err)
		}
		return w.Stats()
	}
	before := flush()
	release := hold(t, w)
	l := line{t: t, w: w}
	l.add(insert(1))
	l.add(func(tx *writer.Tx) error { return errors.Join(insert(2)(tx), errOwn) })
	l.add(func(tx *writer.Tx) error {
		for _, err := range tx.Query("VALUES (1), (2), (3)") { // one statement, however many rows
			if err != nil {
				return err
			}
		}
		return nil
	})
	if s := w.Stats(); s.Queued != 3 || s.OldestWait <= 0 {
		t.Errorf("Queued is %d and OldestWait %v, want 3 and more than 0", s.Queued, s.OldestWait)
	}
	release()
	l.wait()
	do(t, w, insert(4))
	s := flush().Sub(before)
	if s.Batches != 2 || s.Commits != 2 || s.FailedBatches != 0 || s.Transactions != 4 || s.RolledBack != 1 || s.Statements != 4 {
		t.Errorf("got %+v, want 2 batches, 2 commits, 4 transactions, 1 rolled back, 4 statements", s)
	}
	if s.BatchSizes.Count() != 2 || s.BatchSizes.Quantile(1) != 3 || s.BatchSizes.Quantile(0.5) != 1 {
		t.Errorf("batch sizes are %v, want 1 and 3", s.BatchSizes)
	}
	if s.WALBytes == 0 || s.WALPending == 0 || s.BusyTime < s.CommitTime || s.CommitTime <= 0 {
		t.Errorf("got %+v, want WAL bytes, and a busy time that contains the commit time", s)
	}
	if s.Queued != 0 || s.OldestWait != 0 {
		t.Errorf("Queued is %d and OldestWait %v with an empty queue", s.Queued, s.OldestWait)
	}
	if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_TRUNCATE); err != nil {
		t.Fatal(err)
	}
	if after := w.Stats().Sub(before); after.Checkpoints != 1 || after.CheckpointPages == 0 || after.WALPending != 0 {
		t.Errorf("after a checkpoint: %+v", after)
	}
}

// Without savepoints a function that fails alone is undone by rolling its batch
// back: that is neither a commit nor a failed batch.
func TestContract19RolledBackIsNotCommitted(t *testing.T) {
	w := openTest(t, writer.Options{Savepoints: writer.SavepointNone})
	do(t, w, func(tx *writer.Tx) error { return insert(1)(tx) })
	do(t, w, func(*writer.Tx) error { return errOwn }, errOwn)
	if err := w.Exclusive(t.Context(), func(*writer.Conn) error { return nil }); err != nil { // a batch is counted after its callers were woken
		t.Fatal(err)
	}
	if s := w.Stats(); s.Batches != 2 || s.Commits != 1 || s.FailedBatches != 0 || s.RolledBack != 1 {
		t.Errorf("got %+v, want two batches, one committed", s)
	}
}

func TestContract19SubIsTheDifference(t *testing.T) {
	grown := func(by uint64) (s writer.Stats) {
		v := reflect.ValueOf(&s).Elem()
		for i := range v.NumField() {
			switch f := v.Field(i); {
			case f.Kind() == reflect.Array:
				for j := range f.Len() {
					f.Index(j).SetUint(uint64(j) + by)
				}
			case f.CanUint():
				f.SetUint(uint64(i) + by)
			case f.CanInt():
				f.SetInt(int64(i) + int64(by))
			}
		}
		return s
	}
	later, earlier := grown(10), grown(3)
	difference := later.Sub(earlier)
	counters(difference, func(name string, n int64) {
		if n != 7 {
			t.Errorf("%s: the difference is %d, want 7", name, n)
		}
	})
	if difference.Queued != later.Queued || difference.WALPending != later.WALPending || difference.OldestWait != later.OldestWait {
		t.Errorf("gauges are %+v, want the later ones", difference)
	}
}
