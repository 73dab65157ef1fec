package writer

import (
	"fmt"
	"strings"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/fastexec"
)

// A savepoint costs SQLite a copy of every page that is written after it: with one
// for each function as much time as the function's own statements take. So functions
// share a savepoint as long as they can. What they write is logged; when one fails,
// the database goes back to the savepoint and what the others had written is written
// again. Their functions do not run again, and what they read stays true: the lock is
// held all the time, and the same statements on the same pages change the same.
//
// That holds for statements whose outcome is in their text, their parameters and the
// tables alone. After a function that wrote in any other way a new savepoint begins,
// so that it never has to be repeated. A function that fails is not repeated, so it
// may do what it likes.

// maxShared bounds the statements that are logged, and so the time that a failure can
// cost the writer: some milliseconds. Each new savepoint costs a copy of the pages
// that are written often.
const maxShared = 65536

// carefulFunctions is how many functions have a savepoint each after one had failed
// that shared one: what is repeated for a failure takes as long as the savepoints of
// some thousand functions.
const carefulFunctions = 10_000

// triggersSQL asks whether a statement may do more than its text says.
const triggersSQL = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger')" +
	" OR EXISTS (SELECT 1 FROM sqlite_temp_schema WHERE type = 'trigger')"

// savepoint is the one savepoint that may be open in a batch's transaction.
type savepoint struct {
	state savepointState
	share bool    // functions may share it
	log   []write // what functions wrote since, all of it but for the one that runs
}

type savepointState uint8

const (
	noSavepoint   savepointState = iota
	openSavepoint                // what the next function does can be undone with it
	// staleSavepoint has something behind it that is to stay. The next one releases
	// it in the same call to SQLite, or COMMIT does.
	staleSavepoint
)

// write is a statement that was executed.
type write struct {
	p       *prepared // is not evicted as long as the savepoint is open
	values  [fastexec.Parameters]int64
	changed int64
}

// repeatable reports whether a statement, on the same tables and with the same
// integers, always does the same. It is for sure when it calls no function, which
// might be random() or changes(), asks for no time and names no other database.
// Triggers are looked for once in a batch.
func repeatable(sql string) bool {
	switch word, _ := keyword(sql); word {
	case "UPDATE", "DELETE":
		return !strings.ContainsAny(sql, "(.") && !strings.Contains(strings.ToUpper(sql), "CURRENT_")
	}
	return false
}

// dml reports whether a statement changes rows at most, and no schema.
func dml(sql string) bool {
	switch word, _ := keyword(sql); word {
	case "INSERT", "REPLACE", "UPDATE", "DELETE", "WITH":
		return true
	}
	return false
}

// shareSavepoint decides, when a batch has begun, whether its functions share one.
func (w *Writer) shareSavepoint() error {
	b := &w.batch
	w.clearLog()
	b.savepoint.state, b.savepoint.share = noSavepoint, false
	if w.opt.Savepoints != SavepointEach || w.sql.release.fast == 0 || w.doubt > 0 || len(b.reqs)-b.pos == 1 {
		return nil
	}
	p := w.sql.triggers
	_, err := p.stmt.Step(nil)
	if err == nil {
		b.savepoint.share = p.stmt.ColumnInt64(0) == 0
	} else {
		err = w.conn.wrap(err, p.sql)
	}
	p.stmt.ResetAndClear()
	return err
}

// wrote notes that the function has executed p, with which outcome. held means that
// all of it is in the parameters that p holds.
func (tx *Tx) wrote(p *prepared, held bool, changed int64, code sqliteh.Code) {
	s := &tx.w.batch.savepoint
	if held && code == sqliteh.SQLITE_OK && s.share && p.repeatable {
		p.logged = tx.conn.log
		s.log = append(s.log, write{p, p.held, changed})
		return
	}
	tx.opaque = true // an UPDATE OR FAIL leaves something behind when it fails
	s.share = s.share && p.dml
}

// endSavepoint keeps or undoes what the function did.
func (w *Writer) endSavepoint(tx *Tx, keep bool) error {
	s := &w.batch.savepoint
	switch {
	case !keep:
		return w.undo(tx.mark)
	case s.share && !tx.opaque && len(s.log) < maxShared && !w.conn.crowded:
		return nil
	}
	w.clearLog()
	if w.sql.release.fast != 0 {
		s.state = staleSavepoint
		return nil
	}
	return w.releaseSavepoint()
}

// undo goes back to where the log had mark entries.
func (w *Writer) undo(mark int) error {
	s := &w.batch.savepoint
	if err := w.conn.run(w.sql.rollbackTo); err != nil {
		return err
	}
	for i := range s.log[:mark] {
		if err := w.repeat(&s.log[i]); err != nil {
			return err
		}
	}
	w.clearLog()
	if mark == 0 {
		return w.releaseSavepoint()
	}
	s.state, s.share = staleSavepoint, false
	w.doubt = carefulFunctions
	return nil
}

// repeat executes a statement again. That it changes as many rows as before is sure,
// and checked all the same.
func (w *Writer) repeat(e *write) error {
	p := e.p
	call := fastexec.Call{Stmt: p.fast, N: p.params, Values: e.values}
	switch changed, _, code := call.Run(); {
	case code != sqliteh.SQLITE_OK:
		return w.conn.wrap(sqliteh.ErrCode(code), p.sql)
	case changed != e.changed:
		return fmt.Errorf("writer: a statement changed %d rows at first and %d when it was repeated, so the batch was rolled back: %s", e.changed, changed, p.sql)
	}
	return nil
}

// clearLog forgets what was written, as a new savepoint comes or none is needed.
func (w *Writer) clearLog() {
	s := &w.batch.savepoint
	s.log = s.log[:0]
	w.conn.log++
	w.conn.crowded = false
}

// releaseSavepoint releases the savepoint, if one is open.
func (w *Writer) releaseSavepoint() error {
	s := &w.batch.savepoint
	if s.state == noSavepoint {
		return nil
	}
	s.state = noSavepoint
	return w.conn.run(w.sql.release)
}
