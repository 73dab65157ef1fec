package writertest

import (
	"regexp"
	"strings"
	"sync"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"
)

// Faults makes chosen operations of a database fail. Its method Open goes into
// writer.Options.Open:
//
//	faults := &writertest.Faults{}
//	w := writertest.Open(t, writer.Options{Open: faults.Open})
//	faults.Add(writertest.Rule{SQL: "COMMIT", Code: sqliteh.SQLITE_IOERR_FSYNC})
//
// A fault is more than an error: what SQLite would have done to the transaction
// is really done to the database underneath, by running ROLLBACK on it for
// instance, so that code which goes on as if nothing had happened makes the damage
// that it would make. [Effect] has the table.
//
// The zero value injects nothing. Methods are safe for concurrent use; the fields
// are set before the first Open.
type Faults struct {
	// Inner opens the real connections. nil means the driver's own.
	Inner sqliteh.OpenFunc
	// Before, if set, is called before each operation reaches SQLite, on the
	// goroutine that performs it. It may block, to hold an operation until a test
	// lets it go on.
	Before func(Event)
	// After, if set, is called after each operation with its error, injected or
	// real.
	After func(Event, error)

	mu       sync.Mutex
	rules    []*armed
	conns    int
	injected int
}

// Event is an operation of one connection: a statement's first step, or one of
// the operations that have no SQL text and go by a name in capitals instead:
//
//	OPEN
//	CLOSE
//	CHECKPOINT PASSIVE (FULL, RESTART, TRUNCATE)
//	BUSY TIMEOUT 50ms
type Event struct {
	Conn  int               // the connection, counted from 0 in the order of opening
	Flags sqliteh.OpenFlags // with which it was opened
	SQL   string            // the statement's text as prepared, or the name
	Txn   sqliteh.TxnState  // the connection's transaction before the operation
}

// ReadOnly reports whether the connection was opened for reading only.
func (e Event) ReadOnly() bool { return e.Flags&sqliteh.SQLITE_OPEN_READONLY != 0 }

// Conns selects connections.
type Conns int

// The connections that a Rule may be for.
const (
	OnWriter  Conns = iota // opened for writing
	OnReaders              // opened read-only
	OnAny
)

// Effect says what a fault does to the database before it is reported.
type Effect int

const (
	// AsSQLite does what SQLite does for the code:
	//
	//	BEGIN, any code                      nothing was opened
	//	COMMIT, BUSY or CONSTRAINT           the transaction stays open
	//	COMMIT, any other                    the transaction is rolled back
	//	SELECT, INTERRUPT                    the transaction stays as it is
	//	IOERR, NOMEM, FULL, INTERRUPT        the transaction is rolled back
	//	any other                            the statement alone has no effect
	//	a statement that cannot be prepared  the transaction stays as it is
	//	checkpoint, BUSY or LOCKED           what a PASSIVE one can move is moved
	//	checkpoint, any other                nothing is moved
	//
	// With a SELECT open the connection's state is READ after a rollback, and NONE
	// without. (Where SQLite keeps a journal for the one statement it undoes that
	// alone after NOMEM and FULL: say Leave for that.)
	AsSQLite Effect = iota
	// RollBack rolls the whole transaction back. At COMMIT: the batch is lost.
	RollBack
	// Leave does nothing: the operation has no effect and the transaction stays.
	Leave
	// Keep performs the operation and reports the error all the same. At COMMIT:
	// the batch is durable and nobody knows, as after an fsync that failed once
	// the data had reached the disk.
	Keep
)

// Rule says which operations fail, and how.
type Rule struct {
	// SQL is what the operation's text begins with; case and leading white space do
	// not count. Operations without a text go by the names listed at [Event]; of
	// these, only checkpoints can fail.
	SQL string
	// Match, if set, is matched against the text instead.
	Match *regexp.Regexp
	// On selects the connections. The zero value is the writer's.
	On Conns
	// Nth is the first match to fail, counted from 1 when the rule is added. 0
	// means 1.
	Nth int
	// Times is how many matches fail from there on. 0 means 1; a negative number
	// means all.
	Times int
	// AfterRows lets a SELECT yield that many rows before it fails.
	AfterRows int
	// Prepare makes preparing the statement fail instead of executing it.
	Prepare bool
	// Code is the extended result code to report. It is required.
	Code sqliteh.Code
	// Effect is what happens to the database. The zero value is what SQLite does.
	Effect Effect
}

