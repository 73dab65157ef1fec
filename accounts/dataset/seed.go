package dataset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

const (
	// statementRows is how many accounts one INSERT makes; see insertAccounts.
	statementRows = 250

	// The default size of a transaction: large, so that COMMIT's syncing does
	// not count, and small enough to lose little and to stop soon.
	commitRows  = 1_000_000
	commitBytes = 64 << 20

	// cacheKiB bounds SQLite's page cache, and the memory that sorting an
	// index takes before it uses temporary files. Appending needs little.
	cacheKiB = 16 << 10
)

// Report says what [Seed] did.
type Report struct {
	Path     string        // of the data set, absolute
	Rows     int64         // accounts that are committed now
	Inserted int64         // of those, by this call
	Complete bool          // the data set is whole
	Bytes    int64         // size of the file
	Elapsed  time.Duration // of this call, its checks included
	Existed  bool          // it was complete before this call, which did nothing
	Method   Method        // how, "" if Existed
}

// Seed makes the data set of spec at path, or goes on with one whose seeding
// was interrupted, behind its last committed account. One that is complete
// already is left as it is. Anything else at path is refused and not touched,
// as is a data set with other parameters, and what somebody puts there while Seed
// works by [Pages] ([ErrTaken]). The folder must be there.
//
// When ctx ends, what was inserted so far is committed, and the error wraps
// ctx's. The Report is valid with every error. Memory does not grow with the
// rows; indexes are sorted in temporary files where SQLite puts those
// (SQLITE_TMPDIR, /var/tmp or /tmp), which have to hold one index.
//
// Afterwards the database is in WAL mode, without a -wal beside it, and
// durable.
func Seed(ctx context.Context, path string, spec accounts.Spec, opts Options) (report Report, err error) {
	started := time.Now()
	defer func() { report.Elapsed = time.Since(started) }()
	if err := spec.Validate(); err != nil {
		return Report{}, err
	}
	f, err := lookAt(path)
	if err != nil {
		return Report{}, err
	}
	release, err := opts.lock(f.path)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if f, err = lookAt(path); err != nil { // again: the lock may have been waited for
		return Report{}, err
	}
	s := seeder{files: f, spec: spec, opts: opts}
	s.report.Path = f.path
	err = s.run(ctx)
	if info, statErr := os.Stat(f.path); statErr == nil {
		s.report.Bytes = info.Size()
	}
	return s.report, err
}

// seeder is one call of Seed.
type seeder struct {
	files
	spec   accounts.Spec
	opts   Options
	report Report
	conn   *sqlconn.Conn
}

func (s *seeder) run(ctx context.Context) error {
	fresh, err := s.prepare()
	if err != nil {
		return err
	}
	if s.report.Complete {
		return s.removePartial(s.report.Method)
	}
	method, err := s.opts.Method.choose(s.path, s.spec, fresh)
	if err != nil {
		return err
	}
	s.report.Method = method
	if err := s.removePartial(method); err != nil {
		return err
	}
	if err := s.mustFit(); err != nil {
		return err
	}
	if method == Pages {
		return s.writePages(ctx)
	}
	if s.opts.Overwrite && fresh && s.found {
		if err := os.Remove(s.path); err != nil {
			return explain(s.path, err)
		}
	}
	s.conn, err = sqlconn.Open(s.opts.Open, s.path, sqlconn.Create)
	if err != nil {
		return explain(s.path, err)
	}
	err = s.fill(ctx, fresh)
	err = errors.Join(err, explain(s.path, s.conn.Close()))
	if err == nil {
		err = s.durable()
	}
	if info, statErr := os.Stat(s.path); err != nil && !s.found && statErr == nil && info.Size() == 0 {
		err = errors.Join(err, os.Remove(s.path)) // nothing came of the file that this call made
	}
	return err
}

// prepare decides whether there is something to do, before the disk is touched.
func (s *seeder) prepare() (fresh bool, err error) {
	info, err := inspect(s.files, s.opts.Open)
	switch {
	case errors.Is(err, ErrNotExist):
		fresh = true
	case err != nil:
		return false, err
	case s.opts.Overwrite:
		if err := s.mustBeWritable(); err != nil {
			return false, err
		}
		if err := mustBeUnused(s.opts.Open, s.path); err != nil {
			return false, err
		}
		fresh, s.size = true, 0
	default:
		if err := info.Match(s.spec); err != nil {
			return false, err
		}
		s.report.Rows, s.report.Complete = info.Seeded, info.Complete
		s.report.Existed = info.Complete
		if info.Complete {
			return false, nil
		}
		if err := s.mustBeWritable(); err != nil {
			return false, err
		}
	}
	return fresh, nil
}

