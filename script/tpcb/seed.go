package tpcb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// Options are the wishes for a Seed, and the means.
type Options struct {
	// Scale is pgbench's scale factor, 1 to MaxScale. 0 means 1.
	Scale int64
	// PageSize is the database's, in bytes: a power of two from 512 to 65536. 0
	// means 4096.
	PageSize int
	// Progress is told how many accounts of the total are inserted, in order, on
	// Seed's goroutine. It must return at once; nil tells nobody.
	Progress func(done, total int64)
	// Lock takes the lock that keeps other writers of this program away from path
	// and returns how to give it back. Nil takes none.
	Lock func(path string) (release func() error, err error)
	// FreeBytes tells how many bytes can be written to the file system of path. Nil
	// skips the forecast's comparison with it.
	FreeBytes func(path string) (uint64, error)
	// Overwrite lets Seed replace a file that holds these tables, at any scale and
	// whatever their contents, once the new one is whole. What is not ours, or open
	// in another program, is refused all the same.
	Overwrite bool
}

// Made says what Seed made.
type Made struct {
	Path    string // absolute
	Scale   int64
	Rows    int64 // accounts
	Bytes   int64 // size of the file
	Elapsed time.Duration
}

const (
	// statementRows is how many accounts one INSERT makes: a call into C for each
	// row would take longer than SQLite does.
	statementRows = 250
	// commitRows is how many accounts one transaction makes. It bounds SQLite's
	// list of dirty pages; nothing is kept of a seeding that does not come to its
	// end.
	commitRows = 1_000_000
	// cacheKiB bounds SQLite's page cache. Appending needs little.
	cacheKiB = 16 << 10
)

// fillerLen is the length of an account's filler: char(84), padded with blanks.
const fillerLen = 84

// tables are pgbench's, in SQLite's types.
var tables = []string{
	"CREATE TABLE pgbench_branches(bid INTEGER PRIMARY KEY NOT NULL, bbalance INTEGER, filler TEXT)",
	"CREATE TABLE pgbench_tellers(tid INTEGER PRIMARY KEY NOT NULL, bid INTEGER, tbalance INTEGER, filler TEXT)",
	"CREATE TABLE pgbench_accounts(aid INTEGER PRIMARY KEY NOT NULL, bid INTEGER, abalance INTEGER, filler TEXT)",
	"CREATE TABLE pgbench_history(tid INTEGER, bid INTEGER, aid INTEGER, delta INTEGER, mtime TEXT, filler TEXT)",
}

// withDefaults fills in what is 0 and refuses what no database can have.
func (o Options) withDefaults() (Options, error) {
	if o.Scale == 0 {
		o.Scale = 1
	}
	if o.PageSize == 0 {
		o.PageSize = 4096
	}
	if o.Scale < 1 || o.Scale > MaxScale {
		return o, fmt.Errorf("tpcb: the scale %d is not 1 to %d", o.Scale, MaxScale)
	}
	if o.PageSize < 512 || o.PageSize > 65536 || o.PageSize&(o.PageSize-1) != 0 {
		return o, fmt.Errorf("tpcb: the page size %d is no power of two from 512 to 65536", o.PageSize)
	}
	return o, nil
}

// Forecast returns about how many bytes the file will have at a scale, somewhat more
// rather than less. Options' zero values mean what they mean to Seed.
func Forecast(o Options) (int64, error) {
	o, err := o.withDefaults()
	if err != nil {
		return 0, err
	}
	// An account is a record (a header of 6 bytes, its branch, the filler) in a cell
	// with its length and its rowid, and its place in the page.
	branch, rowid := int64(1), int64(3)
	for limit := int64(1 << 7); o.Scale >= limit; limit <<= 8 {
		branch++
	}
	for limit := int64(1 << 21); o.Scale*accountRows >= limit; limit <<= 7 {
		rowid++
	}
	perPage := int64(o.PageSize-8) / (6 + branch + fillerLen + 1 + rowid + 2)
	pages := o.Scale*accountRows/perPage + 1
	pages += pages/(int64(o.PageSize)/16) + o.Scale*tellerRows*24/int64(o.PageSize) + int64(len(tables)) + 1
	return pages * int64(o.PageSize), nil
}

