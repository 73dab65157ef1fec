package writer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/fastexec"
)

// Rx reads. It is valid until the function that it was passed to returns, and is
// for the goroutine of that function only.
type Rx struct {
	conn    *conn
	err     error   // why nothing more may run; nil while the function runs
	tx      *Tx     // the write transaction around it, nil on a reader
	free    bool    // no transaction around it: that is the caller's business
	owner   *Writer // of an Exclusive: what a storage failure stops
	late    error   // a commit that failed when its statement was reset
	control bool    // a statement of kindControl was handed out
}

// end resets the session's statements and ends every handle.
func (rx *Rx) end() {
	rx.conn.endSession(rx)
	rx.err = ErrTxDone
}

// Stmt returns a prepared statement for sql, which must hold exactly one
// statement. Errors show at Exec or Step.
func (rx *Rx) Stmt(sql string) Stmt {
	if rx.err != nil {
		return Stmt{err: rx.err}
	}
	p, err := rx.conn.prepare(sql, rx.free)
	if err != nil {
		return Stmt{err: rx.failed(err)} // preparing may read the schema, and fail as a statement does
	}
	rx.control = rx.control || p.kind == kindControl
	if rx.owner != nil {
		rx.owner.batch.savepoint.known = false // an Exclusive may change any schema, and attach others
	}
	p.lease++
	if !p.handed {
		p.handed = true
		rx.conn.inUse = append(rx.conn.inUse, p)
	}
	return Stmt{p: p, rx: rx, lease: p.lease}
}

// beforeStep opens the savepoint when a function's first write comes, and refuses
// what comes after its time is up.
func (rx *Rx) beforeStep(p *prepared) error {
	if err := rx.inTime(); err != nil || !rx.writes(p) {
		return err
	}
	if !rx.tx.protected {
		if err := rx.tx.protect(); err != nil {
			return err
		}
	}
	rx.tx.wrote(p, false, 0, sqliteh.SQLITE_OK)
	return nil
}

// inTime returns an error when the function's time is up.
func (rx *Rx) inTime() error {
	if rx.tx != nil && rx.tx.timedOut.Load() {
		return ErrTxTimeout
	}
	return nil
}

// writes tells whether p does something that may have to be undone by itself.
func (rx *Rx) writes(p *prepared) bool {
	return rx.tx != nil && p.kind != kindRead && rx.tx.w.batch.savepoints
}

// timeText is RFC 3339 with all nine digits of the fraction: of equal length, texts
// sort as their times do.
const timeText = "2006-01-02T15:04:05.000000000Z07:00"

// Bind binds args to the parameters in order; there must be as many. Their types
// are as for [Rx.Query].
func (s Stmt) Bind(args ...any) Stmt {
	for i, arg := range args {
		switch v := arg.(type) {
		case nil:
			s = s.BindNull(i + 1)
		case int64:
			s = s.BindInt64(i+1, v)
		case int:
			s = s.BindInt64(i+1, int64(v))
		case float64:
			s = s.BindFloat64(i+1, v)
		case string:
			s = s.BindText(i+1, v)
		case []byte:
			s = s.BindBlob(i+1, v)
		case bool:
			n := int64(0)
			if v {
				n = 1
			}
			s = s.BindInt64(i+1, n)
		case time.Time:
			s = s.BindText(i+1, v.UTC().Format(timeText))
		default:
			s.Reset()
			return Stmt{err: fmt.Errorf("writer: argument %d is a %T; use int64, float64, string, []byte, bool, time.Time or nil", i+1, arg)}
		}
	}
	if s.err == nil && len(args) != s.p.params {
		err := fmt.Errorf("writer: %d arguments for %d parameters of %q", len(args), s.p.params, s.p.sql)
		s.Reset()
		return Stmt{err: err}
	}
	return s
}

// Query runs sql and yields its rows. A row is valid until the next one; when the
// loop ends, however it ends, the statement is reset. An error is yielded last,
// with a row that must not be used. Arguments are int64, int, float64, string,
// []byte, bool (as 0 or 1), time.Time (as RFC 3339 text in UTC with nanoseconds,
// which sorts by time in the years 0 to 9999) or nil.
func (rx *Rx) Query(sql string, args ...any) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		s := rx.Stmt(sql).Bind(args...)
		defer s.Reset()
		for {
			row, err := s.Step()
			if err != nil {
				yield(Row{s: Stmt{err: err}}, err)
				return
			}
			if !row || !yield(Row{s: s}, nil) {
				return
			}
		}
	}
}

// QueryRow runs sql for its first row; Scan tells of any error, ErrNoRows when
// there is no row.
func (rx *Rx) QueryRow(sql string, args ...any) Row {
	s := rx.Stmt(sql).Bind(args...)
	row, err := s.Step()
	switch {
	case err != nil:
		return Row{s: Stmt{err: err}}
	case !row:
		return Row{s: Stmt{err: ErrNoRows}}
	}
	return Row{s: s, single: true}
}

// Row is one row of a result.
type Row struct {
	s      Stmt
	single bool // the only one that is wanted
}

// errRowGone is returned by Scan for a row that is no longer there.
var errRowGone = errors.New("writer: the row is gone; scan it once, inside its loop and its function")

// Stmt gives access to the row's columns without conversion.
func (r Row) Stmt() Stmt { return r.s }

