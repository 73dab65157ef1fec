package writer

import (
	"cmp"
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

// maxShared bounds the log, and so the time that a failure can cost the writer: each
// statement takes about as long as it took at first. Each new savepoint costs a copy
// of the pages that are written often.
const maxShared = 32768

// carefulFunctions is how many functions have a savepoint each after one had failed
// that shared one: what is repeated for a failure takes as long as the savepoints of
// some thousand functions.
const carefulFunctions = 10_000

// versionSQL asks for a number that each change of the schema changes, one by another
// process too. Changes of the temporary schema are this connection's own.
const versionSQL = "PRAGMA main.schema_version"

// surprisesSQL asks whether a statement may do more than its text says, and so what
// cannot be repeated: by a trigger or a virtual table, or where a default, which may
// be random() or the time, or a constraint that calls a function of the connection's
// state decides what an UPDATE or DELETE writes. An attached database is a surprise
// itself: its schema is not searched.
const surprisesSQL = "SELECT EXISTS (SELECT 1 FROM pragma_database_list WHERE seq > 1)" +
	" OR EXISTS (SELECT 1 FROM (SELECT type, upper(sql) AS text FROM sqlite_schema" +
	" UNION ALL SELECT type, upper(sql) FROM sqlite_temp_schema)" +
	" WHERE type = 'trigger' OR text GLOB 'CREATE VIRTUAL*'" +
	" OR text GLOB '*SET*DEFAULT*' OR text GLOB '*CONFLICT*REPLACE*'" +
	" OR text GLOB '*CHECK*RANDOM*' OR text GLOB '*CHECK*CHANGES*' OR text GLOB '*CHECK*LAST_INSERT_ROWID*')"

// savepoint is the one savepoint that may be open in a batch's transaction.
type savepoint struct {
	state savepointState
	share bool    // functions may share it
	log   []write // what functions wrote since, all of it but for the one that runs
	limit int     // of the log; 0 is maxShared

	plain   bool  // the schema of this version has no surprises,
	version int64 // provided that
	known   bool  // it was asked and nothing of ours has changed it since
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
// integers, always does the same, if the schema has no surprises. It is for sure when
// it calls no function, which might be random() or changes(), asks for no time, takes
// no default, and reads no table but its own: another might be a view that does any
// of that.
func repeatable(sql string) bool {
	verb, rest := keyword(sql)
	if verb != "UPDATE" && verb != "DELETE" || strings.ContainsAny(sql, "(.") {
		return false
	}
	for word := range strings.FieldsFuncSeq(strings.ToUpper(rest), func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) {
		switch {
		case word == "REPLACE", word == "IN", word == "FROM" && verb == "UPDATE", strings.HasPrefix(word, "CURRENT_"):
			return false
		}
	}
	return true
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
func (w *Writer) shareSavepoint() (err error) {
	b := &w.batch
	s := &b.savepoint
	w.clearLog()
	s.state, s.share = noSavepoint, false
	if w.opt.Savepoints != SavepointEach || w.sql.release.fast == 0 || w.doubt > 0 || len(b.reqs)-b.pos == 1 {
		return nil
	}
	s.share, err = w.plainSchema()
	return err
}

// plainSchema reports whether the schema has none of what surprisesSQL looks for. It
// looks once for each version.
func (w *Writer) plainSchema() (bool, error) {
	s := &w.batch.savepoint
	version, err := w.number(w.sql.version)
	if err != nil {
		return false, err
	}
	if !s.known || version != s.version {
		surprises, err := w.number(w.sql.surprises)
		if err != nil {
			return false, err
		}
		s.plain, s.version, s.known = surprises == 0, version, true
	}
	return s.plain, nil
}

// number runs a query of the writer's own that yields one integer.
func (w *Writer) number(p *prepared) (n int64, err error) {
	if _, err = p.stmt.Step(nil); err != nil {
		err = w.conn.wrap(err, p.sql)
	} else {
		n = p.stmt.ColumnInt64(0)
	}
	p.stmt.ResetAndClear()
	return n, err
}

// wrote notes that the function has executed p, with which outcome. held means that
// all of it is in the parameters that p holds.
func (tx *Tx) wrote(p *prepared, held bool, changed int64, code sqliteh.Code) {
	s := &tx.w.batch.savepoint
	if !p.dml {
		s.share, s.known = false, false
	}
	limit := cmp.Or(s.limit, maxShared)
	if held && code == sqliteh.SQLITE_OK && s.share && p.repeatable && !tx.opaque && len(s.log) < limit && !tx.conn.crowded {
		p.logged = tx.conn.log
		s.log = append(s.log, write{p, p.held, changed})
		return
	}
	tx.opaque = true // an UPDATE OR FAIL leaves something behind when it fails
}

// endSavepoint keeps or undoes what the function did.
func (w *Writer) endSavepoint(tx *Tx, keep bool) error {
	s := &w.batch.savepoint
	switch {
	case !keep:
		return w.undo(tx.mark)
	case s.share && !tx.opaque:
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
