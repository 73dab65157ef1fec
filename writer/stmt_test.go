package writer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
)

// do runs fn in a transaction and fails the test when that fails, or ends with
// another error than the wanted one.
func do(t testing.TB, w *writer.Writer, fn func(*writer.Tx) error, want ...error) {
	t.Helper()
	var wanted error
	if len(want) > 0 {
		wanted = want[0]
	}
	if err := w.Do(context.Background(), fn); err != wanted {
		t.Errorf("got %v, want %v", err, wanted)
	}
}

func TestContract14NothingSurvivesTheFunction(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, func(tx *writer.Tx) error { return errors.Join(insert(1)(tx), insert(2)(tx)) })
	do(t, w, func(tx *writer.Tx) error {
		_, err := tx.Stmt("SELECT id FROM entry").Step()
		_, err2 := tx.Stmt("INSERT INTO entry(id) VALUES (3), (4) RETURNING id").Step()
		for range tx.Query("SELECT id FROM account") {
			return errors.New("account is empty")
		}
		return errors.Join(err, err2)
	})
	// With a cursor open the checkpoint would be SQLITE_LOCKED.
	if err := w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_TRUNCATE); err != nil {
		t.Error(err)
	}
	if got := entries(t, w); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("the table holds %v: a RETURNING that was not read to its end counts", got)
	}
	do(t, w, func(tx *writer.Tx) error { // the same text starts anew
		s := tx.Stmt("SELECT id FROM entry")
		if row, err := s.Step(); !row || err != nil || s.Int64(0) != 1 {
			t.Errorf("the first row is %d (%v, %v), want 1", s.Int64(0), row, err)
		}
		return nil
	})
}

func TestContract14BindingsDoNotSurvive(t *testing.T) {
	w := openTest(t, writer.Options{})
	const sql = "INSERT INTO entry(id, note) VALUES (?, ?)"
	do(t, w, func(tx *writer.Tx) error {
		tx.Stmt(sql).BindInt64(1, 1).BindText(2, "of another transaction")
		return nil
	})
	do(t, w, func(tx *writer.Tx) error {
		if _, err := tx.Stmt(sql).BindInt64(1, 2).Exec(); err != nil {
			return err
		}
		_, err := tx.Stmt(sql).BindInt64(1, 3).Exec() // nor those of the last Exec
		return err
	})
	if n := number(t, w, "SELECT count(*) FROM entry WHERE note IS NULL"); n != 2 {
		t.Errorf("%d notes are NULL, want 2", n)
	}
}

func TestContract14SameSQLWhileInUse(t *testing.T) {
	var s spy
	w := openTest(t, writer.Options{Open: s.open})
	const sql = "SELECT id FROM entry WHERE id > ? ORDER BY id"
	do(t, w, func(tx *writer.Tx) error {
		for i := range 4 {
			if err := insert(i)(tx); err != nil {
				return err
			}
		}
		var pairs []string
		for outer, err := range tx.Query(sql, 0) {
			if err != nil {
				return err
			}
			for inner, err := range tx.Query(sql, outer.Stmt().Int64(0)) {
				if err != nil {
					return err
				}
				pairs = append(pairs, fmt.Sprint(outer.Stmt().Int64(0), inner.Stmt().Int64(0)))
			}
		}
		if want := []string{"1 2", "1 3", "2 3"}; !slices.Equal(pairs, want) {
			t.Errorf("nested loops gave %q, want %q", pairs, want)
		}
		return nil
	})
	if n := s.prepared[sql]; n != 2 {
		t.Errorf("%q was prepared %d times, want 2", sql, n)
	}
}

