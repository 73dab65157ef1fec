package cloop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"
	"go.uber.org/goleak"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

const (
	rows    = 5000
	balance = 1000
)

// seeded is a data set; tests work on copies.
var seeded []byte

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "tpssim-cloop")
	if err == nil {
		path := filepath.Join(folder, "seed.db")
		spec := accounts.Spec{Rows: rows, Balance: balance, Schema: accounts.SchemaRowid, PageSize: 4096}
		if _, err = dataset.Seed(context.Background(), path, spec, dataset.Options{}); err == nil {
			seeded, err = os.ReadFile(path)
		}
	}
	os.RemoveAll(folder)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// database returns the path of a data set of the test's own, which must be whole
// when the test ends.
func database(t *testing.T) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "test.db")
	if err := os.WriteFile(path, seeded, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if got := ask(t, path, "PRAGMA integrity_check"); got != "ok" {
			t.Errorf("integrity_check: %s", got)
		}
	})
	return path
}

// other opens a connection through the driver and closes it when the test ends.
func other(t *testing.T, path string) *sqlconn.Conn {
	t.Helper()
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// ask answers a query through the driver, on a connection that does not stay.
func ask(t *testing.T, path, query string) string {
	t.Helper()
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Text(query)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// openLoop opens a loop's connection and closes it when the test ends.
func openLoop(t *testing.T, path string, pragmas ...string) *Conn {
	t.Helper()
	c, err := Open(path, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(false); err != nil {
			t.Error(err)
		}
	})
	for _, p := range append(pragmas, "synchronous=off") {
		if _, err := c.Text("PRAGMA " + p); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// draw returns n transfers among few accounts, so that many meet again, some from
// an account to itself.
func draw(n int) Config {
	r := rand.New(rand.NewPCG(1, 2))
	var cfg Config
	for range n {
		cfg.From = append(cfg.From, 1+r.Int64N(50)*100)
		cfg.To = append(cfg.To, 1+r.Int64N(50)*100)
		cfg.Amount = append(cfg.Amount, r.Int64N(2000))
	}
	return cfg
}

// after returns the balances that the first n transfers of cfg make.
func after(cfg Config, n int) []int64 {
	balances := slices.Repeat([]int64{balance}, rows)
	for i := range n {
		balances[cfg.From[i]-1] -= cfg.Amount[i]
		balances[cfg.To[i]-1] += cfg.Amount[i]
	}
	return balances
}

// mustHold fails unless the first n transfers of cfg are in the database, and
// nothing else.
func mustHold(t *testing.T, path string, cfg Config, n int) {
	t.Helper()
	c := other(t, path)
	var got []int64
	err := c.Each("SELECT balance FROM account ORDER BY id", func(s sqliteh.Stmt) error {
		got = append(got, s.ColumnInt64(0))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := after(cfg, n)
	var sum int64
	for id, b := range got {
		sum += b
		if id < len(want) && b != want[id] {
			t.Errorf("account %d holds %d, want %d", id+1, b, want[id])
		}
	}
	if len(got) != rows || sum != rows*balance {
		t.Errorf("%d accounts hold %d together, want %d and %d", len(got), sum, rows, rows*balance)
	}
}

func TestRun(t *testing.T) {
	for _, tt := range []struct{ n, batch, commits int }{
		{0, 1, 0}, {1, 1, 1}, {300, 1, 300}, {1000, 7, 143}, {1000, 500, 2}, {1000, 999, 2}, {1000, 1000, 1}, {1000, 5000, 1},
	} {
		for _, savepoints := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d by %d, savepoints %v", tt.n, tt.batch, savepoints), func(t *testing.T) {
				path := database(t)
				cfg := draw(tt.n)
				cfg.Batch, cfg.Savepoints = tt.batch, savepoints
				got, err := openLoop(t, path).Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				mustHold(t, path, cfg, tt.n)
				if got.Elapsed <= 0 {
					t.Errorf("it took %v", got.Elapsed)
				}
				got.Elapsed = 0
				if want := (Result{Transfers: int64(tt.n), Commits: int64(tt.commits), Rows: int64(2 * tt.n)}); got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			})
		}
	}
}

// A batch with a missing account leaves nothing, those before it stay, and the
// connection can go on.
func TestRunMissingAccount(t *testing.T) {
	for _, tt := range []struct {
		at, batch, kept int
		target          bool
	}{
		{0, 10, 0, false}, {25, 10, 20, false}, {25, 10, 20, true}, {29, 10, 20, true}, {30, 10, 30, false}, {25, 1, 25, true}, {99, 1000, 0, true},
	} {
		for _, savepoints := range []bool{false, true} {
			path := database(t)
			c := openLoop(t, path)
			cfg := draw(100)
			cfg.Batch, cfg.Savepoints = tt.batch, savepoints
			good := cfg
			if tt.target {
				cfg.To = slices.Clone(cfg.To)
				cfg.To[tt.at] = rows + 1
			} else {
				cfg.From = slices.Clone(cfg.From)
				cfg.From[tt.at] = rows + 1
			}
			got, err := c.Run(t.Context(), cfg)
			f, ok := errors.AsType[*Failure](err)
			if !ok || !errors.Is(err, ErrNoAccount) || f.Op != "update" || f.Transfer != tt.at || f.Account != rows+1 {
				t.Errorf("%+v: %v", tt, err)
			}
			if got.Transfers != int64(tt.kept) || got.Rows != int64(2*tt.kept) || got.Commits != int64(tt.kept/tt.batch) {
				t.Errorf("%+v: %+v", tt, got)
			}
			mustHold(t, path, good, tt.kept)
			good.From, good.To, good.Amount = good.From[tt.kept:], good.To[tt.kept:], good.Amount[tt.kept:]
			if _, err := c.Run(t.Context(), good); err != nil {
				t.Errorf("%+v: afterwards: %v", tt, err)
			}
			good = draw(100)
			mustHold(t, path, good, 100)
		}
	}
}

// An id that two accounts have is as wrong as one that none has.
func TestRunAmbiguousAccount(t *testing.T) {
	path := database(t)
	c := openLoop(t, path)
	for _, sql := range []string{"ALTER TABLE account RENAME TO kept", "CREATE TABLE account(id INTEGER, balance INTEGER)",
		"INSERT INTO account VALUES (1, 0), (2, 0), (2, 0)"} {
		if _, err := c.Text(sql); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{From: []int64{1}, To: []int64{2}, Amount: []int64{5}, Batch: 1}
	if _, err := c.Run(t.Context(), cfg); !errors.Is(err, ErrNoAccount) {
		t.Error(err)
	}
	if got := ask(t, path, "SELECT count(*) FROM account WHERE balance <> 0"); got != "0" {
		t.Errorf("%s accounts were changed", got)
	}
}

func TestRunLocked(t *testing.T) {
	path := database(t)
	c := openLoop(t, path)
	lock := other(t, path)
	if err := lock.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	cfg := draw(10)
	cfg.Batch = 3
	got, err := c.Run(t.Context(), cfg)
	f, ok := errors.AsType[*Failure](err)
	se, is := errors.AsType[*sqlconn.Error](err)
	if !ok || !is || f.Op != "begin" || f.Transfer != 0 || se.Primary() != sqliteh.SQLITE_BUSY || se.Msg != "database is locked" {
		t.Errorf("%v", err)
	}
	if got.Transfers != 0 || got.Commits != 0 {
		t.Errorf("%+v", got)
	}
	if err := lock.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	mustHold(t, path, cfg, 0)
}

// COMMIT fails, with the transaction still open.
func TestRunCommitFails(t *testing.T) {
	path := database(t)
	c := openLoop(t, path, "foreign_keys=on")
	for _, sql := range []string{"ALTER TABLE account RENAME TO kept", "CREATE TABLE allowed(balance INTEGER PRIMARY KEY)",
		"CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER REFERENCES allowed DEFERRABLE INITIALLY DEFERRED)",
		"INSERT INTO allowed VALUES (0), (1), (-1)", "INSERT INTO account VALUES (1, 0), (2, 0)"} {
		if _, err := c.Text(sql); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{From: []int64{1, 1, 2}, To: []int64{2, 2, 1}, Amount: []int64{1, 7, 1}, Batch: 1, Savepoints: true}
	got, err := c.Run(t.Context(), cfg)
	f, ok := errors.AsType[*Failure](err)
	if !ok || f.Op != "commit" || f.Transfer != 1 || !strings.Contains(err.Error(), "FOREIGN KEY constraint failed") {
		t.Errorf("%v", err)
	}
	if got.Transfers != 1 {
		t.Errorf("%+v", got)
	}
	if got := ask(t, path, "SELECT group_concat(balance) FROM account"); got != "-1,1" {
		t.Errorf("balances %s", got)
	}
	cfg.Batch, cfg.Amount[1] = 3, 0
	if _, err := c.Run(t.Context(), cfg); err != nil { // no transaction is left behind
		t.Error(err)
	}
}

func TestRunCancelled(t *testing.T) {
	path := database(t)
	c := openLoop(t, path)
	const n = 2_000_000 // seconds of work, of which little is done
	cfg := Config{From: slices.Repeat([]int64{1}, n), To: slices.Repeat([]int64{rows}, n), Amount: slices.Repeat([]int64{1}, n), Batch: 1}
	ctx, cancel := context.WithCancel(t.Context())
	watch := other(t, path)
	watched := make(chan error, 1)
	go func() {
		defer cancel()
		for {
			got, err := watch.Integer("SELECT balance FROM account WHERE id = 1")
			if err != nil || got != balance {
				watched <- err
				return
			}
		}
	}()
	got, err := c.Run(ctx, cfg)
	if err := <-watched; err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, context.Canceled) || got.Transfers < 1 || got.Transfers >= n || got.Commits != got.Transfers {
		t.Errorf("%+v, %v", got, err)
	}
	mustHold(t, path, cfg, int(got.Transfers))
	if again, err := c.Run(ctx, cfg); !errors.Is(err, context.Canceled) || again != (Result{}) {
		t.Errorf("a context that had ended: %+v, %v", again, err)
	}
}

func TestRunRefused(t *testing.T) {
	c := openLoop(t, database(t))
	for name, cfg := range map[string]Config{
		"batch":      {},
		"sources":    {Batch: 1, To: []int64{1}, Amount: []int64{1}},
		"amounts":    {Batch: 1, From: []int64{1}, To: []int64{1}},
		"checkpoint": {Batch: 1, CheckpointMost: -1},
		"too many":   {Batch: 1, CheckpointMost: math.MaxInt32 + 1},
		"first":      {Batch: 1, CheckpointMost: 5, CheckpointFirst: 6},
		"below 0":    {Batch: 1, CheckpointMost: 5, CheckpointFirst: -1},
		"stall":      {Batch: 1, CheckpointMost: 5, CheckpointStall: -1},
	} {
		if _, err := c.Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := c.Text("DROP TABLE account"); err != nil {
		t.Fatal(err)
	}
	_, err := c.Run(t.Context(), Config{Batch: 1})
	if f, ok := errors.AsType[*Failure](err); !ok || f.Op != "prepare" || !strings.Contains(err.Error(), "no such table") {
		t.Errorf("%v", err)
	}
}

func TestText(t *testing.T) {
	c := openLoop(t, database(t))
	for _, tt := range []struct{ sql, want string }{
		{"PRAGMA cache_size=-1234", ""},
		{"PRAGMA cache_size;  \n", "-1234"},
		{"PRAGMA busy_timeout", "20"},
		{"PRAGMA wal_autocheckpoint", "0"},
		{"VALUES (1), (2)", "2"},
		{"SELECT NULL", ""},
		{"SELECT 1 WHERE 0", ""},
		{"SELECT printf('%.*c', 300, 'x')", strings.Repeat("x", 255)},
	} {
		if got, err := c.Text(tt.sql); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v", tt.sql, got, err)
		}
	}
	for sql, want := range map[string]string{
		"":                                 "must be one statement",
		"SELECT 1; SELECT 2":               "must be one statement",
		"SELEKT":                           "syntax error",
		"SELECT abs(-9223372036854775808)": "integer overflow",
	} {
		if _, err := c.Text(sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestOpenFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.db")
	_, err := Open(missing, time.Second)
	if se, ok := errors.AsType[*sqlconn.Error](err); !ok || se.Primary() != sqliteh.SQLITE_CANTOPEN {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}

// What the WAL holds after the end is the caller's choice.
func TestClose(t *testing.T) {
	for _, tt := range []struct {
		settle, keep bool
		size         int64 // of the WAL, -1 if it is not there, 1 if it has any
	}{
		{false, true, 1}, {true, true, 0}, {false, false, -1}, {true, false, -1},
	} {
		path := database(t)
		c, err := Open(path, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		cfg := draw(100)
		cfg.Batch = 10
		if _, err := c.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if tt.settle {
			if took, err := c.Settle(); err != nil || took <= 0 {
				t.Errorf("settling took %v, %v", took, err)
			}
		}
		if err := c.Close(tt.keep); err != nil {
			t.Error(err)
		}
		size := int64(-1)
		if info, err := os.Stat(path + "-wal"); err == nil {
			size = min(info.Size(), 1)
		}
		if size != tt.size {
			t.Errorf("%+v: the WAL's size is %d", tt, size)
		}
		mustHold(t, path, cfg, 100)
	}
}

// A reader hinders settling, which says so.
func TestSettleHindered(t *testing.T) {
	path := database(t)
	c := openLoop(t, path)
	reader := other(t, path)
	for _, sql := range []string{"BEGIN", "SELECT 1 FROM account"} {
		if err := reader.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	cfg := draw(10)
	cfg.Batch = 10
	if _, err := c.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	_, err := c.Settle()
	if se, ok := errors.AsType[*sqlconn.Error](err); !ok || se.Primary() != sqliteh.SQLITE_BUSY {
		t.Errorf("%v", err)
	}
}

// A log that readers keep from starting anew is far above its limit: the loop tries
// to empty it, but not for long, and then not at once again.
func TestRunRestarts(t *testing.T) {
	path := database(t)
	c := openLoop(t, path, "busy_timeout=30000")
	reader := other(t, path)
	for _, sql := range []string{"BEGIN", "SELECT 1 FROM account"} {
		if err := reader.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	cfg := draw(1000)
	cfg.Batch, cfg.CheckpointMost = 20, 1
	got, err := c.Run(t.Context(), cfg)
	if err != nil || got.Checkpoints != 49 || got.CheckpointPages != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	// One that waits takes 50 ms; 49 would take more than the most here.
	if least, most := 40*time.Millisecond, 2*time.Second; got.CheckpointTime < least || got.CheckpointTime > most {
		t.Errorf("checkpoints took %v", got.CheckpointTime)
	}
	for _, tt := range []struct{ pragma, want string }{{"busy_timeout", "30000"}, {"wal_autocheckpoint", "0"}} {
		if text, err := c.Text("PRAGMA " + tt.pragma); err != nil || text != tt.want {
			t.Errorf("afterwards %s is %s, %v", tt.pragma, text, err)
		}
	}
	mustHold(t, path, cfg, 1000)
}
