package writer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tailscale/sqlite/sqliteh"
)

// readers is the pool of read-only connections.
type readers struct {
	free  chan *conn
	all   []*conn
	open  func() (*conn, error)
	ended error // why there are none any more; before free is closed
}

// openReaders opens opt.Readers connections.
func openReaders(opt Options, path string) (*readers, error) {
	pragmas := maps.Clone(opt.Pragmas)
	maps.DeleteFunc(pragmas, func(name, _ string) bool {
		// What belongs to the file is the writer's to set.
		return slices.Contains([]string{"journal_mode", "page_size", "auto_vacuum", "application_id", "user_version", "encoding"}, name)
	})
	pragmas["query_only"] = "on"
	rs := &readers{free: make(chan *conn, opt.Readers)}
	rs.open = func() (*conn, error) {
		c, err := openConn(opt.Open, path, sqliteh.SQLITE_OPEN_READONLY)
		if err != nil {
			return nil, err
		}
		c.busyTimeout(opt.BusyTimeout)
		if err := c.configure(pragmas); err != nil {
			return nil, errors.Join(err, c.close())
		}
		return c, nil
	}
	for range opt.Readers {
		c, err := rs.open()
		if err != nil {
			return nil, errors.Join(err, rs.close())
		}
		rs.all = append(rs.all, c)
		rs.free <- c
	}
	return rs, nil
}

// view runs fn on a free connection.
func (rs *readers) view(ctx context.Context, closing <-chan struct{}, fn func(*Rx) error) (err error) {
	select {
	case <-closing:
		return ErrClosed
	default:
	}
	if cap(rs.free) == 0 {
		return errors.New("writer: opened without readers (Options.Readers is negative)")
	}
	var c *conn
	select {
	case c = <-rs.free:
		if c == nil {
			return rs.ended
		}
	case <-closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { rs.free <- c }()
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	defer func() { // also when fn panics
		// A failed read may have ended it, which says so itself.
		if rerr := c.exec("ROLLBACK"); rerr != nil && c.inTransaction() {
			err = errors.Join(err, rerr)
		}
	}()
	defer c.interruptAfter(ctx)()
	rx := &Rx{conn: c}
	defer rx.end()
	err = fn(rx)
	if ended := ctx.Err(); ended != nil && Primary(err) == sqliteh.SQLITE_INTERRUPT {
		err = fmt.Errorf("%w: %w", ended, err) // who ended ctx asks for its error, not for SQLite's
	}
	return err
}

// interruptPause is the time between two interrupts.
const interruptPause = 5 * time.Millisecond

// interruptAfter interrupts the connection's statements from the end of ctx on,
// again and again, because SQLite forgets an interrupt that comes between two
// statements. The function that it returns ends that; after it returned nothing is
// interrupted any more.
func (c *conn) interruptAfter(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	cancel := context.AfterFunc(ctx, c.interrupt)
	return func() {
		if !cancel() {
			c.over <- struct{}{}
			<-c.stopped
		}
	}
}

// interrupt is the interrupter.
func (c *conn) interrupt() {
	ticker := time.NewTicker(interruptPause)
	defer ticker.Stop()
	for {
		c.db.Interrupt()
		select {
		case <-c.over:
			c.stopped <- struct{}{}
			return
		case <-ticker.C:
		}
	}
}

// drain takes every connection out of use, waiting for the views that run. Who
// waits for one then gets why.
func (rs *readers) drain(why error) {
	for range rs.all {
		<-rs.free
	}
	rs.ended = why
	close(rs.free)
}

// holdWAL makes sure that a reader has the WAL open.
func (rs *readers) holdWAL() {
	if len(rs.all) == 0 {
		if c, err := rs.open(); err == nil {
			rs.all = append(rs.all, c)
		}
	}
	for _, c := range rs.all {
		c.pragma("schema_version") // a read, which opens the WAL; if it fails there is nothing to hold
	}
}

// close closes the connections. None may be in use.
func (rs *readers) close() error {
	var errs []error
	for _, c := range rs.all {
		errs = append(errs, c.close())
	}
	rs.all = nil
	return errors.Join(errs...)
}
