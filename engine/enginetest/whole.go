package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tpssim/tpssim/engine"
)

// balances: Balances reads what View reads, however the ids lie.
func (s *suite) balances(t *testing.T) {
	b := s.start(t, engine.Needs{})
	for id := int64(1); id < 100; id += 3 { // so that neighbours differ
		b.add(id, id)
	}
	all := b.read(s.every(1))
	for _, id := range []int64{1, 2, 4, 97, s.spec.Rows} {
		if got := b.balance(id); got != all[id-1] {
			t.Errorf("account %d: Balances reads %d, View %d", id, all[id-1], got)
		}
	}
	for name, ids := range map[string][]int64{
		"none": {}, "first": {1}, "last": {s.spec.Rows}, "ends": {1, s.spec.Rows},
		"every second": s.every(2), "every seventh": s.every(7), "gaps to 9": s.some(9), "gaps to 90": s.some(90),
	} {
		var most atomic.Int64
		got := make([]int64, len(ids))
		if err := b.Balances(t.Context(), ids, got, func(done int) {
			for old := most.Load(); int64(done) > old && !most.CompareAndSwap(old, int64(done)); old = most.Load() {
			}
		}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if int(most.Load()) != len(ids) {
			t.Errorf("%s: progress reached %d of %d", name, most.Load(), len(ids))
		}
		for i, id := range ids {
			if got[i] != all[id-1] {
				t.Errorf("%s: account %d reads %d, among all of them %d", name, id, got[i], all[id-1])
				break
			}
		}
	}
}

// missingBalances: an account that is not there is not read as anything.
func (s *suite) missingBalances(t *testing.T) {
	b := s.start(t, engine.Needs{})
	n := s.spec.Rows
	for _, ids := range [][]int64{{0}, {n + 1}, {0, 1}, {n, n + 1}, {1, n + 100}, {-5, 1, n}, {math.MaxInt64}} {
		if err := b.Balances(t.Context(), ids, make([]int64, len(ids)), nil); !errors.Is(err, engine.ErrNoAccount) {
			t.Errorf("Balances of %v: %v, want ErrNoAccount", ids, err)
		}
	}
	b.add(1, 0) // the engine goes on
}

// settings: they make sense and stay what they are.
func (s *suite) settings(t *testing.T) {
	b := s.start(t, engine.Needs{})
	got := b.Settings()
	for name, n := range map[string]int64{
		"PageSize": got.PageSize, "MmapSize": got.MmapSize, "MaxBatch": int64(got.MaxBatch),
		"BatchWindow": int64(got.BatchWindow), "Queue": int64(got.Queue), "Readers": int64(got.Readers),
	} {
		if n < 0 {
			t.Errorf("%s is %d", name, n)
		}
	}
	if got.Synchronous == "" {
		t.Error("Synchronous is empty: a result must say how durable it is")
	}
	b.add(1, 0)
	if again := b.Settings(); again != got {
		t.Errorf("the settings changed from %+v to %+v", got, again)
	}
}

// needs: what a scenario asks for is in force.
func (s *suite) needs(t *testing.T) {
	b := s.start(t, engine.Needs{MaxBatch: 1, Savepoints: "none"})
	if got := b.Settings(); got.MaxBatch > 1 || got.Savepoints != "" && got.Savepoints != "none" {
		t.Errorf("batches of 1 without savepoints were asked for, the settings are %+v", got)
	}
	stats := observe(b)
	check := b.unchanged(1)
	if err := b.Update(t.Context(), nil, func(tx engine.Tx) error {
		if err := tx.Add(1, 1); err != nil {
			return err
		}
		return errOwn
	}); err == nil {
		t.Error("a failed transaction returned nil")
	}
	check()
	b.add(1, 0)
	if got := stats(); got.BatchQuantile(1) > 1 {
		t.Errorf("a batch held %d transactions", got.BatchQuantile(1))
	}
}

// observe: an interval holds what happened in it and nothing else.
func (s *suite) observe(t *testing.T) {
	b := s.start(t, engine.Needs{})
	b.add(1, 0)
	if err := b.Quiet(t.Context()); err != nil { // else it may count to the interval
		t.Fatal(err)
	}
	whole := observe(b)
	const good, bad = 7, 3
	for range good {
		b.add(1, 1)
	}
	for range bad {
		err := b.Update(t.Context(), nil, func(tx engine.Tx) error {
			if err := tx.Add(1, 1); err != nil {
				return err
			}
			return errOwn
		})
		if err != errOwn {
			t.Fatal(err)
		}
	}
	got := b.quiet(whole)
	// A failure may share its COMMIT with others or, alone in its batch, have one.
	if got.Commits < 1 || got.Commits > good+bad || got.Batches < got.Commits || got.RolledBack != bad {
		t.Errorf("%d good and %d bad transactions were observed as %+v", good, bad, got)
	}
	if got.Busy <= 0 || got.BatchMean() < 1 || got.BatchQuantile(1) < 1 || got.BatchQuantile(0.5) < 1 || got.BatchQuantile(0.5) > got.BatchQuantile(1) {
		t.Errorf("implausible: %+v", got)
	}
	var counted int64
	last := int64(0)
	for _, bucket := range got.BatchSizes {
		if bucket.Count <= 0 || bucket.Upto <= last {
			t.Errorf("the batch sizes are %v", got.BatchSizes)
		}
		counted, last = counted+bucket.Count, bucket.Upto
	}
	if counted != got.Batches || last != got.BatchQuantile(1) {
		t.Errorf("%d batches of up to %d are told as %v", got.Batches, got.BatchQuantile(1), got.BatchSizes)
	}
	if got.Queued != 0 || got.OldestWait != 0 {
		t.Errorf("nobody waits, observed was %+v", got)
	}
	idle := b.quiet(observe(b))
	if idle.Batches != 0 || idle.Commits != 0 || idle.RolledBack != 0 || idle.Busy != 0 || idle.WALBytes != 0 {
		t.Errorf("nothing happened, observed was %+v", idle)
	}
	b.add(1, 0)
	if later := b.quiet(whole); later.Commits != got.Commits+1 {
		t.Errorf("an interval that goes on counts %d commits, want %d", later.Commits, got.Commits+1)
	}
	if err := b.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pending := whole().WALPending; pending != 0 {
		t.Errorf("%d bytes are pending after Settle", pending)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Quiet(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Quiet with a context that had ended: %v", err)
	}
}

// observeWaiting: an interval can be looked at while a transaction runs and another
// one waits for it, which it tells.
func (s *suite) observeWaiting(t *testing.T) {
	b := s.start(t, engine.Needs{})
	interval := observe(b)
	entered, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 2)
	go func() {
		done <- b.Update(context.Background(), nil, func(engine.Tx) error {
			close(entered)
			<-release
			return nil
		})
	}()
	<-entered
	go func() {
		done <- b.Update(context.Background(), nil, func(tx engine.Tx) error { return tx.Add(1, 0) })
	}()
	for interval().Queued != 1 { // forever if it is never told
		runtime.Gosched()
	}
	close(release)
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
	if got := b.quiet(interval); got.Queued != 0 || got.Commits < 1 {
		t.Errorf("afterwards: %+v", got)
	}
}

// foreignWrites: nothing that the engine does itself counts as foreign.
func (s *suite) foreignWrites(t *testing.T) {
	b := s.start(t, engine.Needs{})
	steps := []struct {
		name string
		do   func() error
	}{
		{"nothing", func() error { return nil }},
		{"Update", func() error { b.add(1, 0); return nil }},
		{"View", func() error { b.balance(1); return nil }},
		{"Balances", func() error { b.read(s.every(5)); return nil }},
		{"Settle", func() error { return b.Settle(t.Context()) }},
		{"Reset", func() error { return b.Reset(t.Context()) }},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if foreign, err := b.ForeignWrites(t.Context()); foreign || err != nil {
			t.Errorf("after %s: ForeignWrites = %v, %v", step.name, foreign, err)
		}
	}
}

// classify: errors have short names, the same for every engine and every time.
func (s *suite) classify(t *testing.T) {
	b := s.start(t, engine.Needs{})
	panicked := b.Update(t.Context(), nil, func(engine.Tx) error { panic("enginetest: on purpose") })
	for _, tt := range []struct {
		err  error
		want string
	}{
		{panicked, "panic"},
		{context.Canceled, "cancelled"},
		{context.DeadlineExceeded, "deadline"},
		{engine.ErrNoAccount, "no account"},
		{engine.ErrStopped, "stopped"},
		{errOwn, "error"},
		{errors.Join(context.Canceled, engine.ErrNoAccount), "cancelled"}, // two fit: always the same
	} {
		for range 20 {
			if got := b.Classify(fmt.Errorf("wrapped: %w", tt.err)); got != tt.want {
				t.Errorf("%v is classified as %q, want %q", tt.err, got, tt.want)
				break
			}
		}
		if len(strings.Fields(tt.want)) > 2 {
			t.Errorf("class %q is longer than two words", tt.want)
		}
		if _, doubt := b.InDoubt(tt.err); doubt {
			t.Errorf("%v is in doubt", tt.err)
		}
	}
	if _, doubt := b.InDoubt(nil); doubt {
		t.Error("no error is in doubt")
	}
}

// closes: of several Close at once each returns when the engine is closed.
func (s *suite) closes(t *testing.T) {
	b := s.start(t, engine.Needs{})
	b.add(1, 5)
	want := b.balance(1)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			b.Stats()
			if err := b.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			b.Settings()
			if err := b.Update(t.Context(), nil, func(engine.Tx) error { return nil }); err == nil || b.Classify(err) != "closed" {
				t.Errorf("Update after Close: %v", err)
			}
		})
	}
	group.Wait()
	if got := s.start(t, engine.Needs{}).balance(1); got != want {
		t.Errorf("the account holds %d after it was opened again, want %d", got, want)
	}
}

// close: afterwards nothing runs, a second Close is harmless, and the data set can
// be opened again at once and holds what was committed.
func (s *suite) close(t *testing.T) {
	b := s.start(t, engine.Needs{})
	b.add(1, 5)
	want := b.balance(1)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := b.Update(t.Context(), nil, func(engine.Tx) error { t.Error("Update ran its function"); return nil }); err == nil {
		t.Error("Update returned nil after Close")
	} else if class := b.Classify(err); class != "closed" {
		t.Errorf("Update after Close is classified as %q", class)
	}
	if err := b.View(t.Context(), func(engine.Rx) error { t.Error("View ran its function"); return nil }); err == nil {
		t.Error("View returned nil after Close")
	}
	again := s.start(t, engine.Needs{})
	if got := again.balance(1); got != want {
		t.Errorf("the account holds %d after it was opened again, want %d", got, want)
	}
}
