// Package engine says what a database must do to be measured with the account
// data set. Each database has a sub-package; scenarios are written against the
// interfaces here and run on all of them.
//
// The statements are those of the transfers, not SQL text: each database writes
// them in its own dialect and prepares them in its own way, so that none pays for
// a translation that another does not need.
package engine

import (
	"context"
	"errors"
	"time"
)

// Rx reads accounts inside a transaction.
type Rx interface {
	// Balance returns what account id holds, or ErrNoAccount.
	Balance(id int64) (int64, error)
}

// Tx reads and changes accounts inside a transaction. It is valid until the
// function that it was passed to returns.
type Tx interface {
	Rx
	// Add changes what account id holds by delta. Anything but exactly one
	// changed row is ErrNoAccount.
	Add(id, delta int64) error
	// Swap is a compare-and-set: if account id holds old, it makes it hold balance
	// and returns true; otherwise it changes nothing. An account that is not there
	// holds no old.
	Swap(id, old, balance int64) (bool, error)
	// Record inserts a row into the transfer table.
	Record(from, to, amount int64) error
}

// Engine is an open database that holds an account data set. Its methods are safe
// for concurrent use unless they say otherwise.
type Engine interface {
	// Update runs fn in a transaction of its own and returns nil only after it
	// was committed at the durability that Settings tells. fn's own error comes
	// back unwrapped and undoes what fn did. t, if not nil, is filled in.
	Update(ctx context.Context, t *Timing, fn func(Tx) error) error
	// View runs fn in a read transaction.
	View(ctx context.Context, fn func(Rx) error) error
	// Balances reads the accounts ids, which ascend, into balances, in one
	// snapshot and on a connection of its own. progress, if not nil, is told how
	// many are read; it may be called by several goroutines at once.
	Balances(ctx context.Context, ids, balances []int64, progress func(done int)) error
	// Settle does what the engine put off, such as a checkpoint, and returns when
	// nothing is pending.
	Settle(ctx context.Context) error
	// Reset prepares for a round: what earlier ones left behind must not slow it.
	// Not beside Update.
	Reset(ctx context.Context) error
	// Settings returns the effective settings, as read back from the database.
	Settings() Settings
	// Stats returns what the engine has done since it was opened, as far as it is
	// counted; Stats.Sub makes an interval of two. It disturbs nobody.
	Stats() Stats
	// Quiet returns when everything that was acknowledged before it was called is
	// counted. After a storage failure it returns ErrStopped, and the last batch may
	// not be.
	Quiet(ctx context.Context) error
	// ForeignWrites reports whether somebody else has changed the database since
	// it was opened.
	ForeignWrites(ctx context.Context) (bool, error)
	// Classify names the kind of an error of Update or View in one or two words.
	// All engines say busy, cancelled, closed, constraint, deadline, no account,
	// panic and stopped for these, and error for an error that is not theirs.
	Classify(err error) string
	// InDoubt reports whether err leaves open if the transaction was committed.
	// Transactions with the same group share their fate.
	InDoubt(err error) (group any, ok bool)
	// Now is the clock of Timing: monotonic nanoseconds.
	Now() int64
	// Close closes the database; once more waits for that and does nothing more.
	Close() error
}

// Batcher is an Engine that can run many transactions on one goroutine with one
// COMMIT, nobody waiting for anybody.
type Batcher interface {
	// Batch runs fn for 0 to len(errs)-1 and commits. errs receives each one's
	// own outcome; the returned error is the outcome of all.
	Batch(ctx context.Context, errs []error, fn func(i int, tx Tx) error) error
}

// Cacher is an Engine on this machine whose caches can be put into a known state.
// Its methods are not for use beside Close.
type Cacher interface {
	// Cold opens fresh connections and drops the database from the operating
	// system's cache. Not beside anything else, not even Stats or Settings, and no
	// interval of Stats may reach across it.
	Cold(ctx context.Context) error
	// Preserve runs f and drops what f brought into the operating system's cache.
	Preserve(f func() error) error
	// Resident returns the share of the database that is in that cache, 0 to 1.
	Resident() (float64, error)
}

