package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// The statements of a table. Its payload is bound even when it is NULL.
const (
	insertEntrySQL = "INSERT INTO entry(id, value, payload) VALUES (?1, ?2, ?3)"
	entryValueSQL  = "SELECT value FROM entry WHERE id = ?1"
	entriesSQL     = "SELECT id, value FROM entry"
	countEntrySQL  = "SELECT count(*), sum(value) FROM entry"
)

// DefaultTableCheckpoint is when the WAL of a table is checkpointed if nobody says:
// SQLite's own default. There is no writer that could do it by time.
const DefaultTableCheckpoint = "pages:1000"

// table is one connection to a database in a folder of its own.
type table struct {
	opt      Options
	spec     engine.TableSpec
	file     file
	conn     *sqlconn.Conn // nil when closed
	settings engine.Settings
	payload  []byte
	stmts    []sqliteh.Stmt

	begin, commit, rollback, insert, value, entries, count sqliteh.Stmt
}

// OpenTable makes a database with one table in a fresh folder inside dir, which must be
// there. Of opt it takes Pragmas, Checkpoint ("pages:…", "bytes:…" or "off", what goes
// by time is [DefaultTableCheckpoint]) and Open.
func OpenTable(ctx context.Context, dir string, opt Options, spec engine.TableSpec) (engine.Table, error) {
	folder, err := os.MkdirTemp(dir, "tpssim-table-")
	if err != nil {
		return nil, fmt.Errorf("a folder for the table: %w", err)
	}
	if folder, err = filepath.Abs(folder); err == nil {
		folder, err = filepath.EvalSymlinks(folder)
	}
	t := &table{opt: opt, spec: spec, file: file{path: filepath.Join(folder, "table.db")}}
	if spec.Payload > 0 {
		t.payload = accounts.PayloadBytes(spec.Payload)
	}
	if err == nil {
		err = t.Reset(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Reset implements engine.Table.
func (t *table) Reset(ctx context.Context) error {
	if err := errors.Join(ctx.Err(), t.disconnect()); err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(t.file.path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return t.create()
}

// create makes the database and its statements.
func (t *table) create() (err error) {
	if t.conn, err = sqlconn.Open(t.opt.Open, t.file.path, sqlconn.Create); err != nil {
		return err
	}
	if t.spec.PageSize > 0 { // before journal_mode, which writes the first page
		if err := t.conn.Exec(fmt.Sprintf("PRAGMA page_size=%d", t.spec.PageSize)); err != nil {
			return err
		}
	}
	if err := setPragmas(t.conn, pragmas(t.opt)); err != nil {
		return err
	}
	if t.settings, err = connSettings(t.conn); err != nil {
		return err
	}
	if err := t.autoCheckpoint(); err != nil {
		return err
	}
	t.settings.Savepoints = "none"
	if err := t.conn.Exec(t.schema()); err != nil {
		return err
	}
	return t.prepare()
}

// autoCheckpoint has SQLite do the checkpoints.
func (t *table) autoCheckpoint() error {
	policy, err := ParseCheckpoint(t.opt.Checkpoint, "", t.settings.PageSize)
	if err != nil {
		return err
	}
	t.settings.Checkpoint = t.opt.Checkpoint
	if policy.Stall > 0 {
		t.settings.Checkpoint = DefaultTableCheckpoint
		if policy, err = ParseCheckpoint(DefaultTableCheckpoint, "", t.settings.PageSize); err != nil {
			return err
		}
	}
	return sqlconn.Wrap(t.conn.DB, t.conn.DB.AutoCheckpoint(policy.Pages)) // 0: off
}

// schema is the CREATE TABLE.
func (t *table) schema() string {
	key, options := "INTEGER", ""
	if t.spec.BlobKeys {
		key = "BLOB"
	}
	if t.spec.WithoutRowid {
		options = " WITHOUT ROWID"
	}
	return "CREATE TABLE entry(id " + key + " PRIMARY KEY NOT NULL, value INTEGER NOT NULL, payload BLOB)" + options
}

func (t *table) prepare() (err error) {
	for sql, dest := range map[string]*sqliteh.Stmt{
		"BEGIN IMMEDIATE": &t.begin, "COMMIT": &t.commit, "ROLLBACK": &t.rollback, insertEntrySQL: &t.insert,
		entryValueSQL: &t.value, entriesSQL: &t.entries, countEntrySQL: &t.count,
	} {
		if *dest, err = t.conn.Prepare(sql); err != nil {
			return err
		}
		t.stmts = append(t.stmts, *dest)
	}
	return nil
}

// step runs a bound statement that yields nothing.
func (t *table) step(s sqliteh.Stmt) error {
	if _, _, _, _, err := s.StepResult(); err != nil {
		return sqlconn.Wrap(t.conn.DB, err)
	}
	return nil
}

// checkEvery is how many entries are inserted or read between two looks at ctx.
const checkEvery = 1024

// Insert implements engine.Table.
func (t *table) Insert(ctx context.Context, n int, entry func(k int) engine.Entry) error {
	if n == 1 {
		return t.addAlone(entry(0))
	}
	if err := t.step(t.begin); err != nil {
		return err
	}
	for k := range n {
		err := t.add(entry(k))
		if err == nil && k%checkEvery == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return errors.Join(err, t.undo())
		}
	}
	if err := t.step(t.commit); err != nil {
		return errors.Join(commitError(err), t.undo())
	}
	return nil
}

// addAlone inserts one entry, of which the COMMIT is a part.
func (t *table) addAlone(e engine.Entry) error {
	err := t.add(e)
	if err == nil {
		return nil
	}
	if committing := commitError(err); committing.InDoubt {
		err = committing
	}
	return errors.Join(err, t.undo())
}

// undo rolls back what is open, if SQLite has not.
func (t *table) undo() error {
	if t.conn.DB.TxnState("") != sqliteh.SQLITE_TXN_WRITE {
		return nil
	}
	return t.step(t.rollback)
}

// add inserts one entry. All kinds of keys take the same calls of the driver.
func (t *table) add(e engine.Entry) error {
	if err := errors.Join(bindKey(t.insert, e.Key), t.insert.BindInt64(2, e.Value), t.bindPayload()); err != nil {
		return sqlconn.Wrap(t.conn.DB, err)
	}
	return t.step(t.insert)
}

func (t *table) bindPayload() error {
	if t.payload == nil {
		return t.insert.BindNull(3)
	}
	return t.insert.BindBlob64(3, t.payload)
}

func bindKey(s sqliteh.Stmt, key engine.Key) error {
	if key.Blob == nil {
		return s.BindInt64(1, key.Integer)
	}
	return s.BindBlob64(1, key.Blob)
}

// Value implements engine.Table.
func (t *table) Value(key engine.Key) (int64, error) {
	if err := bindKey(t.value, key); err != nil {
		return 0, sqlconn.Wrap(t.conn.DB, err)
	}
	defer t.value.Reset()
	row, err := t.value.Step(nil)
	switch {
	case err != nil:
		return 0, sqlconn.Wrap(t.conn.DB, err)
	case !row:
		return 0, engine.ErrNoEntry
	}
	return t.value.ColumnInt64(0), nil
}

// Scan implements engine.Table.
func (t *table) Scan(ctx context.Context) (entries, sum int64, err error) {
	defer t.entries.Reset()
	for {
		row, err := t.entries.Step(nil)
		if err == nil && entries%checkEvery == 0 {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			return 0, 0, sqlconn.Wrap(t.conn.DB, err)
		case !row:
			return entries, sum, nil
		case t.spec.BlobKeys:
			t.entries.ColumnBlob(0)
		default:
			t.entries.ColumnInt64(0)
		}
		sum += t.entries.ColumnInt64(1)
		entries++
	}
}

// Count implements engine.Table.
func (t *table) Count(ctx context.Context) (entries, sum int64, err error) {
	err = t.conn.Interruptible(ctx, func() error {
		defer t.count.Reset()
		if _, err := t.count.Step(nil); err != nil {
			return sqlconn.Wrap(t.conn.DB, err)
		}
		entries, sum = t.count.ColumnInt64(0), t.count.ColumnInt64(1)
		return nil
	})
	return entries, sum, err
}

// Settle implements engine.Table.
func (t *table) Settle(context.Context) error {
	if t.settings.JournalMode != "wal" {
		return nil
	}
	_, _, err := t.conn.DB.Checkpoint("main", sqliteh.SQLITE_CHECKPOINT_TRUNCATE)
	return sqlconn.Wrap(t.conn.DB, err)
}

func (t *table) Settings() engine.Settings { return t.settings }

func (t *table) Stats() (s engine.Stats) {
	t.file.sizes(&s)
	return s
}

func (t *table) Classify(err error) string { return classify(err) }

func (t *table) InDoubt(err error) (group any, ok bool) { return inDoubt(err) }

// disconnect closes the connection, if there is one.
func (t *table) disconnect() error {
	if t.conn == nil {
		return nil
	}
	for _, s := range t.stmts {
		s.Finalize()
	}
	t.stmts = nil
	err := t.conn.Close()
	t.conn = nil
	return err
}

func (t *table) Close() error {
	return errors.Join(t.disconnect(), os.RemoveAll(filepath.Dir(t.file.path)))
}
