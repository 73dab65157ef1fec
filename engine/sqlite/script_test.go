package sqlite

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/internal/wal"
	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// foreign returns the options of a database that is no account data set.
func foreign(t *testing.T, pageSize string) Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "foreign.db")
	c, err := sqlconn.Open(nil, path, sqlconn.Create)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"PRAGMA page_size = " + pageSize,
		"CREATE TABLE thing(id INTEGER PRIMARY KEY, value UNIQUE, parent REFERENCES thing DEFERRABLE INITIALLY DEFERRED)",
	} {
		err = errors.Join(err, c.Exec(sql))
	}
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	return Options{Path: path, Foreign: true}
}

// scripter opens such a database.
func scripter(t *testing.T) engine.Scripter {
	t.Helper()
	return start(t, foreign(t, "4096"), engine.Needs{}).(engine.Scripter)
}

// run is a transaction of one statement.
func run(s engine.Scripter, row *engine.Row, sql string, args ...any) error {
	return s.UpdateSQL(context.Background(), nil, func(tx engine.SQLTx) error { return tx.Run(sql, args, row) })
}

func TestScriptRows(t *testing.T) {
	s := scripter(t)
	var tm engine.Timing
	if err := s.UpdateSQL(t.Context(), &tm, func(tx engine.SQLTx) error {
		for i, v := range []any{int64(math.MinInt64), 2.5, "text", []byte{0, 1}, nil} {
			if err := tx.Run("INSERT INTO thing(id, value) VALUES (?1, ?2)", []any{int64(i + 1), v}, nil); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if tm.Accepted == 0 || tm.Committed < tm.Accepted {
		t.Errorf("timing: %+v", tm)
	}
	row := engine.Row{Columns: []string{"left", "over", "from"}, Values: []any{1, 2, 3}}
	for _, tt := range []struct {
		sql  string
		args []any
		want engine.Row
	}{
		{"SELECT id AS n, value FROM thing WHERE id = ?1", []any{int64(1)}, engine.Row{Columns: []string{"n", "value"}, Values: []any{int64(1), int64(math.MinInt64)}}},
		{"SELECT value FROM thing ORDER BY id LIMIT 9 OFFSET 1", nil, engine.Row{Columns: []string{"value"}, Values: []any{2.5}}},
		{"SELECT value FROM thing WHERE value = ?1", []any{"text"}, engine.Row{Columns: []string{"value"}, Values: []any{"text"}}},
		{"SELECT value FROM thing WHERE value = ?1", []any{[]byte{0, 1}}, engine.Row{Columns: []string{"value"}, Values: []any{[]byte{0, 1}}}},
		{"SELECT value FROM thing WHERE ?1 IS NULL AND id = ?2", []any{nil, int64(5)}, engine.Row{Columns: []string{"value"}, Values: []any{nil}}},
		{"SELECT id FROM thing WHERE id = 99", nil, engine.Row{Columns: []string{"id"}, Values: []any{}}},
		{"UPDATE thing SET id = id WHERE id = 1", nil, engine.Row{Columns: []string{}, Values: []any{}}},
		{"UPDATE thing SET value = id * 10 WHERE id > ?1 RETURNING value", []any{int64(1)}, engine.Row{Columns: []string{"value"}, Values: []any{int64(20)}}},
	} {
		if err := run(s, &row, tt.sql, tt.args...); err != nil || !reflect.DeepEqual(row, tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.sql, row, err, tt.want)
		}
	}
	// RETURNING was run to its end although its first row alone was wanted.
	if err := run(s, &row, "SELECT sum(value) FROM thing WHERE id > 1"); err != nil || !reflect.DeepEqual(row.Values, []any{int64(140)}) {
		t.Errorf("%v, %v", row, err)
	}
}

// What fails says why in SQLite's words, has a class and undoes its transaction.
func TestScriptErrors(t *testing.T) {
	s := scripter(t)
	if err := run(s, nil, "INSERT INTO thing(id, value) VALUES (1, 'one')"); err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]struct {
		target      error
		says, class string
	}{
		"BEGIN":                              {writer.ErrTxControl, "", "error"},
		"commit":                             {writer.ErrTxControl, "", "error"},
		"/* mine */ PRAGMA synchronous = 0":  {writer.ErrTxControl, "", "error"},
		"SELECT 1; SELECT 2":                 {writer.ErrMultiple, "", "error"},
		"INSERT INTO thing VALUES (1, 2, 3)": {nil, "UNIQUE constraint failed: thing.id", "constraint"},
		"UPDATE missing SET a = 1":           {nil, "no such table: missing", "sqlite error"},
		"SELEC 1":                            {nil, `near "SELEC": syntax error`, "sqlite error"},
		"SELECT ?1":                          {nil, "0 arguments for 1 parameters", "error"},
	} {
		err := s.UpdateSQL(t.Context(), nil, func(tx engine.SQLTx) error {
			if err := tx.Run("UPDATE thing SET value = 'changed'", nil, nil); err != nil {
				return err
			}
			return tx.Run(sql, nil, nil)
		})
		if err == nil || want.target != nil && err != want.target || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if class := s.(engine.Engine).Classify(err); class != want.class {
			t.Errorf("%s: %v is classified as %q, want %q", sql, err, class, want.class)
		}
	}
	row := new(engine.Row)
	if err := run(s, row, "SELECT value FROM thing"); err != nil || row.Values[0] != "one" {
		t.Errorf("the table holds %v, %v", row.Values, err)
	}
	var kept engine.SQLTx
	if err := s.UpdateSQL(t.Context(), nil, func(tx engine.SQLTx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := kept.Run("SELECT 1", nil, nil); err != writer.ErrTxDone {
		t.Errorf("after its function: %v", err)
	}
}

// A statement with numbers costs nothing but itself.
func TestScriptAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := scripter(t)
	if err := s.UpdateSQL(t.Context(), nil, func(tx engine.SQLTx) error {
		args := make([]any, 2)
		for name, sql := range map[string]string{
			"write": "INSERT INTO thing(id, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value",
			"read":  "SELECT id FROM thing WHERE id BETWEEN ?1 AND ?2",
		} {
			args[0], args[1] = int64(1000), int64(2000) // made once, as a caller would
			if n := testing.AllocsPerRun(500, func() {
				if err := tx.Run(sql, args, nil); err != nil {
					t.Error(err)
				}
			}); n != 0 {
				t.Errorf("%s: %v allocations a statement, want none", name, n)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A database that is no account data set is opened as it is; what needs accounts fails.
func TestForeign(t *testing.T) {
	opt := foreign(t, "8192")
	opt.Checkpoint = "bytes:64KiB"
	opt.Pragmas = map[string]string{"journal_mode": "wal"}
	e := start(t, opt, engine.Needs{})
	if got := e.Settings(); got.PageSize != 8192 || got.JournalMode != "wal" || got.Synchronous != "full" {
		t.Errorf("settings: %+v", got)
	}
	if err := e.Reset(t.Context()); err != nil {
		t.Errorf("Reset: %v", err)
	}
	noTable := "no such table: account"
	update := e.Update(t.Context(), nil, add(1, 1))
	errs := make([]error, 1)
	batch := e.(engine.Batcher).Batch(t.Context(), errs, func(_ int, tx engine.Tx) error { return tx.Add(1, 1) })
	view := e.View(t.Context(), func(rx engine.Rx) error { _, err := rx.Balance(1); return err })
	balances := e.Balances(t.Context(), []int64{1}, make([]int64, 1), nil)
	for name, err := range map[string]error{"Update": update, "Batch": errors.Join(batch, errs[0]), "View": view, "Balances": balances} {
		if err == nil || !strings.Contains(err.Error(), noTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := e.(engine.Scripter)
	if err := run(s, nil, "INSERT INTO thing(value) VALUES (?1)", "kept"); err != nil {
		t.Error(err)
	}
	if foreign, err := e.ForeignWrites(t.Context()); foreign || err != nil {
		t.Errorf("ForeignWrites: %v, %v", foreign, err)
	}
	if c, ok := e.(engine.Cacher); !ok {
		t.Error("it is no Cacher")
	} else if err := c.Cold(t.Context()); err != nil && !errors.Is(err, errNoPageCache) {
		t.Errorf("Cold: %v", err)
	}
	row := new(engine.Row)
	if err := errors.Join(e.Settle(t.Context()), run(s, row, "SELECT value FROM thing")); err != nil || len(row.Values) != 1 || row.Values[0] != "kept" {
		t.Errorf("%v, %v", row, err)
	}
	if e, err := Open(t.Context(), opt, engine.Needs{Access: engine.Pooled}); err == nil {
		e.Close()
		t.Error("the pool opened it")
	}
}

// A policy in bytes goes by the page size of the database.
func TestForeignCheckpoint(t *testing.T) {
	opt := foreign(t, "8192")
	opt.Checkpoint = "bytes:64KiB"
	opt.Pragmas = map[string]string{"journal_mode": "wal"}
	e := start(t, opt, engine.Needs{})
	s := e.(engine.Scripter)
	if err := errors.Join(run(s, nil, "INSERT INTO thing(id) VALUES (1)"), e.Settle(t.Context())); err != nil {
		t.Fatal(err)
	}
	observed := observe(e)
	got := observed()
	for range 20 {
		if err := run(s, nil, "UPDATE thing SET parent = coalesce(parent, 0) + 1"); err != nil { // one page
			t.Fatal(err)
		}
		if got = quiet(t, e, observed); got.Checkpoints > 0 {
			break
		}
	}
	if got.Checkpoints != 1 || got.WALBytes != 8*(8192+wal.FrameHeader) {
		t.Errorf("%d checkpoints after %d bytes", got.Checkpoints, got.WALBytes)
	}
}

// Somebody's database stays in its journal mode unless another one is asked for.
func TestForeignJournalMode(t *testing.T) {
	for _, tt := range []struct {
		found   string
		pragmas map[string]string
		want    string
	}{
		{"delete", nil, "delete"},
		{"wal", nil, "wal"},
		{"delete", map[string]string{"synchronous": "off"}, "delete"},
		{"delete", map[string]string{"Journal_Mode": "WAL"}, "wal"},
		{"wal", map[string]string{"journal_mode": "truncate"}, "truncate"},
	} {
		opt := foreign(t, "4096")
		raw(t, opt.Path, "PRAGMA journal_mode="+tt.found)
		opt.Pragmas = tt.pragmas
		e := start(t, opt, engine.Needs{})
		if got := e.Settings().JournalMode; got != tt.want {
			t.Errorf("%s with %v: the settings say %s", tt.found, tt.pragmas, got)
		}
		if err := errors.Join(run(e.(engine.Scripter), nil, "INSERT INTO thing(value) VALUES (1)"), e.Settle(t.Context()), e.Close()); err != nil {
			t.Error(err)
		}
		want := tt.want
		if want == "truncate" { // which is of the connection: the file knows only of WAL
			want = "delete"
		}
		if got := raw(t, opt.Path, "PRAGMA journal_mode"); got != want {
			t.Errorf("%s with %v: afterwards it is %s", tt.found, tt.pragmas, got)
		}
	}
}

// An Open that fails leaves nothing beside somebody's database, and one that is in
// use is not even looked at.
func TestForeignRefused(t *testing.T) {
	opt := foreign(t, "4096")
	opt.Checkpoint = "bytes:64KiB"
	raw(t, opt.Path, "PRAGMA journal_mode=wal")
	opened := 0
	opt.Open = (&writertest.Faults{Before: func(e writertest.Event) {
		if e.SQL == "OPEN" {
			opened++
		}
	}}).Open
	refused := func(says string, files int) {
		t.Helper()
		if e, err := Open(t.Context(), opt, engine.Needs{}); err == nil {
			e.Close()
			t.Errorf("%s: it was opened", says)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
		if left, err := os.ReadDir(filepath.Dir(opt.Path)); err != nil || len(left) != files {
			t.Errorf("%s: the folder holds %v (%v)", says, left, err)
		}
	}
	release, err := writer.Lock(opt.Path)
	if err != nil {
		t.Fatal(err)
	}
	refused(writer.ErrInUse.Error(), 2) // it and the lock
	if opened != 0 {
		t.Errorf("%d connections were opened to a database in use", opened)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	opt.Pragmas = map[string]string{"cash_size": "1"}
	refused("cash_size", 1)
}

// PrepareSQL says what is wrong with a statement, and runs none.
func TestPrepareSQL(t *testing.T) {
	s := scripter(t)
	e := s.(engine.Engine)
	if err := run(s, nil, "INSERT INTO thing(id, value) VALUES (1, 'one')"); err != nil {
		t.Fatal(err)
	}
	before := quiet(t, e, e.Stats)
	for sql, want := range map[string]struct {
		target error
		says   string
	}{
		"DELETE FROM thing WHERE id = ?1":    {nil, ""},
		"CREATE TEMP TABLE mine(id)":         {nil, ""},
		"INSERT INTO mine VALUES (1)":        {nil, "no such table: mine"},
		"BEGIN":                              {writer.ErrTxControl, ""},
		"COMMIT":                             {writer.ErrTxControl, ""},
		"/* mine */ PRAGMA user_version = 3": {writer.ErrTxControl, ""},
		"SELECT 1; DELETE FROM thing":        {writer.ErrMultiple, ""},
		"SELEC 1":                            {nil, `near "SELEC": syntax error`},
		"UPDATE thing SET missing = 1":       {nil, "no such column: missing"},
	} {
		err := s.PrepareSQL(t.Context(), sql)
		if fails := want.target != nil || want.says != ""; fails != (err != nil) {
			t.Errorf("%s: %v", sql, err)
		} else if fails && (want.target != nil && err != want.target || !strings.Contains(err.Error(), want.says)) {
			t.Errorf("%s: %v, want %v %s", sql, err, want.target, want.says)
		}
	}
	if got := quiet(t, e, e.Stats).Sub(before); got.Batches != 0 || got.Commits != 0 {
		t.Errorf("it was counted as work: %+v", got)
	}
	row := new(engine.Row)
	if err := run(s, row, "SELECT count(*), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_temp_schema) FROM thing"); err != nil ||
		!reflect.DeepEqual(row.Values, []any{int64(1), int64(0), int64(0)}) {
		t.Errorf("something was run: %v, %v", row.Values, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.PrepareSQL(ctx, "SELECT 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that had ended: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := s.PrepareSQL(t.Context(), "SELECT 1"); e.Classify(err) != "closed" {
		t.Errorf("after Close: %v", err)
	}
}
