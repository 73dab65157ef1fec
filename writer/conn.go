package writer

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/fastexec"
	"github.com/tpssim/tpssim/internal/nowait"
	"github.com/tpssim/tpssim/internal/writeback"
)

// openExtendedCodes is SQLITE_OPEN_EXRESCODE, which the driver does not name:
// steps then return extended result codes.
const openExtendedCodes sqliteh.OpenFlags = 0x02000000

// maxCachedStatements bounds the statements that a connection keeps prepared, for
// callers that build their SQL with values in it.
const maxCachedStatements = 500

// conn is a connection with its prepared statements. One goroutine at a time uses
// it; only interrupt may be called from another.
type conn struct {
	db         sqliteh.DB
	path       string
	file       *nowait.File         // nil: its reads wait for the disk
	stmts      map[string]*prepared // by SQL text; further ones of the same text hang off next
	prepared   int                  // statements in stmts
	recent     *prepared            // handed out last but for new ones: most ask for it again
	inUse      []*prepared          // handed out to the current function
	statements uint64               // executed since the connection was opened
	log        uint64               // number of the log of writes; its statements are not evicted
	crowded    bool                 // although there was no room for more

	over, stopped chan struct{} // between an interrupter and the call that ends it
}

// openConn opens path. A driver may return a handle together with an error; it is
// closed here.
func openConn(open sqliteh.OpenFunc, path string, flags sqliteh.OpenFlags) (*conn, error) {
	uri := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}).String()
	db, err := open(uri, flags|sqliteh.SQLITE_OPEN_URI|sqliteh.SQLITE_OPEN_NOMUTEX|openExtendedCodes, "")
	if err != nil {
		if db != nil {
			db.Close()
		}
		return nil, &Error{Code: Code(err), Msg: "cannot open " + path, SQL: "open"}
	}
	writeback.Install()
	return &conn{
		db: db, path: path, stmts: make(map[string]*prepared), log: 1,
		over: make(chan struct{}), stopped: make(chan struct{}),
	}, nil
}

// close finalizes every statement and closes the connection.
func (c *conn) close() error {
	for _, p := range c.stmts {
		for ; p != nil; p = p.next {
			p.stmt.Finalize()
		}
	}
	clear(c.stmts)
	c.file.Enable(false)
	if err := c.db.Close(); err != nil {
		return c.wrap(err, "close")
	}
	return nil
}

// wrap turns a driver's error into an *Error with SQLite's own message.
func (c *conn) wrap(err error, sql string) error {
	return &Error{Code: Code(err), Msg: c.db.ErrMsg(), SQL: sql}
}

// configure sets the pragmas and reads each back. One without a value stays as it
// is.
func (c *conn) configure(pragmas map[string]string) error {
	for _, name := range pragmaOrder(pragmas) {
		if pragmas[name] == "" {
			continue
		}
		if err := c.setPragma(name, pragmas[name]); err != nil {
			return err
		}
	}
	return nil
}

// setPragma sets one pragma and checks that SQLite took it.
func (c *conn) setPragma(name, value string) error {
	if err := c.exec("PRAGMA " + name + "=" + value); err != nil {
		return err
	}
	got, err := c.pragma(name)
	if err != nil {
		return err
	}
	if got == "" { // SQLite ignores what it does not know
		if err := c.pragmaExists(name); err != nil {
			return err
		}
	} else if want := canonicalPragma(name, value); !strings.EqualFold(got, want) {
		return fmt.Errorf("pragma %s is %s after it was set to %s; SQLite does not accept that value here", name, got, value)
	}
	return nil
}

// pragmaExists returns an error unless SQLite knows a pragma of that name.
func (c *conn) pragmaExists(name string) error {
	rx := c.session()
	defer rx.end()
	err := rx.QueryRow("SELECT 1 FROM pragma_pragma_list WHERE name = ?", name).Scan()
	if errors.Is(err, ErrNoRows) {
		return fmt.Errorf("SQLite has no pragma %s; correct the name", name)
	}
	return err
}

// canonicalPragma returns the form in which SQLite answers value.
func canonicalPragma(name, value string) string {
	value = strings.ToLower(value)
	words := map[string]string{"on": "1", "off": "0", "true": "1", "false": "0", "yes": "1", "no": "0"}
	switch name {
	case "journal_mode":
		return value
	case "synchronous":
		words = map[string]string{"off": "0", "normal": "1", "full": "2", "extra": "3"}
	case "temp_store":
		words = map[string]string{"default": "0", "file": "1", "memory": "2"}
	case "auto_vacuum":
		words = map[string]string{"none": "0", "full": "1", "incremental": "2"}
	}
	if w, ok := words[value]; ok {
		return w
	}
	return value
}

// pragma reads a pragma's value as text, "" if it has none.
func (c *conn) pragma(name string) (string, error) {
	var value string
	rx := c.session()
	defer rx.end()
	err := rx.QueryRow("PRAGMA " + name).Scan(&value)
	if errors.Is(err, ErrNoRows) {
		err = nil
	}
	return value, err
}

// exec runs one statement of the writer's own, outside of any session's rules.
func (c *conn) exec(sql string) error {
	p, err := c.prepare(sql, true)
	if err != nil {
		return err
	}
	return c.run(p)
}

// run steps a statement once and resets it.
func (c *conn) run(p *prepared) error {
	if _, _, _, _, err := p.stmt.StepResult(); err != nil {
		return c.wrap(err, p.sql)
	}
	return nil
}

