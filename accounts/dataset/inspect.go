package dataset

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// Info is what a data set says about itself.
type Info struct {
	Path      string // absolute, symbolic links followed
	Spec      accounts.Spec
	Complete  bool  // the seeding reached its end
	Seeded    int64 // the highest account id; Spec.Rows when complete
	PageSize  int64 // of the file, in bytes
	PageCount int64 // of the file, as its header says
}

// Bytes is the size of the database in bytes.
func (i Info) Bytes() int64 { return i.PageSize * i.PageCount }

// Ready returns nil for a data set that a load may run on, and an error that
// wraps [ErrIncomplete] for one whose seeding has to be finished first.
func (i Info) Ready() error {
	if i.Complete {
		return nil
	}
	return refuse(i.Path, ErrIncomplete, "seed it again with the same parameters to go on behind account %d of %d", i.Seeded, i.Spec.Rows)
}

// Match returns nil when the data set was made with the parameters of want, and
// an error that wraps [ErrMismatch] and names each difference when not.
func (i Info) Match(want accounts.Spec) error {
	var diffs []string
	differ := func(name string, has, wanted any) {
		if has != wanted {
			diffs = append(diffs, fmt.Sprintf("%s %v instead of %v", name, has, wanted))
		}
	}
	differ("rows", i.Spec.Rows, want.Rows)
	differ("balance", i.Spec.Balance, want.Balance)
	differ("schema", i.Spec.Schema, want.Schema)
	differ("payload", i.Spec.Payload, want.Payload)
	differ("indexes", i.Spec.Indexes, want.Indexes)
	differ("page size", i.Spec.PageSize, want.PageSize)
	if len(diffs) == 0 {
		return nil
	}
	return refuse(i.Path, ErrMismatch, "%s: ask for those, choose another path, or delete the file", strings.Join(diffs, ", "))
}

// Inspect tells what data set lies at path. It changes nothing that matters
// and leaves no file behind: a data set without journals is read without locks;
// one with a -wal or -journal is opened for writing, so that SQLite recovers
// what a process that died had committed, and tidies up. What is not a data set of
// this package is not opened at all, see [Look].
//
// The error wraps [ErrNotExist] when there is no file there or an empty one,
// which Seed would fill, and otherwise one of this package's errors. Not while
// this process has the database open; see the package comment.
func Inspect(path string) (Info, error) {
	f, err := lookAt(path)
	if err != nil {
		return Info{}, err
	}
	return inspect(f, nil)
}

// inspect is Inspect for files that were looked at, on open's connections.
func inspect(f files, open sqliteh.OpenFunc) (info Info, err error) {
	if err := f.mustBeAccounts(); err != nil {
		return Info{}, err
	}
	how := sqlconn.Existing
	if !f.wal && !f.journal {
		how = sqlconn.Immutable
	} else if err := f.mustBeWritable(); err != nil {
		return Info{}, err
	}
	c, err := sqlconn.Open(open, f.path, how)
	if err != nil {
		return Info{}, explain(f.path, err)
	}
	defer func() {
		err = errors.Join(err, explain(f.path, c.Close()))
	}()
	info, err = readInfo(c, f)
	return info, explain(f.path, err)
}

// readInfo reads the header and the table tpssim.
func readInfo(c *sqlconn.Conn, f files) (Info, error) {
	info := Info{Path: f.path}
	pragmas := []struct {
		name string
		into *int64
	}{{"page_size", &info.PageSize}, {"page_count", &info.PageCount}}
	for _, p := range pragmas {
		n, err := c.Integer("PRAGMA " + p.name)
		if err != nil {
			return Info{}, err
		}
		*p.into = n
	}
	if info.PageCount == 0 {
		// A journal has undone the first transaction.
		return Info{}, refuse(f.path, ErrNotExist, "seed it first, or name another file")
	}
	id, err := c.Integer("PRAGMA application_id")
	if err != nil {
		return Info{}, err
	}
	if id != ApplicationID { // a -wal of somebody else's making changed it
		return Info{}, f.foreign(id)
	}
	tables, err := c.Integer("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('account', 'tpssim', 'transfer')")
	if err != nil {
		return Info{}, err
	}
	if tables != 3 {
		return Info{}, refuse(f.path, ErrCorrupt, "delete it and seed again (of its three tables %d are there)", tables)
	}
	if info.Spec, info.Complete, err = readMeta(c, f.path); err != nil {
		return Info{}, err
	}
	info.Seeded, err = c.Integer("SELECT max(id) FROM account")
	return info, err
}