// Scan copies the row's columns, in order, to dest: *int64, *int, *float64,
// *string, *[]byte, *bool, *time.Time or *any. NULL becomes the zero value. Fewer
// destinations than columns are allowed.
func (r Row) Scan(dest ...any) (err error) {
	switch err := r.s.live(); {
	case err != nil:
		return err
	case !r.s.p.busy:
		return errRowGone
	}
	if r.single {
		defer func() {
			if late := r.s.finish(); err == nil {
				err = late
			}
		}()
	}
	if n := r.s.Columns(); len(dest) > n {
		return fmt.Errorf("writer: %d destinations for %d columns", len(dest), n)
	}
	for i, d := range dest {
		if err := r.s.scan(i, d); err != nil {
			return err
		}
	}
	return nil
}

// scan copies column i to dest.
func (s Stmt) scan(i int, dest any) error {
	switch d := dest.(type) {
	case *int64:
		*d = s.Int64(i)
	case *int:
		*d = int(s.Int64(i))
	case *float64:
		*d = s.Float64(i)
	case *string:
		*d = s.Text(i)
	case *[]byte:
		*d = s.Blob(i)
	case *bool:
		*d = s.Int64(i) != 0
	case *time.Time:
		return s.scanTime(i, d)
	case *any:
		*d = s.Value(i)
	default:
		return fmt.Errorf("writer: cannot scan column %d into a %T", i, dest)
	}
	return nil
}

func (s Stmt) scanTime(i int, dest *time.Time) error {
	*dest = time.Time{}
	if s.IsNull(i) {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s.Text(i))
	if err != nil {
		return fmt.Errorf("writer: column %d: %w", i, err)
	}
	*dest = t
	return nil
}

// Value returns column i of the current row in the Go type that matches what SQLite
// stored: int64, float64, string, []byte (a copy) or nil; nil off a row.
func (s Stmt) Value(i int) any {
	if !s.column() {
		return nil
	}
	switch s.p.stmt.ColumnType(i) {
	case sqliteh.SQLITE_INTEGER:
		return s.Int64(i)
	case sqliteh.SQLITE_FLOAT:
		return s.Float64(i)
	case sqliteh.SQLITE_TEXT:
		return s.Text(i)
	case sqliteh.SQLITE_BLOB:
		return s.Blob(i)
	}
	return nil
}

// Tx is one caller's part of a batch. It is valid until its function returns, and
// is for the goroutine of that function only.
type Tx struct {
	*Rx
	rx        Rx
	w         *Writer
	ctx       context.Context // the caller's
	holder    holder
	protected bool        // there is a savepoint that undoes what it does
	opaque    bool        // it did something that cannot be repeated
	mark      int         // writes in the batch's log when it was protected
	cause     error       // why SQLite rolled the whole transaction back
	told      bool        // fn's own error tells of cause
	timedOut  atomic.Bool // set by the watchdog
}

// Exec runs sql and returns the number of rows that an INSERT, UPDATE or DELETE
// changed. Arguments are as for [Rx.Query].
func (tx *Tx) Exec(sql string, args ...any) (changed int64, err error) {
	return tx.Stmt(sql).Bind(args...).Exec()
}

// LastInsertID returns the rowid of the connection's most recent INSERT. Call it
// right after an INSERT that succeeded: when this function has inserted nothing,
// the row is a batch-mate's.
func (tx *Tx) LastInsertID() int64 {
	if tx.err != nil {
		return 0
	}
	return tx.conn.db.LastInsertRowid()
}

// nestedKey marks a context as belonging to a function that holds a writer.
type nestedKey struct{ w *Writer }

// Context returns the context that was passed to Do, marked so that asking this
// writer for more work with it returns ErrNested.
func (tx *Tx) Context() context.Context {
	return tx.w.nested(tx.ctx)
}

// nested marks ctx.
func (w *Writer) nested(ctx context.Context) context.Context {
	return context.WithValue(ctx, nestedKey{w}, true)
}

// protect sees to it that there is a savepoint. Without one the function's changes
// could not be told from its batch-mates', and the batch must not go on.
func (tx *Tx) protect() (err error) {
	s := &tx.w.batch.savepoint
	if s.state == staleSavepoint {
		err = tx.w.releaseSavepoint()
	}
	if err == nil && s.state == noSavepoint {
		err = tx.conn.run(tx.w.sql.savepoint)
	}
	if err != nil {
		tx.abort(err)
		return err
	}
	tx.protectedBy(s)
	return nil
}

// protectWith is protect as a part of a call that is about to be made. If it fails the
// batch is rolled back, so that what it notes here does not matter.
func (tx *Tx) protectWith(call *fastexec.Call) {
	s, sql := &tx.w.batch.savepoint, &tx.w.sql
	if s.state != openSavepoint {
		call.Savepoint = sql.savepoint.fast
	}
	if s.state == staleSavepoint {
		call.Release = sql.release.fast
	}
	tx.protectedBy(s)
}

// protectedBy notes that s is open.
func (tx *Tx) protectedBy(s *savepoint) {
	s.state = openSavepoint
	tx.protected, tx.mark = true, len(s.log)
}

// abort poisons the transaction.
func (tx *Tx) abort(cause error) {
	if tx.cause == nil {
		tx.cause = cause
		tx.rx.err = fmt.Errorf("%w: %w", ErrTxAborted, cause)
	}
}

// Conn is the writer's connection between batches, with no transaction open. It
// is valid until its function returns.
type Conn struct {
	*Rx
	ctx context.Context
}

// Context returns the context that was passed to Exclusive, marked so that asking
// this writer for more work with it returns ErrNested.
func (c *Conn) Context() context.Context { return c.ctx }

// Exec runs any one statement to its end, transaction control and PRAGMA included,
// and returns the number of rows changed. Arguments are as for [Rx.Query].
func (c *Conn) Exec(sql string, args ...any) (changed int64, err error) {
	return c.Stmt(sql).Bind(args...).Exec()
}
