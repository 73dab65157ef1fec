package writer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tpssim/tpssim/writer"
)

func TestContract01OncePerRequestInOrder(t *testing.T) {
	w := openTest(t, writer.Options{MaxBatch: 7})
	release := hold(t, w)
	l := line{t: t, w: w}
	var order []int // on the writer goroutine only
	for i := range 100 {
		if i%10 == 3 {
			l.queue(func() error {
				return w.Exclusive(context.Background(), func(*writer.Conn) error { order = append(order, i); return nil })
			})
			continue
		}
		l.add(func(tx *writer.Tx) error { order = append(order, i); return insert(i)(tx) })
	}
	release()
	if err := errors.Join(l.wait()...); err != nil {
		t.Fatal(err)
	}
	if len(order) != 100 || !slices.IsSorted(order) {
		t.Errorf("ran in the order %v, want 0 to 99", order)
	}
}

func TestContract01ViewAfterDoSeesIt(t *testing.T) {
	w := openTest(t, writer.Options{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 25 {
				id := g*100 + i
				if err := w.Do(t.Context(), insert(id)); err != nil {
					t.Error(err)
				}
				if number(t, w, "SELECT count(*) FROM entry WHERE id = ?", id) != 1 {
					t.Errorf("row %d is not there after Do returned", id)
				}
			}
		})
	}
	wg.Wait()
}

func TestContract01Isolation(t *testing.T) {
	w := openTest(t, writer.Options{})
	release := hold(t, w)
	l := line{t: t, w: w}
	inside, gate := make(chan struct{}), make(chan struct{})
	l.add(insert(1))
	l.add(func(tx *writer.Tx) error { close(inside); <-gate; return nil })
	release()
	<-inside
	if got := entries(t, w); len(got) != 0 {
		t.Errorf("a View sees %v before COMMIT", got)
	}
	close(gate)
	if err := errors.Join(l.wait()...); err != nil {
		t.Fatal(err)
	}
}

func TestContract02NobodyIsToldBeforeCommit(t *testing.T) {
	var b sizes
	w := openTest(t, writer.Options{OnBatch: b.add})
	release := hold(t, w)
	l := line{t: t, w: w}
	var told atomic.Int32
	add := func(fn func(*writer.Tx) error) {
		l.queue(func() error {
			defer told.Add(1)
			return w.Do(context.Background(), fn)
		})
	}
	inside, gate := make(chan struct{}), make(chan struct{})
	add(insert(1))
	add(func(*writer.Tx) error { return errOwn })
	add(func(*writer.Tx) error { panic("boom") })
	add(func(*writer.Tx) error { runtime.Goexit(); return nil })
	add(func(*writer.Tx) error { close(inside); <-gate; return nil })
	release()
	<-inside
	for range 10_000 {
		runtime.Gosched() // a caller that was told has every chance to show it
	}
	if n := told.Load(); n != 0 {
		t.Errorf("%d callers were told while their batch was open", n)
	}
	close(gate)
	errs := l.wait()
	if errs[0] != nil || errs[1] != errOwn || errs[4] != nil {
		t.Errorf("outcomes are %v", errs)
	}
	for _, err := range errs[2:4] {
		if _, ok := errors.AsType[*writer.PanicError](err); !ok {
			t.Errorf("got %v, want a PanicError", err)
		}
	}
	if got := b.after(t, w); !slices.Equal(got, []int{5}) {
		t.Errorf("batches of %v, want one of 5", got)
	}
}

func TestContract03OwnErrorUnwrapped(t *testing.T) {
	w := openTest(t, writer.Options{})
	release := hold(t, w)
	l := line{t: t, w: w}
	for i := range 10 {
		l.add(func(tx *writer.Tx) error {
			if err := insert(i)(tx); err != nil {
				return err
			}
			switch i % 5 {
			case 1:
				return errOwn
			case 2:
				panic(fmt.Errorf("row %d: %w", i, errOwn))
			case 3:
				runtime.Goexit()
			case 4: // a failed statement that fn handles undoes nothing else
				if err := insert(i)(tx); err == nil {
					return errors.New("a duplicate key was accepted")
				}
			}
			return nil
		})
	}
	release()
	for i, err := range l.wait() {
		p, isPanic := errors.AsType[*writer.PanicError](err)
		switch i % 5 {
		case 0, 4:
			if err != nil {
				t.Errorf("%d: %v, want nil", i, err)
			}
		case 1:
			if err != errOwn { // unwrapped, so not errors.Is
				t.Errorf("%d: %v, want fn's own error", i, err)
			}
		case 2:
			if !isPanic || !errors.Is(err, errOwn) || !strings.Contains(string(p.Stack), "contract_test.go") {
				t.Errorf("%d: %v, want a PanicError with the value and the stack of the panic", i, err)
			}
		case 3:
			if !isPanic || p.Value != nil || !strings.Contains(err.Error(), "Goexit") {
				t.Errorf("%d: %v, want a PanicError that names Goexit", i, err)
			}
		}
	}
	if got := entries(t, w); !slices.Equal(got, []int{0, 4, 5, 9}) {
		t.Errorf("the table holds %v, want only what succeeded", got)
	}
}