func TestContract14StaleHandle(t *testing.T) {
	w := openTest(t, writer.Options{})
	const sql = "INSERT INTO entry(id) VALUES (?)"
	do(t, w, func(tx *writer.Tx) error {
		old := tx.Stmt(sql)
		if _, err := tx.Stmt(sql).BindInt64(1, 1).Exec(); err != nil {
			return err
		}
		if _, err := old.BindInt64(1, 2).Exec(); err != writer.ErrStmtStale {
			t.Errorf("Exec: %v, want ErrStmtStale", err)
		}
		if _, err := old.Step(); err != writer.ErrStmtStale {
			t.Errorf("Step: %v, want ErrStmtStale", err)
		}
		again := tx.Stmt(sql) // may be executed again and again
		for i := 3; i < 6; i++ {
			if n, err := again.BindInt64(1, int64(i)).Exec(); n != 1 || err != nil {
				t.Errorf("Exec: %d, %v; want 1, nil", n, err)
			}
		}
		return nil
	})
	if got := entries(t, w); !slices.Equal(got, []int{1, 3, 4, 5}) {
		t.Errorf("the table holds %v", got)
	}
}

// Callers that build values into their SQL must not make the cache grow without
// end, nor lose the statement that they stand on.
func TestContract14EvictionSparesWhatIsInUse(t *testing.T) {
	var s spy
	w := openTest(t, writer.Options{Open: s.open})
	do(t, w, func(tx *writer.Tx) error {
		for i := range 3 {
			if err := insert(i)(tx); err != nil {
				return err
			}
		}
		cursor := tx.Stmt("SELECT id FROM entry ORDER BY id")
		bound, idle := tx.Stmt("SELECT ? + 1").BindInt64(1, 41), tx.Stmt("SELECT ? + 2")
		for i := range 3 {
			if row, err := cursor.Step(); !row || err != nil || cursor.Int64(0) != int64(i) {
				t.Errorf("row %d is %d (%v, %v)", i, cursor.Int64(0), row, err)
			}
			for j := range 600 {
				if err := tx.QueryRow(fmt.Sprintf("SELECT %d", i*600+j)).Scan(); err != nil {
					return err
				}
			}
		}
		if row, err := bound.Step(); !row || err != nil || bound.Int64(0) != 42 {
			t.Errorf("a statement that was bound gave %d (%v, %v), want 42", bound.Int64(0), row, err)
		}
		if _, err := idle.BindInt64(1, 1).Step(); err != writer.ErrStmtStale {
			t.Errorf("a statement that was evicted gave %v, want ErrStmtStale", err)
		}
		return nil
	})
	s.reset()
	for range 3 { // in separate transactions, so that all can be evicted
		for j := range 600 {
			do(t, w, func(tx *writer.Tx) error { return tx.QueryRow(fmt.Sprintf("SELECT -%d", j)).Scan() })
		}
	}
	if n := s.prepared["SAVEPOINT tx"] + s.prepared["COMMIT"]; n != 0 {
		t.Errorf("the writer's own statements were prepared %d times again", n)
	}
	if n := s.prepared["SELECT -0"]; n < 2 {
		t.Errorf("the cache was never emptied: %d", n)
	}
}

func TestContract18PreparedOnce(t *testing.T) {
	var s spy
	w := openTest(t, writer.Options{Open: s.open})
	for i := range 50 {
		do(t, w, func(tx *writer.Tx) error {
			if _, err := tx.Exec("INSERT INTO entry(id) VALUES (?)", i); err != nil {
				return err
			}
			if i%2 == 0 {
				return nil
			}
			_, err := tx.Stmt("DELETE FROM entry WHERE id = ?").BindInt64(1, int64(i)).Exec()
			return err
		})
	}
	for sql, n := range s.prepared {
		if n != 1 && !strings.HasPrefix(sql, "PRAGMA") { // those run on each connection
			t.Errorf("%q was prepared %d times", sql, n)
		}
	}
}

