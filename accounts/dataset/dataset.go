// Package dataset keeps a data set of package accounts in a SQLite file: it
// makes one ([Seed]), goes on with one whose making was interrupted, tells what
// lies at a path ([Inspect]), and proves that one is whole ([Check]).
//
// # What makes a file ours
//
// The header carries [ApplicationID], and the table tpssim holds the Spec, the
// version of this format, and whether the seeding reached its end. A file
// without the number is refused and not even opened by SQLite, whatever it holds
// ([Look]); no file without all of it is written to. Beside the
// accounts there is an empty table for loads that keep a ledger:
//
//	transfer(id INTEGER PRIMARY KEY, source, target, amount INTEGER NOT NULL)
//
// # What a process that dies leaves behind
//
// A data set that is written page by page ([Pages]) is made in a file beside its
// own, whose name ends in -partial, and renamed when it is whole and synced: there
// is no data set, or a complete one. The next Seed removes the other file.
//
// Through SQL, rows are committed in the order of their ids in large transactions, through a
// rollback journal and with synchronous=FULL, so that after a kill or a power
// cut the file holds the accounts 1 to some id and nothing else, and seeding
// again goes on behind it. The rollback journal is not slower here than a WAL:
// appending changes hardly any old page, so the journal stays at a few pages,
// while a WAL would hold every row once more. Only at the end is the file
// switched to WAL, and only then is it marked complete.
//
// # One process, one user
//
// No function of this package may run while the same process has the database
// open elsewhere: Inspect opens a clean file without locks, and closing that
// descriptor would drop the locks that POSIX counts by process. Other processes
// are kept out by [Options].Lock and by SQLite's own locks.
package dataset