// armed is a rule and how often it matched.
type armed struct {
	Rule
	seen int
}

// Add arms a rule. The first rule that an operation matches decides. It panics
// when the rule has no Code or nothing to match.
func (f *Faults) Add(r Rule) {
	if r.Code == sqliteh.SQLITE_OK || r.SQL == "" && r.Match == nil {
		panic("writertest.Faults.Add: a Rule needs a Code, and SQL or Match")
	}
	r.Nth = max(r.Nth, 1)
	if r.Times == 0 {
		r.Times = 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &armed{Rule: r})
}

// Clear disarms every rule.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Injected returns how many faults were injected, for a test to be sure that what
// it survived did happen.
func (f *Faults) Injected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.injected
}

// Open is a sqliteh.OpenFunc.
func (f *Faults) Open(name string, flags sqliteh.OpenFlags, vfs string) (sqliteh.DB, error) {
	open := f.Inner
	if open == nil {
		open = cgosqlite.Open
	}
	f.mu.Lock()
	event := Event{Conn: f.conns, Flags: flags, SQL: "OPEN"}
	f.conns++
	f.mu.Unlock()
	f.before(event)
	inner, err := open(name, flags, vfs)
	f.after(event, err)
	if err != nil {
		return inner, err
	}
	return &faultDB{DB: inner, faults: f, conn: event.Conn, flags: flags}, nil
}

func (f *Faults) before(e Event) {
	if f.Before != nil {
		f.Before(e)
	}
}

func (f *Faults) after(e Event, err error) {
	if f.After != nil {
		f.After(e, err)
	}
}

// strike returns the rule that makes the operation fail, nil if none does. rows
// is how many rows the statement has yielded.
func (f *Faults) strike(e Event, rows int, prepare bool) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.rules {
		if !a.matches(e, rows, prepare) {
			continue
		}
		a.seen++
		if last := a.Nth + a.Times; a.seen >= a.Nth && (a.Times < 0 || a.seen < last) {
			f.injected++
			return &a.Rule
		}
	}
	return nil
}

func (r *Rule) matches(e Event, rows int, prepare bool) bool {
	switch {
	case r.Prepare != prepare, r.AfterRows != rows:
		return false
	case r.On == OnWriter && e.ReadOnly(), r.On == OnReaders && !e.ReadOnly():
		return false
	case r.Match != nil:
		return r.Match.MatchString(e.SQL)
	}
	return hasPrefix(e.SQL, r.SQL)
}

// hasPrefix reports whether sql begins with prefix, whatever the case.
func hasPrefix(sql, prefix string) bool {
	sql = strings.TrimSpace(sql)
	return len(sql) >= len(prefix) && strings.EqualFold(sql[:len(prefix)], prefix)
}

// effect resolves AsSQLite for a statement.
func (r *Rule) effect(sql string) Effect {
	if r.Effect != AsSQLite {
		return r.Effect
	}
	switch primary := r.Code & 0xff; {
	case hasPrefix(sql, "BEGIN"):
		return Leave
	case hasPrefix(sql, "COMMIT"), hasPrefix(sql, "END"):
		if primary == sqliteh.SQLITE_BUSY || primary == sqliteh.SQLITE_CONSTRAINT {
			return Leave
		}
		return RollBack
	case primary == sqliteh.SQLITE_INTERRUPT && hasPrefix(sql, "SELECT"):
		return Leave
	case primary == sqliteh.SQLITE_IOERR, primary == sqliteh.SQLITE_NOMEM,
		primary == sqliteh.SQLITE_FULL, primary == sqliteh.SQLITE_INTERRUPT:
		return RollBack
	}
	return Leave
}
