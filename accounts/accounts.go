// Package accounts says what the data set is and what must hold for it: the
// table of accounts and the room it takes, which accounts a load touches, which
// transfers it makes, and the proof afterwards that every acknowledged transfer
// is in the table exactly once and that no money came or went.
//
// It is plain arithmetic: it opens no database, starts no goroutine and reads
// no clock. The same seed gives the same transfers on every machine.
//
// # The table
//
// Accounts have the ids 1 to [Spec].Rows without a gap and start with the same
// balance. The table is called account; its columns are, in this order:
//
//	id       the account's number
//	balance  whole units of money, may become negative
//	k1..kK   INTEGER NOT NULL, only with Spec.Indexes = K: [KeyColumn], each
//	         with an index on (k_i, balance), so that a transfer also has to
//	         move K index entries for each of its two accounts
//	payload  BLOB NOT NULL, only with Spec.Payload > 0: [PayloadBytes]
//
// Every column is a function of the id and the Spec, so that any two writers
// produce the same rows.
//
// # The load
//
// A [Dist] draws ranks, rank 1 the hottest; a [Layout] says which account has
// that rank; a [Pool] is a bounded list of transfers drawn that way. The
// [Journal] counts what was acknowledged and [Check] compares it with the
// balances.
package accounts

import "fmt"

// Limits of a data set. They are checked by [Spec.Validate].
const (
	// MaxRows is the highest number of accounts: 2^53, up to which a float64
	// holds every whole number, so that draws lose no account to rounding.
	MaxRows int64 = 1 << 53

	// MaxTotalBalance is the most money that all accounts together may start
	// with. It is half of what an int64 holds: transfers make some balances
	// negative, and then the sum over the others is higher than the total.
	MaxTotalBalance int64 = 1 << 62

	// MaxPayload is the largest payload column, in bytes.
	MaxPayload = 1 << 20

	// MaxIndexes is the largest number of extra indexed columns.
	MaxIndexes = 8

	// MinPageSize and MaxPageSize are SQLite's limits for a page, in bytes.
	MinPageSize = 512
	MaxPageSize = 65536
)

// Schema names one of the two shapes of the account table.
type Schema string

const (
	// SchemaRowid is account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL):
	// the id is the rowid, one B-tree, one descent per statement.
	SchemaRowid Schema = "rowid"

	// SchemaArticle is account(id PRIMARY KEY, balance INT): without the type
	// INTEGER the id is no alias of the rowid, so there are two B-trees, the
	// table and an index from id to rowid, and two descents per statement.
	SchemaArticle Schema = "article"
)

// Spec describes a data set. Two data sets with equal Specs hold equal rows.
type Spec struct {
	// Rows is the number of accounts, 1 to [MaxRows].
	Rows int64

	// Balance is what each account starts with, 0 or more. Rows × Balance is
	// at most [MaxTotalBalance].
	Balance int64

	// Schema is SchemaRowid or SchemaArticle; there is no default.
	Schema Schema

	// Payload is the size in bytes of the payload column, 0 to [MaxPayload];
	// 0 leaves the column out.
	Payload int

	// Indexes is the number of extra columns, each with an index on it and
	// the balance, 0 to [MaxIndexes].
	Indexes int

	// PageSize is the size in bytes of a database page: a power of two,
	// [MinPageSize] to [MaxPageSize]; there is no default.
	PageSize int
}

// Validate returns an error that names the first field that is out of its
// limits and what is allowed, or nil. The other methods of Spec expect a Spec
// that passed.
func (s Spec) Validate() error {
	switch {
	case s.Rows < 1 || s.Rows > MaxRows:
		return fmt.Errorf("accounts: %d rows: choose 1 to %d", s.Rows, MaxRows)
	case s.Balance < 0:
		return fmt.Errorf("accounts: balance %d: choose 0 or more", s.Balance)
	case s.Balance > MaxTotalBalance/s.Rows:
		return fmt.Errorf("accounts: %d rows with balance %d exceed the total of %d: choose a balance of at most %d",
			s.Rows, s.Balance, MaxTotalBalance, MaxTotalBalance/s.Rows)
	case s.Schema != SchemaRowid && s.Schema != SchemaArticle:
		return fmt.Errorf("accounts: unknown schema %q: choose %q or %q", string(s.Schema), SchemaRowid, SchemaArticle)
	case s.Payload < 0 || s.Payload > MaxPayload:
		return fmt.Errorf("accounts: payload of %d bytes: choose 0 to %d", s.Payload, MaxPayload)
	case s.Indexes < 0 || s.Indexes > MaxIndexes:
		return fmt.Errorf("accounts: %d indexes: choose 0 to %d", s.Indexes, MaxIndexes)
	case s.PageSize < MinPageSize || s.PageSize > MaxPageSize || s.PageSize&(s.PageSize-1) != 0:
		return fmt.Errorf("accounts: page size of %d bytes: choose a power of two, %d to %d",
			s.PageSize, MinPageSize, MaxPageSize)
	}
	return nil
}
