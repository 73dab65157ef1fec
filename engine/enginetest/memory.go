package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
)

// Memory is an engine whose accounts are a map in memory, one transaction at a
// time. It passes the suite, takes no time but what CommitTime says, works in a
// synctest bubble, and can be made to lie, to see whether a proof finds it out.
// The fields are set before its first use.
type Memory struct {
	// CommitTime is how long a COMMIT takes.
	CommitTime time.Duration
	// Tamper, if set, is called with the number of each COMMIT, from 0, and what it
	// is about to add to each account. It may change that: the caller of the
	// transaction is told that all is well.
	Tamper func(commit int, changes map[int64]int64)
	// Fail, if set, is called with the number of each COMMIT, before Tamper; an
	// error ends the transaction with it. Wrap ErrInDoubt or engine.ErrStopped for
	// what these mean.
	Fail func(commit int) error
	// Foreign is what ForeignWrites reports.
	Foreign atomic.Bool

	epoch    time.Time
	turn     chan struct{} // holds a token while no transaction runs
	failure  error         // of the storage; guarded by turn
	closed   chan struct{}
	closing  sync.Once
	waiting  atomic.Int64 // for the turn
	settings engine.Settings

	mu      sync.Mutex
	rows    int64
	initial int64
	changed map[int64]int64 // by id; what is missing holds initial
	ledger  int
	commit  int
	stats   engine.Stats
}

// ErrInDoubt makes the error of a COMMIT one that Memory's InDoubt reports.
var ErrInDoubt = errors.New("enginetest: nobody knows whether the transaction was committed")

// errClosed is what a closed Memory returns.
var errClosed = errors.New("enginetest: closed")

// NewMemory returns an engine on a new data set of spec.
func NewMemory(spec accounts.Spec) *Memory {
	m := &Memory{epoch: time.Now(), rows: spec.Rows, initial: spec.Balance, changed: map[int64]int64{}}
	m.settings = engine.Settings{JournalMode: "memory", Synchronous: "off"}
	m.Open(engine.Needs{})
	return m
}

// Open opens the engine again after Close, with what it held, and stopped no more.
// The needs show in its settings.
func (m *Memory) Open(needs engine.Needs) {
	m.turn, m.closed, m.closing = make(chan struct{}, 1), make(chan struct{}), sync.Once{}
	m.turn <- struct{}{}
	m.failure = nil
	m.settings.MaxBatch, m.settings.Savepoints = 1, needs.Savepoints
}

// Ledger returns the number of rows in the transfer table.
func (m *Memory) Ledger() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ledger
}

// take waits for the turn of a transaction.
func (m *Memory) take(ctx context.Context) error {
	if err := m.refuse(ctx); err != nil {
		return err
	}
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-m.turn:
	}
	if m.failure != nil {
		m.turn <- struct{}{}
		return fmt.Errorf("%w: %w", engine.ErrStopped, m.failure)
	}
	return nil
}

func (m *Memory) give() { m.turn <- struct{}{} }

// refuse returns why nothing may begin with ctx.
func (m *Memory) refuse(ctx context.Context) error {
	select {
	case <-m.closed:
		return errClosed
	default:
		return ctx.Err()
	}
}

// memoryTx is a transaction, or a View when it is asked for no changes.
type memoryTx struct {
	m       *Memory
	changes map[int64]int64
	ledger  int
}

func (tx *memoryTx) Balance(id int64) (int64, error) {
	balance, err := tx.m.balance(id)
	return balance + tx.changes[id], err
}

func (tx *memoryTx) Add(id, delta int64) error {
	if _, err := tx.m.balance(id); err != nil {
		return err
	}
	tx.changes[id] += delta
	return nil
}

func (tx *memoryTx) Swap(id, old, balance int64) (bool, error) {
	now, err := tx.Balance(id)
	if err != nil || now != old { // an account that is not there holds nothing
		return false, nil
	}
	tx.changes[id] += balance - old
	return true, nil
}

func (tx *memoryTx) Record(from, to, amount int64) error {
	tx.ledger++
	return nil
}

