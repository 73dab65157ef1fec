package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/sqlconn"
)

// What is found at a path when a data set is looked for. Every error of this
// package wraps one of these where a caller may want to tell them apart, and
// its text names the path and says what to do.
var (
	// ErrNotExist: there is no file, or an empty one. Seed makes it.
	ErrNotExist = errors.New("there is no data set")
	// ErrNoFolder: the folder of the path is missing or is not a folder.
	ErrNoFolder = errors.New("its folder does not exist")
	// ErrNotFile: the path is a folder or another thing that is no file.
	ErrNotFile = errors.New("it is not a file")
	// ErrOrphan: a -wal or -journal lies there without the database it belongs
	// to. SQLite would apply it to, or delete it for, whatever is put there.
	ErrOrphan = errors.New("an old journal without its database is in the way")
	// ErrNotDatabase: the file is not a SQLite database.
	ErrNotDatabase = errors.New("it is not a SQLite database")
	// ErrNotOurs: a SQLite database, but not one that this package made.
	ErrNotOurs = errors.New("it is not a data set of tpssim")
	// ErrFormat: a data set of a later version of this package.
	ErrFormat = errors.New("it was made by another version of tpssim")
	// ErrCorrupt: the database is truncated or damaged.
	ErrCorrupt = errors.New("it is truncated or damaged")
	// ErrIncomplete: the seeding of the data set was interrupted.
	ErrIncomplete = errors.New("it was not seeded to its end")
	// ErrMismatch: a data set with other parameters than asked for.
	ErrMismatch = errors.New("it has other parameters")
)

// Why a data set that was found, or can be made, cannot be worked on now.
var (
	// ErrLocked: another process has the database locked.
	ErrLocked = errors.New("another process has it locked")
	// ErrReadOnly: the file or its folder may not be written to.
	ErrReadOnly = errors.New("it or its folder is read-only")
	// ErrTaken: a file that Seed must not replace came to lie at the path while it
	// worked.
	ErrTaken = errors.New("something was put there meanwhile")
	// ErrNoSpace: the forecast does not fit, or the disk is full.
	ErrNoSpace = errors.New("there is not enough room on the disk")
)

// refusal is this package's one form of an error.
type refusal struct {
	path   string
	why    error // one of those above
	advice string
}

func (r *refusal) Error() string { return fmt.Sprintf("dataset: %s: %v: %s", r.path, r.why, r.advice) }
func (r *refusal) Unwrap() error { return r.why }

// refuse builds a refusal.
func refuse(path string, why error, advice string, args ...any) error {
	return &refusal{path, why, fmt.Sprintf(advice, args...)}
}

// explain turns what SQLite or the system answered into an error that says
// what to do. Errors that are already explained pass unchanged.
func explain(path string, err error) error {
	var done *refusal
	if errors.As(err, &done) {
		return err
	}
	var sqlErr *sqlconn.Error
	if errors.As(err, &sqlErr) {
		return explainSQL(path, sqlErr)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return refuse(path, ErrReadOnly, "choose a folder that you may write to (%s)", err)
	}
	return err
}

// explainSQL turns an error of SQLite into one that says what to do.
func explainSQL(path string, e *sqlconn.Error) error {
	switch e.Primary() {
	case sqliteh.SQLITE_CORRUPT:
		return refuse(path, ErrCorrupt, "delete it and seed again, or put a copy back (%s)", e.Msg)
	case sqliteh.SQLITE_NOTADB:
		return refuse(path, ErrNotDatabase, "choose another path")
	case sqliteh.SQLITE_BUSY, sqliteh.SQLITE_LOCKED:
		return refuse(path, ErrLocked, "wait for it or end it, then try again")
	case sqliteh.SQLITE_FULL:
		return refuse(path, ErrNoSpace, "make room there and in the folder for temporary files, then try again: what was committed is kept")
	case sqliteh.SQLITE_READONLY, sqliteh.SQLITE_CANTOPEN, sqliteh.SQLITE_PERM:
		return refuse(path, ErrReadOnly, "choose a folder that you may write to (%s)", e.Msg)
	}
	return fmt.Errorf("dataset: %s: %w", path, e)
}
