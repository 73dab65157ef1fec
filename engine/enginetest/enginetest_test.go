package enginetest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var spec = accounts.Spec{Rows: 1000, Balance: 1000, Schema: accounts.SchemaRowid, PageSize: 4096}

func TestMemory(t *testing.T) {
	engines := map[string]*enginetest.Memory{}
	enginetest.Run(t, func(t *testing.T, needs engine.Needs) engine.Engine {
		m, ok := engines[t.Name()]
		if !ok {
			m = enginetest.NewMemory(spec)
			engines[t.Name()] = m
		}
		m.Open(needs)
		return m
	}, spec)
}

// What the suite is worth rests on Memory telling the truth unless it is told not
// to, and lying when it is.
func TestMemoryLies(t *testing.T) {
	m := enginetest.NewMemory(spec)
	m.Tamper = func(commit int, changes map[int64]int64) {
		if commit == 1 {
			clear(changes)
		}
	}
	m.Fail = func(commit int) error {
		switch commit {
		case 2:
			return fmt.Errorf("commit: %w", enginetest.ErrInDoubt)
		case 3:
			return engine.ErrStopped
		}
		return nil
	}
	add := func(tx engine.Tx) error { return errors.Join(tx.Add(1, 1), tx.Record(1, 1, 1)) }
	var errs []error
	for range 5 {
		errs = append(errs, m.Update(t.Context(), nil, add))
	}
	if errs[0] != nil || errs[1] != nil {
		t.Errorf("the first two: %v, %v", errs[0], errs[1])
	}
	if group, doubt := m.InDoubt(errs[2]); !doubt || group == nil || m.Classify(errs[2]) != "in doubt" {
		t.Errorf("the third is not in doubt: %v", errs[2])
	}
	for _, err := range append(errs[3:], m.Settle(t.Context()), m.Reset(t.Context()), m.Close()) {
		if !errors.Is(err, engine.ErrStopped) {
			t.Errorf("after the storage failure: %v", err)
		}
	}
	m.Open(engine.Needs{})
	balances := make([]int64, 1)
	if err := m.Balances(t.Context(), []int64{1}, balances, nil); err != nil || balances[0] != spec.Balance+1 {
		t.Errorf("the account holds %d (%v), want %d", balances[0], err, spec.Balance+1)
	}
	if m.Ledger() != 2 { // Tamper is for accounts
		t.Errorf("the ledger has %d rows, want 2", m.Ledger())
	}
}

func TestMemoryTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := enginetest.NewMemory(spec)
		m.CommitTime = 3 * time.Millisecond
		start := time.Now()
		done := make(chan error)
		for range 10 {
			go func() { done <- m.Update(t.Context(), nil, func(tx engine.Tx) error { return tx.Add(1, 1) }) }()
		}
		for range 10 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(start); took != 30*time.Millisecond {
			t.Errorf("10 commits of 3 ms took %v", took)
		}
	})
}
