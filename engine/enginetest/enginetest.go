// Package enginetest is the conformance suite that every engine passes, and an
// engine in memory to test scenarios with.
//
// An engine that passes gives the outcomes that package scenarios relies on when
// it proves a run: what was acknowledged is in the database exactly once, what
// failed is not, and nobody can tell otherwise from outside.
package enginetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
)

// Open opens an engine on a data set as the suite needs it. Consecutive calls of
// one test may find what the earlier engine of that test left behind.
type Open func(t *testing.T, needs engine.Needs) engine.Engine

// MinRows is the smallest data set that the suite can work with.
const MinRows = 1000

// Run runs the suite as subtests of t. open must return an engine whose data set
// was seeded with spec, of at least MinRows accounts; Run closes it. What an engine
// can do beside engine.Engine is found by its methods and tested too.
func Run(t *testing.T, open func(t *testing.T, needs engine.Needs) engine.Engine, spec accounts.Spec) {
	if spec.Rows < MinRows {
		t.Fatalf("enginetest: a data set of %d accounts is too small: use at least %d", spec.Rows, MinRows)
	}
	s := &suite{open: open, spec: spec}
	for _, test := range []struct {
		name string
		run  func(*suite, *testing.T)
	}{
		{"commit", (*suite).commit},
		{"own error", (*suite).ownError},
		{"panic", (*suite).panics},
		{"no account", (*suite).noAccount},
		{"record and reset", (*suite).recordAndReset},
		{"swap", (*suite).swap},
		{"swaps beside each other", (*suite).swaps},
		{"isolation", (*suite).isolation},
		{"ended context", (*suite).endedContext},
		{"context ends while waiting", (*suite).contextEndsWhileWaiting},
		{"timing", (*suite).timing},
		{"concurrency", (*suite).concurrency},
		{"balances", (*suite).balances},
		{"balances of missing accounts", (*suite).missingBalances},
		{"settings", (*suite).settings},
		{"needs", (*suite).needs},
		{"observe", (*suite).observe},
		{"observe while one waits", (*suite).observeWaiting},
		{"foreign writes", (*suite).foreignWrites},
		{"classify", (*suite).classify},
		{"close", (*suite).close},
		{"close beside close", (*suite).closes},
		{"batch", (*suite).batch},
		{"batch without savepoints", (*suite).batchWithoutSavepoints},
		{"touch", (*suite).touch},
		{"touch of missing accounts", (*suite).touchMissing},
		{"cold", (*suite).cold},
		{"log after cold", (*suite).logAfterCold},
		{"preserve", (*suite).preserve},
		{"pin", (*suite).pin},
		{"close while pinned", (*suite).closePinned},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(s, t) })
	}
}

// suite is what every test starts from.
type suite struct {
	open Open
	spec accounts.Spec
}

// errOwn is what a function fails with on purpose.
var errOwn = errors.New("enginetest: funds are short")

// bank is an engine under test.
type bank struct {
	engine.Engine
	t *testing.T
}

// start opens the engine and closes it when t ends.
func (s *suite) start(t *testing.T, needs engine.Needs) *bank {
	t.Helper()
	e := s.open(t, needs)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &bank{Engine: e, t: t}
}

// balance reads one account in a View.
func (b *bank) balance(id int64) (balance int64) {
	b.t.Helper()
	if err := b.View(context.Background(), func(rx engine.Rx) (err error) {
		balance, err = rx.Balance(id)
		return err
	}); err != nil {
		b.t.Fatalf("View of account %d: %v", id, err)
	}
	return balance
}

// unchanged returns a function that fails the test unless the accounts ids still
// hold what they hold now.
func (b *bank) unchanged(ids ...int64) func() { return b.changes(make(map[int64]int64), ids...) }

// changes returns a function that fails the test unless the accounts ids have
// changed by want, 0 for those that it does not name.
func (b *bank) changes(want map[int64]int64, ids ...int64) func() {
	b.t.Helper()
	before := make([]int64, len(ids))
	for i, id := range ids {
		before[i] = b.balance(id)
	}
	return func() {
		b.t.Helper()
		for i, id := range ids {
			if got := b.balance(id) - before[i]; got != want[id] {
				b.t.Errorf("account %d changed by %d, want %d", id, got, want[id])
			}
		}
	}
}

// add is a transaction that changes one account, which must succeed.
func (b *bank) add(id, delta int64) {
	b.t.Helper()
	if err := b.Update(context.Background(), nil, func(tx engine.Tx) error { return tx.Add(id, delta) }); err != nil {
		b.t.Fatalf("adding %d to account %d: %v", delta, id, err)
	}
}

// quiet returns what interval tells once everything is counted.
func (b *bank) quiet(interval func() engine.Stats) engine.Stats {
	b.t.Helper()
	if err := b.Quiet(context.Background()); err != nil {
		b.t.Fatalf("Quiet: %v", err)
	}
	return interval()
}

// read reads accounts with Balances, which must succeed.
func (b *bank) read(ids []int64) []int64 {
	b.t.Helper()
	balances := make([]int64, len(ids))
	if err := b.Balances(context.Background(), ids, balances, nil); err != nil {
		b.t.Fatalf("Balances of %d accounts: %v", len(ids), err)
	}
	return balances
}

// every returns the ids 1, 1+step, ... of the data set.
func (s *suite) every(step int64) (ids []int64) {
	for id := int64(1); id <= s.spec.Rows; id += step {
		ids = append(ids, id)
	}
	return ids
}

// some returns ids in ascending order with gaps between 1 and maxGap.
func (s *suite) some(maxGap int64) (ids []int64) {
	r := rand.New(rand.NewPCG(1, uint64(maxGap)))
	for id := 1 + r.Int64N(maxGap); id <= s.spec.Rows; id += 1 + r.Int64N(maxGap) {
		ids = append(ids, id)
	}
	return ids
}

// observe starts an interval: the function that it returns tells what e did since.
func observe(e engine.Engine) func() engine.Stats {
	before := e.Stats()
	return func() engine.Stats { return e.Stats().Sub(before) }
}