func TestContract18NoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := openTest(t, writer.Options{})
	blob := []byte("blob")
	do(t, w, func(tx *writer.Tx) error {
		if _, err := tx.Exec("INSERT INTO account(id, balance) VALUES (1, 100)"); err != nil {
			return err
		}
		write := func() {
			n, err := tx.Stmt("UPDATE account SET balance = balance + ? WHERE id = ?").BindInt64(1, 1).BindInt64(2, 1).Exec()
			if n != 1 || err != nil {
				t.Errorf("UPDATE: %d, %v", n, err)
			}
		}
		read := func() {
			s := tx.Stmt("SELECT balance, ? FROM account WHERE id = ?").BindFloat64(1, 2.5).BindInt64(2, 1)
			row, err := s.Step()
			if !row || err != nil || s.Int64(0) == 0 || s.Float64(1) != 2.5 || s.IsNull(0) {
				t.Errorf("SELECT: %v, %v", row, err)
			}
			s.Reset()
		}
		other := func() {
			if _, err := tx.Stmt("SELECT ?, ?").BindBlob(1, blob).BindNull(2).Exec(); err != nil {
				t.Error(err)
			}
		}
		for name, fn := range map[string]func(){"write": write, "read": read, "other": other} {
			if n := testing.AllocsPerRun(1000, fn); n != 0 {
				t.Errorf("%s: %v allocations a statement, want none", name, n)
			}
		}
		return nil
	})
}

// Every type of argument comes back through every destination that fits.
func TestArgumentsAndScanRoundTrip(t *testing.T) {
	w := openTest(t, writer.Options{})
	now := time.Date(2025, 12, 2, 3, 4, 5, 678_901_234, time.FixedZone("x", 3600))
	do(t, w, func(tx *writer.Tx) error {
		for _, v := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
			roundTrip(t, tx, v, v)
			roundTrip(t, tx, int(v), v)
			roundTrip(t, tx, v, int(v))
		}
		for _, v := range []float64{0.5, -1e300, math.SmallestNonzeroFloat64, math.Inf(1)} {
			roundTrip(t, tx, v, v)
		}
		for _, v := range []string{"", "text", "näh\x00nul", strings.Repeat("long", 10_000)} {
			roundTrip(t, tx, v, v)
			roundTrip(t, tx, []byte(v), string(v))
		}
		roundTrip(t, tx, true, true)
		roundTrip(t, tx, false, false)
		roundTrip(t, tx, true, int64(1))
		roundTrip(t, tx, now, now.UTC())
		roundTrip(t, tx, now, "2025-12-02T02:04:05.678901234Z")
		roundTrip(t, tx, nil, int64(0))
		roundTrip(t, tx, nil, "")
		roundTrip(t, tx, nil, time.Time{})
		roundTrip(t, tx, nil, false)
		for _, v := range [][]byte{nil, {}, {0}, []byte("blob")} {
			var got []byte
			if err := tx.QueryRow("SELECT ?", v).Scan(&got); err != nil || !bytes.Equal(got, v) || (got == nil) != (v == nil) {
				t.Errorf("blob %#v came back as %#v, %v", v, got, err)
			}
		}
		for _, v := range []any{nil, int64(7), 1.5, "text"} {
			roundTripAny(t, tx, v)
		}
		var blob any
		if err := tx.QueryRow("SELECT x'0102'").Scan(&blob); err != nil || !bytes.Equal(blob.([]byte), []byte{1, 2}) {
			t.Errorf("a blob in an any is %#v, %v", blob, err)
		}
		return nil
	})
}

func TestTimesSortAsText(t *testing.T) {
	w := openTest(t, writer.Options{})
	start := time.Date(2025, 12, 2, 3, 4, 5, 0, time.UTC)
	times := []time.Time{start, start.Add(1), start.Add(time.Millisecond), start.Add(time.Second / 2), start.Add(time.Second)}
	do(t, w, func(tx *writer.Tx) error {
		for _, v := range slices.Backward(times) {
			if _, err := tx.Exec("INSERT INTO entry(note) VALUES (?)", v); err != nil {
				return err
			}
		}
		i := 0
		for row, err := range tx.Query("SELECT note FROM entry ORDER BY note") {
			var got time.Time
			if err := errors.Join(err, row.Scan(&got)); err != nil {
				return err
			}
			if !got.Equal(times[i]) {
				t.Errorf("time %d is %v, want %v", i, got, times[i])
			}
			i++
		}
		return nil
	})
}