func (m *Memory) balance(id int64) (int64, error) {
	if id < 1 || id > m.rows {
		return 0, engine.ErrNoAccount
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if balance, ok := m.changed[id]; ok {
		return balance, nil
	}
	return m.initial, nil
}

// panicError is the error of a function that panicked.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("enginetest: panic: %v", e.value) }

// Update implements engine.Engine.
func (m *Memory) Update(ctx context.Context, t *engine.Timing, fn func(engine.Tx) error) error {
	if t == nil {
		t = new(engine.Timing)
	}
	t.Accepted = m.Now()
	if err := m.take(ctx); err != nil {
		return err
	}
	defer m.give()
	t.Begun = m.Now()
	t.Started = t.Begun
	tx := &memoryTx{m: m, changes: map[int64]int64{}}
	err := protect(func() error { return fn(tx) })
	t.Ended = m.Now()
	t.Committing = t.Ended
	if err == nil {
		err = m.apply(tx)
	}
	t.Committed = m.Now()
	m.account(t, err)
	return err
}

func protect(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v}
		}
	}()
	return fn()
}

// apply is the COMMIT.
func (m *Memory) apply(tx *memoryTx) error {
	time.Sleep(m.CommitTime)
	m.mu.Lock()
	defer m.mu.Unlock()
	commit := m.commit
	m.commit++
	if m.Fail != nil {
		if err := m.Fail(commit); err != nil {
			if errors.Is(err, engine.ErrStopped) {
				m.failure = err
			}
			return err
		}
	}
	if m.Tamper != nil {
		m.Tamper(commit, tx.changes)
	}
	for id, change := range tx.changes {
		balance, ok := m.changed[id]
		if !ok {
			balance = m.initial
		}
		m.changed[id] = balance + change
	}
	m.ledger += tx.ledger
	return nil
}

// account counts a transaction.
func (m *Memory) account(t *engine.Timing, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Batches++
	m.stats.Busy += time.Duration(max(t.Committed-t.Begun, 1))
	if err == nil {
		m.stats.Commits++
	} else {
		m.stats.RolledBack++
	}
}

// View implements engine.Engine.
func (m *Memory) View(ctx context.Context, fn func(engine.Rx) error) error {
	if err := m.refuse(ctx); err != nil {
		return err
	}
	return fn(&memoryTx{m: m})
}

// Balances implements engine.Engine.
func (m *Memory) Balances(ctx context.Context, ids, balances []int64, progress func(done int)) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, id := range ids {
		if balances[i], err = m.balance(id); err != nil {
			return err
		}
	}
	if progress != nil {
		progress(len(ids))
	}
	return nil
}

// Settle implements engine.Engine: nothing is put off.
func (m *Memory) Settle(ctx context.Context) error {
	if err := m.take(ctx); err != nil {
		return err
	}
	m.give()
	return nil
}

// Reset implements engine.Engine.
func (m *Memory) Reset(ctx context.Context) error {
	if err := m.take(ctx); err != nil {
		return err
	}
	defer m.give()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger = 0
	return nil
}

// Settings implements engine.Engine.
func (m *Memory) Settings() engine.Settings { return m.settings }

// Stats implements engine.Engine.
func (m *Memory) Stats() engine.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Transactions, s.Queued = s.Batches, m.waiting.Load()
	if s.Batches > 0 {
		s.BatchSizes = []engine.Bucket{{Upto: 1, Count: s.Batches}}
	}
	return s
}

// Quiet implements engine.Engine: each transaction is counted before Update
// returns.
func (m *Memory) Quiet(ctx context.Context) error { return m.Settle(ctx) }

// ForeignWrites implements engine.Engine.
func (m *Memory) ForeignWrites(ctx context.Context) (bool, error) {
	return m.Foreign.Load(), m.Settle(ctx)
}

// Classify implements engine.Engine.
func (m *Memory) Classify(err error) string {
	if _, ok := errors.AsType[*panicError](err); ok {
		return "panic"
	}
	for _, c := range []struct {
		name   string
		target error
	}{
		{"in doubt", ErrInDoubt}, {"stopped", engine.ErrStopped}, {"closed", errClosed},
		{"deadline", context.DeadlineExceeded}, {"cancelled", context.Canceled}, {"no account", engine.ErrNoAccount},
	} {
		if errors.Is(err, c.target) {
			return c.name
		}
	}
	return "error"
}

// InDoubt implements engine.Engine. Each error is a group of its own.
func (m *Memory) InDoubt(err error) (group any, ok bool) {
	if errors.Is(err, ErrInDoubt) {
		return err, true
	}
	return nil, false
}

// Now implements engine.Engine.
func (m *Memory) Now() int64 { return int64(time.Since(m.epoch)) + 1 }

// Close implements engine.Engine.
func (m *Memory) Close() error {
	m.closing.Do(func() { close(m.closed) })
	return m.failure
}
