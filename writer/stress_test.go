package writer_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tpssim/tpssim/writer"
)

var seedFlag = flag.Uint64("seed", 0, "repeat the random choices of a run that printed this seed; 0 draws one")

// newSeed returns the seed of this run and prints it.
func newSeed(t testing.TB) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -seed=%d", seed)
	return seed
}

// fate is what is meant to happen to a transaction of the stress test.
type fate int

const (
	succeeds fate = iota
	fails
	panics
	exits
	handlesAnError
	cancelledBefore
	cancelledMeanwhile
	cancelledInside
)

// shares is how often each fate is drawn.
var shares = []fate{
	succeeds, succeeds, succeeds, succeeds, succeeds, succeeds, succeeds, handlesAnError,
	fails, fails, panics, exits, cancelledBefore, cancelledMeanwhile, cancelledMeanwhile, cancelledInside,
}

// transfer is one transaction of the stress test.
type transfer struct {
	id, from, to, amount int
	fate                 fate
	when                 int // at which step it fails
}

const stressAccounts, stressBalance = 50, 1_000_000_000

// run is the transaction's function: it inserts a row of its own and moves money.
func (tr transfer) run(tx *writer.Tx) error {
	for step, stmt := range []struct {
		sql  string
		a, b int
	}{
		{"INSERT INTO entry(id, note) VALUES (?, ?)", tr.id, tr.amount},
		{"UPDATE account SET balance = balance - ? WHERE id = ?", tr.amount, tr.from},
		{"UPDATE account SET balance = balance + ? WHERE id = ?", tr.amount, tr.to},
	} {
		if step == tr.when {
			switch tr.fate {
			case fails:
				return errOwn
			case panics:
				panic(tr.id)
			case exits:
				runtime.Goexit()
			case handlesAnError:
				if _, err := tx.Exec("UPDATE account SET balance = -1 WHERE id = ?", tr.from); err == nil {
					return fmt.Errorf("a balance below zero was accepted")
				}
			}
		}
		if n, err := tx.Exec(stmt.sql, stmt.a, stmt.b); n != 1 || err != nil {
			return fmt.Errorf("step %d changed %d rows: %w", step, n, err)
		}
	}
	return nil
}

// call runs the transaction and reports whether it was acknowledged. What comes
// through cancels is called at some time.
func (tr transfer) call(t *testing.T, w *writer.Writer, cancels chan<- context.CancelFunc) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch tr.fate {
	case cancelledBefore:
		cancel()
	case cancelledMeanwhile:
		cancels <- cancel // in the queue, behind batch-mates, while it runs or after it
	}
	ok := false
	err := w.Do(ctx, func(tx *writer.Tx) error {
		if tr.fate == cancelledInside {
			cancel()
		}
		return tr.run(tx)
	})
	switch tr.fate {
	case succeeds, handlesAnError, cancelledInside:
		ok = err == nil
	case fails:
		ok = err == errOwn
	case panics, exits:
		ok = isPanic(err)
	case cancelledBefore:
		ok = err == context.Canceled
	case cancelledMeanwhile:
		ok = err == nil || err == context.Canceled
	}
	if !ok {
		t.Errorf("%+v ended with %v", tr, err)
	}
	return err == nil
}

// After any mix of endings the database holds exactly what was acknowledged.
func TestContract01StressExactlyTheAcknowledged(t *testing.T) {
	n := 50_000
	if raceEnabled {
		n = 7_000
	}
	for name, opt := range map[string]writer.Options{
		"Each":       {},
		"OnFailure":  {Savepoints: writer.SavepointOnFailure, MaxBatch: 500},
		"SmallQueue": {QueueLen: 100},
	} {
		t.Run(name, func(t *testing.T) {
			count := n
			if name != "Each" && !raceEnabled {
				count = n / 5
			}
			stress(t, opt, count)
		})
	}
}

func stress(t *testing.T, opt writer.Options, n int) {
	w := openTest(t, opt)
	do(t, w, func(tx *writer.Tx) error {
		return second(tx.Exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO account SELECT i, ? FROM n", stressAccounts, stressBalance))
	})
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	transfers := make([]transfer, n)
	for i := range transfers {
		transfers[i] = transfer{
			id: i + 1, from: 1 + rng.IntN(stressAccounts), to: 1 + rng.IntN(stressAccounts), amount: 1 + rng.IntN(100),
			fate: shares[rng.IntN(len(shares))], when: rng.IntN(3),
		}
	}
	acknowledged := make([]bool, n)
	cancels := make(chan context.CancelFunc, n)
	defer close(cancels)
	go func() {
		done := 0
		for cancel := range cancels {
			if done++; done%32 == 0 {
				time.Sleep(time.Millisecond) // spreads them over the run
			}
			cancel()
		}
	}()
	var returned atomic.Int64
	var wg sync.WaitGroup
	for i, tr := range transfers {
		wg.Go(func() {
			acknowledged[i] = tr.call(t, w, cancels)
			returned.Add(1)
		})
	}
	wg.Wait()
	if returned.Load() != int64(n) {
		t.Errorf("%d of %d calls returned", returned.Load(), n)
	}
	wantEntries := []int{}
	wantBalances := make(map[int]int)
	for i := range stressAccounts {
		wantBalances[i+1] = stressBalance
	}
	for i, tr := range transfers {
		if acknowledged[i] {
			wantEntries = append(wantEntries, tr.id)
			wantBalances[tr.from] -= tr.amount
			wantBalances[tr.to] += tr.amount
		}
	}
	if got := entries(t, w); !slices.Equal(got, wantEntries) {
		t.Errorf("the table holds %d entries, %d were acknowledged; or they are others", len(got), len(wantEntries))
	}
	if got := balances(t, w); !maps.Equal(got, wantBalances) {
		t.Errorf("balances are %v, want %v", got, wantBalances)
	}
	t.Logf("%d of %d were acknowledged in %d batches", len(wantEntries), n, w.Stats().Batches)
}

// balances returns every account's committed balance.
func balances(t testing.TB, w *writer.Writer) map[int]int {
	t.Helper()
	all := make(map[int]int)
	if err := w.View(context.Background(), func(rx *writer.Rx) error {
		for row, err := range rx.Query("SELECT id, balance FROM account") {
			if err != nil {
				return err
			}
			all[int(row.Stmt().Int64(0))] = int(row.Stmt().Int64(1))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
