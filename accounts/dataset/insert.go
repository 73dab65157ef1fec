package dataset

import (
	"context"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// inserter inserts accounts in the order of their ids with two prepared
// statements: one for many rows, one for what is left of a transaction.
type inserter struct {
	conn      *sqlconn.Conn
	many, one sqliteh.Stmt
}

func newInserter(c *sqlconn.Conn, spec accounts.Spec) (*inserter, error) {
	many, err := prepareInsert(c, spec, statementRows)
	if err != nil {
		return nil, err
	}
	one, err := prepareInsert(c, spec, 1)
	if err != nil {
		many.Finalize()
		return nil, err
	}
	return &inserter{conn: c, many: many, one: one}, nil
}

// prepareInsert compiles the statement for n rows and binds all but the id,
// for good: resetting a statement keeps its values.
func prepareInsert(c *sqlconn.Conn, spec accounts.Spec, n int) (sqliteh.Stmt, error) {
	stmt, err := c.Prepare(insertAccounts(spec, n))
	if err != nil {
		return nil, err
	}
	err = stmt.BindInt64(2, spec.Balance)
	if err == nil && spec.Payload > 0 {
		err = stmt.BindBlob64(3, accounts.PayloadBytes(spec.Payload))
	}
	if err != nil {
		stmt.Finalize()
		return nil, sqlconn.Wrap(c.DB, err)
	}
	return stmt, nil
}

func (in *inserter) close() {
	in.many.Finalize()
	in.one.Finalize()
}

// insert makes accounts from id on, no further than last, and returns the id
// behind the newest.
func (in *inserter) insert(id, last int64) (next int64, err error) {
	stmt, next := in.many, id+statementRows
	if next > last+1 {
		stmt, next = in.one, id+1
	}
	if err := stmt.BindInt64(1, id); err != nil {
		return id, sqlconn.Wrap(in.conn.DB, err)
	}
	if _, err := stmt.Step(nil); err != nil {
		failure := sqlconn.Wrap(in.conn.DB, err)
		stmt.Reset() // repeats the step's error
		return id, failure
	}
	if err := stmt.Reset(); err != nil {
		return id, sqlconn.Wrap(in.conn.DB, err)
	}
	return next, nil
}

// rowsPerCommit is the size of a transaction in rows, 1 or more.
func (s *seeder) rowsPerCommit() int64 {
	if s.opts.CommitRows > 0 {
		return s.opts.CommitRows
	}
	perRow := max(1, s.spec.ForecastBytes()/s.spec.Rows)
	return max(1, min(commitRows, commitBytes/perRow))
}

// insertRows makes the accounts that are missing.
func (s *seeder) insertRows(ctx context.Context) error {
	in, err := newInserter(s.conn, s.spec)
	if err != nil {
		return err
	}
	defer in.close()
	before, batch := s.report.Rows, s.rowsPerCommit()
	s.opts.progress(s.report.Rows, s.spec.Rows)
	for s.report.Rows < s.spec.Rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		last := min(s.report.Rows+batch, s.spec.Rows)
		newest, err := s.commitRows(ctx, in, last)
		if err != nil {
			return s.undo(err)
		}
		s.report.Rows, s.report.Inserted = newest, newest-before
	}
	return nil
}

// commitRows inserts the accounts behind the newest one up to last in one
// transaction, or fewer when ctx ends, and returns the newest id after COMMIT.
// The context is looked at between statements: interrupting one of them would
// roll back all the others too.
func (s *seeder) commitRows(ctx context.Context, in *inserter, last int64) (newest int64, err error) {
	if err := s.conn.Exec("BEGIN IMMEDIATE"); err != nil {
		return 0, err
	}
	next := s.report.Rows + 1
	for next <= last && ctx.Err() == nil {
		if next, err = in.insert(next, last); err != nil {
			return 0, err
		}
		s.opts.progress(next-1, s.spec.Rows)
	}
	return next - 1, s.conn.Exec("COMMIT")
}
