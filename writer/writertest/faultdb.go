package writertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/tailscale/sqlite/sqliteh"
)

// faultDB is a connection whose operations may be made to fail. What it does not
// override goes to the real one.
type faultDB struct {
	sqliteh.DB
	faults *Faults
	conn   int
	flags  sqliteh.OpenFlags
	last   sqliteh.Code // of an injected fault, as long as it is the last error
}

func (db *faultDB) event(sql string) Event {
	return Event{Conn: db.conn, Flags: db.flags, SQL: sql, Txn: db.DB.TxnState("")}
}

// inject applies a rule's effect and returns its error. perform is the operation
// itself, for Keep.
func (db *faultDB) inject(r *Rule, effect Effect, perform func() error) error {
	switch effect {
	case RollBack:
		db.rollBack()
	case Keep:
		if err := perform(); err != nil {
			return err // it failed by itself
		}
	}
	db.last = r.Code
	return sqliteh.CodeAsError(r.Code)
}

// rollBack rolls the real transaction back, as SQLite does by itself.
func (db *faultDB) rollBack() {
	if db.DB.TxnState("") == sqliteh.SQLITE_TXN_NONE {
		return
	}
	stmt, _, err := db.DB.Prepare("ROLLBACK", 0)
	if err == nil {
		_, _, _, _, err = stmt.StepResult()
		stmt.Finalize()
	}
	if db.DB.TxnState("") == sqliteh.SQLITE_TXN_WRITE {
		panic(fmt.Sprintf("writertest: the injected rollback did not work: %v", err))
	}
}

// Close is sqlite3_close.
func (db *faultDB) Close() error {
	e := db.event("CLOSE")
	db.faults.before(e)
	err := db.DB.Close()
	db.faults.after(e, err)
	return err
}

// ErrMsg is sqlite3_errmsg.
func (db *faultDB) ErrMsg() string {
	if db.last != sqliteh.SQLITE_OK {
		return "injected fault"
	}
	return db.DB.ErrMsg()
}

// ExtendedErrCode is sqlite3_extended_errcode.
func (db *faultDB) ExtendedErrCode() sqliteh.Code {
	if db.last != sqliteh.SQLITE_OK {
		return db.last
	}
	return db.DB.ExtendedErrCode()
}

// BusyTimeout is sqlite3_busy_timeout.
func (db *faultDB) BusyTimeout(d time.Duration) {
	e := db.event("BUSY TIMEOUT " + d.String())
	db.faults.before(e)
	db.DB.BusyTimeout(d)
	db.faults.after(e, nil)
}

// Checkpoint is sqlite3_wal_checkpoint_v2.
func (db *faultDB) Checkpoint(name string, mode sqliteh.Checkpoint) (frames, done int, err error) {
	e := db.event("CHECKPOINT " + strings.TrimPrefix(mode.String(), "SQLITE_CHECKPOINT_"))
	db.faults.before(e)
	defer func() { db.faults.after(e, err) }()
	db.last = sqliteh.SQLITE_OK
	r := db.faults.strike(e, 0, false)
	if r == nil {
		return db.DB.Checkpoint(name, mode)
	}
	effect := r.Effect
	if primary := r.Code & 0xff; effect == AsSQLite && (primary == sqliteh.SQLITE_BUSY || primary == sqliteh.SQLITE_LOCKED) {
		effect, mode = Keep, sqliteh.SQLITE_CHECKPOINT_PASSIVE
	}
	frames, done = -1, -1
	err = db.inject(r, effect, func() error {
		frames, done, err = db.DB.Checkpoint(name, mode)
		return err
	})
	return frames, done, err
}

// Prepare is sqlite3_prepare_v3.
func (db *faultDB) Prepare(sql string, flags sqliteh.PrepareFlags) (sqliteh.Stmt, string, error) {
	db.last = sqliteh.SQLITE_OK
	if r := db.faults.strike(db.event(sql), 0, true); r != nil {
		return nil, "", db.inject(r, r.Effect, func() error { return nil })
	}
	stmt, rest, err := db.DB.Prepare(sql, flags)
	if err != nil {
		return nil, rest, err
	}
	return &faultStmt{Stmt: stmt, db: db, sql: sql}, rest, nil
}

// faultStmt is a statement whose steps may be made to fail.
type faultStmt struct {
	sqliteh.Stmt
	db   *faultDB
	sql  string
	rows int   // yielded since it was idle
	err  error // an injected error, which the next reset reports again
}

// DBHandle is sqlite3_db_handle.
func (s *faultStmt) DBHandle() sqliteh.DB { return s.db }

// Step is sqlite3_step.
func (s *faultStmt) Step(types []sqliteh.ColumnType) (row bool, err error) {
	err = s.step(func() error {
		row, err = s.Stmt.Step(types)
		return err
	}, func() { s.Stmt.Reset() })
	if err != nil || !row {
		s.rows = 0
		return false, err
	}
	s.rows++
	return true, nil
}

// StepResult is sqlite3_step, then sqlite3_reset and sqlite3_clear_bindings.
func (s *faultStmt) StepResult() (row bool, id, changes int64, d time.Duration, err error) {
	s.rows = 0
	err = s.step(func() error {
		row, id, changes, d, err = s.Stmt.StepResult()
		return err
	}, func() { s.Stmt.ResetAndClear() })
	if err != nil {
		s.err = nil // it was reset
		return false, 0, 0, d, err
	}
	return row, id, changes, d, nil
}

// step performs one step, or makes it fail. halt ends the statement as a failed
// step does.
func (s *faultStmt) step(perform func() error, halt func()) (err error) {
	db := s.db
	e := db.event(s.sql)
	if s.rows == 0 {
		db.faults.before(e)
		defer func() { db.faults.after(e, err) }()
	}
	db.last = sqliteh.SQLITE_OK
	r := db.faults.strike(e, s.rows, false)
	if r == nil {
		return perform()
	}
	effect := r.effect(s.sql)
	if effect != Keep {
		halt() // first: a statement that failed holds no cursor through the rollback
	}
	err = db.inject(r, effect, perform)
	if effect == Keep {
		halt()
	}
	s.err = err
	return err
}

// idle is what a reset returns after an injected error.
func (s *faultStmt) idle(err error) error {
	s.rows = 0
	if s.err != nil {
		err, s.err = s.err, nil
	}
	return err
}

// Reset is sqlite3_reset.
func (s *faultStmt) Reset() error { return s.idle(s.Stmt.Reset()) }

// ResetAndClear is sqlite3_reset and sqlite3_clear_bindings.
func (s *faultStmt) ResetAndClear() (time.Duration, error) {
	d, err := s.Stmt.ResetAndClear()
	return d, s.idle(err)
}

// Finalize is sqlite3_finalize.
func (s *faultStmt) Finalize() error { return s.idle(s.Stmt.Finalize()) }
