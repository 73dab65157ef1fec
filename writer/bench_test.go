package writer_test

import (
	"context"
	"sync"
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

// BenchmarkView is a point read in a read transaction of its own.
func BenchmarkView(b *testing.B) {
	w := openBench(b)
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		if err := w.View(context.Background(), func(rx *writer.Rx) error {
			s := rx.Stmt("SELECT balance FROM account WHERE id = ?").BindInt64(1, 1+i*7919%benchAccounts)
			_, err := s.Step()
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}
