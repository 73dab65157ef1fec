// Package sqlconn is a plain SQLite connection, for what needs no more: seeding,
// checking, reading balances, a pool that is measured. Package writer has its own,
// with the rules of its transactions.
package sqlconn

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/writeback"
)

// openExtended makes every call return SQLite's extended result codes
// (SQLITE_OPEN_EXRESCODE); the driver has no name for it.
const openExtended sqliteh.OpenFlags = 0x02000000

const openFlags = openExtended | sqliteh.SQLITE_OPEN_READWRITE | sqliteh.SQLITE_OPEN_URI | sqliteh.SQLITE_OPEN_NOMUTEX

// busyTimeout is how long a statement waits for another process's lock. The
// locks of well-behaved programs are shorter; a longer wait would only delay
// the message that says who must go.
const busyTimeout = time.Second

// Access is how a connection is opened.
type Access int

const (
	Create    Access = iota // read and write, made when missing
	Existing                // read and write, must be there
	ReadOnly                // read only: never writes and never checkpoints
	Immutable               // read only, without locks: nothing is left behind
)

// Conn is one connection. It is for one goroutine at a time; only the
// interrupting of [Conn.Interruptible] comes from another.
type Conn struct {
	DB sqliteh.DB // for what the methods do not do
}

// Open opens path, which must be absolute and free of symbolic links, with open,
// or with the driver's own function when that is nil.
func Open(open sqliteh.OpenFunc, path string, how Access) (*Conn, error) {
	if open == nil {
		open = cgosqlite.Open
	}
	flags, query := openFlags, ""
	switch how {
	case Create:
		flags |= sqliteh.SQLITE_OPEN_CREATE
	case ReadOnly:
		flags = flags&^sqliteh.SQLITE_OPEN_READWRITE | sqliteh.SQLITE_OPEN_READONLY
	case Immutable:
		flags = flags&^sqliteh.SQLITE_OPEN_READWRITE | sqliteh.SQLITE_OPEN_READONLY
		query = "immutable=1"
	}
	db, err := open(fileURI(path, query), flags, "")
	if err != nil {
		failure := Wrap(db, err)
		if db != nil {
			db.Close() // a failed open may still leave a handle
		}
		return nil, failure
	}
	writeback.Install()
	db.BusyTimeout(busyTimeout)
	return &Conn{DB: db}, nil
}

// fileURI writes a path as SQLite's "file:" URI, so that any character of a
// file name stands for itself.
func fileURI(path, query string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a Windows drive: file:///C:/...
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: query}
	return u.String()
}

// Error is a failed SQLite call with the text that SQLite had for it.
type Error struct {
	Code sqliteh.Code // extended result code
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Msg, e.Code) }

// Unwrap gives the driver's own error, so that callers can look at the code.
func (e *Error) Unwrap() error { return sqliteh.CodeAsError(e.Code) }

// Primary is the code without its extension.
func (e *Error) Primary() sqliteh.Code { return e.Code & 0xff }

// Wrap turns an error of the driver into an *Error with the message of db, which
// may be nil. Other errors pass unchanged.
func Wrap(db sqliteh.DB, err error) error {
	var code sqliteh.ErrCode
	if !errors.As(err, &code) {
		return err
	}
	msg := err.Error()
	if db != nil {
		msg = db.ErrMsg()
	}
	return &Error{Code: sqliteh.Code(code), Msg: msg}
}

// Close closes the connection. All statements are finalized by the methods
// that prepared them.
func (c *Conn) Close() error {
	if err := c.DB.Close(); err != nil {
		return Wrap(nil, err)
	}
	return nil
}

// Prepare compiles one statement; the caller finalizes it.
func (c *Conn) Prepare(query string) (sqliteh.Stmt, error) {
	stmt, rest, err := c.DB.Prepare(query, 0)
	switch {
	case err != nil:
		return nil, Wrap(c.DB, err)
	case strings.TrimSpace(rest) != "":
		stmt.Finalize()
		return nil, fmt.Errorf("sqlconn: one statement at a time: %q follows the first", rest)
	}
	return stmt, nil
}

// Each runs a query and calls row for each of its rows.
func (c *Conn) Each(query string, row func(sqliteh.Stmt) error, args ...any) error {
	stmt, err := c.Prepare(query)
	if err != nil {
		return err
	}
	defer stmt.Finalize() // repeats the step's error, which has been returned
	if err := c.bind(stmt, args); err != nil {
		return err
	}
	for {
		more, err := stmt.Step(nil)
		if err != nil {
			return Wrap(c.DB, err)
		}
		if !more {
			return nil
		}
		if err := row(stmt); err != nil {
			return err
		}
	}
}

func (c *Conn) bind(stmt sqliteh.Stmt, args []any) error {
	for i, arg := range args {
		var err error
		switch v := arg.(type) {
		case int64:
			err = stmt.BindInt64(i+1, v)
		case string:
			err = stmt.BindText64(i+1, v)
		case []byte:
			err = stmt.BindBlob64(i+1, v)
		default:
			return fmt.Errorf("sqlconn: a %T cannot be bound", arg)
		}
		if err != nil {
			return Wrap(c.DB, err)
		}
	}
	return nil
}

// Exec runs one statement and drops its rows.
func (c *Conn) Exec(query string, args ...any) error {
	return c.Each(query, func(sqliteh.Stmt) error { return nil }, args...)
}

// Integer returns the first column of a query's last row, 0 without rows.
func (c *Conn) Integer(query string, args ...any) (n int64, err error) {
	err = c.Each(query, func(s sqliteh.Stmt) error { n = s.ColumnInt64(0); return nil }, args...)
	return n, err
}

// Text returns the first column of a query's last row, "" without rows.
func (c *Conn) Text(query string, args ...any) (text string, err error) {
	err = c.Each(query, func(s sqliteh.Stmt) error { text = s.ColumnText(0); return nil }, args...)
	return text, err
}

// Interruptible runs f, which uses the connection, and makes its statement
// fail soon after ctx ends; the error is then ctx's. An interrupt that comes
// before the statement has begun is forgotten by SQLite, so it is repeated
// until f is back.
//
// SQLite answers the interrupt of a writing statement with a rollback of its
// whole transaction: f must not have more to lose than its own statement.
func (c *Conn) Interruptible(ctx context.Context, f func() error) error {
	finished, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-finished:
			return
		case <-ctx.Done():
		}
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for {
			c.DB.Interrupt()
			select {
			case <-finished:
				return
			case <-again.C:
			}
		}
	}()
	err := f()
	close(finished)
	<-stopped // the connection may be closed next
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