// Seed makes the tables in a new file at path. It is made beside its place, at
// path-partial, and renamed when it is whole and synced: a kill at any moment leaves
// no database, or a complete one, and the next Seed removes the rest, be it of these
// tables or of an account data set. What somebody else puts at path meanwhile is not
// replaced: the error wraps dataset.ErrTaken. The folder must be there. When ctx ends,
// nothing is left, and the error wraps ctx's.
//
// Afterwards the database is in WAL mode, without a -wal beside it, and durable.
func Seed(ctx context.Context, path string, opts Options) (made Made, err error) {
	started := time.Now()
	if opts, err = opts.withDefaults(); err != nil {
		return Made{}, err
	}
	found, err := dataset.Look(path)
	if err != nil && !errors.Is(err, dataset.ErrNotExist) {
		return Made{}, err
	}
	place := found.Path
	if opts.Lock != nil {
		release, lockErr := opts.Lock(place)
		if lockErr != nil {
			return Made{}, explain(place, lockErr)
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	s := seeder{path: place, partial: place + dataset.PartialSuffix, opts: opts}
	if err := s.run(ctx); err != nil {
		return Made{}, explain(s.path, err)
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return Made{}, explain(s.path, err)
	}
	return Made{Path: s.path, Scale: opts.Scale, Rows: s.accounts(), Bytes: info.Size(), Elapsed: time.Since(started)}, nil
}

// seeder is one call of Seed.
type seeder struct {
	path, partial string
	opts          Options
	conn          *sqlconn.Conn // to partial
}

func (s *seeder) accounts() int64 { return s.opts.Scale * accountRows }

func (s *seeder) run(ctx context.Context) (err error) {
	if err := dataset.RemovePartial(s.path); err != nil {
		return err
	}
	replace, err := s.mayWrite()
	if err != nil {
		return err
	}
	if err := s.mustFit(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dataset.RemovePartial(s.path))
		}
	}()
	if err := s.write(ctx); err != nil {
		return err
	}
	if err := syncFile(s.partial); err != nil {
		return err
	}
	return dataset.TakeName(s.path, replace)
}

// mayWrite finds out whether the path is free, or holds what may be replaced. In the
// latter case mayReplace repeats the check: that is to be done once more when the new
// file is ready.
func (s *seeder) mayWrite() (mayReplace func() error, err error) {
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		if _, err := dataset.Look(s.path); err != nil && !errors.Is(err, dataset.ErrNotExist) {
			return nil, err
		}
		return nil, nil // what has come there since is refused in the end
	}
	return s.mayReplace, s.mayReplace()
}

// mayReplace refuses what lies at the path unless it may be replaced: an empty file,
// or with Overwrite pgbench's tables, that no other process has open.
func (s *seeder) mayReplace() error {
	info, err := Inspect(s.path)
	switch {
	case errors.Is(err, dataset.ErrNotExist): // an empty file, of which somebody may be about to make a database
	case err != nil:
		return err
	case !s.opts.Overwrite:
		return refuse(s.path, ErrExists, "at scale %d: choose another path, or say that it is to be overwritten", info.Scale)
	}
	return dataset.MustBeUnused(s.path)
}

// mustFit compares the forecast with the free space.
func (s *seeder) mustFit() error {
	if s.opts.FreeBytes == nil {
		return nil
	}
	free, err := s.opts.FreeBytes(s.path)
	if err != nil {
		return err
	}
	need, err := Forecast(s.opts)
	if err != nil || uint64(need) <= free {
		return err
	}
	return refuse(s.path, dataset.ErrNoSpace, "%s are to be written and %s are free; make room, choose another disk, or a smaller scale",
		humanize.IBytes(uint64(need)), humanize.IBytes(free))
}

