package engine

import (
	"context"
	"errors"
)

// Table is a database of its own with one table, which a load fills or reads on one
// goroutine and one connection, without a queue: what the statements and the COMMITs
// themselves cost. It is not safe for concurrent use.
type Table interface {
	// Reset makes the database anew, its table empty.
	Reset(ctx context.Context) error
	// Insert inserts n entries in one transaction, the k-th as entry says, whose bytes
	// it does not keep. One alone is a transaction by itself, without a BEGIN. When ctx
	// ends meanwhile, none is inserted and its error comes back.
	Insert(ctx context.Context, n int, entry func(k int) Entry) error
	// Value returns the value of the entry with key, or ErrNoEntry.
	Value(key Key) (int64, error)
	// Scan reads every entry, one by one as an application would, and returns how many
	// there are and the sum of their values.
	Scan(ctx context.Context) (entries, sum int64, err error)
	// Count has the database count and add them.
	Count(ctx context.Context) (entries, sum int64, err error)
	// Settle does what was put off, such as a checkpoint.
	Settle(ctx context.Context) error
	// Settings returns the effective settings, as read back from the database.
	Settings() Settings
	// Stats tells the sizes of the files; the rest is not counted.
	Stats() Stats
	// Classify and InDoubt are as for [Engine].
	Classify(err error) string
	InDoubt(err error) (group any, ok bool)
	// Close closes the database and removes it; once more does nothing.
	Close() error
}

// TableSpec is what a [Table] is like.
type TableSpec struct {
	BlobKeys     bool // keys are bytes, not integers
	WithoutRowid bool // the table is the index of its keys
	Payload      int  // bytes of payload in each entry
	PageSize     int  // bytes; 0: the database's default
}

// Entry is a row of a [Table].
type Entry struct {
	Key   Key
	Value int64
}

// Key is the key of an [Entry].
type Key struct {
	Integer int64
	Blob    []byte // nil: the key is Integer
}

// ErrNoEntry means that a [Table] has no entry with that key.
var ErrNoEntry = errors.New("engine: no entry with this key")
