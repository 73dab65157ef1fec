package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/cloop"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/internal/wal"
	"github.com/tpssim/tpssim/writer"
)

// loopOf draws n transfers all over the table.
func loopOf(n, batch int) CLoopConfig {
	r := rand.New(rand.NewPCG(3, 4))
	cfg := CLoopConfig{Batch: batch, Savepoints: true}
	for range n {
		cfg.From = append(cfg.From, 1+r.Int64N(rows))
		cfg.To = append(cfg.To, 1+r.Int64N(rows))
		cfg.Amounts = append(cfg.Amounts, 1+r.Int64N(100))
	}
	return cfg
}

// mustHoldLoop fails unless the first n transfers of cfg are in the database, and
// nothing else.
func mustHoldLoop(t *testing.T, e engine.Engine, cfg CLoopConfig, n int) {
	t.Helper()
	ids, want, got := make([]int64, rows), make([]int64, rows), make([]int64, rows)
	for i := range ids {
		ids[i], want[i] = int64(i+1), 1000
	}
	for i := range n {
		want[cfg.From[i]-1] -= cfg.Amounts[i]
		want[cfg.To[i]-1] += cfg.Amounts[i]
	}
	if err := e.Balances(t.Context(), ids, got, nil); err != nil {
		t.Fatal(err)
	}
	var sum int64
	for i := range got {
		sum += got[i]
		if got[i] != want[i] {
			t.Errorf("account %d holds %d, want %d", i+1, got[i], want[i])
		}
	}
	if sum != rows*1000 {
		t.Errorf("the accounts hold %d together, want %d", sum, rows*1000)
	}
}