func roundTrip[T comparable](t *testing.T, tx *writer.Tx, arg any, want T) {
	t.Helper()
	var got T
	if err := tx.QueryRow("SELECT ?", arg).Scan(&got); err != nil || got != want {
		t.Errorf("%T %.40v came back as %.40v, %v; want %.40v", arg, arg, got, err, want)
	}
}

func roundTripAny(t *testing.T, tx *writer.Tx, arg any) {
	t.Helper()
	got := any("not set")
	if err := tx.QueryRow("SELECT ?", arg).Scan(&got); err != nil || got != arg {
		t.Errorf("%#v came back in an any as %#v, %v", arg, got, err)
	}
}

func TestWrongArguments(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, func(tx *writer.Tx) error {
		for _, test := range []struct {
			name string
			err  error
			want string
		}{
			{"TooFew", second(tx.Exec("INSERT INTO entry(id, note) VALUES (?, ?)", 1)), "1 arguments for 2 parameters"},
			{"TooMany", second(tx.Exec("INSERT INTO entry(id) VALUES (?)", 1, 2)), "2 arguments for 1 parameters"},
			{"Type", second(tx.Exec("INSERT INTO entry(id) VALUES (?)", struct{}{})), "argument 1 is a struct {}"},
			{"QueryRowType", tx.QueryRow("SELECT ?", uint8(1)).Scan(), "argument 1 is a uint8"},
			{"BindOutOfRange", second(tx.Stmt("SELECT ?").BindInt64(2, 1).Exec()), "SQLITE_RANGE"},
			{"BindZero", second(tx.Stmt("SELECT ?").BindText(0, "x").Exec()), "SQLITE_RANGE"},
			{"ScanType", tx.QueryRow("SELECT 1").Scan(new(uint8)), "cannot scan column 0 into a *uint8"},
			{"ScanTooMany", tx.QueryRow("SELECT 1").Scan(new(int), new(int)), "2 destinations for 1 columns"},
			{"ScanTime", tx.QueryRow("SELECT 'noon'").Scan(new(time.Time)), "column 0"},
			{"NoStatement", second(tx.Exec(" -- nothing\n;")), "no statement"},
			{"Empty", second(tx.Exec("")), "no statement"},
			{"NUL", second(tx.Exec("\x00SELECT 1")), "NUL byte"},
			{"CommentNUL", second(tx.Exec("--\x00\nSELECT 1")), "NUL byte"},
			// SQLite would read as far as the NUL and delete every row.
			{"NULBeforeWhere", second(tx.Exec("DELETE FROM entry\x00 WHERE id = 2")), "NUL byte"},
			{"Syntax", second(tx.Exec("SELEC 1")), "syntax error"},
			{"NoTable", second(tx.Exec("SELECT * FROM nowhere")), "no such table: nowhere"},
		} {
			if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
				t.Errorf("%s: %v, want %q in it", test.name, test.err, test.want)
			}
		}
		// A refused call leaves the statement ready for the next.
		return insert(1)(tx)
	})
	if got := entries(t, w); !slices.Equal(got, []int{1}) {
		t.Errorf("the table holds %v, want 1", got)
	}
}

// second returns the error of a call that returns a value too.
func second[T any](_ T, err error) error { return err }

func TestErrorCarriesSQLitesMessage(t *testing.T) {
	w := openTest(t, writer.Options{})
	err := w.Do(t.Context(), func(tx *writer.Tx) error { return errors.Join(insert(1)(tx), insert(1)(tx)) })
	e, ok := errors.AsType[*writer.Error](err)
	if !ok || e.Code != sqliteh.SQLITE_CONSTRAINT_PRIMARYKEY || e.Msg != "UNIQUE constraint failed: entry.id" || !strings.Contains(e.SQL, "INSERT") {
		t.Errorf("got %#v", e)
	}
	if writer.Code(err) != sqliteh.SQLITE_CONSTRAINT_PRIMARYKEY || writer.Primary(err) != sqliteh.SQLITE_CONSTRAINT {
		t.Errorf("codes are %v and %v", writer.Code(err), writer.Primary(err))
	}
	if writer.Code(errOwn) != sqliteh.SQLITE_OK || writer.Primary(nil) != sqliteh.SQLITE_OK {
		t.Error("an error that is not from SQLite has a code")
	}
}