// Pinner is an Engine whose log a reader can keep from being emptied.
type Pinner interface {
	// Pin opens a connection of its own with a snapshot of the database as it is
	// now, which is held until release is called or the engine is closed. release
	// may be called more than once.
	Pin(ctx context.Context) (release func() error, err error)
}

// Toucher is an Engine that can read what a transaction will need while those before
// it run.
type Toucher interface {
	// UpdateTouching is Update for a function that is known to read or change certain
	// accounts. touch reads them, on the caller's goroutine and before the transaction
	// waits for its turn, so that fn finds them in memory. It is only a hint: where
	// Settings.Prefetch is 0 it is not called, where everything is in memory seldom,
	// where a read fails since it is not it is called again, what it reads may be older
	// than what fn finds, and its error is ignored. If it panics, that is the
	// transaction's outcome.
	UpdateTouching(ctx context.Context, t *Timing, touch func(Rx) error, fn func(Tx) error) error
}

// Scripter is an Engine that runs SQL that users wrote.
type Scripter interface {
	// UpdateSQL is Update for a function that brings its own statements.
	UpdateSQL(ctx context.Context, t *Timing, fn func(SQLTx) error) error
	// PrepareSQL checks one statement without running it: its errors are those that
	// Run would have before it ran. A statement that needs what an earlier one makes,
	// such as a temporary table, fails until that was run.
	PrepareSQL(ctx context.Context, sql string) error
}

// SQLTx is a transaction that takes SQL in the database's own dialect.
type SQLTx interface {
	// Run runs one statement to its end with args, which it does not keep, bound to
	// its parameters ?1, ?2 and so on, of which there must be as many: int64,
	// float64, string, []byte or nil. row, if not nil, receives the first row, or no
	// values if there is none. Statements that control the transaction, or settings
	// of the connection, are refused. Errors tell what the database said.
	Run(sql string, args []any, row *Row) error
}

// Row is one row of a result: int64, float64, string, []byte or nil.
type Row struct {
	Columns []string
	Values  []any
}

// ErrStopped means that a storage failure stopped the engine: what was in doubt is
// known only after the database was opened again. Every later call returns it, and
// so does Close.
var ErrStopped = errors.New("engine: stopped by a storage failure")

// ErrNoAccount means that a statement met no account, or more than one.
var ErrNoAccount = errors.New("engine: no account with this id")

// Timing says when a transaction passed each point of its way, in nanoseconds on
// the clock of Engine.Now.
type Timing struct {
	Accepted   int64 // the engine has the transaction
	Begun      int64 // its batch, or its turn on a connection, began, or its batch took it in
	Started    int64 // its function was started
	Ended      int64 // its function ended
	Committing int64 // COMMIT started
	Committed  int64 // COMMIT returned
	// Checkpointing is for how many of the nanoseconds from Accepted to Begun
	// checkpoints held the engine.
	Checkpointing int64
}

// Settings are the effective settings of an engine. What a database does not have
// is empty.
type Settings struct {
	JournalMode  string
	Synchronous  string
	PageSize     int64 // bytes
	CacheSize    int64 // pages, or KiB when negative
	MmapSize     int64 // bytes
	Checkpoint   string
	MaxBatch     int
	MaxBatchTime time.Duration // 0: no limit
	BatchWindow  time.Duration
	Queue        int
	Savepoints   string
	Readers      int
	Prefetch     int // how many calls of a Toucher read ahead at a time
}

// Access is the way in which transactions reach the database.
type Access string

const (
	// Queued is the engine's own best way: for SQLite the batching writer.
	Queued Access = "queued"
	// Pooled is a pool of connections, each transaction with its own COMMIT.
	Pooled Access = "pooled"
)

// Needs is what a scenario asks of an engine. Zero values leave it to the user's
// settings.
type Needs struct {
	Access     Access // "" means Queued
	MaxBatch   int
	Savepoints string // "each", "none" or "on-failure"
}
