package dataset

import (
	"context"
	"errors"
	"fmt"
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

// writePages makes the whole data set in a file beside its own and renames it when
// it is whole and synced, so that a kill at any moment leaves either no data set or
// a complete one. After an error nothing is left.
func (s *seeder) writePages(ctx context.Context) (err error) {
	var mayReplace func() error
	if s.found {
		mayReplace = s.mayReplace
		if err := mayReplace(); err != nil {
			return err
		}
	}
	partial := s.path + PartialSuffix
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
	if err := TakeName(s.path, mayReplace); err != nil {
		return s.nothingLeft(err)
	}
	s.report.Rows, s.report.Inserted, s.report.Complete = s.spec.Rows, s.spec.Rows, true
	return nil
}

// share returns how many of total rows n of pages pages stand for, in whole
// numbers, so that all pages are all rows.
func share(total, n, pages int64) int64 {
	high, low := bits.Mul64(uint64(total), uint64(n))
	rows, _ := bits.Div64(high, low, uint64(pages))
	return int64(rows)
}

// mayReplace refuses what lies at the path unless it may be replaced: an empty file,
// or with Overwrite a data set, that no other process has open.
func (s *seeder) mayReplace() error {
	f, err := lookAt(s.path)
	if err != nil {
		return err
	}
	switch err := f.mustBeAccounts(); {
	case errors.Is(err, ErrNotExist):
	case err != nil:
		return err
	case !s.opts.Overwrite:
		return taken(s.path)
	}
	return mustBeUnused(s.opts.Open, s.path)
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
	err = explain(s.path, err)
	var done *refusal
	if errors.As(err, &done) {
		return err
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
		// On the disk before anything else, so that what is left is known for ours.
		fmt.Sprintf("PRAGMA application_id = %d", ApplicationID),
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

// removePartial removes what an earlier seeding that was killed left. It comes before
// the free space is looked at, and whatever method is next. Something else of that
// name is in the way of Pages alone.
func (s *seeder) removePartial(method Method) error {
	err := RemovePartial(s.path)
	if method != Pages && errors.Is(err, ErrNotOurs) {
		return nil
	}
	return err
}
