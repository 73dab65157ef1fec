// Package tpcb makes the tables of pgbench's TPC-B-like transaction in a SQLite
// file, so that its built-in scripts run unchanged: package script has them as
// tpcb-like, simple-update and select-only. At scale n there are
//
//	pgbench_branches   n        bid, bbalance, filler
//	pgbench_tellers    10n      tid, bid, tbalance, filler
//	pgbench_accounts   100000n  aid, bid, abalance, filler of 84 blanks
//	pgbench_history    none     tid, bid, aid, delta, mtime, filler
//
// with pgbench's columns and contents, see
// https://www.postgresql.org/docs/current/pgbench.html: all balances are 0, and the
// fillers of all tables but accounts are NULL. The identifiers are rowids.
//
// The header of such a file carries [ApplicationID], which is not that of package
// dataset's data sets: that package refuses the file as none of its own. The scale
// is the number of branches, as pgbench itself finds it.
//
// Seed, Inspect and Consistent must not run while the same process has the database
// open elsewhere: they open and close it, and closing drops the locks that POSIX
// counts by process.
package tpcb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// ApplicationID is the number in the database header (PRAGMA application_id) that
// says that the file holds these tables: "TPSb" in ASCII.
const ApplicationID = dataset.TPCBApplicationID

// formatVersion (PRAGMA user_version) is raised when the tables change so that an
// older program would misread them.
const formatVersion int64 = 1

// The rows of a table at scale 1, as pgbench has them.
const (
	branchRows  = 1
	tellerRows  = 10
	accountRows = 100_000
)

// MaxScale is the largest scale: ten billion accounts, about a terabyte.
const MaxScale = 100_000

// Errors of this package beside those of package dataset, which it uses for all that
// the two have in common: ErrNotExist, ErrNotOurs, ErrFormat, ErrLocked, ErrReadOnly,
// ErrNoSpace and so on.
var (
	// ErrExists: the tables are there already, and Overwrite was not set.
	ErrExists = errors.New("it holds pgbench's tables already")
	// ErrInconsistent: the sums of the balances differ.
	ErrInconsistent = errors.New("the balances do not agree")
)

// Info is what a file with these tables says about itself.
type Info struct {
	Path  string // absolute, symbolic links followed
	Scale int64
}

// Inspect tells whether the file at path holds these tables, and at which scale. It
// changes nothing and leaves no file behind, but for recovering what a process that
// died had committed to such tables. What is something else is not opened at all.
//
// The error wraps dataset.ErrNotExist when there is no file or an empty one,
// dataset.ErrNotOurs when it holds something else, an account data set included,
// dataset.ErrFormat when another version made the tables, and otherwise an error of
// package dataset.
func Inspect(path string) (Info, error) {
	found, err := dataset.Look(path)
	if err != nil {
		return Info{}, err // which says what to do
	}
	if found.Kind != dataset.KindTPCB {
		return Info{}, refuse(path, dataset.ErrNotOurs, "it holds an account data set, not pgbench's tables: choose another path")
	}
	info := Info{Path: found.Path}
	err = read(info.Path, func(c *sqlconn.Conn) error {
		version, err := c.Integer("PRAGMA user_version")
		if err != nil {
			return err
		}
		if version != formatVersion {
			return refuse(path, dataset.ErrFormat, "format %d, this program knows %d: seed again at another path", version, formatVersion)
		}
		made, err := c.Integer("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('pgbench_branches', 'pgbench_tellers', 'pgbench_accounts', 'pgbench_history')")
		if err != nil {
			return err
		}
		if made != int64(len(tables)) {
			return refuse(path, dataset.ErrCorrupt, "delete it and seed again (of its %d tables %d are there)", len(tables), made)
		}
		info.Scale, err = c.Integer("SELECT count(*) FROM pgbench_branches")
		return err
	})
	if err != nil {
		return Info{}, explain(path, err)
	}
	return info, nil
}

// Sums are the sums that the TPC-B-like transaction keeps equal.
type Sums struct {
	Branches, Tellers, Accounts int64 // of the balances
	History                     int64 // of the deltas
}