import (
	"fmt"
	"strings"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// ApplicationID is the number in the database header (PRAGMA application_id)
// that says that the file is ours: "TPSs" in ASCII.
const ApplicationID int64 = 0x54505373

// formatVersion is raised when a data set changes so that an older program
// would misread it.
const formatVersion int64 = 1

// Options are the caller's means and wishes. The zero value is usable.
type Options struct {
	// Progress is told how far the work is, in order and without a gap of
	// more than a second unless SQLite is in one long statement. For Seed,
	// done and total count rows. For Check they are bytes read, against an
	// estimate; where the system does not count them, both are 0. It must
	// return at once; nil tells nobody. Seed calls it on its own goroutine,
	// Check on another, never two at a time and never after Check returned.
	Progress func(done, total int64)

	// Stage is told what begins now, as in "index 1 of 2". Nil tells nobody.
	Stage func(name string)

	// Lock takes the lock that keeps other writers of this program away from
	// path and returns how to give it back. Nil takes none.
	Lock func(path string) (release func() error, err error)

	// FreeBytes tells how many bytes can be written to the file system of
	// path. Nil skips the forecast's comparison with it. Only for Seed.
	FreeBytes func(path string) (uint64, error)

	// Overwrite lets Seed replace a data set that is complete or has other
	// parameters. It is replaced only by a whole one when the method is Pages,
	// and deleted first when it is SQL. What is not a data set of ours, or open
	// in another program, is refused all the same.
	Overwrite bool

	// Method is how Seed makes the accounts. "" means Auto.
	Method Method

	// CommitRows is the number of rows in one transaction of Seed: what a
	// kill can lose. 0 means a million or about 64 MiB, whichever is less.
	CommitRows int64

	// Open opens connections; nil means cgosqlite.Open. Tests inject here.
	Open sqliteh.OpenFunc
}

func (o Options) lock(path string) (release func() error, err error) {
	if o.Lock == nil {
		return func() error { return nil }, nil
	}
	release, err = o.Lock(path)
	if err != nil {
		return nil, explain(path, err)
	}
	return release, nil
}

func (o Options) progress(done, total int64) {
	if o.Progress != nil {
		o.Progress(done, total)
	}
}

func (o Options) stage(name string) {
	if o.Stage != nil {
		o.Stage(name)
	}
}

// Statements that make the tables beside the accounts.
const (
	createMeta     = "CREATE TABLE tpssim(key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID"
	createTransfer = "CREATE TABLE transfer(id INTEGER PRIMARY KEY, source INTEGER NOT NULL, target INTEGER NOT NULL, amount INTEGER NOT NULL)"
)

// extraPages are the pages of those two tables, empty or nearly so.
const extraPages = 2

// Forecast returns the size in bytes that the complete data set's file will
// have. For files of a hundred pages or more it is meant to be within a few
// percent.
func Forecast(spec accounts.Spec) int64 {
	bytes := spec.ForecastBytes()
	return max(bytes, bytes+extraPages*int64(spec.PageSize)) // the forecast of an absurd spec saturates
}

// createAccount is the statement that makes the account table.
func createAccount(spec accounts.Spec) string {
	var b strings.Builder
	if spec.Schema == accounts.SchemaArticle {
		b.WriteString("CREATE TABLE account(id PRIMARY KEY, balance INT")
	} else {
		b.WriteString("CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL")
	}
	for i := 1; i <= spec.Indexes; i++ {
		fmt.Fprintf(&b, ", k%d INTEGER NOT NULL", i)
	}
	if spec.Payload > 0 {
		b.WriteString(", payload BLOB NOT NULL")
	}
	b.WriteString(")")
	return b.String()
}

func indexName(i int) string { return fmt.Sprintf("account_k%d", i) }

func createIndex(i int) string {
	return fmt.Sprintf("CREATE INDEX %s ON account(k%d, balance)", indexName(i), i)
}

// insertAccounts is a statement that inserts n accounts in a row, from id ?1
// on, with balance ?2 and payload ?3.
//
// Many rows a statement save a call into C for each, and the ids and keys are
// computed in SQL: measured at 3M rows, 250 rows a statement reach 2.4M rows/s
// where one row a statement reaches 1.1M and a recursive query 1.4M. OR FAIL
// saves the statement journal that the default needs in order to undo half a
// statement; here a failure rolls the whole transaction back.
func insertAccounts(spec accounts.Spec, n int) string {
	var b strings.Builder
	b.WriteString("INSERT OR FAIL INTO account VALUES ")
	for row := range n {
		if row > 0 {
			b.WriteString(", ")
		}
		id := fmt.Sprintf("?1+%d", row)
		fmt.Fprintf(&b, "(%s, ?2", id)
		for i := 1; i <= spec.Indexes; i++ {
			fmt.Fprintf(&b, ", %s", accounts.KeyColumnSQL(id, i))
		}
		if spec.Payload > 0 {
			b.WriteString(", ?3")
		}
		b.WriteString(")")
	}
	return b.String()
}

// metaKeys are the keys of the table tpssim.
const (
	metaFormat   = "format"
	metaRows     = "rows"
	metaBalance  = "balance"
	metaSchema   = "schema"
	metaPayload  = "payload"
	metaIndexes  = "indexes"
	metaPageSize = "page_size"
	metaComplete = "complete"
)

// writeMeta records the Spec of a data set that is about to be seeded.
func writeMeta(c *sqlconn.Conn, spec accounts.Spec) error {
	for _, m := range []struct {
		key   string
		value any
	}{
		{metaFormat, formatVersion},
		{metaRows, spec.Rows},
		{metaBalance, spec.Balance},
		{metaSchema, string(spec.Schema)},
		{metaPayload, int64(spec.Payload)},
		{metaIndexes, int64(spec.Indexes)},
		{metaPageSize, int64(spec.PageSize)},
		{metaComplete, int64(0)},
	} {
		if err := c.Exec("INSERT INTO tpssim VALUES(?1, ?2)", m.key, m.value); err != nil {
			return err
		}
	}
	return nil
}

// readMeta reads what writeMeta wrote.
func readMeta(c *sqlconn.Conn, path string) (spec accounts.Spec, complete bool, err error) {
	numbers, schema := make(map[string]int64), ""
	err = c.Each("SELECT key, value FROM tpssim", func(s sqliteh.Stmt) error {
		key := s.ColumnText(0)
		if key == metaSchema {
			schema = s.ColumnText(1)
		} else {
			numbers[key] = s.ColumnInt64(1)
		}
		return nil
	})
	if err != nil {
		return accounts.Spec{}, false, err
	}
	if v := numbers[metaFormat]; v != formatVersion {
		return accounts.Spec{}, false, refuse(path, ErrFormat, "format %d, this program knows %d: seed a new data set at another path", v, formatVersion)
	}
	spec = accounts.Spec{
		Rows:     numbers[metaRows],
		Balance:  numbers[metaBalance],
		Schema:   accounts.Schema(schema),
		Payload:  int(numbers[metaPayload]),
		Indexes:  int(numbers[metaIndexes]),
		PageSize: int(numbers[metaPageSize]),
	}
	if err := spec.Validate(); err != nil {
		return accounts.Spec{}, false, refuse(path, ErrCorrupt, "delete it and seed again (its table tpssim: %v)", err)
	}
	return spec, numbers[metaComplete] == 1, nil
}
