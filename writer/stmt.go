package writer

import (
	"errors"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/fastexec"
)

// prepared is a statement in a connection's cache.
type prepared struct {
	stmt   sqliteh.Stmt
	sql    string
	kind   kind
	params int  // the number of the last parameter
	rows   bool // it may yield rows, or is a PRAGMA, which may do a part of its work in each step

	repeatable, dml bool   // see the functions of these names
	logged          uint64 // the last log of writes that it is in

	next   *prepared // another statement of the same text
	lease  uint64    // grows with each hand-out, so that an old handle shows
	handed bool      // in conn.inUse
	pinned bool      // the writer's own, never evicted
	busy   bool      // has bindings or an open cursor
	begun  bool      // was stepped since it was idle
	err    error     // first failed bind since the statement was idle

	// Integers are held back, so that Exec can hand all of them to SQLite in one
	// call; see package fastexec.
	fast  fastexec.Stmt // 0: the driver gets everything at once
	held  [fastexec.Parameters]int64
	holds uint // a bit for each parameter whose value is held
	given bool // the driver has some bindings or a cursor
}

// reset makes the statement idle. Its error is that of the last step, if that
// failed, or that of the commit that ends a statement outside of a transaction.
func (p *prepared) reset() (err error) {
	if p.given {
		_, err = p.stmt.ResetAndClear()
	}
	p.idle()
	p.err = nil
	return err
}

// idle notes that the statement has neither bindings nor a cursor.
func (p *prepared) idle() { p.busy, p.begun, p.given, p.holds = false, false, false, 0 }

// hold keeps v for parameter i until Exec, if that may be.
func (p *prepared) hold(i int, v int64) bool {
	if p.fast == 0 || p.given || i < 1 || i > p.params {
		return false
	}
	p.held[i-1] = v
	p.holds |= 1 << (i - 1)
	return true
}

// whole reports whether all parameters of the statement are held.
func (p *prepared) whole() bool { return p.fast != 0 && !p.given && p.holds == 1<<p.params-1 }

// Stmt is a prepared statement on loan from a transaction: bind, then Exec or
// step through the rows. It is a small value, and using it allocates nothing. A
// failed bind shows at Exec or Step. Parameters count from 1, columns from 0.
//
// A Stmt may be executed again and again, until the same SQL or hundreds of other
// texts are asked for; after that an older one returns ErrStmtStale. It ends with
// its function.
type Stmt struct {
	p     *prepared
	rx    *Rx
	lease uint64
	err   error
}

// live returns why the handle may not be used, nil if it may.
func (s Stmt) live() error {
	switch {
	case s.err != nil:
		return s.err
	case s.rx.err != nil:
		return s.rx.err
	case s.p.lease != s.lease:
		return ErrStmtStale
	}
	return nil
}

// use checks that the handle is live and marks the statement busy.
func (s Stmt) use() error {
	if err := s.live(); err != nil {
		return err
	}
	s.p.busy = true
	return nil
}

// bound records the first failed bind.
func (s Stmt) bound(err error) Stmt {
	if err != nil && s.p.err == nil {
		s.p.err = s.rx.conn.wrap(err, s.p.sql)
	}
	return s
}

// driver returns the driver's statement, with all that was bound until now.
func (s Stmt) driver() sqliteh.Stmt {
	p := s.p
	p.given = true
	for i := 1; p.holds != 0; i, p.holds = i+1, p.holds>>1 {
		if p.holds&1 != 0 {
			s.bound(p.stmt.BindInt64(i, p.held[i-1]))
		}
	}
	return p.stmt
}

// BindInt64 binds parameter i.
func (s Stmt) BindInt64(i int, v int64) Stmt {
	if s.use() != nil || s.p.hold(i, v) {
		return s
	}
	return s.bound(s.driver().BindInt64(i, v))
}

// BindFloat64 binds parameter i.
func (s Stmt) BindFloat64(i int, v float64) Stmt {
	if s.use() != nil {
		return s
	}
	return s.bound(s.driver().BindDouble(i, v))
}

// BindText binds parameter i. The driver copies v.
func (s Stmt) BindText(i int, v string) Stmt {
	if s.use() != nil {
		return s
	}
	return s.bound(s.driver().BindText64(i, v))
}

// BindBlob binds parameter i; nil binds NULL. SQLite copies v.
func (s Stmt) BindBlob(i int, v []byte) Stmt {
	switch {
	case s.use() != nil:
		return s
	case v == nil:
		return s.bound(s.driver().BindNull(i))
	case len(v) == 0:
		return s.bound(s.driver().BindZeroBlob64(i, 0))
	}
	return s.bound(s.driver().BindBlob64(i, v))
}

// BindNull binds NULL to parameter i.
func (s Stmt) BindNull(i int) Stmt {
	if s.use() != nil {
		return s
	}
	return s.bound(s.driver().BindNull(i))
}

// ready checks the handle and its bindings before a step.
func (s Stmt) ready() error {
	if err := s.use(); err != nil {
		return err
	}
	if err := s.p.err; err != nil {
		s.p.reset()
		return err
	}
	if err := s.rx.beforeStep(s.p); err != nil {
		return err
	}
	if !s.p.begun {
		s.p.begun = true
		s.rx.conn.statements++
	}
	return nil
}

