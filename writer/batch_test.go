package writer_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tpssim/tpssim/writer"
)

func TestContract12MaxBatch(t *testing.T) {
	var b sizes
	w := openTest(t, writer.Options{MaxBatch: 4, OnBatch: b.add})
	release := hold(t, w)
	l := line{t: t, w: w}
	for i := range 10 {
		l.add(insert(i))
	}
	release()
	if err := errors.Join(l.wait()...); err != nil {
		t.Fatal(err)
	}
	if got := b.after(t, w); !slices.Equal(got, []int{4, 4, 2}) {
		t.Errorf("batches of %v, want 4, 4, 2", got)
	}
}

// meet runs, behind first, one more function for each of more, which is queued while
// first runs, and returns how the batches came out.
func (s *sizes) meet(t *testing.T, w *writer.Writer, first int, more ...func() error) []int {
	t.Helper()
	release := hold(t, w)
	l := line{t: t, w: w}
	inside, gate := make(chan struct{}), make(chan struct{})
	for i := range first - 1 {
		l.add(insert(i))
	}
	l.add(func(tx *writer.Tx) error { close(inside); <-gate; return insert(99)(tx) })
	release()
	<-inside
	for _, fn := range more {
		l.queue(fn)
	}
	close(gate)
	if err := errors.Join(l.wait()...); err != nil {
		t.Fatal(err)
	}
	return s.after(t, w)
}

// Who comes while a batch runs is in it, as far as there is room and time.
func TestContract12BatchesTakeInWhoComes(t *testing.T) {
	for _, test := range []struct {
		what  string
		opt   writer.Options
		first int
		want  []int
	}{
		{"room", writer.Options{}, 2, []int{5}},
		{"room, without savepoints", writer.Options{Savepoints: writer.SavepointNone}, 2, []int{5}},
		{"no room", writer.Options{MaxBatch: 2}, 2, []int{2, 2, 1}},
		{"room for two", writer.Options{MaxBatch: 4}, 2, []int{4, 1}},
		{"alone at first", writer.Options{}, 1, []int{1, 3}},
		{"no time", writer.Options{MaxBatchTime: 1}, 2, []int{1, 1, 1, 1, 1}},
		{"an hour", writer.Options{MaxBatchTime: time.Hour}, 2, []int{5}},
	} {
		var b sizes
		test.opt.OnBatch = b.add
		w := openTest(t, test.opt)
		more := make([]func() error, 3)
		for i := range more {
			more[i] = func() error { return w.Do(context.Background(), insert(100+i)) }
		}
		if got := b.meet(t, w, test.first, more...); !slices.Equal(got, test.want) {
			t.Errorf("%s: batches of %v, want %v", test.what, got, test.want)
		}
		if got := entries(t, w); len(got) != test.first+3 {
			t.Errorf("%s: the table holds %v", test.what, got)
		}
	}
}

// An Exclusive that comes while a batch runs is not in it, nor is who comes after it.
func TestContract12ExclusiveIsNotTakenIn(t *testing.T) {
	var b sizes
	w := openTest(t, writer.Options{OnBatch: b.add})
	seen := 0
	got := b.meet(t, w, 2,
		func() error { return w.Do(context.Background(), insert(100)) },
		func() error {
			return w.Exclusive(context.Background(), func(c *writer.Conn) error {
				return c.QueryRow("SELECT count(*) FROM entry").Scan(&seen)
			})
		},
		func() error { return w.Do(context.Background(), insert(101)) },
	)
	if !slices.Equal(got, []int{3, 1}) || seen != 3 {
		t.Errorf("batches of %v around an Exclusive that saw %d rows; want 3, 1 and 3", got, seen)
	}
}

// A function that fails after others were taken in undoes its own changes only,
// whatever the savepoints, and in SavepointOnFailure all of them run again.
func TestContract12TakenInAndFailed(t *testing.T) {
	for _, mode := range []writer.Savepoints{writer.SavepointEach, writer.SavepointOnFailure} {
		var b sizes
		w := openTest(t, writer.Options{Savepoints: mode, OnBatch: b.add})
		release := hold(t, w)
		l := line{t: t, w: w}
		inside, gate := make(chan struct{}), make(chan struct{})
		l.add(insert(1))
		entered := sync.OnceFunc(func() { close(inside); <-gate })
		l.add(func(tx *writer.Tx) error { entered(); return insert(2)(tx) })
		release()
		<-inside
		l.add(func(tx *writer.Tx) error { return errors.Join(insert(3)(tx), errOwn) })
		l.add(insert(4))
		close(gate)
		errs := l.wait()
		if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], errOwn) || errs[3] != nil {
			t.Errorf("mode %v: %v", mode, errs)
		}
		if got := entries(t, w); !slices.Equal(got, []int{1, 2, 4}) {
			t.Errorf("mode %v: the table holds %v, want 1, 2, 4", mode, got)
		}
		if got := b.after(t, w); !slices.Equal(got, []int{4}) {
			t.Errorf("mode %v: batches of %v, want one of 4", mode, got)
		}
	}
}

