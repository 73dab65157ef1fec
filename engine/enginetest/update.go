package enginetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
)

// commit: what a function did is there for everybody once Update has returned, and
// for itself before.
func (s *suite) commit(t *testing.T) {
	b := s.start(t, engine.Needs{})
	check := b.changes(map[int64]int64{1: -7, 2: 7}, 1, 2, 3)
	before := b.balance(1)
	if err := b.Update(t.Context(), nil, func(tx engine.Tx) error {
		if err := tx.Add(1, -7); err != nil {
			return err
		}
		if got, err := tx.Balance(1); err != nil || got != before-7 {
			t.Errorf("the transaction reads %d (%v) after its own change, want %d", got, err, before-7)
		}
		return tx.Add(2, 7)
	}); err != nil {
		t.Fatal(err)
	}
	check()
	if got := b.read([]int64{1})[0]; got != before-7 {
		t.Errorf("Balances reads %d, View %d", got, before-7)
	}
}

// ownError: the caller gets the very error, and nothing of the function stays.
func (s *suite) ownError(t *testing.T) {
	b := s.start(t, engine.Needs{})
	check := b.unchanged(1, 2)
	err := b.Update(t.Context(), nil, func(tx engine.Tx) error {
		if err := errors.Join(tx.Add(1, -7), tx.Record(1, 2, 7)); err != nil {
			return err
		}
		return errOwn
	})
	if err != errOwn { // not errors.Is: unwrapped is what the contract says
		t.Errorf("Update returned %v, want the function's own error unwrapped", err)
	}
	check()
	if err := b.View(t.Context(), func(engine.Rx) error { return errOwn }); !errors.Is(err, errOwn) {
		t.Errorf("View returned %v, want the function's own error", err)
	}
}

// panics: a panic is its caller's error, undone like one, and the engine goes on.
func (s *suite) panics(t *testing.T) {
	b := s.start(t, engine.Needs{})
	check := b.changes(map[int64]int64{2: 3}, 1, 2)
	err := b.Update(t.Context(), nil, func(tx engine.Tx) error {
		if err := tx.Add(1, -7); err != nil {
			return err
		}
		panic("enginetest: on purpose")
	})
	if err == nil {
		t.Error("Update returned nil although the function panicked")
	} else if class := b.Classify(err); class != "panic" {
		t.Errorf("a panic is classified as %q", class)
	}
	b.add(2, 3)
	check()
}

// noAccount: an id that is not there is an error that leaves the transaction
// usable.
func (s *suite) noAccount(t *testing.T) {
	b := s.start(t, engine.Needs{})
	for _, id := range []int64{0, -1, s.spec.Rows + 1, 1 << 60} {
		check := b.unchanged(1, s.spec.Rows)
		err := b.Update(t.Context(), nil, func(tx engine.Tx) error {
			if err := tx.Add(1, 5); err != nil {
				return err
			}
			return tx.Add(id, -5)
		})
		if !errors.Is(err, engine.ErrNoAccount) {
			t.Errorf("Add to account %d: %v, want ErrNoAccount", id, err)
		}
		check()
		err = b.View(t.Context(), func(rx engine.Rx) error {
			_, err := rx.Balance(id)
			return err
		})
		if !errors.Is(err, engine.ErrNoAccount) {
			t.Errorf("Balance of account %d: %v, want ErrNoAccount", id, err)
		}
	}
	check := b.changes(map[int64]int64{1: 5}, 1)
	if err := b.Update(t.Context(), nil, func(tx engine.Tx) error {
		if err := tx.Add(0, 1); !errors.Is(err, engine.ErrNoAccount) {
			t.Errorf("Add to account 0: %v, want ErrNoAccount", err)
		}
		return tx.Add(1, 5)
	}); err != nil {
		t.Errorf("a function that went on after ErrNoAccount: %v", err)
	}
	check()
}