func TestContract03PanicValues(t *testing.T) {
	w := openTest(t, writer.Options{Readers: 1})
	for _, value := range []any{"text", 42, errOwn, nil} {
		err := w.Do(t.Context(), func(*writer.Tx) error { panic(value) })
		p, ok := errors.AsType[*writer.PanicError](err)
		if !ok || p.Value == nil || value != nil && p.Value != value {
			t.Errorf("panic(%v) gave %v", value, err)
		}
		err = w.Exclusive(t.Context(), func(*writer.Conn) error { panic(value) })
		if _, ok := errors.AsType[*writer.PanicError](err); !ok {
			t.Errorf("panic(%v) in Exclusive gave %v", value, err)
		}
	}
	func() {
		defer func() {
			if recover() != "view" {
				t.Error("a panic in View must reach its caller")
			}
		}()
		w.View(t.Context(), func(*writer.Rx) error { panic("view") })
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.View(context.Background(), func(*writer.Rx) error { runtime.Goexit(); return nil })
	}()
	<-done
	if got := entries(t, w); len(got) != 0 { // needs the only reader
		t.Errorf("the table holds %v", got)
	}
}

func TestContract03GoexitManyTimes(t *testing.T) {
	w := openTest(t, writer.Options{})
	before := runtime.NumGoroutine()
	for i := range 200 {
		err := w.Do(t.Context(), func(tx *writer.Tx) error {
			defer runtime.Goexit()
			return insert(i)(tx)
		})
		if _, ok := errors.AsType[*writer.PanicError](err); !ok {
			t.Fatalf("got %v, want a PanicError", err)
		}
		if i%50 == 0 {
			err := w.Exclusive(t.Context(), func(c *writer.Conn) error {
				c.Exec("BEGIN")
				runtime.Goexit()
				return nil
			})
			if _, ok := errors.AsType[*writer.PanicError](err); !ok {
				t.Fatalf("got %v, want a PanicError", err)
			}
		}
	}
	until(t, "the lost goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	if err := w.Do(t.Context(), insert(1)); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, w); !slices.Equal(got, []int{1}) {
		t.Errorf("the table holds %v, want 1", got)
	}
}

// badError panics when it is compared.
type badError struct{ error }

func (badError) Is(error) bool { panic("compared") }

// The methods of fn's own error are code of the caller's too, wherever the writer
// needs them.
func TestContract03PanicInTheErrorItself(t *testing.T) {
	for _, mode := range []writer.Savepoints{writer.SavepointEach, writer.SavepointNone, writer.SavepointOnFailure} {
		w := openTest(t, writer.Options{Savepoints: mode})
		err := w.Do(t.Context(), func(tx *writer.Tx) error {
			if err := insert(1)(tx); err != nil {
				return err
			}
			_, err := tx.Exec("INSERT OR ROLLBACK INTO entry(id) VALUES (1)")
			return badError{err}
		})
		be, ok := err.(*writer.BatchError)
		if !ok || be.Op != "abort" || !be.Culprit {
			t.Errorf("got %v, want a BatchError of abort", err)
		}
		do(t, w, insert(2))
	}
}

// A test helper that ends the goroutine inside a callback must not make the
// writer answer a batch twice.
func TestContract03GoexitInOnBatch(t *testing.T) {
	var once sync.Once
	w := openTest(t, writer.Options{OnBatch: func(writer.Batch) { once.Do(runtime.Goexit) }})
	for i := range 20 {
		if err := w.Do(t.Context(), insert(i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := entries(t, w); len(got) != 20 {
		t.Errorf("the table holds %d rows, want 20", len(got))
	}
}

func TestValue(t *testing.T) {
	w := openTest(t, writer.Options{})
	id, err := writer.Value(t.Context(), w, func(tx *writer.Tx) (int64, error) {
		_, err := tx.Exec("INSERT INTO entry(note) VALUES ('x')")
		return tx.LastInsertID(), err
	})
	if id != 1 || err != nil {
		t.Errorf("got %d, %v; want 1, nil", id, err)
	}
	id, err = writer.Value(t.Context(), w, func(*writer.Tx) (int64, error) { return 7, errOwn })
	if id != 0 || err != errOwn {
		t.Errorf("got %d, %v; want 0 and fn's own error", id, err)
	}
}

func TestTimingIsOrdered(t *testing.T) {
	w := openTest(t, writer.Options{})
	release := hold(t, w)
	l := line{t: t, w: w}
	timings := make([]writer.Timing, 20)
	for i := range timings {
		l.queue(func() error {
			return w.DoCall(context.Background(), writer.Call{Timing: &timings[i], Fn: func(tx *writer.Tx) error {
				if i%3 == 0 {
					return errOwn
				}
				return insert(i)(tx)
			}})
		})
	}
	release()
	l.wait()
	for i, tm := range timings {
		points := []int64{tm.Accepted, tm.Begun, tm.Started, tm.Ended, tm.Committing, tm.Committed}
		if !slices.IsSorted(points) || tm.Accepted == 0 {
			t.Errorf("%d: %+v is not in order", i, tm)
		}
		if i > 0 && tm.Started < timings[i-1].Ended {
			t.Errorf("%d started before %d ended", i, i-1)
		}
	}
}
