package enginetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/tpssim/tpssim/engine"
)

// swap: it is done if the account holds what was expected, and otherwise nothing is.
func (s *suite) swap(t *testing.T) {
	b := s.start(t, engine.Needs{})
	b.add(2, 5) // so that the two differ
	one, two := b.balance(1), b.balance(2)
	for _, tt := range []struct {
		name             string
		id, old, balance int64
		want             bool
		after            int64 // what account 1 holds then
	}{
		{"what it holds", 1, one, one + 7, true, one + 7},
		{"what it held", 1, one, one + 8, false, one + 7},
		{"what another one holds", 1, two, one + 9, false, one + 7},
		{"no change", 1, one + 7, one + 7, true, one + 7},
		{"to nothing", 1, one + 7, 0, true, 0},
		{"below nothing", 1, 0, -3, true, -3},
		{"back", 1, -3, one, true, one},
		{"no account", 0, 0, 5, false, one},
		{"behind the last", s.spec.Rows + 1, s.spec.Balance, 5, false, one},
	} {
		var got bool
		err := b.Update(t.Context(), nil, func(tx engine.Tx) (err error) {
			got, err = tx.Swap(tt.id, tt.old, tt.balance)
			return err
		})
		if got != tt.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
		if after := b.balance(1); after != tt.after {
			t.Errorf("%s: account 1 holds %d, want %d", tt.name, after, tt.after)
		}
		if after := b.balance(2); after != two {
			t.Errorf("%s: account 2 holds %d, want %d", tt.name, after, two)
		}
	}

	// A swap sees its own transaction's changes and is undone with it.
	check := b.unchanged(1, 2)
	if err := b.Update(t.Context(), nil, func(tx engine.Tx) error {
		if err := tx.Add(1, 1); err != nil {
			return err
		}
		won, err := tx.Swap(1, one+1, one+2)
		lost, err2 := tx.Swap(1, one, one+3)
		if !won || lost {
			t.Errorf("after the transaction's own change: %v, after its own swap: %v", won, lost)
		}
		return errors.Join(err, err2, errOwn)
	}); !errors.Is(err, errOwn) {
		t.Errorf("Update: %v, want the function's own error", err)
	}
	check()
}

// errLost ends a transaction whose second swap lost after its first won.
var errLost = errors.New("enginetest: somebody was faster")

// swaps: with both balances read in one View and set by two swaps, nothing is lost
// and nothing made, however many do so at once.
func (s *suite) swaps(t *testing.T) {
	const goroutines, each = 16, 10
	b := s.start(t, engine.Needs{})
	check := b.changes(map[int64]int64{1: -goroutines * each, 2: goroutines * each}, 1, 2)
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for won := 0; won < each; {
				switch err := b.moveBySwaps(1, 2, 1); {
				case err == nil:
					won++
				case errors.Is(err, errLost) || b.Classify(err) == "busy":
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	check()
}

// moveBySwaps is a transfer that holds no lock between reading and writing.
func (b *bank) moveBySwaps(from, to, amount int64) error {
	var source, target int64
	if err := b.View(context.Background(), func(rx engine.Rx) (err error) {
		if source, err = rx.Balance(from); err != nil {
			return err
		}
		target, err = rx.Balance(to)
		return err
	}); err != nil {
		return err
	}
	return b.Update(context.Background(), nil, func(tx engine.Tx) error {
		for _, set := range []struct{ id, old, balance int64 }{{from, source, source - amount}, {to, target, target + amount}} {
			if won, err := tx.Swap(set.id, set.old, set.balance); err != nil {
				return err
			} else if !won {
				return errLost
			}
		}
		return nil
	})
}