// recordAndReset: Reset empties the ledger and leaves the accounts alone.
func (s *suite) recordAndReset(t *testing.T) {
	b := s.start(t, engine.Needs{})
	check := b.changes(map[int64]int64{1: -9, 2: 9}, 1, 2)
	for range 3 {
		if err := b.Update(t.Context(), nil, func(tx engine.Tx) error {
			return errors.Join(tx.Add(1, -3), tx.Add(2, 3), tx.Record(1, 2, 3))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := b.Reset(t.Context()); err != nil {
			t.Errorf("Reset: %v", err)
		}
		if err := b.Settle(t.Context()); err != nil {
			t.Errorf("Settle: %v", err)
		}
	}
	check()
}

// isolation: a View sees nothing of a transaction that is under way.
func (s *suite) isolation(t *testing.T) {
	b := s.start(t, engine.Needs{})
	before := b.balance(1)
	changed, looked, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- b.Update(context.Background(), nil, func(tx engine.Tx) error {
			err := tx.Add(1, 7)
			close(changed)
			<-looked
			return err
		})
	}()
	<-changed
	during := b.balance(1)
	close(looked)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if during != before {
		t.Errorf("a View saw %d before COMMIT, want %d", during, before)
	}
	if after := b.balance(1); after != before+7 {
		t.Errorf("a View saw %d after Update returned, want %d", after, before+7)
	}
}

// endedContext: what comes with a context that has ended is not run.
func (s *suite) endedContext(t *testing.T) {
	b := s.start(t, engine.Needs{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // a choice between two ready channels is random
		err := b.Update(ctx, nil, func(engine.Tx) error { t.Error("Update ran its function"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("Update: %v, want the context's error", err)
		}
		err = b.View(ctx, func(engine.Rx) error { t.Error("View ran its function"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("View: %v, want the context's error", err)
		}
	}
	ids := s.every(1)
	if err := b.Balances(ctx, ids, make([]int64, len(ids)), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Balances: %v, want the context's error", err)
	}
}

// contextEndsWhileWaiting: a transaction that is overtaken by the end of its
// context either ran and says so, or did not and says that.
func (s *suite) contextEndsWhileWaiting(t *testing.T) {
	b := s.start(t, engine.Needs{})
	before := b.balance(2)
	entered, release, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		held <- b.Update(context.Background(), nil, func(engine.Tx) error {
			close(entered)
			<-release
			return nil
		})
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	ran, waiting := false, make(chan error, 1)
	go func() {
		waiting <- b.Update(ctx, nil, func(tx engine.Tx) error {
			ran = true
			return tx.Add(2, 1)
		})
	}()
	cancel()
	close(release)
	err := <-waiting
	if err := <-held; err != nil {
		t.Errorf("the transaction that was waited for: %v", err)
	}
	if ran != (err == nil) {
		t.Errorf("Update returned %v, its function ran: %v", err, ran)
	}
	if got := b.balance(2) - before; (got == 1) != ran {
		t.Errorf("the account changed by %d, the function ran: %v", got, ran)
	}
}

// timing: the stamps of an acknowledged transaction are all there, in order, and
// between the caller's own readings of the clock.
func (s *suite) timing(t *testing.T) {
	b := s.start(t, engine.Needs{})
	var group sync.WaitGroup
	for id := int64(1); id <= 20; id++ {
		group.Go(func() {
			var tm engine.Timing
			called := b.Now()
			err := b.Update(t.Context(), &tm, func(tx engine.Tx) error { return tx.Add(id, 0) })
			returned := b.Now()
			if err != nil {
				t.Error(err)
				return
			}
			last := called
			for i, stamp := range []int64{tm.Accepted, tm.Begun, tm.Started, tm.Ended, tm.Committing, tm.Committed, returned} {
				if stamp == 0 || stamp < last {
					t.Errorf("stamp %d of %+v (called at %d, returned at %d) is out of order", i, tm, called, returned)
					return
				}
				last = stamp
			}
			if tm.Checkpointing < 0 || tm.Checkpointing > tm.Begun-tm.Accepted {
				t.Errorf("checkpoints do not fit into the wait: %+v", tm)
			}
		})
	}
	group.Wait()
}

// concurrency: whatever fails, the table holds what was acknowledged exactly.
func (s *suite) concurrency(t *testing.T) {
	const goroutines, each = 200, 5
	b := s.start(t, engine.Needs{})
	hot, err := accounts.NewUniform(min(s.spec.Rows, 100)) // few accounts, so that they meet
	if err != nil {
		t.Fatal(err)
	}
	pool := accounts.NewPool(goroutines*each/2, 1, hot, accounts.Clustered{}) // each slot twice
	journal := accounts.NewJournal(pool.Len())
	ids := pool.Accounts()
	before := b.read(ids)
	var busy atomic.Int64
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for k := range each {
				slot, transfer, amount := pool.At(uint64(g*each + k))
				switch err := b.Update(context.Background(), nil, move(transfer, amount, k)); {
				case err == nil:
					journal.Ack(slot)
				case k == each-1 && (errors.Is(err, errOwn) || b.Classify(err) == "panic"):
				case b.Classify(err) == "busy": // where connections fight for a lock, some lose
					busy.Add(1)
				default:
					t.Errorf("transfer %d: %v", g*each+k, err)
				}
			}
		})
	}
	group.Wait()
	v := accounts.Check(pool, journal, ids, before, b.read(ids))
	if !v.OK {
		t.Error(v.Detail)
	}
	acked := int(busy.Load())
	for slot := range pool.Len() {
		acked += int(journal.Acked(slot))
	}
	if want := goroutines * (each - 1); acked != want {
		t.Errorf("%d transfers were acknowledged or busy, want %d", acked, want)
	}
}

// move is the k-th transfer of a goroutine of concurrency; each one's last fails
// half way or, for odd amounts, panics.
func move(transfer accounts.Transfer, amount int64, k int) func(engine.Tx) error {
	return func(tx engine.Tx) error {
		if err := tx.Add(transfer.From, -amount); err != nil {
			return err
		}
		if k == 4 {
			if amount%2 == 1 {
				panic("enginetest: half way")
			}
			return errOwn
		}
		return tx.Add(transfer.To, amount)
	}
}
