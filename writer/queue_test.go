package writer_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
)

// never is a function that must not run.
func never(t *testing.T, who string) func(*writer.Tx) error {
	return func(*writer.Tx) error {
		t.Errorf("the function of %s ran", who)
		return nil
	}
}

func TestContract05EndedBeforeItIsQueued(t *testing.T) {
	w := openTest(t, writer.Options{})
	release := hold(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Do(ctx, never(t, "an ended context")); err != context.Canceled {
		t.Errorf("got %v, want Canceled", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if err := w.Do(late, never(t, "a passed deadline")); err != context.DeadlineExceeded {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
	if err := w.View(ctx, func(*writer.Rx) error { t.Error("the View ran"); return nil }); err != context.Canceled {
		t.Errorf("View: %v, want Canceled", err)
	}
	if n := w.Stats().Queued; n != 0 {
		t.Errorf("%d requests were queued", n)
	}
	release()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Do(t.Context(), never(t, "a closed writer")); err != writer.ErrClosed {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if err := w.Do(ctx, never(t, "an ended context")); err != context.Canceled {
		t.Errorf("got %v, want Canceled, which is looked at first", err)
	}
}

func TestContract05AbandonedInQueue(t *testing.T) {
	w := openTest(t, writer.Options{})
	release := hold(t, w)
	l := line{t: t, w: w}
	var cancels []context.CancelFunc
	for i := range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if i%2 == 0 {
			l.addCtx(ctx, never(t, "an abandoned request"))
			cancels = append(cancels, cancel)
		} else {
			l.addCtx(ctx, insert(i))
		}
	}
	for i, cancel := range cancels {
		cancel()
		if err := <-l.errs[2*i]; err != context.Canceled { // while the writer is held
			t.Errorf("got %v, want Canceled", err)
		}
	}
	release()
	for i := 1; i < 20; i += 2 {
		if err := <-l.errs[i]; err != nil {
			t.Error(err)
		}
	}
	if got := entries(t, w); len(got) != 10 {
		t.Errorf("the table holds %v, want the ten odd ids", got)
	}
}

func TestContract05AbandonedBehindBatchMates(t *testing.T) {
	var b sizes
	w := openTest(t, writer.Options{OnBatch: b.add})
	release := hold(t, w)
	l := line{t: t, w: w}
	inside, gate := make(chan struct{}), make(chan struct{})
	l.add(func(tx *writer.Tx) error { close(inside); <-gate; return insert(1)(tx) })
	ctx, cancel := context.WithCancel(context.Background())
	l.addCtx(ctx, never(t, "an abandoned batch-mate"))
	l.add(insert(3))
	release()
	<-inside
	cancel()
	if err := <-l.errs[1]; err != context.Canceled {
		t.Errorf("got %v, want Canceled", err)
	}
	close(gate)
	if err := errors.Join(<-l.errs[0], <-l.errs[2]); err != nil {
		t.Fatal(err)
	}
	if got := b.after(t, w); !slices.Equal(got, []int{2}) {
		t.Errorf("batches of %v, want one of the 2 that ran", got)
	}
}

func TestContract05AbandonedWhileBeginWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	w := openFile(t, path, writer.Options{BusyTimeout: time.Minute})
	other, err := cgosqlite.Open(path, sqliteh.SQLITE_OPEN_READWRITE, "")
	if err != nil {
		t.Fatal(err)
	}
	run := func(sql string) {
		t.Helper()
		stmt, _, err := other.Prepare(sql, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Finalize()
		if _, err := stmt.Step(nil); err != nil {
			t.Fatal(err)
		}
	}
	run("BEGIN IMMEDIATE")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- w.Do(ctx, never(t, "a request behind a locked BEGIN")) }()
	until(t, "the writer to take the batch", func() bool { return w.Stats().Queued == 0 })
	cancel()
	if err := <-result; err != context.Canceled { // while the lock is held
		t.Errorf("got %v, want Canceled", err)
	}
	run("ROLLBACK")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Do(t.Context(), insert(1)); err != nil {
		t.Error(err)
	}
}

func TestContract05TakenReturnsItsOutcome(t *testing.T) {
	w := openTest(t, writer.Options{})
	for i, want := range []error{nil, errOwn} {
		ctx, cancel := context.WithCancel(t.Context())
		inside, gate := make(chan struct{}), make(chan struct{})
		result := make(chan error, 1)
		go func() {
			result <- w.Do(ctx, func(tx *writer.Tx) error {
				close(inside)
				<-gate
				return errors.Join(insert(i)(tx), want)
			})
		}()
		<-inside
		cancel()
		select {
		case err := <-result:
			t.Fatalf("Do returned %v while its function ran", err)
		default:
		}
		close(gate)
		if err := <-result; !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if got := entries(t, w); !slices.Equal(got, []int{0}) {
		t.Errorf("the table holds %v, want 0", got)
	}
}

// fill fills the queue of a held writer.
func fill(l *line, n int) {
	for i := range n {
		l.add(insert(i))
	}
}

func TestContract08FullQueueBlocksUntilRoom(t *testing.T) {
	w := openTest(t, writer.Options{QueueLen: 3})
	release := hold(t, w)
	l := line{t: t, w: w}
	fill(&l, 3)
	result := make(chan error, 1)
	go func() { result <- w.Do(t.Context(), insert(10)) }()
	until(t, "the fourth to block", func() bool { return writer.Blocked(w) == 1 })
	if n := w.Stats().Queued; n != 3 {
		t.Errorf("%d requests wait, want QueueLen", n)
	}
	release()
	if err := errors.Join(append(l.wait(), <-result)...); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, w); !slices.Equal(got, []int{0, 1, 2, 10}) {
		t.Errorf("the table holds %v", got)
	}
}

func TestContract08FullQueueBlocksUntilCtxEnds(t *testing.T) {
	w := openTest(t, writer.Options{QueueLen: 1})
	release := hold(t, w)
	l := line{t: t, w: w}
	fill(&l, 1)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 2)
	go func() { result <- w.Do(ctx, never(t, "a caller that found no room")) }()
	go func() { result <- w.Exclusive(ctx, func(*writer.Conn) error { t.Error("ran"); return nil }) }()
	until(t, "both to block", func() bool { return writer.Blocked(w) == 2 })
	cancel()
	for range 2 {
		if err := <-result; err != context.Canceled {
			t.Errorf("got %v, want Canceled", err)
		}
	}
	release()
	l.wait()
}

func TestContract08FullQueueBlocksUntilClose(t *testing.T) {
	w := openTest(t, writer.Options{QueueLen: 1})
	release := hold(t, w)
	l := line{t: t, w: w}
	fill(&l, 1)
	result := make(chan error, 50)
	for range cap(result) {
		go func() { result <- w.Do(context.Background(), never(t, "a caller that found no room")) }()
	}
	until(t, "all to block", func() bool { return writer.Blocked(w) == cap(result) })
	closed := make(chan error, 1)
	go func() { closed <- w.Close() }()
	for range cap(result) {
		if err := <-result; err != writer.ErrClosed { // while the writer is held
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
	release()
	if err := errors.Join(append(l.wait(), <-closed)...); err != nil {
		t.Errorf("what was accepted must be finished: %v", err)
	}
}

func TestContract08FailWhenFull(t *testing.T) {
	w := openTest(t, writer.Options{QueueLen: 2, FailWhenFull: true})
	release := hold(t, w)
	l := line{t: t, w: w}
	fill(&l, 2)
	if err := w.Do(t.Context(), never(t, "a refused request")); err != writer.ErrQueueFull {
		t.Errorf("got %v, want ErrQueueFull", err)
	}
	if err := w.Exclusive(t.Context(), func(*writer.Conn) error { return nil }); err != writer.ErrQueueFull {
		t.Errorf("Exclusive: %v, want ErrQueueFull", err)
	}
	release()
	if err := errors.Join(l.wait()...); err != nil {
		t.Error(err)
	}
	if err := w.Do(t.Context(), insert(10)); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestContract08AbandonedKeepTheirPlaces(t *testing.T) {
	w := openTest(t, writer.Options{QueueLen: 4, FailWhenFull: true})
	release := hold(t, w)
	l := line{t: t, w: w}
	ctx, cancel := context.WithCancel(t.Context())
	for range 4 {
		l.addCtx(ctx, never(t, "an abandoned request"))
	}
	cancel()
	l.wait()
	if n := w.Stats().Queued; n != 4 {
		t.Errorf("%d places are taken, want the 4 of the abandoned", n)
	}
	if err := w.Do(t.Context(), never(t, "a refused request")); err != writer.ErrQueueFull {
		t.Errorf("got %v, want ErrQueueFull", err)
	}
	release()
	until(t, "the writer to free the places", func() bool { return w.Stats().Queued == 0 })
	if err := w.Do(t.Context(), insert(1)); err != nil {
		t.Error(err)
	}
}

// With one place and hundreds of callers, some of which give up, every hand-over
// of room counts: a lost one leaves somebody waiting for ever.
func TestContract08NoLostWakeUps(t *testing.T) {
	for _, queueLen := range []int{1, 2, 7} {
		w := openTest(t, writer.Options{QueueLen: queueLen, Pragmas: noSync})
		var wg sync.WaitGroup
		var done atomic.Int64
		for g := range 400 {
			wg.Go(func() {
				for i := range 5 {
					ctx, cancel := context.WithCancel(context.Background())
					if (g+i)%3 == 0 {
						go cancel() // at any point of its way
					}
					switch err := w.Do(ctx, insert(g*5+i)); err {
					case nil:
						done.Add(1)
					case context.Canceled:
					default:
						t.Error(err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if got := len(entries(t, w)); int64(got) != done.Load() {
			t.Errorf("the table holds %d rows, %d were acknowledged", got, done.Load())
		}
		if n := writer.Blocked(w); n != 0 {
			t.Errorf("%d callers still wait for room", n)
		}
	}
}