// prepare returns an idle statement for sql, preparing it when there is none.
// Unless control is set it refuses those of kindControl, and does so before SQLite
// sees them: many pragmas take effect when they are prepared.
func (c *conn) prepare(sql string, control bool) (*prepared, error) {
	if p := c.recent; p != nil && p.sql == sql && !p.busy && (p.kind != kindControl || control) {
		return p, nil
	}
	head := c.stmts[sql]
	var k kind
	if head != nil {
		k = head.kind
	} else {
		k = classify(sql)
	}
	if k == kindControl && !control {
		return nil, ErrTxControl
	}
	for p := head; p != nil; p = p.next {
		if !p.busy {
			c.recent = p
			return p, nil
		}
	}
	if strings.IndexByte(sql, 0) >= 0 { // SQLite would run what is before it, without its WHERE perhaps
		return nil, &Error{Code: sqliteh.SQLITE_MISUSE, Msg: "the SQL text holds a NUL byte", SQL: sql}
	}
	if c.prepared >= maxCachedStatements {
		c.evict()
		head = c.stmts[sql]
	}
	stmt, rest, err := c.db.Prepare(sql, sqliteh.SQLITE_PREPARE_PERSISTENT)
	if err != nil {
		return nil, c.wrap(err, sql)
	}
	if word, _ := keyword(rest); word != "" {
		stmt.Finalize()
		return nil, ErrMultiple
	}
	if stmt.SQL() == "" { // nothing but comments
		stmt.Finalize()
		return nil, &Error{Code: sqliteh.SQLITE_MISUSE, Msg: "no statement in the SQL text", SQL: sql}
	}
	p := &prepared{stmt: stmt, sql: sql, kind: k, params: stmt.BindParameterCount(), next: head}
	word, _ := keyword(sql)
	p.rows = stmt.ColumnCount() > 0 || word == "PRAGMA"
	p.repeatable, p.dml = repeatable(sql), dml(sql)
	if p.params <= fastexec.Parameters {
		p.fast = fastexec.Of(stmt)
	}
	c.stmts[sql] = p
	c.prepared++
	return p, nil
}

// pin prepares a statement that stays prepared as long as the connection.
func (c *conn) pin(sql string) (*prepared, error) {
	p, err := c.prepare(sql, true)
	if err == nil {
		p.pinned = true
	}
	return p, err
}

// evict finalizes every statement that is neither in use nor in the log. A handle on
// one that has no binding and no cursor goes stale.
func (c *conn) evict() {
	c.recent = nil
	for sql, p := range c.stmts {
		var kept *prepared
		for p != nil {
			next := p.next
			if p.busy || p.pinned || p.logged == c.log {
				c.crowded = c.crowded || p.logged == c.log
				p.next, kept = kept, p
			} else {
				p.lease++
				p.stmt.Finalize()
				c.prepared--
			}
			p = next
		}
		if kept == nil {
			delete(c.stmts, sql)
		} else {
			c.stmts[sql] = kept
		}
	}
}

// session starts a use of the connection, outside of any transaction's rules,
// whose statements end together.
func (c *conn) session() *Rx { return &Rx{conn: c, free: true} }

// endSession resets every statement that rx was handed.
func (c *conn) endSession(rx *Rx) {
	for _, p := range c.inUse {
		rx.reset(p)
		p.handed = false
		p.lease++
	}
	c.inUse = c.inUse[:0]
}

// inTransaction reports whether any transaction, read or write, is open.
func (c *conn) inTransaction() bool { return c.db.TxnState("") != sqliteh.SQLITE_TXN_NONE }

// endOpen rolls back whatever transaction is open and reports whether there was
// one. It asks by trying: of a BEGIN that nothing was read after, the transaction
// state knows nothing.
func (c *conn) endOpen() (open bool, err error) {
	known := c.inTransaction()
	if err := c.exec("ROLLBACK"); err != nil {
		if known {
			return true, err
		}
		return false, nil
	}
	return true, nil
}

// busyTimeout sets how long SQLite waits for a lock.
func (c *conn) busyTimeout(d time.Duration) { c.db.BusyTimeout(d) }

// kind says what a statement may do to the transaction that it runs in.
type kind uint8

const (
	kindRead    kind = iota // SELECT, VALUES, EXPLAIN
	kindWrite               // everything else
	kindControl             // transaction control and connection settings
)

// classify looks at a statement's first word. A WITH may introduce a write, so it
// counts as one. EXPLAIN executes nothing but what takes effect when prepared.
func classify(sql string) kind {
	switch word, rest := keyword(sql); word {
	case "SELECT", "VALUES":
		if strings.Contains(strings.ToLower(sql), "pragma_") {
			return kindWrite // pragma_optimize, as a table, runs ANALYZE
		}
		return kindRead
	case "EXPLAIN":
		if next, more := keyword(rest); next == "QUERY" {
			_, rest = keyword(more) // PLAN
		}
		if classify(rest) == kindControl {
			return kindControl
		}
		return kindRead
	case "BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH", "PRAGMA":
		return kindControl
	}
	return kindWrite
}

// keyword returns the first word of sql in upper case, or "" when there is
// nothing but white space, comments and semicolons, and what follows it.
func keyword(sql string) (word, rest string) {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f;\ufeff")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql[2:], "*/")
		default:
			end := strings.IndexFunc(sql, func(r rune) bool {
				return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
			})
			switch {
			case end < 0:
				return strings.ToUpper(sql), ""
			case end == 0:
				return sql[:1], sql[1:] // not a word; SQLite will say what is wrong
			}
			return strings.ToUpper(sql[:end]), sql[end:]
		}
	}
}
