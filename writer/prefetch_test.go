package writer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine/sqlite/pagecache"
	"github.com/tpssim/tpssim/writer"
)

// nothing is a function that does nothing.
func nothing(*writer.Tx) error { return nil }

// untouched returns a Touch that must not be called.
func untouched(t *testing.T) func(*writer.Rx) error {
	return func(*writer.Rx) error { t.Error("Touch was called"); return nil }
}

// count reads the number of entries.
func count(rx *writer.Rx) (n int, err error) {
	err = rx.QueryRow("SELECT count(*) FROM entry").Scan(&n)
	return n, err
}

func TestContract20TouchWithoutPrefetch(t *testing.T) {
	w := openTest(t, writer.Options{})
	if err := w.DoCall(t.Context(), writer.Call{Fn: insert(1), Touch: untouched(t)}); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Touched != 0 || s.TouchMisses != 0 {
		t.Errorf("%d touched, %d misses", s.Touched, s.TouchMisses)
	}
	_, err := writer.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), writer.Options{Prefetch: -1})
	if err == nil || !strings.Contains(err.Error(), "Prefetch is -1") {
		t.Errorf("Prefetch -1: %v", err)
	}
}

// Touch runs on its caller's goroutine while the writer is busy with another
// function, before its own is queued, and sees what is committed.
func TestContract20TouchBeforeFn(t *testing.T) {
	w := openTest(t, writer.Options{Prefetch: 1, Readers: -1})
	do(t, w, insert(1))
	release := hold(t, w)
	touched, outcome := make(chan struct{}), make(chan error)
	var order []string
	go func() {
		outcome <- w.DoCall(t.Context(), writer.Call{
			Touch: func(rx *writer.Rx) error {
				order = append(order, "touch")
				if queued := w.Stats().Queued; queued != 0 {
					t.Errorf("%d requests are queued", queued)
				}
				if n, err := count(rx); n != 1 || err != nil {
					t.Errorf("Touch sees %d entries (%v), want 1", n, err)
				}
				if _, err := rx.Stmt("DELETE FROM entry").Exec(); writer.Primary(err) != sqliteh.SQLITE_READONLY {
					t.Errorf("Touch wrote: %v", err)
				}
				close(touched)
				return nil
			},
			Fn: func(tx *writer.Tx) error {
				order = append(order, "fn")
				return insert(2)(tx)
			},
		})
	}()
	<-touched // although the writer is held
	release()
	if err := <-outcome; err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != "touch fn" {
		t.Errorf("ran %s", got)
	}
	if s := w.Stats(); s.Touched != 1 || s.TouchMisses > 1 {
		t.Errorf("%d touched, %d misses", s.Touched, s.TouchMisses)
	}
}

// What goes wrong in Touch is nobody's business but a panic, and the connection
// serves the next one.
func TestContract20TouchFails(t *testing.T) {
	w := openTest(t, writer.Options{Prefetch: 1})
	for k, touch := range []func(*writer.Rx) error{
		func(*writer.Rx) error { return errOwn },
		func(rx *writer.Rx) error { return rx.QueryRow("SELECT nonsense").Scan() },
		func(rx *writer.Rx) error { _, err := rx.Stmt("BEGIN").Exec(); return err },
	} {
		untilTouched(t, w, func(touched *bool) error {
			return w.DoCall(t.Context(), writer.Call{Fn: nothing, Touch: func(rx *writer.Rx) error {
				*touched = true
				if err := touch(rx); err == nil {
					t.Errorf("touch %d did not fail", k)
				}
				return errOwn
			}})
		})
	}
	// A panic is an outcome, as it is in Fn.
	for {
		var ran bool
		err := w.DoCall(t.Context(), writer.Call{
			Fn:    func(*writer.Tx) error { ran = true; return nil },
			Touch: func(*writer.Rx) error { panic(errOwn) },
		})
		if ran && err == nil {
			continue // it was not due
		}
		var caught *writer.PanicError
		if ran || !errors.As(err, &caught) || !errors.Is(err, errOwn) || len(caught.Stack) == 0 {
			t.Errorf("a panic in Touch: %v, Fn ran: %v", err, ran)
		}
		break
	}
	// Goexit ends the caller, and nobody else.
	for exited := false; !exited; {
		var wg sync.WaitGroup
		wg.Go(func() {
			w.DoCall(t.Context(), writer.Call{Fn: nothing, Touch: func(*writer.Rx) error { exited = true; runtime.Goexit(); return nil }})
		})
		wg.Wait()
	}
	untilTouched(t, w, func(touched *bool) error {
		return w.DoCall(t.Context(), writer.Call{Fn: nothing, Touch: func(rx *writer.Rx) error { *touched = true; _, err := count(rx); return err }})
	})
}