// What stays of a batch that has run for long enough is committed behind it, in order.
func TestContract12NothingIsLostWhenTimeIsUp(t *testing.T) {
	var b sizes
	w := openTest(t, writer.Options{MaxBatchTime: 1, OnBatch: b.add})
	release := hold(t, w)
	l := line{t: t, w: w}
	ctx, cancel := context.WithCancel(context.Background())
	for i := range 6 {
		if i == 3 {
			l.addCtx(ctx, insert(i))
			continue
		}
		l.add(insert(i))
	}
	cancel()
	release()
	errs := l.wait()
	for i, err := range errs {
		if (err != nil) != (i == 3) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if got := b.after(t, w); !slices.Equal(got, []int{1, 1, 1, 1, 1}) {
		t.Errorf("batches of %v, want five of 1", got)
	}
}

// An Exclusive keeps its place: it splits what waits around it.
func TestContract12ExclusiveSplitsBatches(t *testing.T) {
	var b sizes
	w := openTest(t, writer.Options{OnBatch: b.add})
	release := hold(t, w)
	l := line{t: t, w: w}
	for i := range 3 {
		l.add(insert(i))
	}
	seen := 0
	l.queue(func() error {
		return w.Exclusive(context.Background(), func(c *writer.Conn) error {
			return c.QueryRow("SELECT count(*) FROM entry").Scan(&seen)
		})
	})
	for i := range 2 {
		l.add(insert(10 + i))
	}
	release()
	if err := errors.Join(l.wait()...); err != nil {
		t.Fatal(err)
	}
	if got := b.after(t, w); !slices.Equal(got, []int{3, 2}) || seen != 3 {
		t.Errorf("batches of %v around an Exclusive that saw %d rows; want 3, 2 and 3", got, seen)
	}
}

// The window is so long that only a full batch can end it.
func TestContract12WindowEndsWithAFullBatch(t *testing.T) {
	for _, opt := range []writer.Options{
		{MaxBatch: 5},
		{MaxBatch: 100, QueueLen: 5}, // more than the queue holds cannot come
	} {
		var b sizes
		opt.OnBatch = b.add
		opt.BatchWindow = time.Hour
		w := openTest(t, opt)
		l := line{t: t, w: w}
		for i := range 4 {
			l.add(insert(i)) // stays queued: the batch is not full
		}
		result := make(chan error, 1)
		go func() { result <- w.Do(context.Background(), insert(4)) }()
		if err := errors.Join(append(l.wait(), <-result)...); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.list, []int{5}) {
			t.Errorf("batches of %v, want one of 5", b.list)
		}
	}
}

func TestContract12WindowEndsByItself(t *testing.T) {
	w := openTest(t, writer.Options{BatchWindow: time.Millisecond})
	start := time.Now()
	if err := w.Do(t.Context(), insert(1)); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d < time.Millisecond {
		t.Errorf("a lone request was answered after %v, before its window ended", d)
	}
}

func TestContract12WindowEndsWithShutdown(t *testing.T) {
	w := openTest(t, writer.Options{BatchWindow: time.Hour})
	l := line{t: t, w: w}
	l.add(insert(1))
	l.add(insert(2))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.wait()...); err != nil {
		t.Errorf("what was accepted must be finished: %v", err)
	}
}

// A burst forms large batches on one CPU and on two, without any window.
func TestContract12BurstsFormBatches(t *testing.T) {
	n := 20_000
	if raceEnabled {
		n = 7_000
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2} {
		runtime.GOMAXPROCS(procs)
		w := openTest(t, writer.Options{})
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				if err := w.Do(context.Background(), insert(i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if err := w.Close(); err != nil { // so that the last batch is counted
			t.Fatal(err)
		}
		s := w.Stats()
		if s.Transactions != uint64(n) {
			t.Errorf("%d transactions were counted, want %d", s.Transactions, n)
		}
		mean := float64(s.Transactions) / float64(s.Batches)
		t.Logf("GOMAXPROCS=%d: %d batches, mean %.0f", procs, s.Batches, mean)
		if mean <= 100 && !raceEnabled {
			t.Errorf("GOMAXPROCS=%d: batches of %.1f on average, want more than 100", procs, mean)
		}
	}
}
