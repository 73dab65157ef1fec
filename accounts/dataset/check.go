package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

const (
	// maxProblems bounds the list in a report: a damaged file can have millions.
	maxProblems = 10

	// checkPasses is how often Check reads the file: integrity_check walks the
	// pages and then the rows, and the accounts are read once more.
	checkPasses = 3

	// checkCacheBytes bounds SQLite's page cache. It is larger than Seed's, as
	// integrity_check looks every account up in every index.
	checkCacheBytes = 64 << 20

	// indexEntryBytes is about what an account takes in one index.
	indexEntryBytes = 17

	// checkTick is how often Check looks at the I/O counter.
	checkTick = 200 * time.Millisecond
)

// CheckReport is what [Check] found.
type CheckReport struct {
	Info         Info
	Rows         int64 // accounts counted
	MinID, MaxID int64
	Total        int64 // sum of all balances
	Problems     []string
	Elapsed      time.Duration
}

// OK reports whether nothing is wrong.
func (r CheckReport) OK() bool { return len(r.Problems) == 0 }

// Check reads a whole data set and reports what is wrong with it: SQLite's
// integrity_check, the tables and indexes as the Spec says, the accounts 1 to
// Spec.Rows without a gap, the money that they were seeded with still there in
// sum, payloads and key columns with the values that they must have. Transfers
// that ran on the data set move money and keep all of this.
//
// An error means that the check could not be done: there is no data set (see
// [Inspect]), it is not complete, it cannot be written to, or ctx ended. A
// file so damaged that it cannot be read wraps [ErrCorrupt].
//
// It takes [Options].Lock, so that no writer of this program runs meanwhile,
// and leaves no -wal or -shm behind. For that the file must be writable;
// nothing in it is changed but by recovering a -wal.
func Check(ctx context.Context, path string, opts Options) (report CheckReport, err error) {
	started := time.Now()
	defer func() { report.Elapsed = time.Since(started) }()
	f, err := lookAt(path)
	if err != nil {
		return CheckReport{}, err
	}
	if f.size == 0 {
		return CheckReport{}, refuse(f.path, ErrNotExist, "seed it first, or name another file")
	}
	if err := f.mustBeWritable(); err != nil {
		return CheckReport{}, err
	}
	release, err := opts.lock(f.path)
	if err != nil {
		return CheckReport{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if f, err = lookAt(path); err != nil {
		return CheckReport{}, err
	}
	info, err := inspect(f, opts.Open)
	if err != nil {
		return CheckReport{}, err
	}
	if err := info.Ready(); err != nil {
		return CheckReport{Info: info}, err
	}
	ahead, err := openReadAhead(f.path, info.Bytes())
	if err != nil {
		return CheckReport{Info: info}, explain(f.path, err)
	}
	defer func() { err = errors.Join(err, ahead.file.Close()) }()
	c, err := sqlconn.Open(opts.Open, f.path, sqlconn.Existing)
	if err != nil {
		return CheckReport{Info: info}, explain(f.path, err)
	}
	defer func() { err = errors.Join(err, explain(f.path, c.Close())) }()
	k := checker{conn: c, opts: opts, ahead: ahead, report: CheckReport{Info: info}}
	err = k.run(ctx)
	return k.report, explain(f.path, err)
}

// checker is one call of Check.
type checker struct {
	conn   *sqlconn.Conn
	opts   Options
	ahead  *readAhead
	report CheckReport
}

func (k *checker) run(ctx context.Context) error {
	if err := k.conn.Exec(fmt.Sprintf("PRAGMA cache_size = -%d", checkCacheBytes>>10)); err != nil {
		return err
	}
	stop := watchReads(k.opts.Progress, expectedReads(k.report.Info), &k.ahead.read)
	err := k.conn.Interruptible(ctx, k.all)
	stop(err == nil)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("dataset: %s: the check was stopped: %w", k.report.Info.Path, err)
	}
	return err
}

// all does the parts of the check. Damage that one of them meets is a problem
// to report, and the others still run.
func (k *checker) all() error {
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"integrity", k.integrity},
		{"schema", k.schema},
		{"accounts", k.accounts},
	} {
		k.opts.stage(part.name)
		err := part.run()
		var sqlErr *sqlconn.Error
		switch {
		case err == nil:
		case errors.As(err, &sqlErr) && (sqlErr.Primary() == sqliteh.SQLITE_CORRUPT || sqlErr.Primary() == sqliteh.SQLITE_ERROR):
			k.problem("%s: %s", part.name, sqlErr.Msg)
		default:
			return err
		}
	}
	return nil
}

func (k *checker) problem(format string, args ...any) {
	if len(k.report.Problems) < maxProblems {
		k.report.Problems = append(k.report.Problems, fmt.Sprintf(format, args...))
	}
}