func TestCLoop(t *testing.T) {
	for _, schema := range []accounts.Schema{accounts.SchemaRowid, accounts.SchemaArticle} {
		for _, warm := range []int{0, 300} {
			opt := copyOf(t, schema)
			cfg := loopOf(1000, 64)
			cfg.Warm, cfg.Settle = warm, true
			got, err := CLoop(t.Context(), opt, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got.Elapsed <= 0 || got.Settling <= 0 {
				t.Errorf("it took %v and %v", got.Elapsed, got.Settling)
			}
			timed := int64(1000 - warm)
			if got.Warmed != int64(warm) || got.Transfers != timed || got.Rows != 2*timed || got.Commits != (timed+63)/64 {
				t.Errorf("%+v", got)
			}
			if _, err := os.Stat(opt.Path + "-wal"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("it left a WAL: %v", err)
			}
			mustHoldLoop(t, start(t, opt, engine.Needs{}), cfg, 1000)
		}
	}
}

// The settings are those that an engine would have with the same options.
func TestCLoopSettings(t *testing.T) {
	for _, pragmas := range []map[string]string{
		nil, {"synchronous": "normal", "Cache_Size": "-1234"}, {"journal_mode": "delete", "mmap_size": "65536"},
	} {
		opt := copyOf(t, accounts.SchemaRowid)
		opt.Pragmas, opt.Checkpoint, opt.CheckpointMode = pragmas, "bytes:1MiB", "restart"
		cfg := loopOf(10, 5)
		cfg.Savepoints, cfg.Settle = false, true
		got, err := CLoop(t.Context(), opt, cfg)
		if err != nil {
			t.Fatalf("%v: %v", pragmas, err)
		}
		want := start(t, opt, engine.Needs{MaxBatch: 5, Savepoints: "none"}).Settings()
		want.Queue, want.Readers, want.MaxBatchTime = 0, 0, 0
		if got.Settings != want {
			t.Errorf("%v:\n%+v, the writer's are\n%+v", pragmas, got.Settings, want)
		}
	}
	opt := copyOf(t, accounts.SchemaRowid)
	got, err := CLoop(t.Context(), opt, CLoopConfig{Batch: 1, Savepoints: true})
	want := engine.Settings{JournalMode: "wal", Synchronous: "full", PageSize: 4096, CacheSize: -65536,
		Checkpoint: "stall:10ms", MaxBatch: 1, Savepoints: "each"}
	if err != nil || got.Settings != want {
		t.Errorf("%+v, %v", got.Settings, err)
	}
	start(t, opt, engine.Needs{})
}

// Without Settle, what is in the WAL is for the next who opens the database.
func TestCLoopKeepsWAL(t *testing.T) {
	opt := copyOf(t, accounts.SchemaRowid)
	cfg := loopOf(100, 10)
	if _, err := CLoop(t.Context(), opt, cfg); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(opt.Path + "-wal"); err != nil || info.Size() < 100*4096 {
		t.Errorf("%v, %v", info, err)
	}
	e := start(t, opt, engine.Needs{})
	mustHoldLoop(t, e, cfg, 100)
	if err := e.Settle(t.Context()); err != nil {
		t.Error(err)
	}
}

// The loop checkpoints when the writer does, and moves as much.
func TestCLoopCheckpointsAsTheWriter(t *testing.T) {
	for _, tt := range []struct {
		policy, mode string
		n, batch     int
		pinned       bool // a reader keeps the WAL from starting anew
		least        int64
	}{
		{"pages:100", "", 600, 10, false, 9},
		{"pages:100", "restart", 600, 10, false, 9},
		{"pages:100", "truncate", 600, 10, false, 9},
		{"bytes:400KiB", "", 600, 1, false, 5},
		{"pages:20", "", 600, 20, false, 29}, // each batch is larger than the limit
		{"pages:2", "", 600, 50, false, 11},  // and so large that it is emptied by force
		{"pages:400", "", 600, 10, true, 2},
		{"off", "", 600, 10, false, 0},
		{"stall:1h", "", 2800, 10, false, 3},          // each is shorter, and the limit grows
		{"stall:1ns", "", 2800, 10, false, 9},         // each is longer, and it shrinks
		{"stall:1ns", "truncate", 2800, 10, false, 9}, // which it does in the mode that is asked for
		{"stall:1ns", "", 2800, 10, true, 4},          // but not by what a reader hindered
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			n := tt.n
			cfg := loopOf(n, tt.batch)
			opts := [2]Options{copyOf(t, accounts.SchemaRowid), copyOf(t, accounts.SchemaRowid)}
			for i := range opts {
				opts[i].Checkpoint, opts[i].CheckpointMode = tt.policy, tt.mode
				opts[i].Pragmas = map[string]string{"synchronous": "off"}
				if tt.pinned {
					pinSnapshot(t, opts[i].Path)
				}
			}
			e := start(t, opts[0], engine.Needs{})
			observed := observe(e)
			var want engine.Stats // before the last batch: after that no loop checkpoints
			for from := 0; from < n; from += tt.batch {
				err := e.(engine.Batcher).Batch(t.Context(), make([]error, tt.batch), func(i int, tx engine.Tx) error {
					if i == 0 { // on the writer's goroutine, so that the checkpoint before is over
						want = observed()
					}
					k := from + i
					return errors.Join(tx.Add(cfg.From[k], -cfg.Amounts[k]), tx.Add(cfg.To[k], cfg.Amounts[k]))
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			got, err := CLoop(t.Context(), opts[1], cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got.Checkpoints != want.Checkpoints || got.CheckpointPages != want.CheckpointPages || got.Checkpoints < tt.least {
				t.Errorf("%d checkpoints moved %d pages; the writer's were %d and %d, at least %d expected",
					got.Checkpoints, got.CheckpointPages, want.Checkpoints, want.CheckpointPages, tt.least)
			}
			if (got.CheckpointTime > 0) != (got.Checkpoints > 0) || got.CheckpointTime > got.Elapsed {
				t.Errorf("%+v", got)
			}
			mustHoldLoop(t, start(t, opts[1], engine.Needs{}), cfg, n)
		})
	}
}

// What a loop learned of checkpoints while it warmed up, it knows when the clock
// starts.
func TestCLoopKeepsTheLimit(t *testing.T) {
	opt := copyOf(t, accounts.SchemaRowid)
	opt.Checkpoint = "stall:1ns" // at 1000 pages, then 500, then 250
	opt.Pragmas = map[string]string{"synchronous": "off"}
	cfg := loopOf(1600, 1)
	cfg.Warm, cfg.Settle = 1000, true
	got, err := CLoop(t.Context(), opt, cfg)
	if err != nil || got.Checkpoints < 2 || got.CheckpointPages/got.Checkpoints >= 500 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A loop is never idle, so it checkpoints at the limit that the writer has beside.
func TestCLoopIdle(t *testing.T) {
	opt := copyOf(t, accounts.SchemaRowid)
	opt.Checkpoint = "idle"
	opt.Pragmas = map[string]string{"synchronous": "off"}
	cfg := loopOf(3000, 1)
	cfg.Settle = true
	got, err := CLoop(t.Context(), opt, cfg)
	if err != nil || got.Checkpoints < 2 || got.CheckpointPages < wal.DefaultMost/4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// pinSnapshot reads from the database at path until the test ends.
func pinSnapshot(t *testing.T, path string) {
	t.Helper()
	c := connect(t, path)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, sql := range []string{"BEGIN", "SELECT 1 FROM account"} {
		if err := c.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCLoopErrors(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name   string
		change func(*Options, *CLoopConfig)
		want   string
		class  string
	}{
		{"no account", func(_ *Options, cfg *CLoopConfig) { cfg.To[25] = rows + 1 }, "transfer 25: engine: no account with this id: 25001", "no account"},
		{"no account, warm", func(_ *Options, cfg *CLoopConfig) { cfg.Warm = 30; cfg.To[25] = rows + 1 }, "transfer 25: ", "no account"},
		{"no account, warmed", func(_ *Options, cfg *CLoopConfig) { cfg.Warm = 20; cfg.To[25] = rows + 1 }, "transfer 25: ", "no account"},
		{"batch", func(_ *Options, cfg *CLoopConfig) { cfg.Batch = 0 }, "batch of 0", "error"},
		{"lengths", func(_ *Options, cfg *CLoopConfig) { cfg.To = nil }, "must be as many", "error"},
		{"amounts", func(_ *Options, cfg *CLoopConfig) { cfg.Amounts = cfg.Amounts[1:] }, "must be as many", "error"},
		{"warm", func(_ *Options, cfg *CLoopConfig) { cfg.Warm = 101 }, "101 to warm up", "error"},
		{"foreign", func(opt *Options, _ *CLoopConfig) { opt.Foreign = true }, "no account data set", "error"},
		{"policy", func(opt *Options, _ *CLoopConfig) { opt.Checkpoint = "often" }, `"often" is none of`, "error"},
		{"pragma", func(opt *Options, _ *CLoopConfig) { opt.Pragmas = map[string]string{"cash_size": "1"} }, "no pragma cash_size", "error"},
		{"pragma's", func(opt *Options, _ *CLoopConfig) {
			opt.Pragmas = map[string]string{"cache_size": "1; DROP TABLE account"}
		}, "one statement", "error"},
		{"locking", func(opt *Options, _ *CLoopConfig) { opt.Pragmas = map[string]string{"locking_mode": "exclusive"} }, "cannot be set", "error"},
		{"path", func(opt *Options, _ *CLoopConfig) { opt.Path += "-missing" }, "no such file", "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opt := copyOf(t, accounts.SchemaRowid)
			changed, cfg := opt, loopOf(100, 10)
			good := loopOf(100, 10)
			tt.change(&changed, &cfg)
			got, err := CLoop(t.Context(), changed, cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || classify(err) != tt.class {
				t.Errorf("%v, which is %q", err, classify(err))
			}
			if want := (tt.class == "no account"); (got.Warmed+got.Transfers == 20) != want {
				t.Errorf("%+v", got)
			}
			// The lock is free again.
			mustHoldLoop(t, start(t, opt, engine.Needs{}), good, int(got.Warmed+got.Transfers))
		})
	}
	opt := copyOf(t, accounts.SchemaRowid)
	if got, err := CLoop(ended, opt, loopOf(10, 1)); !errors.Is(err, context.Canceled) || got.Transfers != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Who has the database open, or locked, is not disturbed.
func TestCLoopInUse(t *testing.T) {
	opt := copyOf(t, accounts.SchemaRowid)
	e, err := Open(t.Context(), opt, engine.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CLoop(t.Context(), opt, loopOf(10, 1)); !errors.Is(err, writer.ErrInUse) {
		t.Errorf("%v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	lock := connect(t, opt.Path)
	if err := lock.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	opt.busyTimeout = 10 * time.Millisecond
	_, err = CLoop(t.Context(), opt, loopOf(10, 1))
	if be, ok := errors.AsType[*writer.BatchError](err); !ok || be.Op != "begin" || classify(err) != "busy" {
		t.Errorf("%v, which is %q", err, classify(err))
	}
	if err := errors.Join(lock.Exec("ROLLBACK"), lock.Close()); err != nil {
		t.Fatal(err)
	}
	cfg := loopOf(10, 1)
	mustHoldLoop(t, start(t, opt, engine.Needs{}), cfg, 0)
}

// The loop's SQLite is the driver's: closing its connection leaves the locks that
// other connections of this process hold. A second copy of SQLite would drop them.
func TestCLoopKeepsLocks(t *testing.T) {
	opt := copyOf(t, accounts.SchemaRowid)
	pinSnapshot(t, opt.Path)
	info, err := os.Stat(opt.Path)
	if err != nil {
		t.Fatal(err)
	}
	database := fmt.Sprintf(":%d ", reflect.Indirect(reflect.ValueOf(info.Sys())).FieldByName("Ino").Uint())
	locked := func() bool {
		data, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Skip("this system does not list locks")
		}
		return strings.Contains(string(data), database)
	}
	if !locked() {
		t.Skip("the locks of this file system are not listed")
	}
	cfg := loopOf(10, 1)
	if _, err := CLoop(t.Context(), opt, cfg); err != nil {
		t.Fatal(err)
	}
	if !locked() {
		t.Error("the reader has lost its lock on the database")
	}
	mustHoldLoop(t, start(t, opt, engine.Needs{}), cfg, 10)
}

func TestCLoopAvailable(t *testing.T) {
	if ok, why := CLoopAvailable(); !ok {
		t.Error(why)
	}
}

// A COMMIT that may have reached the disk is in doubt, as the writer's is.
func TestLoopError(t *testing.T) {
	failed := func(op string, code sqliteh.Code) error {
		return loopError(&cloop.Failure{Op: op, Err: &sqlconn.Error{Code: code, Msg: "as it is"}})
	}
	for _, tt := range []struct {
		err   error
		class string
		doubt bool
	}{
		{failed("commit", sqliteh.SQLITE_IOERR_FSYNC), "in doubt", true},
		{failed("commit", sqliteh.SQLITE_FULL), "in doubt", true},
		{failed("commit", sqliteh.SQLITE_CONSTRAINT), "commit failed", false},
		{failed("begin", sqliteh.SQLITE_BUSY), "busy", false},
		{failed("begin", sqliteh.SQLITE_IOERR), "begin failed", false},
		{failed("update", sqliteh.SQLITE_FULL), "sqlite full", false},
		{failed("checkpoint", sqliteh.SQLITE_CORRUPT), "sqlite corrupt", false},
	} {
		_, doubt := inDoubt(tt.err)
		if got := classify(tt.err); got != tt.class || doubt != tt.doubt {
			t.Errorf("%v is %q, in doubt: %v", tt.err, got, doubt)
		}
	}
}
