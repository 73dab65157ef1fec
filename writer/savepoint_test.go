package writer_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
)

// ending is one way in which a function can end by itself.
type ending struct {
	name string
	end  func() error // called last, after the function's writes
	ok   func(error) bool
	kept bool // the writes stay
}

func isPanic(err error) bool {
	_, ok := errors.AsType[*writer.PanicError](err)
	return ok
}

func endings() []ending {
	return []ending{
		{"Success", func() error { return nil }, func(err error) bool { return err == nil }, true},
		{"Error", func() error { return errOwn }, func(err error) bool { return err == errOwn }, false},
		{"Panic", func() error { panic("boom") }, isPanic, false},
		{"Goexit", func() error { runtime.Goexit(); return nil }, isPanic, false},
	}
}

// Each way of ending, in a batch with neighbours, with its statements in each
// state that a function may leave them in.
func TestContract13WaysToEnd(t *testing.T) {
	states := map[string]func(*writer.Tx) error{
		"Clean": func(*writer.Tx) error { return nil },
		"OpenCursor": func(tx *writer.Tx) error {
			_, err := tx.Stmt("SELECT id FROM entry").Step()
			return err
		},
		"UnfinishedReturning": func(tx *writer.Tx) error {
			_, err := tx.Stmt("INSERT INTO entry(note) VALUES ('a'), ('b') RETURNING id").Step()
			return err
		},
		"FailedStatement": func(tx *writer.Tx) error {
			if _, err := tx.Exec("INSERT INTO entry(id) VALUES (1)"); writer.Primary(err) != sqliteh.SQLITE_CONSTRAINT {
				return errors.New("a duplicate key was accepted")
			}
			return nil
		},
		"Bound": func(tx *writer.Tx) error {
			tx.Stmt("INSERT INTO entry(id) VALUES (?)").BindInt64(1, 99)
			return nil
		},
	}
	for _, e := range endings() {
		for state, leave := range states {
			t.Run(e.name+"/"+state, func(t *testing.T) {
				w := openTest(t, writer.Options{Pragmas: noSync})
				release := hold(t, w)
				l := line{t: t, w: w}
				l.add(insert(1))
				l.add(func(tx *writer.Tx) error {
					if err := errors.Join(insert(2)(tx), leave(tx)); err != nil {
						return err
					}
					return e.end()
				})
				l.add(insert(5))
				release()
				errs := l.wait()
				if errs[0] != nil || !e.ok(errs[1]) || errs[2] != nil {
					t.Errorf("outcomes are %v", errs)
				}
				want := []int{1, 5}
				switch {
				case e.kept && state == "UnfinishedReturning":
					want = []int{1, 2, 3, 4, 5}
				case e.kept:
					want = []int{1, 2, 5}
				}
				if got := entries(t, w); !slices.Equal(got, want) {
					t.Errorf("the table holds %v, want %v", got, want)
				}
			})
		}
	}
}

