package writer_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tpssim/tpssim/writer"
)

// benchAccounts is small enough to be made in no time and to stay in the cache:
// these figures are of the writer, not of a disk or a large tree.
const benchAccounts = 10_000

// openBench opens a writer with accounts.
func openBench(b *testing.B) *writer.Writer {
	b.Helper()
	w := openTest(b, writer.Options{})
	do(b, w, func(tx *writer.Tx) error {
		return second(tx.Exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO account SELECT i, 1000000 FROM n", benchAccounts))
	})
	return w
}

// update adds amount to an account.
func update(tx *writer.Tx, id, amount int64) error {
	_, err := tx.Stmt("UPDATE account SET balance = balance + ? WHERE id = ?").BindInt64(1, amount).BindInt64(2, id).Exec()
	return err
}

// benchTransfer is a transfer between two accounts that depend on i.
func benchTransfer(i int64) func(*writer.Tx) error {
	from, to := 1+i*7919%benchAccounts, 1+i*104729%benchAccounts
	return func(tx *writer.Tx) error {
		if err := update(tx, from, -1); err != nil {
			return err
		}
		return update(tx, to, 1)
	}
}

// BenchmarkDo is one caller alone: a COMMIT, so an fsync, for each transaction.
func BenchmarkDo(b *testing.B) {
	w := openBench(b)
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		if err := w.Do(context.Background(), benchTransfer(i)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBurst is 10,000 goroutines at once, from the first start to the last
// answer.
func BenchmarkBurst(b *testing.B) {
	const burst = 10_000
	w := openBench(b)
	b.ReportAllocs()
	for b.Loop() {
		var wg sync.WaitGroup
		for i := range int64(burst) {
			wg.Go(func() {
				if err := w.Do(context.Background(), benchTransfer(i)); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(burst)*float64(b.N)/b.Elapsed().Seconds(), "tps")
}

// BenchmarkStmt is one UPDATE inside a transaction.
func BenchmarkStmt(b *testing.B) {
	w := openBench(b)
	b.ReportAllocs()
	do(b, w, func(tx *writer.Tx) error {
		for i := int64(0); b.Loop(); i++ {
			if err := update(tx, 1+i*7919%benchAccounts, 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// readTwo reads two accounts that depend on i.
func readTwo(i int64) func(*writer.Rx) error {
	return func(rx *writer.Rx) error {
		for _, id := range [...]int64{1 + i*7919%benchAccounts, 1 + i*104729%benchAccounts} {
			s := rx.Stmt("SELECT balance FROM account WHERE id = ?").BindInt64(1, id)
			if _, err := s.Step(); err != nil {
				return err
			}
			s.Reset()
		}
		return nil
	}
}

// BenchmarkView is two point reads in a read transaction of their own, by one
// caller, by many at once, and by many while transfers are committed.
func BenchmarkView(b *testing.B) {
	view := func(b *testing.B, ctx context.Context, w *writer.Writer, i int64) {
		if err := w.View(ctx, readTwo(i)); err != nil {
			b.Error(err)
		}
	}
	many := func(b *testing.B, ctx context.Context, w *writer.Writer) {
		b.ReportAllocs()
		b.SetParallelism(10_000 / runtime.GOMAXPROCS(0))
		b.RunParallel(func(pb *testing.PB) {
			for i := rand.Int64N(benchAccounts); pb.Next(); i++ {
				view(b, ctx, w, i)
			}
		})
	}
	b.Run("one", func(b *testing.B) {
		w := openBench(b)
		b.ReportAllocs()
		for i := int64(0); b.Loop(); i++ {
			view(b, context.Background(), w, i)
		}
	})
	b.Run("many", func(b *testing.B) { many(b, context.Background(), openBench(b)) })
	b.Run("many with a context that can end", func(b *testing.B) { many(b, b.Context(), openBench(b)) })
	b.Run("many beside transfers", func(b *testing.B) {
		w := openBench(b)
		var stop atomic.Bool
		var wg sync.WaitGroup
		for g := range int64(1000) {
			wg.Go(func() {
				for i := g; !stop.Load(); i += 1000 {
					if err := w.Do(context.Background(), benchTransfer(i)); err != nil {
						b.Error(err)
					}
				}
			})
		}
		before := w.Stats().Transactions
		many(b, context.Background(), w)
		stop.Store(true)
		b.ReportMetric(float64(w.Stats().Transactions-before)/b.Elapsed().Seconds(), "tps")
		wg.Wait()
	})
}
