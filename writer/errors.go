package writer

import (
	"errors"
	"fmt"

	"github.com/tailscale/sqlite/sqliteh"
)

// Errors of Open.
var (
	// ErrInUse means that another Writer, in this process or another, has the
	// database open.
	ErrInUse = errors.New("writer: the database is in use by another writer")
)

// Errors that mean that fn did not run.
var (
	// ErrClosed is returned for work that arrives after Close or Shutdown began.
	ErrClosed = errors.New("writer: closed")
	// ErrQueueFull is returned when the queue is full and Options.FailWhenFull is set.
	ErrQueueFull = errors.New("writer: the queue is full")
	// ErrNested is returned when a function that runs on the writer goroutine asks
	// the same writer for more work and would wait for itself.
	ErrNested = errors.New("writer: called from inside a function that holds the writer")
	// ErrFailed means that an I/O error or corruption at COMMIT or at a checkpoint
	// stopped the writer. Close it and open the database again.
	ErrFailed = errors.New("writer: stopped after a storage failure; close it and open the database again")
)

// Errors of statements.
var (
	// ErrTxDone is returned by a Tx, Rx, Conn or Stmt that is used after its
	// function returned.
	ErrTxDone = errors.New("writer: used after its function returned")
	// ErrTxAborted is returned by a Tx after SQLite rolled the whole transaction
	// back by itself.
	ErrTxAborted = errors.New("writer: SQLite rolled the transaction back; nothing more of this function can run")
	// ErrTxTimeout is returned by a Tx whose function held the writer for longer
	// than Options.TxTimeout.
	ErrTxTimeout = errors.New("writer: the transaction ran longer than TxTimeout")
	// ErrTxControl is returned when a Tx or Rx is asked to prepare a statement that
	// controls the transaction or the connection. Use Writer.Exclusive for those.
	ErrTxControl = errors.New("writer: transaction control, ATTACH, DETACH and PRAGMA are not allowed in a transaction")
	// ErrMultiple is returned when one SQL text holds more than one statement.
	ErrMultiple = errors.New("writer: the SQL text holds more than one statement; pass them one at a time")
	// ErrStmtStale is returned by a Stmt when the same SQL, or hundreds of other
	// texts, were asked for after it and before it was used: call Stmt again just
	// before binding.
	ErrStmtStale = errors.New("writer: the statement was handed out again; call Stmt again before binding")
	// ErrNoRows is returned by Row.Scan when the query had no row.
	ErrNoRows = errors.New("writer: no rows")
	// ErrOpenTx is returned by Exclusive when fn left a transaction open; it was
	// rolled back.
	ErrOpenTx = errors.New("writer: the function left a transaction open; it was rolled back")
)

// Error is an error that SQLite reported.
type Error struct {
	Code sqliteh.Code // extended result code
	Msg  string       // SQLite's message
	SQL  string       // the statement, or the name of the operation
}

// Error returns SQLite's message, its symbolic code and the statement.
func (e *Error) Error() string {
	return fmt.Sprintf("sqlite: %s (%s) in %q", e.Msg, e.Code, e.SQL)
}

// Unwrap returns the code as a [sqliteh.ErrCode].
func (e *Error) Unwrap() error { return sqliteh.ErrCode(e.Code) }

// Code returns the extended SQLite result code in err's chain, or SQLITE_OK when
// there is none.
func Code(err error) sqliteh.Code {
	if code, ok := errors.AsType[sqliteh.ErrCode](err); ok {
		return sqliteh.Code(code)
	}
	return sqliteh.SQLITE_OK
}

// Primary returns the primary result code of err (SQLITE_BUSY for
// SQLITE_BUSY_SNAPSHOT, say), or SQLITE_OK when err is not from SQLite.
func Primary(err error) sqliteh.Code { return Code(err) & 0xff }

// BatchError tells everyone whose function ran in a batch that the batch as a
// whole came to nothing.
type BatchError struct {
	// Op is what failed: "begin" (nothing ran), "abort" (the batch was rolled back
	// while it was being filled) or "commit".
	Op string
	// Err is the cause.
	Err error
	// InDoubt is set when the batch may or may not be found in the database after
	// it is opened again: all of it or nothing.
	InDoubt bool
	// Culprit is set on the error of the caller whose own function caused an
	// abort. For the others it is safe to try again.
	Culprit bool
}

// Error names the operation, the cause and whether the outcome is in doubt.
func (e *BatchError) Error() string {
	doubt := ""
	if e.InDoubt {
		doubt = " (in doubt: the batch may be found whole after the database is opened again)"
	}
	return fmt.Sprintf("writer: batch %s failed: %v%s", e.Op, e.Err, doubt)
}

// Unwrap returns the cause.
func (e *BatchError) Unwrap() error { return e.Err }

// PanicError is the error of a function that panicked or called runtime.Goexit.
type PanicError struct {
	Value any    // what was passed to panic; nil for Goexit
	Stack []byte // the goroutine's stack at that moment
}

// Error returns the panic's value without the stack.
func (e *PanicError) Error() string {
	if e.Value == nil {
		return "writer: the function called runtime.Goexit"
	}
	return fmt.Sprintf("writer: the function panicked: %v", e.Value)
}

// Unwrap returns the panic's value when it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// isStorageFailure reports whether err says that the storage can no longer be
// trusted: sentence 7 of the contract.
func isStorageFailure(err error) bool {
	switch Primary(err) {
	case sqliteh.SQLITE_IOERR, sqliteh.SQLITE_CORRUPT, sqliteh.SQLITE_NOTADB:
		return true
	}
	return false
}