// The savepoint is opened before the first statement that may write, so that a
// function that only reads costs none.
func TestContract13SavepointIsLazy(t *testing.T) {
	tests := []struct {
		name string
		fn   func(*writer.Tx) error
		want int
	}{
		{"Nothing", func(*writer.Tx) error { return nil }, 0},
		{"Select", func(tx *writer.Tx) error { return tx.QueryRow("SELECT count(*) FROM entry").Scan() }, 0},
		{"SelectAfterComments", func(tx *writer.Tx) error {
			return tx.QueryRow("-- what\n ; /* is\n there */ select count(*) FROM entry").Scan()
		}, 0},
		{"Values", func(tx *writer.Tx) error { return tx.QueryRow("VALUES (1)").Scan() }, 0},
		{"Explain", func(tx *writer.Tx) error { return tx.QueryRow("EXPLAIN DELETE FROM entry").Scan() }, 0},
		{"FailedRead", func(tx *writer.Tx) error {
			tx.Exec("SELECT * FROM nowhere")
			return nil
		}, 0},
		{"Insert", insert(1), 1},
		{"TwoWrites", func(tx *writer.Tx) error { return errors.Join(insert(2)(tx), insert(3)(tx)) }, 1},
		{"ReadThenWrite", func(tx *writer.Tx) error {
			return errors.Join(tx.QueryRow("SELECT count(*) FROM entry").Scan(), insert(4)(tx))
		}, 1},
		{"WithSelect", func(tx *writer.Tx) error { return tx.QueryRow("WITH x(a) AS (VALUES (1)) SELECT a FROM x").Scan() }, 1},
		{"WithInsert", func(tx *writer.Tx) error {
			_, err := tx.Exec("WITH x(a) AS (VALUES (5)) INSERT INTO entry(id) SELECT a FROM x")
			return err
		}, 1},
		{"WriteAfterComments", func(tx *writer.Tx) error {
			_, err := tx.Exec("/* SELECT */ -- SELECT\n insert into entry(id) VALUES (6)")
			return err
		}, 1},
		{"Schema", func(tx *writer.Tx) error {
			_, err := tx.Exec("CREATE TABLE more(a)")
			return err
		}, 1},
		{"BoundOnly", func(tx *writer.Tx) error {
			tx.Stmt("INSERT INTO entry(id) VALUES (?)").BindInt64(1, 7)
			return nil
		}, 0},
	}
	var s spy
	w := openTest(t, writer.Options{Open: s.open})
	for _, test := range tests {
		for _, fail := range []error{errOwn, nil} {
			s.reset()
			if err := w.Do(t.Context(), func(tx *writer.Tx) error {
				if err := test.fn(tx); err != nil {
					t.Errorf("%s: %v", test.name, err)
				}
				return fail
			}); err != fail {
				t.Errorf("%s: %v", test.name, err)
			}
			undone := 0
			if fail != nil {
				undone = test.want
			}
			if a, b, c := s.count("SAVEPOINT tx"), s.count("ROLLBACK TO tx"), s.count("RELEASE tx"); a != test.want || b != undone || c != test.want {
				t.Errorf("%s, ending with %v: %d SAVEPOINT, %d ROLLBACK TO, %d RELEASE; want %d, %d, %d",
					test.name, fail, a, b, c, test.want, undone, test.want)
			}
		}
	}
}

func TestContract13SavepointNone(t *testing.T) {
	var s spy
	w := openTest(t, writer.Options{Savepoints: writer.SavepointNone, Open: s.open})
	release := hold(t, w)
	l := line{t: t, w: w}
	l.add(insert(1))
	l.add(func(tx *writer.Tx) error { return errors.Join(insert(2)(tx), errOwn) })
	l.add(insert(3)) // had not started: the next batch is its own
	release()
	errs := l.wait()
	mate, ok := errors.AsType[*writer.BatchError](errs[0])
	if !ok || mate.Op != "abort" || mate.Culprit || !errors.Is(mate, errOwn) {
		t.Errorf("the batch-mate got %v, want a BatchError", errs[0])
	}
	culprit, ok := errors.AsType[*writer.BatchError](errs[1])
	if !ok || !culprit.Culprit || !errors.Is(culprit, errOwn) {
		t.Errorf("the culprit got %v, want a BatchError that says so", errs[1])
	}
	if errs[2] != nil {
		t.Errorf("the third got %v, want nil", errs[2])
	}
	for _, e := range endings()[1:] { // alone it failed nobody else
		err := w.Do(t.Context(), func(tx *writer.Tx) error {
			if err := insert(4)(tx); err != nil {
				return err
			}
			return e.end()
		})
		if !e.ok(err) {
			t.Errorf("%s, alone in its batch, got %v", e.name, err)
		}
	}
	if err := w.Do(t.Context(), insert(5)); err != nil {
		t.Error(err)
	}
	if got := entries(t, w); !slices.Equal(got, []int{3, 5}) {
		t.Errorf("the table holds %v, want 3 and 5", got)
	}
	if n := s.count("SAVEPOINT tx"); n != 0 {
		t.Errorf("%d savepoints were opened", n)
	}
}