// durable makes the name of the data set durable.
func (s *seeder) durable() error {
	if err := syncFolder(s.path); err != nil {
		return fmt.Errorf("dataset: %s: %w", s.path, err)
	}
	return nil
}

// mustFit compares what is still to be written with the free space.
func (s *seeder) mustFit() error {
	if s.opts.FreeBytes == nil {
		return nil
	}
	free, err := s.opts.FreeBytes(s.path)
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", s.path, err)
	}
	need := uint64(max(0, Forecast(s.spec)-s.size))
	if need <= free {
		return nil
	}
	return refuse(s.path, ErrNoSpace, "%s are to be written and %s are free; make room, choose another disk, or seed fewer rows",
		humanize.IBytes(need), humanize.IBytes(free))
}

// fill does the work on the open connection.
func (s *seeder) fill(ctx context.Context, fresh bool) error {
	if err := s.configure(); err != nil {
		return explain(s.path, err)
	}
	if fresh {
		if err := s.createTables(); err != nil {
			return explain(s.path, s.undo(err))
		}
	}
	s.opts.stage("accounts")
	if err := s.insertRows(ctx); err != nil {
		return s.stopped(err)
	}
	if err := s.createIndexes(ctx); err != nil {
		return s.stopped(err)
	}
	s.opts.stage("finishing")
	if err := s.finish(); err != nil {
		return explain(s.path, err)
	}
	return nil
}

// configure sets the connection up. Leaving WAL mode, in which a seeding that
// died in its last step has left the file, needs the database for itself alone,
// so it also finds out whether another process has it open.
func (s *seeder) configure() error {
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA page_size = %d", s.spec.PageSize), // of no effect on a database that has pages
		fmt.Sprintf("PRAGMA cache_size = -%d", cacheKiB),
	} {
		if err := s.conn.Exec(pragma); err != nil {
			return err
		}
	}
	mode, err := s.conn.Text("PRAGMA journal_mode = DELETE")
	if err != nil {
		return err
	}
	if mode != "delete" {
		return fmt.Errorf("dataset: %s: the journal mode stays %q: close other programs that use the file", s.path, mode)
	}
	return s.conn.Exec("PRAGMA synchronous = FULL")
}

func (s *seeder) createTables() error {
	for _, statement := range []string{
		"BEGIN IMMEDIATE",
		fmt.Sprintf("PRAGMA application_id = %d", ApplicationID),
		createMeta, createAccount(s.spec), createTransfer,
	} {
		if err := s.conn.Exec(statement); err != nil {
			return err
		}
	}
	if err := writeMeta(s.conn, s.spec); err != nil {
		return err
	}
	return s.conn.Exec("COMMIT")
}

// undo rolls back what is open after err, which SQLite may have done itself.
func (s *seeder) undo(err error) error {
	if s.conn.DB.TxnState("") == sqliteh.SQLITE_TXN_WRITE {
		return errors.Join(err, s.conn.Exec("ROLLBACK"))
	}
	return err
}

// stopped says how far the seeding came, and how to go on.
func (s *seeder) stopped(err error) error {
	err = explain(s.path, err)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("dataset: %s: stopped behind account %d of %d: seed it again with the same parameters to go on: %w",
			s.path, s.report.Rows, s.spec.Rows, err)
	}
	return err
}

// createIndexes makes the indexes that are not there yet. Each is a
// transaction of its own, so an interruption loses one.
func (s *seeder) createIndexes(ctx context.Context) error {
	for i := 1; i <= s.spec.Indexes; i++ {
		there, err := s.conn.Integer("SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = ?1", indexName(i))
		if err != nil {
			return err
		}
		if there > 0 {
			continue
		}
		s.opts.stage(fmt.Sprintf("index %d of %d", i, s.spec.Indexes))
		err = s.conn.Interruptible(ctx, func() error { return s.conn.Exec(createIndex(i)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// finish switches to WAL mode and marks the data set complete, in this order:
// a complete one is always in WAL mode. Closing the connection, the only one,
// then copies the WAL into the database and deletes it.
func (s *seeder) finish() error {
	mode, err := s.conn.Text("PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("dataset: %s: its file system has no shared memory for WAL mode: choose a local disk", s.path)
	}
	if err := s.conn.Exec("UPDATE tpssim SET value = 1 WHERE key = ?1", metaComplete); err != nil {
		return err
	}
	s.report.Complete = true
	return nil
}
