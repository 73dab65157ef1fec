package sqlite

import (
	"errors"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// poolConn is one connection with its statements.
type poolConn struct {
	*sqlconn.Conn
	patience                       time.Duration // its busy timeout
	stmts                          []sqliteh.Stmt
	begin, commit, rollback, query sqliteh.Stmt
	add, swap, record, readBegin   sqliteh.Stmt
}

func (p *pool) openConn() (*poolConn, error) {
	conn, err := sqlconn.Open(p.connect, p.path, sqlconn.Existing)
	if err != nil {
		return nil, err
	}
	c := &poolConn{Conn: conn}
	if err := p.prepare(c); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// prepare sets a fresh connection up and prepares its statements.
func (p *pool) prepare(c *poolConn) (err error) {
	c.DB.BusyTimeout(p.opt.busyTimeout)
	if err := setPragmas(c.Conn, pragmas(p.opt)); err != nil {
		return err
	}
	patience, err := c.Integer("PRAGMA busy_timeout") // a pragma may have set it
	if err != nil {
		return err
	}
	c.patience = time.Duration(patience) * time.Millisecond
	if err := c.DB.AutoCheckpoint(0); err != nil {
		return sqlconn.Wrap(c.DB, err)
	}
	c.DB.SetWALHook(func(_ string, pages int) { p.log.grown(pages) })
	for sql, dest := range map[string]*sqliteh.Stmt{
		"BEGIN IMMEDIATE": &c.begin, "COMMIT": &c.commit, "ROLLBACK": &c.rollback, "BEGIN": &c.readBegin,
		addSQL: &c.add, swapSQL: &c.swap, balanceSQL: &c.query, recordSQL: &c.record,
	} {
		if *dest, err = c.Prepare(sql); err != nil {
			return err
		}
		c.stmts = append(c.stmts, *dest)
	}
	return nil
}

func (c *poolConn) close() error {
	for _, s := range c.stmts {
		s.Finalize()
	}
	return c.Close()
}

// step runs a bound statement once and resets it.
func (c *poolConn) step(s sqliteh.Stmt) (changed int64, err error) {
	_, _, changed, _, err = s.StepResult()
	if err != nil {
		return 0, sqlconn.Wrap(c.DB, err)
	}
	return changed, nil
}

func (c *poolConn) Balance(id int64) (int64, error) {
	c.query.BindInt64(1, id)
	defer c.query.ResetAndClear()
	row, err := c.query.Step(nil)
	switch {
	case err != nil:
		return 0, sqlconn.Wrap(c.DB, err)
	case !row:
		return 0, engine.ErrNoAccount
	}
	return c.query.ColumnInt64(0), nil
}

func (c *poolConn) Add(id, delta int64) error {
	c.add.BindInt64(1, delta)
	c.add.BindInt64(2, id)
	n, err := c.step(c.add)
	if err == nil && n != 1 {
		err = engine.ErrNoAccount
	}
	return err
}

func (c *poolConn) Swap(id, old, balance int64) (bool, error) {
	c.swap.BindInt64(1, balance)
	c.swap.BindInt64(2, id)
	c.swap.BindInt64(3, old)
	n, err := c.step(c.swap)
	return n == 1, err
}

func (c *poolConn) Record(from, to, amount int64) error {
	c.record.BindInt64(1, from)
	c.record.BindInt64(2, to)
	c.record.BindInt64(3, amount)
	_, err := c.step(c.record)
	return err
}
