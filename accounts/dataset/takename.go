package dataset

import (
	"bytes"
	"errors"
	"io/fs"
	"os"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/sqlconn"
)

// PartialSuffix, behind the path of a database, names the file in which it is made
// before it gets its name.
const PartialSuffix = "-partial"

// maxBlankBytes bounds what isPartial reads of a file without content. What makes a
// partial file syncs its header, in a first transaction of a single page, before it
// writes more.
const maxBlankBytes = 1 << 20

// journals are what can lie beside a database.
var journals = []string{"-wal", "-shm", "-journal"}

// RemovePartial removes what a seeding that was killed left beside path, be it of a
// data set or of pgbench's tables, with its journals. No seeding of path may run:
// call it under [Options].Lock.
//
// The error wraps [ErrNotOurs] when another thing has that name. It is not touched.
func RemovePartial(path string) error {
	partial := path + PartialSuffix
	ours, err := isPartial(partial)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return refuse(partial, ErrNotOurs, "it has the name of an unfinished database and cannot be read: move it away, or choose another path (%v)", err)
	case !ours:
		return refuse(partial, ErrNotOurs, "it has the name of an unfinished database: move it away, or choose another path")
	}
	if err := removeJournals(partial); err != nil {
		return explain(path, err)
	}
	return explain(path, os.Remove(partial)) // last: without it, its journals would not be known for ours
}

// isPartial reports whether a seeding can have left the file at path. It looks at
// the bytes and does not ask SQLite: the process may have died in a COMMIT without a
// journal, when the header tells of more pages than there are.
func isPartial(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	head, err := readHeader(path)
	switch {
	case err != nil:
		return false, err
	case isHeader(head):
		return kindOf(headerID(head)) != 0, nil
	case len(head) > 0 && len(head) < headerSize && bytes.HasPrefix(magic, head[:min(len(head), len(magic))]):
		return true, nil // the beginning of a header, and no content
	case info.Size() > maxBlankBytes:
		return false, nil
	}
	// A file grows before its content is on the disk, which a power cut shows.
	content, err := os.ReadFile(path)
	return err == nil && len(bytes.Trim(content, "\x00")) == 0, err
}

// TakeName gives the finished file at path-partial the name path, and makes the name
// durable. Nothing is replaced that mayReplace has not allowed.
//
// Nil means that nothing was there when the work began. A file that somebody has put
// there since stays as it is and the error wraps [ErrTaken]; with a -wal or -journal
// alone it wraps [ErrOrphan], as SQLite would apply that to the new database.
//
// Otherwise mayReplace is called directly before, if there is still a file: it has to
// refuse what must not be replaced, and what is in use, see [MustBeUnused]. Journals
// of the replaced file are removed.
func TakeName(path string, mayReplace func() error) error {
	return takeName(os.Link, path, mayReplace)
}

// takeName is TakeName with the function that makes a second name.
func takeName(link func(from, to string) error, path string, mayReplace func() error) error {
	partial := path + PartialSuffix
	there, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = takeFreeName(link, partial, path)
	case err != nil:
	case mayReplace == nil || !there.Mode().IsRegular():
		err = taken(path)
	default:
		if err = mayReplace(); err == nil {
			err = replace(partial, path)
		}
	}
	if err != nil {
		return err
	}
	return syncFolder(path)
}

// takeFreeName gives partial the name path unless there is something of that name. A
// rename would replace what came there a moment ago, a link does not. Killed between
// its two steps it leaves the database under both names, of which RemovePartial
// removes one.
func takeFreeName(link func(from, to string) error, partial, path string) error {
	f, err := lookAt(path) // refuses orphans
	if err != nil {
		return err
	}
	if f.found {
		return taken(path)
	}
	err = link(partial, path)
	switch {
	case err == nil:
		return os.Remove(partial)
	case errors.Is(err, fs.ErrExist):
		return taken(path)
	}
	// The file system has no links.
	if _, err := os.Lstat(path); err == nil {
		return taken(path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(partial, path)
}

// replace renames partial over the database at path, which nobody uses. What lies
// beside that is worth nothing any more, but SQLite would apply it to the new one:
// it has to be gone for good before.
func replace(partial, path string) error {
	if err := removeJournals(path); err != nil {
		return err
	}
	if err := syncFolder(path); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// removeJournals removes what lies beside the database at path.
func removeJournals(path string) error {
	for _, suffix := range journals {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// taken refuses a path at which something has appeared.
func taken(path string) error {
	return refuse(path, ErrTaken, "it is left as it was, and nothing is kept of the new one: move it away or choose another path, then seed again")
}

// MustBeUnused refuses, with an error that wraps [ErrLocked], a database or an empty
// file that another process has open, as far as that can be known. It opens it, so
// that a -wal or hot journal is recovered and tidied up: only for files of ours, and
// not while this process has it open.
//
// In WAL mode a connection that does nothing shows to others only by the shared lock
// that it keeps on the file. An exclusive one is what meets it.
func MustBeUnused(path string) error { return mustBeUnused(nil, path) }

// mustBeUnused is MustBeUnused on open's connections.
func mustBeUnused(open sqliteh.OpenFunc, path string) error {
	c, err := sqlconn.Open(open, path, sqlconn.Existing)
	if err != nil {
		return explain(path, err)
	}
	err = c.Exec("PRAGMA locking_mode = EXCLUSIVE")
	if err == nil {
		err = c.Exec("BEGIN EXCLUSIVE") // the end of the connection ends it
	}
	return explain(path, errors.Join(err, c.Close()))
}