func TestQueryEndsEarlyAndTellsErrors(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, func(tx *writer.Tx) error {
		for i := range 5 {
			if err := insert(i)(tx); err != nil {
				return err
			}
		}
		seen := 0
		for _, err := range tx.Query("SELECT id FROM entry") {
			if err != nil {
				return err
			}
			if seen++; seen == 2 {
				break
			}
		}
		if _, err := tx.Exec("DROP TABLE entry"); err != nil { // locked if the cursor were open
			t.Errorf("after a loop that ended early: %v", err)
		}
		return errOwn
	}, errOwn)
	do(t, w, func(tx *writer.Tx) error {
		rows, failed := 0, 0
		for row, err := range tx.Query("SELECT abs(column1) FROM (VALUES (1), (2), (-9223372036854775808), (4))") {
			if err == nil {
				rows++
				continue
			}
			failed++
			if writer.Primary(err) != sqliteh.SQLITE_ERROR || row.Scan(new(int)) != err || row.Stmt().Int64(0) != 0 {
				t.Errorf("the error is %v, its row's %v", err, row.Scan(new(int)))
			}
		}
		if rows != 2 || failed != 1 {
			t.Errorf("%d rows and %d errors, want 2 and 1", rows, failed)
		}
		for _, err := range tx.Query("SELECT") {
			if err == nil {
				t.Error("a syntax error gave a row")
			}
		}
		if err := tx.QueryRow("SELECT id FROM account").Scan(new(int)); err != writer.ErrNoRows {
			t.Errorf("got %v, want ErrNoRows", err)
		}
		if n := tx.QueryRow("SELECT").Stmt().Columns(); n != 0 {
			t.Errorf("a failed query has %d columns", n)
		}
		return nil
	})
}

// Prepare finds what is wrong with a statement and runs none.
func TestPrepare(t *testing.T) {
	w := openTest(t, writer.Options{})
	do(t, w, insert(1))
	fence(t, w)
	before := w.Stats()
	for sql, want := range map[string]struct {
		err  error
		says string
	}{
		"DELETE FROM entry":                    {nil, ""},
		"SELECT id FROM entry WHERE id = ?1; ": {nil, ""},
		"CREATE TABLE other(id)":               {nil, ""},
		"BEGIN":                                {writer.ErrTxControl, ""},
		"/**/ commit":                          {writer.ErrTxControl, ""},
		"PRAGMA user_version = 7":              {writer.ErrTxControl, ""},
		"EXPLAIN PRAGMA user_version = 7":      {writer.ErrTxControl, ""},
		"SELECT 1; DELETE FROM entry":          {writer.ErrMultiple, ""},
		"SELECT * FROM missing":                {nil, "no such table: missing"},
		"SELEC 1":                              {nil, `near "SELEC": syntax error`},
		"-- nothing":                           {nil, "no statement"},
		"SELECT 1\x00":                         {nil, "NUL"},
	} {
		err := w.Prepare(t.Context(), sql)
		switch {
		case want.err != nil:
			if err != want.err {
				t.Errorf("%q: %v, want %v", sql, err, want.err)
			}
		case want.says == "" && err != nil, want.says != "" && (err == nil || !strings.Contains(err.Error(), want.says)):
			t.Errorf("%q: %v, want %q", sql, err, want.says)
		}
	}
	if got := w.Stats().Sub(before); got.Batches != 0 || got.Statements != 0 {
		t.Errorf("it counts as work: %+v", got)
	}
	if n := number(t, w, "SELECT (SELECT count(*) FROM entry) * 100 + (SELECT count(*) FROM sqlite_schema WHERE name = 'other') * 10 + (SELECT user_version FROM pragma_user_version)"); n != 100 {
		t.Errorf("something was run: %d", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Prepare(ctx, "SELECT 1"); err != context.Canceled {
		t.Errorf("with a context that had ended: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Prepare(t.Context(), "SELECT 1"); err != writer.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
}