// write makes the whole database in the partial file.
func (s *seeder) write(ctx context.Context) (err error) {
	if s.conn, err = sqlconn.Open(nil, s.partial, sqlconn.Create); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.conn.Close()) }()
	// Nobody sees this file before it is whole and synced: it needs no journal, and no
	// syncing on the way but of what it is known by.
	setup := []string{
		fmt.Sprintf("PRAGMA page_size = %d", s.opts.PageSize),
		fmt.Sprintf("PRAGMA cache_size = -%d", cacheKiB),
		"PRAGMA journal_mode = OFF",
		"PRAGMA locking_mode = EXCLUSIVE",
		// On the disk before anything else, so that what is left is known for ours.
		"PRAGMA synchronous = FULL",
		fmt.Sprintf("PRAGMA application_id = %d", ApplicationID),
		"PRAGMA synchronous = OFF",
		fmt.Sprintf("PRAGMA user_version = %d", formatVersion),
		"BEGIN",
	}
	for _, statement := range append(append(setup, tables...), "COMMIT") {
		if err := s.conn.Exec(statement); err != nil {
			return err
		}
	}
	const numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) "
	if err := s.conn.Exec(numbers+"INSERT INTO pgbench_branches SELECT i, 0, NULL FROM n", s.opts.Scale*branchRows); err != nil {
		return err
	}
	if err := s.conn.Exec(numbers+fmt.Sprintf("INSERT INTO pgbench_tellers SELECT i, (i - 1) / %d + 1, 0, NULL FROM n", tellerRows), s.opts.Scale*tellerRows); err != nil {
		return err
	}
	if err := s.insertAccounts(ctx); err != nil {
		return err
	}
	// In exclusive mode a WAL needs no shared memory; leaving the mode first shows
	// whether the file system has any.
	for _, statement := range []string{"PRAGMA locking_mode = NORMAL", "SELECT count(*) FROM pgbench_branches"} {
		if err := s.conn.Exec(statement); err != nil {
			return err
		}
	}
	mode, err := s.conn.Text("PRAGMA journal_mode = WAL")
	if err == nil && mode != "wal" {
		err = errors.New("its file system has no shared memory for WAL mode: choose a local disk")
	}
	return err
}

// insertAccounts fills the table of the accounts.
func (s *seeder) insertAccounts(ctx context.Context) error {
	// accountRows is a multiple of statementRows, so there is no rest.
	stmt, err := s.conn.Prepare(insertSQL())
	if err != nil {
		return err
	}
	defer stmt.Finalize()
	if err := stmt.BindText64(2, strings.Repeat(" ", fillerLen)); err != nil {
		return sqlconn.Wrap(s.conn.DB, err)
	}
	total := s.accounts()
	for aid := int64(1); aid <= total; aid += statementRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if aid%commitRows == 1 {
			if err := s.conn.Exec("BEGIN"); err != nil {
				return err
			}
		}
		if err := insert(s.conn, stmt, aid); err != nil {
			return err
		}
		done := aid + statementRows - 1
		if done%commitRows == 0 || done == total {
			if err := s.conn.Exec("COMMIT"); err != nil {
				return err
			}
		}
		if s.opts.Progress != nil {
			s.opts.Progress(done, total)
		}
	}
	return nil
}

// insertSQL is the statement that inserts statementRows accounts from ?1 on, with the
// filler ?2. OR FAIL saves the journal that undoes half a statement.
func insertSQL() string {
	var b strings.Builder
	b.WriteString("INSERT OR FAIL INTO pgbench_accounts VALUES ")
	for i := range statementRows {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "(?1+%d, (?1+%d)/%d+1, 0, ?2)", i, i-1, accountRows)
	}
	return b.String()
}

// insert runs the statement for the accounts from aid on.
func insert(c *sqlconn.Conn, stmt sqliteh.Stmt, aid int64) error {
	if err := stmt.BindInt64(1, aid); err != nil {
		return sqlconn.Wrap(c.DB, err)
	}
	if _, err := stmt.Step(nil); err != nil {
		failure := sqlconn.Wrap(c.DB, err)
		stmt.Reset() // repeats the step's error
		return failure
	}
	if err := stmt.Reset(); err != nil {
		return sqlconn.Wrap(c.DB, err)
	}
	return nil
}

// syncFile makes the contents of a file durable.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