// untilTouched repeats a call, which must succeed, until it was touched: after hits
// most are not.
func untilTouched(t *testing.T, w *writer.Writer, call func(touched *bool) error) {
	t.Helper()
	for touched := false; !touched; {
		before := w.Stats().Touched
		if err := call(&touched); err != nil {
			t.Fatal(err)
		}
		if n := w.Stats().Touched - before; touched && n != 1 || !touched && n != 0 {
			t.Fatalf("%d touches were counted, it was touched: %v", n, touched)
		}
	}
}

// A context that ends while Touch waits for a connection, or while it reads, ends
// the call.
func TestContract20ContextEndsInTouch(t *testing.T) {
	w := openTest(t, writer.Options{Prefetch: 1})
	fn := func(*writer.Tx) error { t.Error("Fn ran"); return nil }
	reading, readCtx := make(chan struct{}), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		readCtx <- w.DoCall(ctx, writer.Call{Fn: fn, Touch: func(rx *writer.Rx) error {
			close(reading)
			return rx.QueryRow("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n").Scan()
		}})
	}()
	<-reading // and holds the only connection
	waitCtx, stop := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { waiting <- w.DoCall(waitCtx, writer.Call{Fn: fn, Touch: untouched(t)}) }()
	stop()
	if err := <-waiting; err != context.Canceled {
		t.Errorf("ended while waiting: %v", err)
	}
	do(t, w, insert(1)) // without a Touch nobody waits for it
	cancel()
	if err := <-readCtx; err != context.Canceled {
		t.Errorf("ended while reading: %v", err)
	}
	if err := w.DoCall(ctx, writer.Call{Fn: fn, Touch: untouched(t)}); err != context.Canceled {
		t.Errorf("ended before: %v", err)
	}
}