// Consistent reads the sums in one snapshot and returns an error that wraps
// [ErrInconsistent] unless all four are equal: each transaction of the TPC-B-like
// script adds its delta to one row of each table and records it. After another
// script, such as simple-update, they differ rightly.
func Consistent(ctx context.Context, path string) (sums Sums, err error) {
	info, err := Inspect(path)
	if err != nil {
		return Sums{}, err
	}
	err = read(info.Path, func(c *sqlconn.Conn) error {
		return c.Interruptible(ctx, func() error {
			return c.Each(`SELECT (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(tbalance) FROM pgbench_tellers),
				(SELECT sum(abalance) FROM pgbench_accounts), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)`,
				func(row sqliteh.Stmt) error {
					sums = Sums{row.ColumnInt64(0), row.ColumnInt64(1), row.ColumnInt64(2), row.ColumnInt64(3)}
					return nil
				})
		})
	})
	switch {
	case err != nil:
		return Sums{}, explain(path, err)
	case sums.Branches != sums.Tellers || sums.Branches != sums.Accounts || sums.Branches != sums.History:
		return sums, refuse(path, ErrInconsistent, "the branches hold %d, the tellers %d, the accounts %d, and the history adds up to %d",
			sums.Branches, sums.Tellers, sums.Accounts, sums.History)
	}
	return sums, nil
}

// read runs f on a connection for reading that leaves no file behind.
func read(path string, f func(*sqlconn.Conn) error) error {
	how := sqlconn.Immutable
	for _, suffix := range []string{"-wal", "-journal"} {
		if _, err := os.Stat(path + suffix); err == nil {
			how = sqlconn.Existing // so that SQLite applies it and tidies up
		}
	}
	c, err := sqlconn.Open(nil, path, how)
	if err != nil {
		return err
	}
	return errors.Join(f(c), c.Close())
}

// refuse builds this package's one form of an error.
func refuse(path string, why error, advice string, args ...any) error {
	return fmt.Errorf("tpcb: %s: %w: %s", path, why, fmt.Sprintf(advice, args...))
}

// explained are the errors that say already what to do.
var explained = []error{
	dataset.ErrNotExist, dataset.ErrNoFolder, dataset.ErrNotFile, dataset.ErrOrphan, dataset.ErrNotDatabase, dataset.ErrNotOurs,
	dataset.ErrFormat, dataset.ErrCorrupt, dataset.ErrNoSpace, dataset.ErrLocked, dataset.ErrReadOnly, dataset.ErrTaken, ErrExists, ErrInconsistent,
}

// explain turns what SQLite or the system answered into an error that says what to
// do.
func explain(path string, err error) error {
	if err == nil || slices.ContainsFunc(explained, func(known error) bool { return errors.Is(err, known) }) {
		return err
	}
	var sqlErr *sqlconn.Error
	code := sqliteh.SQLITE_OK
	if errors.As(err, &sqlErr) {
		code = sqlErr.Primary()
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("tpcb: %s: stopped: %w", path, err)
	case code == sqliteh.SQLITE_FULL, errors.Is(err, syscall.ENOSPC):
		return refuse(path, dataset.ErrNoSpace, "make room there, choose another disk, or a smaller scale: nothing of it is left")
	case code == sqliteh.SQLITE_BUSY, code == sqliteh.SQLITE_LOCKED:
		return refuse(path, dataset.ErrLocked, "wait for it or end it, then try again")
	case code == sqliteh.SQLITE_READONLY, code == sqliteh.SQLITE_CANTOPEN, code == sqliteh.SQLITE_PERM,
		errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return refuse(path, dataset.ErrReadOnly, "choose a folder that you may write to (%v)", err)
	case code == sqliteh.SQLITE_CORRUPT:
		return refuse(path, dataset.ErrCorrupt, "delete it and seed again (%v)", err)
	}
	return fmt.Errorf("tpcb: %s: %w", path, err)
}