// Exec runs the statement to its first row or its end (of a Conn, always to its
// end), makes it idle, clears its bindings and returns the number of rows that an
// INSERT, UPDATE or DELETE changed; after another statement the number means
// nothing.
func (s Stmt) Exec() (changed int64, err error) {
	switch {
	case s.err == nil && s.p.whole() && !(s.rx.free && s.p.rows):
		return s.execHeld()
	case s.err == nil && s.rx.free:
		return s.execWhole()
	}
	if err := s.ready(); err != nil {
		return 0, err
	}
	row, _, changed, _, err := s.driver().StepResult()
	s.p.idle()
	switch {
	case err != nil:
		return 0, s.rx.stepFailed(s.p, err)
	case row: // what a RETURNING changed counts when it was reset, after the driver looked
		return int64(s.rx.conn.db.Changes()), nil
	}
	return changed, nil
}

// execHeld is Exec of a statement whose parameters are all held: everything that is
// to be done, the savepoint included, in one call.
func (s Stmt) execHeld() (changed int64, err error) {
	if err := s.use(); err != nil {
		return 0, err
	}
	p, rx := s.p, s.rx
	if err := rx.inTime(); err != nil {
		return 0, err
	}
	call := fastexec.Call{Stmt: p.fast, N: p.params, Values: p.held}
	writes := rx.writes(p)
	if writes && !rx.tx.protected {
		rx.tx.protectWith(&call)
	}
	changed, part, code := call.Run()
	p.idle()
	if part != fastexec.Statement { // no savepoint: see protect
		err := rx.conn.wrap(sqliteh.ErrCode(code), rx.tx.w.sql.savepoint.sql)
		rx.tx.abort(err)
		return 0, err
	}
	rx.conn.statements++
	if writes {
		rx.tx.wrote(p, true, changed, code)
	}
	if code != sqliteh.SQLITE_OK {
		return 0, rx.stepFailed(p, sqliteh.ErrCode(code))
	}
	return changed, nil
}

// execWhole is Exec outside of a transaction. A statement that yields rows commits
// after the last one, and the driver's StepResult would drop that commit's error;
// some pragmas do a piece of their work for each row.
func (s Stmt) execWhole() (changed int64, err error) {
	for row := true; row; {
		if row, err = s.Step(); err != nil {
			return 0, err
		}
	}
	return int64(s.rx.conn.db.Changes()), nil
}

// Step moves to the next row and reports whether there is one. At the end, or
// after an error, the statement is idle again and its bindings are cleared.
func (s Stmt) Step() (row bool, err error) {
	if err := s.ready(); err != nil {
		return false, err
	}
	row, err = s.driver().Step(nil)
	if err != nil {
		err = s.rx.stepFailed(s.p, err)
	}
	if !row {
		s.p.reset() // would only repeat err
	}
	return row, err
}

// Reset makes the statement idle and clears its bindings. In Exclusive that may
// commit it; if this fails, Exclusive returns the error.
func (s Stmt) Reset() { s.finish() }

// finish is Reset with its error.
func (s Stmt) finish() error {
	if s.err == nil && s.p.lease == s.lease {
		return s.rx.reset(s.p)
	}
	return nil
}

// column reports whether the handle stands on a row that may be read.
func (s Stmt) column() bool {
	return s.live() == nil && s.p.busy
}

// Int64 returns column i of the current row as SQLite converts it; 0 off a row.
func (s Stmt) Int64(i int) int64 {
	if !s.column() {
		return 0
	}
	return s.p.stmt.ColumnInt64(i)
}

// Float64 returns column i of the current row as SQLite converts it; 0 off a row.
func (s Stmt) Float64(i int) float64 {
	if !s.column() {
		return 0
	}
	return s.p.stmt.ColumnDouble(i)
}

// Text returns a copy of column i of the current row; "" off a row.
func (s Stmt) Text(i int) string {
	if !s.column() {
		return ""
	}
	return s.p.stmt.ColumnText(i)
}

// Blob returns a copy of column i of the current row; nil for NULL and off a row.
func (s Stmt) Blob(i int) []byte {
	if !s.column() || s.p.stmt.ColumnType(i) == sqliteh.SQLITE_NULL {
		return nil
	}
	return append([]byte{}, s.p.stmt.ColumnBlob(i)...)
}

// IsNull reports whether column i of the current row is NULL; true off a row.
func (s Stmt) IsNull(i int) bool {
	return !s.column() || s.p.stmt.ColumnType(i) == sqliteh.SQLITE_NULL
}

// Columns returns the number of columns of the result.
func (s Stmt) Columns() int {
	if s.live() != nil {
		return 0
	}
	return s.p.stmt.ColumnCount()
}

// Name returns the name of column i.
func (s Stmt) Name(i int) string {
	if s.live() != nil {
		return ""
	}
	return s.p.stmt.ColumnName(i)
}

// reset makes p idle and keeps the error of a commit that failed by it. Inside a
// transaction nothing is committed by a reset.
func (rx *Rx) reset(p *prepared) error {
	err := p.reset()
	if err == nil || !rx.free {
		return nil
	}
	err = rx.stepFailed(p, err)
	if rx.late == nil {
		rx.late = err
	}
	return err
}

// stepFailed is failed for the error of a step.
func (rx *Rx) stepFailed(p *prepared, err error) error {
	err = rx.conn.wrap(err, p.sql)
	if rx.owner != nil && p.kind != kindRead && isStorageFailure(err) {
		rx.owner.fail(err)
	}
	return rx.failed(err)
}

// failed turns a statement's error into what the caller sees, and poisons the
// transaction when SQLite has ended it.
func (rx *Rx) failed(err error) error {
	if rx.tx == nil {
		return err
	}
	if rx.tx.timedOut.Load() {
		err = errors.Join(ErrTxTimeout, err)
	}
	if rx.conn.db.TxnState("") != sqliteh.SQLITE_TXN_WRITE {
		rx.tx.abort(err)
	}
	return err
}
