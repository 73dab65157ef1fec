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