func TestContract13SavepointOnFailure(t *testing.T) {
	for _, e := range endings()[1:] {
		t.Run(e.name, func(t *testing.T) {
			var s spy
			var b sizes
			w := openTest(t, writer.Options{Savepoints: writer.SavepointOnFailure, Open: s.open, OnBatch: b.add, Pragmas: noSync})
			if err := w.Do(t.Context(), insert(100)); err != nil {
				t.Fatal(err)
			}
			if n := s.count("SAVEPOINT tx"); n != 0 {
				t.Errorf("%d savepoints before any failure", n)
			}
			release := hold(t, w)
			l := line{t: t, w: w}
			runs := make([]int, 4)
			for i := range runs {
				l.add(func(tx *writer.Tx) error {
					runs[i]++
					// The second run counts, so its number is what must be found.
					if _, err := tx.Exec("INSERT INTO entry(id, note) VALUES (?, ?)", i, runs[i]); err != nil {
						return err
					}
					if i == 2 {
						return e.end()
					}
					return nil
				})
			}
			release()
			for i, err := range l.wait() {
				if i == 2 && !e.ok(err) || i != 2 && err != nil {
					t.Errorf("%d got %v", i, err)
				}
			}
			if !slices.Equal(runs, []int{2, 2, 2, 1}) { // the last had not started
				t.Errorf("the functions ran %v times", runs)
			}
			if got := entries(t, w); !slices.Equal(got, []int{0, 1, 3, 100}) {
				t.Errorf("the table holds %v, want 0, 1, 3 and 100", got)
			}
			if n := number(t, w, "SELECT sum(note) FROM entry"); n != 2+2+1 {
				t.Errorf("the notes add up to %d, want those of the runs that count: 5", n)
			}
			if got := b.after(t, w); !slices.Equal(got, []int{1, 4}) {
				t.Errorf("batches of %v, want 1 and 4: the first run does not count", got)
			}
			checkCareful(t, w, &s)
		})
	}
}

// checkCareful checks that after a failed batch the next hundred use savepoints.
func checkCareful(t *testing.T, w *writer.Writer, s *spy) {
	t.Helper()
	s.reset()
	for i := range 110 {
		if err := w.Do(context.Background(), insert(1000+i)); err != nil {
			t.Fatal(err)
		}
	}
	// The Exclusive of the test itself was a batch too.
	if n := s.count("SAVEPOINT tx"); n < 90 || n > 100 {
		t.Errorf("%d savepoints in 110 batches after a failure, want about 100", n)
	}
}

func TestContract13SQLitesRollbackIsNotRunAgain(t *testing.T) {
	w := openTest(t, writer.Options{Savepoints: writer.SavepointOnFailure})
	release := hold(t, w)
	l := line{t: t, w: w}
	runs := make([]int, 3)
	for i := range runs {
		l.add(func(tx *writer.Tx) error {
			runs[i]++
			if err := insert(i)(tx); err != nil {
				return err
			}
			if i == 1 {
				_, err := tx.Exec("INSERT OR ROLLBACK INTO entry(id) VALUES (0)")
				return err
			}
			return nil
		})
	}
	release()
	errs := l.wait()
	for i, err := range errs[:2] {
		be, ok := errors.AsType[*writer.BatchError](err)
		if !ok || be.Op != "abort" || be.Culprit != (i == 1) || writer.Primary(err) != sqliteh.SQLITE_CONSTRAINT {
			t.Errorf("%d got %v", i, err)
		}
	}
	if errs[2] != nil || !slices.Equal(runs, []int{1, 1, 1}) {
		t.Errorf("the last got %v; runs are %v, want one each", errs[2], runs)
	}
	if got := entries(t, w); !slices.Equal(got, []int{2}) {
		t.Errorf("the table holds %v, want 2", got)
	}
}

// A pragma that is read as a table may write: what it did is undone as well.
func TestContract13PragmaAsTable(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, func(tx *writer.Tx) error {
		return errors.Join(second(tx.Exec("CREATE INDEX note ON entry(note)")), insert(1)(tx))
	})
	do(t, w, func(tx *writer.Tx) error {
		for _, err := range tx.Query("SELECT * FROM pragma_optimize(0x10002)") { // analyze every table
			if err != nil {
				return err
			}
		}
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'").Scan(&n); err != nil || n != 1 {
			t.Errorf("%d tables of statistics (%v): the pragma did nothing, and shows nothing", n, err)
		}
		return errOwn
	}, errOwn)
	if n := number(t, w, "SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'"); n != 0 {
		t.Error("what a failed function wrote is there")
	}
}
