package writer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// runByHand runs requests as one batch on the writer goroutine. Nobody waits for
// their outcomes: each is left in its channel.
func runByHand(t testing.TB, w *Writer, reqs []*request) {
	t.Helper()
	if err := w.Exclusive(context.Background(), func(*Conn) error {
		outer := w.batch
		w.batch = batch{reqs: slices.Clone(reqs), savepoints: true, savepoint: outer.savepoint, ran: outer.ran}
		w.runBatch()
		w.waking.Wait()
		outer.savepoint, outer.ran = w.batch.savepoint, w.batch.ran
		w.batch = outer
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// OnBatch comes when the last caller was told, whoever tells them, and nobody is told
// twice.
func TestOnBatchAfterWaking(t *testing.T) {
	for _, n := range []int{1, wakeAside - 1, wakeAside, 3*wakeTurn + 1} {
		var reqs []*request
		calls := 0
		w, err := Open(t.Context(), t.TempDir()+"/test.db", Options{OnBatch: func(b Batch) {
			calls++
			for i, r := range reqs {
				if len(r.done) != 1 || r.committed == nil || r.committed != reqs[0].committed {
					t.Errorf("of a batch of %d, number %d was not told before OnBatch", n, i)
				}
			}
			if b.Size != n {
				t.Errorf("a batch of %d, want %d", b.Size, n)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			r := newRequest(context.Background())
			r.fn = func(*Tx) error { return nil }
			reqs = append(reqs, r)
		}
		runByHand(t, w, reqs)
		if calls != 1 {
			t.Errorf("OnBatch was called %d times for one batch of %d", calls, n)
		}
		for _, r := range reqs {
			<-r.done
			if err := r.outcome(); err != nil || len(r.done) != 0 {
				t.Errorf("%v, and %d more messages", err, len(r.done))
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// handBatch is how many transactions the benchmarks run in a batch.
const handBatch = 10_000

// BenchmarkBatch is a batch of 10,000 transfers over 10,000 accounts without their
// goroutines: what the writer itself needs, its COMMIT included.
func BenchmarkBatch(b *testing.B) {
	errShort := errors.New("funds are short")
	for _, bench := range []struct {
		name  string
		fails func(i int) bool
		doubt int // before each batch
	}{
		{"all succeed", func(int) bool { return false }, 0},
		{"all succeed, a savepoint each", func(int) bool { return false }, 1 << 30},
		{"one in ten fails", func(i int) bool { return i%10 == 0 }, carefulFunctions},
		{"one in ten fails, unexpected", func(i int) bool { return i%10 == 9 }, 0},
		{"the last fails and all are repeated", func(i int) bool { return i == handBatch-1 }, 0},
	} {
		b.Run(bench.name, func(b *testing.B) {
			w := openByHand(b)
			reqs, fns := make([]*request, handBatch), make([]func(*Tx) error, handBatch)
			for i := range fns {
				fns[i] = transferByHand(int64(i), nil)
				if bench.fails(i) {
					fns[i] = transferByHand(int64(i), errShort)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for i := range reqs {
					reqs[i] = newRequest(context.Background())
					reqs[i].fn = fns[i]
				}
				w.doubt = bench.doubt // nothing runs, and Exclusive passes it on
				b.StartTimer()
				runByHand(b, w, reqs)
				b.StopTimer()
				for i, r := range reqs {
					<-r.done
					if err := r.outcome(); (err != nil) != bench.fails(i) {
						b.Fatal(err)
					}
					r.free()
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/handBatch, "ns/tx")
		})
	}
}

// openByHand opens a writer with handBatch accounts.
func openByHand(b *testing.B) *Writer {
	b.Helper()
	w, err := Open(context.Background(), b.TempDir()+"/bench.db", Options{Init: func(c *Conn) error {
		_, err := c.Exec("CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
		if err == nil {
			_, err = c.Exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO account SELECT i, 1000000 FROM n", handBatch)
		}
		return err
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := w.Close(); err != nil {
			b.Error(err)
		}
	})
	return w
}

// transferByHand is a transfer between two accounts that depend on i, which then ends
// with err.
func transferByHand(i int64, err error) func(*Tx) error {
	const sql = "UPDATE account SET balance = balance + ? WHERE id = ?"
	from, to := 1+i*7919%handBatch, 1+i*4637%handBatch
	return func(tx *Tx) error {
		if _, err := tx.Stmt(sql).BindInt64(1, -1).BindInt64(2, from).Exec(); err != nil {
			return err
		}
		if _, err := tx.Stmt(sql).BindInt64(1, 1).BindInt64(2, to).Exec(); err != nil {
			return err
		}
		return err
	}
}

// BenchmarkWake is telling 10,000 goroutines that wait, from the first message to
// when the last of them runs.
func BenchmarkWake(b *testing.B) {
	reqs := make([]*request, handBatch)
	var told, ended sync.WaitGroup
	for i := range reqs {
		r := newRequest(context.Background())
		reqs[i] = r
		ended.Go(func() {
			for range r.done {
				told.Done()
			}
		})
	}
	woken := make([]*request, handBatch)
	c := &commit{}
	b.ReportAllocs()
	for b.Loop() {
		copy(woken, reqs)
		told.Add(handBatch)
		c.wake(woken)
		told.Wait()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/handBatch/float64(time.Nanosecond), "ns/caller")
	for _, r := range reqs {
		close(r.done)
	}
	ended.Wait()
}
