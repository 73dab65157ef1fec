package sqlite

import (
	"context"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/writer"
)

// script is statements that users wrote, on a transaction of the writer.
type script struct{ rx *writer.Rx }

// UpdateSQL implements engine.Scripter.
func (e *queued) UpdateSQL(ctx context.Context, t *engine.Timing, fn func(engine.SQLTx) error) error {
	if err := e.check(); err != nil {
		return err
	}
	return stopped(e.w.DoCall(ctx, writer.Call{
		Fn:     func(tx *writer.Tx) error { return fn(script{tx.Rx}) },
		Timing: (*writer.Timing)(t),
	}))
}

// PrepareSQL implements engine.Scripter.
func (e *queued) PrepareSQL(ctx context.Context, sql string) error {
	if err := e.check(); err != nil {
		return err
	}
	return stopped(e.w.Prepare(ctx, sql))
}

// Run implements engine.SQLTx. The writer keeps each text prepared; without a row
// nothing is allocated for numbers.
func (s script) Run(sql string, args []any, row *engine.Row) error {
	stmt := s.rx.Stmt(sql).Bind(args...)
	more, err := stmt.Step()
	if err != nil {
		return err
	}
	if row != nil {
		fillRow(row, stmt, more)
	}
	for more { // to the end: what a statement changes or costs may come with its last row
		if more, err = stmt.Step(); err != nil {
			return err
		}
	}
	return nil
}

// fillRow copies the row that stmt stands on, if there is one.
func fillRow(row *engine.Row, stmt writer.Stmt, there bool) {
	row.Columns, row.Values = row.Columns[:0], row.Values[:0]
	for i := range stmt.Columns() {
		row.Columns = append(row.Columns, stmt.Name(i))
		if there {
			row.Values = append(row.Values, stmt.Value(i))
		}
	}
}
