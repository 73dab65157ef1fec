package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"syscall"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/pages"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// Method is how Seed makes the accounts.
type Method string

const (
	// Auto takes Pages where that is possible, else SQL. It is the zero value's
	// meaning too.
	Auto Method = "auto"
	// Pages writes the file page by page, as package pages describes. It makes new
	// data sets with a rowid and without indexes of their own.
	Pages Method = "pages"
	// SQL inserts the accounts in large transactions, and goes on with a data set
	// whose seeding was interrupted.
	SQL Method = "sql"
)

// choose returns the method for a data set that is fresh or was begun.
func (m Method) choose(path string, spec accounts.Spec, fresh bool) (Method, error) {
	possible := fresh && spec.Schema == accounts.SchemaRowid && spec.Indexes == 0
	switch {
	case m == "" || m == Auto:
		if possible {
			return Pages, nil
		}
		return SQL, nil
	case m == Pages && !fresh:
		return "", fmt.Errorf("dataset: %s: it was begun through SQL and goes on only so: use the method sql or auto", path)
	case m == Pages && !possible:
		return "", fmt.Errorf("dataset: %s: only the rowid schema without indexes can be written by pages: use the method sql or auto", path)
	case m == Pages || m == SQL:
		return m, nil
	}
	return "", fmt.Errorf("dataset: the method %q is none of auto, pages, sql", m)
}

// partialSuffix names the file beside the data set's that Pages writes before it
// gets its name.
const partialSuffix = "-partial"

// writePages makes the whole data set in a file beside its own and renames it when
// it is whole and synced, so that a kill at any moment leaves either no data set or
// a complete one. After an error nothing is left.
func (s *seeder) writePages(ctx context.Context) (err error) {
	if err := s.mustBeFree(); err != nil {
		return explain(s.path, err)
	}
	partial := s.path + partialSuffix
	defer func() {
		if err != nil {
			if rerr := os.Remove(partial); !errors.Is(rerr, fs.ErrNotExist) {
				err = errors.Join(err, rerr)
			}
		}
	}()
	s.opts.stage("accounts")
	s.opts.progress(0, s.spec.Rows)
	tree, err := s.template(partial)
	if err != nil {
		return s.nothingLeft(err)
	}
	err = tree.Write(ctx, partial, func(n int64) {
		s.opts.progress(share(s.spec.Rows, n, tree.Pages()), s.spec.Rows)
	})
	if err != nil {
		return s.nothingLeft(err)
	}
	s.opts.stage("finishing")
	if err := s.takeName(partial); err != nil {
		return s.nothingLeft(err)
	}
	s.report.Rows, s.report.Inserted, s.report.Complete = s.spec.Rows, s.spec.Rows, true
	return s.syncFolder()
}

// share returns how many of total rows n of pages pages stand for, in whole
// numbers, so that all pages are all rows.
func share(total, n, pages int64) int64 {
	high, low := bits.Mul64(uint64(total), uint64(n))
	rows, _ := bits.Div64(high, low, uint64(pages))
	return int64(rows)
}

// mustBeFree refuses an empty file that another program is about to make a
// database of: the renaming would take it away under its hands.
func (s *seeder) mustBeFree() error {
	if !s.found {
		return nil
	}
	c, err := sqlconn.Open(s.opts.Open, s.path, sqlconn.Existing)
	if err != nil {
		return err
	}
	err = c.Exec("BEGIN EXCLUSIVE") // the end of the connection ends it
	return errors.Join(err, c.Close())
}

// takeName gives the file partial the data set's name. What an earlier database of
// that name may have left is worth nothing, as refuseOrphans has seen, but SQLite
// would apply it to this one: it has to be gone for good before.
func (s *seeder) takeName(partial string) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		err := os.Remove(s.path + suffix)
		if err == nil {
			err = s.syncFolder()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(partial, s.path)
}

// nothingLeft explains an error after which there is no data set, nor a part of it.
func (s *seeder) nothingLeft(err error) error {
	var sqlErr *sqlconn.Error
	full := errors.As(err, &sqlErr) && sqlErr.Primary() == sqliteh.SQLITE_FULL
	switch {
	case full || errors.Is(err, syscall.ENOSPC):
		return refuse(s.path, ErrNoSpace, "make room there, choose another disk, or seed fewer rows: nothing of it is left")
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("dataset: %s: stopped: nothing of it is left: seed it again to begin anew: %w", s.path, err)
	}
	if explained := explain(s.path, err); explained != err {
		return explained
	}
	return fmt.Errorf("dataset: %s: %w", s.path, err)
}

// template lets SQLite make the data set's tables, without accounts, in the file
// partial, and lays the account table out behind them.
func (s *seeder) template(partial string) (_ *pages.Tree, err error) {
	s.conn, err = sqlconn.Open(s.opts.Open, partial, sqlconn.Create)
	if err != nil {
		return nil, err
	}
	root, err := s.emptyTables()
	if err = errors.Join(err, s.conn.Close()); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(partial)
	if err != nil {
		return nil, err
	}
	return pages.New(s.spec, content, root)
}

// emptyTables makes the tables on the open connection and returns the page number
// of the root of the account table.
func (s *seeder) emptyTables() (root int64, err error) {
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA page_size = %d", s.spec.PageSize),
		"PRAGMA journal_mode = MEMORY", // a kill must not leave a journal beside the partial file
	} {
		if err := s.conn.Exec(pragma); err != nil {
			return 0, err
		}
	}
	if err := s.createTables(); err != nil {
		return 0, err
	}
	if err := s.conn.Exec("UPDATE tpssim SET value = 1 WHERE key = ?1", metaComplete); err != nil {
		return 0, err
	}
	return s.conn.Integer("SELECT rootpage FROM sqlite_schema WHERE name = 'account'")
}

// removePartial removes what an earlier seeding by Pages that was killed left. It
// comes before the free space is looked at, and whatever method is next. Something
// else of that name is in the way of Pages alone.
func (s *seeder) removePartial(method Method) error {
	partial := s.path + partialSuffix
	ours, err := isPartial(partial)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case ours:
		return explain(s.path, os.Remove(partial))
	case method != Pages:
		return nil
	case err != nil:
		return explain(s.path, err)
	}
	return refuse(partial, ErrNotOurs, "it has the name of an unfinished data set: move it away, or choose another path")
}

// isPartial reports whether the file at path is one that writePages can have left:
// empty, or a database with our application id.
func isPartial(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	if info.Size() == 0 {
		return true, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	// The application id is at offset 68 of the header:
	// https://www.sqlite.org/fileformat2.html#the_database_header
	head := make([]byte, 72)
	_, err = io.ReadFull(f, head)
	if err := errors.Join(err, f.Close()); err != nil {
		return false, nil // too short for a database, or unreadable
	}
	return bytes.HasPrefix(head, []byte("SQLite format 3\x00")) && int64(binary.BigEndian.Uint32(head[68:])) == ApplicationID, nil
}
