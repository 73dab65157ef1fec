package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// Kind is which of this program's databases a file holds. The zero value is none.
type Kind int

const (
	// KindAccounts is a data set of this package, with [ApplicationID].
	KindAccounts Kind = iota + 1
	// KindTPCB holds pgbench's tables, which package tpcb makes, with
	// [TPCBApplicationID].
	KindTPCB
)

// TPCBApplicationID is the number in the database header (PRAGMA application_id)
// of the files of package tpcb: "TPSb" in ASCII. It is known here because the two
// kinds take each other's place, and remove what is left of each other.
const TPCBApplicationID int64 = 0x54505362

// Found is what [Look] found.
type Found struct {
	Path string // absolute, symbolic links followed; set with ErrNotExist and ErrNotOurs too
	Kind Kind
}

// Look tells by one look at the header which of this program's databases lies at
// path. SQLite does not open it: neither the file nor a journal beside it changes,
// whoever they belong to.
//
// The error wraps [ErrNotExist] when there is no file or an empty one, [ErrNotOurs]
// for a database of somebody else, [ErrNotDatabase] for any other file, and
// otherwise one of this package's errors about a path. A file of ours may still be
// of another format, or damaged. Not while this process has the database open; see
// the package comment.
func Look(path string) (Found, error) {
	f, err := lookAt(path)
	if err != nil {
		return Found{}, err
	}
	kind, err := f.kind()
	return Found{Path: f.path, Kind: kind}, err
}

// headerSize is how many bytes a database begins with before its first page's
// content: https://www.sqlite.org/fileformat2.html#the_database_header
const headerSize = 100

// magic is how they begin.
var magic = []byte("SQLite format 3\x00")

// readHeader returns the first bytes of a file, at most headerSize.
func readHeader(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(f, headerSize))
	return head, errors.Join(err, f.Close())
}

// isHeader reports whether head is the whole header of a SQLite database.
func isHeader(head []byte) bool {
	return len(head) == headerSize && bytes.HasPrefix(head, magic)
}

// headerID returns the application id in a whole header.
func headerID(head []byte) int64 { return int64(binary.BigEndian.Uint32(head[68:])) }

// kindOf returns the kind that an application id stands for, 0 for a foreign one.
func kindOf(id int64) Kind {
	switch id {
	case ApplicationID:
		return KindAccounts
	case TPCBApplicationID:
		return KindTPCB
	}
	return 0
}

// kind reads which kind of database the file is.
//
// The main file alone decides, with a -wal or -journal beside it too. Every version
// of the first page of our databases carries the id: their first transaction writes
// it, never through a WAL, and no later one changes it. So a file without it is not
// ours, whatever its journal holds, and is not opened: SQLite would recover it, which
// is for its owner to begin.
func (f files) kind() (Kind, error) {
	if f.size == 0 {
		return 0, refuse(f.path, ErrNotExist, "seed it first, or name another file")
	}
	head, err := readHeader(f.path)
	if err != nil {
		return 0, explain(f.path, err)
	}
	if !isHeader(head) {
		return 0, refuse(f.path, ErrNotDatabase, "choose another path")
	}
	id := headerID(head)
	if kind := kindOf(id); kind != 0 {
		return kind, nil
	}
	return 0, f.foreign(id)
}

// foreign refuses a database with another application id than a data set's.
func (f files) foreign(id int64) error {
	return refuse(f.path, ErrNotOurs, "choose another path (application_id %#x instead of %#x)", id, ApplicationID)
}

// mustBeAccounts refuses everything that is not a data set of this package.
func (f files) mustBeAccounts() error {
	kind, err := f.kind()
	if err == nil && kind != KindAccounts {
		err = f.foreign(TPCBApplicationID)
	}
	return err
}