// Who is refused is refused without a Touch.
func TestContract20RefusedBeforeTouch(t *testing.T) {
	w := openTest(t, writer.Options{Prefetch: 1})
	do(t, w, func(tx *writer.Tx) error {
		if err := w.DoCall(tx.Context(), writer.Call{Fn: nothing, Touch: untouched(t)}); err != writer.ErrNested {
			t.Errorf("nested: %v", err)
		}
		return nil
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.DoCall(t.Context(), writer.Call{Fn: nothing, Touch: untouched(t)}); err != writer.ErrClosed {
		t.Errorf("closed: %v", err)
	}
}

// Close waits for a Touch that runs, refuses those that wait, and finishes what is
// queued.
func TestContract20CloseBesideTouch(t *testing.T) {
	w := openTest(t, writer.Options{Prefetch: 1})
	reading, goOn := make(chan struct{}), make(chan struct{})
	var over atomic.Bool
	first, second := make(chan error), make(chan error)
	go func() {
		first <- w.DoCall(context.Background(), writer.Call{Fn: nothing, Touch: func(rx *writer.Rx) error {
			close(reading)
			<-goOn
			_, err := count(rx)
			over.Store(true)
			return err
		}})
	}()
	<-reading
	go func() { second <- w.DoCall(context.Background(), writer.Call{Fn: nothing, Touch: untouched(t)}) }()
	closed := make(chan error)
	go func() {
		err := w.Close()
		if !over.Load() {
			t.Error("closed while a Touch was running")
		}
		closed <- err
	}()
	if err := <-second; err != writer.ErrClosed {
		t.Errorf("who waited for a connection: %v", err)
	}
	close(goOn)
	if err := <-first; err != writer.ErrClosed {
		t.Errorf("who was reading: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

// A Touch that finds something not in memory is run again until it does, where a read
// can fail instead of waiting; and Fn then finds it there.
func TestContract20TouchIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cache, err := pagecache.Open(path)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cache.Close() }) // after SQLite has closed the file
	const rows, calls = 2000, 100       // a row to a page; the calls far apart, so that none is read with another
	w, err := writer.Open(t.Context(), path, writer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	do(t, w, func(tx *writer.Tx) error {
		if _, err := tx.Exec("CREATE TABLE page(id INTEGER PRIMARY KEY, filler)"); err != nil {
			return err
		}
		for i := range rows {
			if _, err := tx.Exec("INSERT INTO page VALUES (?, zeroblob(3000))", i); err != nil {
				return err
			}
		}
		return nil
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cache.Drop(); err != nil {
		t.Fatal(err)
	}
	if left, err := cache.Resident(); left > 0 || err != nil {
		t.Skipf("%d bytes stay in memory that were to be dropped (%v)", left, err)
	}
	if w, err = writer.Open(t.Context(), path, writer.Options{Prefetch: 4}); err != nil {
		t.Fatal(err)
	}
	defer w.Close()

	var wg sync.WaitGroup
	var tries, failures atomic.Int64
	for k := range calls {
		wg.Go(func() {
			i := (k + 5) * rows / (calls + 5)
			read := func(rx *writer.Rx) error {
				var length int
				err := rx.QueryRow("SELECT length(filler) FROM page WHERE id = ?", i).Scan(&length)
				if err == nil && length != 3000 {
					t.Errorf("row %d is %d long", i, length)
				}
				return err
			}
			err := w.DoCall(t.Context(), writer.Call{
				Fn: func(tx *writer.Tx) error { return read(tx.Rx) },
				Touch: func(rx *writer.Rx) error {
					tries.Add(1)
					err := read(rx)
					if err != nil {
						failures.Add(1)
						if writer.Primary(err) != sqliteh.SQLITE_IOERR {
							t.Errorf("Touch failed with %v", err)
						}
					}
					return err
				},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := w.Stats()
	if s.TouchMisses == 0 || s.Touched < s.TouchMisses || s.Touched > calls {
		t.Errorf("%d touched, %d misses, of %d calls with nothing in memory", s.Touched, s.TouchMisses, calls)
	}
	if runtime.GOOS == "linux" && (failures.Load() == 0 || tries.Load() < int64(s.Touched)+failures.Load()) {
		t.Errorf("%d touches were run %d times, %d times without success", s.Touched, tries.Load(), failures.Load())
	}
}

// Touches without a gap between them do not keep the WAL from being emptied, as
// readers do whose snapshots overlap.
func TestContract11TouchesDoNotHinderCheckpoints(t *testing.T) {
	w := openTest(t, writer.Options{Prefetch: 4, Pragmas: noSync, Checkpoint: writer.Checkpoint{Off: true}})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := w.DoCall(t.Context(), writer.Call{Fn: insert(g + 8*i), Touch: func(rx *writer.Rx) error {
					_, err := count(rx)
					return err
				}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	empty := func() bool {
		if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_PASSIVE); err != nil {
			t.Error(err)
		}
		return w.Stats().WALPending == 0
	}
	until(t, "a checkpoint that moves everything", empty)
	close(stop)
	wg.Wait()

	// One that is slow hinders a checkpoint, but does not hold it up.
	reading, goOn, outcome := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		for touched := false; !touched; {
			err := w.DoCall(t.Context(), writer.Call{Fn: nothing, Touch: func(rx *writer.Rx) error {
				touched = true
				_, err := count(rx)
				close(reading)
				<-goOn
				return err
			}})
			if err != nil || touched {
				outcome <- err
			}
		}
	}()
	<-reading
	do(t, w, insert(-1))
	if empty() {
		t.Error("a checkpoint went beyond a snapshot that is held")
	}
	close(goOn)
	if err := <-outcome; err != nil {
		t.Error(err)
	}
	if !empty() {
		t.Error("the WAL is not empty although nobody reads")
	}
}