func (k *checker) integrity() error {
	defer k.ahead.start()()
	query := fmt.Sprintf("PRAGMA integrity_check(%d)", maxProblems)
	return k.conn.Each(query, func(s sqliteh.Stmt) error {
		if text := s.ColumnText(0); text != "ok" {
			// One row can hold several findings, a line each.
			for line := range strings.Lines(text) {
				k.problem("integrity: %s", strings.TrimSpace(line))
			}
		}
		return nil
	})
}

// schema compares the statements that SQLite keeps with those that Seed used.
func (k *checker) schema() error {
	spec := k.report.Info.Spec
	want := map[string]string{
		"account":  createAccount(spec),
		"tpssim":   createMeta,
		"transfer": createTransfer,
	}
	for i := 1; i <= spec.Indexes; i++ {
		want[indexName(i)] = createIndex(i)
	}
	// Indexes that SQLite makes for PRIMARY KEY have no statement.
	query := "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
	err := k.conn.Each(query, func(s sqliteh.Stmt) error {
		name := s.ColumnText(0)
		if s.ColumnText(1) == want[name] {
			delete(want, name)
		} else if _, ours := want[name]; !ours {
			k.problem("schema: %s does not belong to the data set", name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name := range want {
		k.problem("schema: %s is missing or changed", name)
	}
	return nil
}

// accounts reads every row of the table, once, past the indexes: those have
// been compared with the table by integrity_check.
func (k *checker) accounts() error {
	spec, r := k.report.Info.Spec, &k.report
	columns := []string{
		"count(*)", "min(id)", "max(id)", "sum(balance)",
		"count(*) FILTER (WHERE typeof(id) <> 'integer' OR typeof(balance) <> 'integer')",
	}
	names := []string{"an id or balance that is not a whole number"}
	for i := 1; i <= spec.Indexes; i++ {
		columns = append(columns, fmt.Sprintf("count(*) FILTER (WHERE k%d IS NOT %s)", i, accounts.KeyColumnSQL("id", i)))
		names = append(names, fmt.Sprintf("a wrong value in k%d", i))
	}
	var args []any
	if spec.Payload > 0 {
		columns = append(columns, "count(*) FILTER (WHERE payload IS NOT ?1)")
		names = append(names, "a wrong payload")
		args = append(args, accounts.PayloadBytes(spec.Payload))
	}
	query := "SELECT " + strings.Join(columns, ", ") + " FROM account NOT INDEXED"
	return k.conn.Each(query, func(s sqliteh.Stmt) error {
		r.Rows, r.MinID, r.MaxID, r.Total = s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2), s.ColumnInt64(3)
		if r.Rows != spec.Rows || r.MinID != 1 || r.MaxID != spec.Rows {
			k.problem("accounts: %d with ids %d to %d instead of %d with ids 1 to %d", r.Rows, r.MinID, r.MaxID, spec.Rows, spec.Rows)
		}
		if want := spec.Rows * spec.Balance; r.Total != want {
			k.problem("accounts: the balances add up to %d instead of %d: off by %d", r.Total, want, r.Total-want)
		}
		for i, name := range names {
			if n := s.ColumnInt64(4 + i); n > 0 {
				k.problem("accounts: %d with %s", n, name)
			}
		}
		return nil
	}, args...)
}

// expectedReads estimates how many bytes Check reads: all pages so many times,
// and a page for each account in each index, where the indexes do not fit the
// cache: their keys lie in another order than the accounts.
func expectedReads(info Info) int64 {
	bytes := float64(info.Bytes()) * checkPasses
	if lookups := float64(info.Spec.Rows) * float64(info.Spec.Indexes); lookups > 0 {
		missing := max(0, 1-checkCacheBytes/(lookups*indexEntryBytes))
		bytes += lookups * missing * float64(info.PageSize)
	}
	return int64(min(bytes, math.MaxInt64/2))
}

// watchReads tells progress how much this process has read since now, against
// total and without the others, until the returned function is called. SQLite is built without a
// progress handler, and its one long statement lets nothing else through; the
// kernel's counter of the process needs neither. It counts reads that the page
// cache serves too, but not those of SQLite's own cache, so done can end below
// total: the last call says total when the work was finished.
func watchReads(progress func(done, total int64), total int64, others *atomic.Int64) (stop func(finished bool)) {
	if progress == nil {
		return func(bool) {}
	}
	first, counted := bytesRead()
	if !counted {
		total = 0
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(checkTick)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				now, _ := bytesRead()
				progress(min(max(0, now-first-others.Load()), total), total)
			}
		}
	}()
	return func(finished bool) {
		close(quit)
		<-gone
		if finished {
			progress(total, total)
		}
	}
}

// bytesRead returns how many bytes this process has read so far, by any system
// call, and false where the system has no /proc/self/io.
func bytesRead() (n int64, ok bool) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "rchar: "); found {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return int64(min(n, math.MaxInt64)), err == nil
		}
	}
	return 0, false
}
