package sqlite

import (
	"context"
	"errors"
	"sync"

	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/writer"
)

// pins are the snapshots that are held open. They end with the engine: SQLite
// clears the WAL away only if no reader has the database open when its writer
// closes it.
type pins struct {
	mu     sync.Mutex
	open   map[*sqlconn.Conn]struct{}
	closed bool
}

// errNoLog is returned by Pin without a WAL, where a reader stops all commits.
var errNoLog = errors.New("a reader can be pinned with journal_mode=wal only: in another mode it would stop every commit")

// pin implements engine.Pinner for a database in journalMode.
func (f *file) pin(ctx context.Context, journalMode string) (release func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if journalMode != "wal" {
		return nil, errNoLog
	}
	c, err := sqlconn.Open(f.connect, f.path, sqlconn.ReadOnly)
	if err != nil {
		return nil, err
	}
	if err := c.Exec("BEGIN"); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if _, err := c.Integer("SELECT count(*) FROM sqlite_schema"); err != nil { // BEGIN alone takes no snapshot
		return nil, errors.Join(err, c.Close())
	}
	if !f.pins.add(c) {
		return nil, errors.Join(writer.ErrClosed, c.Close())
	}
	return func() error { return f.pins.end(c) }, nil
}

// add keeps c to be closed, unless it is too late.
func (p *pins) add(c *sqlconn.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.open == nil {
		p.open = make(map[*sqlconn.Conn]struct{})
	}
	p.open[c] = struct{}{}
	return true
}

// end closes c, and with it its snapshot, if it is still open.
func (p *pins) end(c *sqlconn.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, open := p.open[c]; !open {
		return nil
	}
	delete(p.open, c)
	return c.Close()
}

// held reports whether any snapshot is.
func (p *pins) held() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) > 0
}

// close ends every snapshot and lets none begin.
func (p *pins) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for c := range p.open {
		errs = append(errs, c.Close())
	}
	clear(p.open)
	return errors.Join(errs...)
}
