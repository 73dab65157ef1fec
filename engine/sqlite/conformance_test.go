package sqlite

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/enginetest"
	"github.com/tpssim/tpssim/writer"
)

func TestConformance(t *testing.T) {
	both(t, func(t *testing.T, way engine.Needs) {
		for _, schema := range []accounts.Schema{accounts.SchemaRowid, accounts.SchemaArticle} {
			t.Run(string(schema), func(t *testing.T) {
				sets := map[string]Options{} // by test, so that it finds what it left
				enginetest.Run(t, func(t *testing.T, needs engine.Needs) engine.Engine {
					opt, ok := sets[t.Name()]
					if !ok {
						opt = copyOf(t, schema)
						opt.Connections = 3 // SQLite lets many wait long for each other
						opt.Prefetch = 2
						if schema == accounts.SchemaArticle {
							opt.Pragmas = map[string]string{"synchronous": "normal"}
						}
						sets[t.Name()] = opt
					}
					needs.Access = way.Access
					e, err := Open(t.Context(), opt, needs)
					if err != nil {
						t.Fatal(err)
					}
					if _, ok := e.(engine.Toucher); ok != (needs.Access == engine.Queued) {
						t.Errorf("a %s engine is a Toucher: %v", needs.Access, ok)
					}
					if _, ok := e.(engine.Batcher); ok != (needs.Access == engine.Queued) {
						t.Errorf("a %s engine is a Batcher: %v", needs.Access, ok)
					}
					return e
				}, specOf(schema))
			})
		}
	})
}

// What was asked for is read back, and without asking it is safe.
func TestSettings(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		opt := copyOf(t, accounts.SchemaRowid)
		t.Run("default", func(t *testing.T) {
			got := start(t, opt, needs).Settings()
			if got.JournalMode != "wal" || got.Synchronous != "full" || got.PageSize != 4096 || got.CacheSize != -65536 {
				t.Errorf("defaults: %+v", got)
			}
			if !strings.HasPrefix(got.Checkpoint, DefaultCheckpoint) {
				t.Errorf("checkpoint: %q", got.Checkpoint)
			}
			if needs.Access == engine.Queued && (got.MaxBatch != 25_000 || got.MaxBatchTime != 100*time.Millisecond || got.Queue != 1<<20 || got.Savepoints != "each" || got.Readers < 1) {
				t.Errorf("defaults: %+v", got)
			}
			if needs.Access == engine.Pooled && (got.MaxBatch != 1 || got.Readers != 8 || got.Savepoints != "none") {
				t.Errorf("defaults: %+v", got)
			}
		})
		t.Run("chosen", func(t *testing.T) {
			opt.Pragmas = map[string]string{"synchronous": "extra", "cache_size": "-1024", "mmap_size": "1048576"}
			opt.Checkpoint, opt.CheckpointMode = "bytes:1MiB", "restart"
			opt.MaxBatch, opt.Queue, opt.Readers, opt.Connections, opt.Savepoints = 7, 11, 3, 3, "on-failure"
			got := start(t, opt, needs).Settings()
			if got.Synchronous != "extra" || got.CacheSize != -1024 || got.MmapSize != 1<<20 || got.Readers != 3 {
				t.Errorf("settings: %+v", got)
			}
			if !strings.HasPrefix(got.Checkpoint, "bytes:1MiB restart") {
				t.Errorf("checkpoint: %q", got.Checkpoint)
			}
			if needs.Access == engine.Queued && (got.MaxBatch != 7 || got.Queue != 11 || got.Savepoints != "on-failure") {
				t.Errorf("settings: %+v", got)
			}
		})
		for value, want := range map[string]string{"off": "off", "normal": "normal", "full": "full"} {
			opt := opt
			opt.Pragmas = map[string]string{"synchronous": value}
			t.Run("synchronous "+value, func(t *testing.T) {
				if got := start(t, opt, needs).Settings().Synchronous; got != want {
					t.Errorf("synchronous is %q, want %q", got, want)
				}
			})
		}
	})
}

// A rollback journal works too: Settle has nothing to do, and nothing is pending.
func TestRollbackJournal(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		opt := copyOf(t, accounts.SchemaRowid)
		opt.Pragmas = map[string]string{"journal_mode": "delete"}
		e := start(t, opt, needs)
		if got := e.Settings().JournalMode; got != "delete" {
			t.Fatalf("journal_mode is %q", got)
		}
		observed := observe(e)
		if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
			t.Fatal(err)
		}
		if err := e.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		if got := quiet(t, e, observed); got.WALBytes != 0 || got.WALPending != 0 || got.Commits != 1 {
			t.Errorf("observed %+v", got)
		}
	})
}

// An empty journal mode leaves the database in its own.
func TestJournalModeStays(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		for _, mode := range []string{"delete", "wal"} {
			opt := copyOf(t, accounts.SchemaRowid)
			raw(t, opt.Path, "PRAGMA journal_mode="+mode)
			opt.Pragmas = map[string]string{"Journal_Mode": ""}
			e := start(t, opt, needs)
			if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
				t.Error(err)
			}
			if got := e.Settings().JournalMode; got != mode {
				t.Errorf("it was %s and is %s", mode, got)
			}
		}
	})
}

// What cannot be is refused in one line, and nothing is left behind.
func TestOpenRefuses(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		opt := copyOf(t, accounts.SchemaRowid)
		for name, change := range map[string]func(*Options){
			"checkpoint":      func(o *Options) { o.Checkpoint = "often" },
			"checkpoint mode": func(o *Options) { o.CheckpointMode = "full" },
			"no file":         func(o *Options) { o.Path += "-missing" },
			"pragma":          func(o *Options) { o.Pragmas = map[string]string{"journal_mode": "wal; DROP"} },
			"unknown pragma":  func(o *Options) { o.Pragmas = map[string]string{"cash_size": "5"} },
			"no rollback":     func(o *Options) { o.Pragmas = map[string]string{"journal_mode": "off"} },
			"locking":         func(o *Options) { o.Pragmas = map[string]string{"locking_mode": "exclusive"} },
			"query only":      func(o *Options) { o.Pragmas = map[string]string{"query_only": "on"} },
		} {
			bad := opt
			change(&bad)
			e, err := Open(t.Context(), bad, needs)
			if err == nil {
				e.Close()
				t.Errorf("%s: it was opened", name)
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %q is more than one line", name, err)
			}
		}
		e, err := Open(t.Context(), opt, engine.Needs{Access: needs.Access, Savepoints: "some"})
		if err == nil {
			e.Close()
			if needs.Access == engine.Queued {
				t.Error("savepoints: it was opened")
			}
		}
		if err := start(t, opt, needs).Update(t.Context(), nil, add(1, 1)); err != nil {
			t.Errorf("the good options no longer work: %v", err)
		}
	})
}

func TestParseCheckpoint(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		policy, mode string
		page         int64
		want         writer.Checkpoint
	}{
		{"", "", 4096, writer.Checkpoint{Pages: 4000, Stall: 10 * ms}},
		{"", "truncate", 0, writer.Checkpoint{Pages: 4000, Stall: 10 * ms, Mode: sqliteh.SQLITE_CHECKPOINT_TRUNCATE}},
		{"stall:10ms", "passive", 4096, writer.Checkpoint{Pages: 4000, Stall: 10 * ms}},
		{"stall:1.5s", "", 0, writer.Checkpoint{Pages: 4000, Stall: 1500 * ms}},
		{"stall:1ns", "", 4096, writer.Checkpoint{Pages: 4000, Stall: 1}},
		{"pages:4000", "passive", 4096, writer.Checkpoint{Pages: 4000}},
		{"pages:1", "restart", 4096, writer.Checkpoint{Pages: 1, Mode: sqliteh.SQLITE_CHECKPOINT_RESTART}},
		{"pages:4k", "", 4096, writer.Checkpoint{Pages: 4000}},
		{"pages:5000000000", "", 4096, writer.Checkpoint{Pages: math.MaxInt32}},
		{"bytes:64MiB", "truncate", 4096, writer.Checkpoint{Pages: 16384, Mode: sqliteh.SQLITE_CHECKPOINT_TRUNCATE}},
		{"bytes:64MiB", "", 65536, writer.Checkpoint{Pages: 1024}},
		{"bytes:64MiB", "", 0, writer.Checkpoint{Bytes: 64 << 20}},
		{"bytes:1", "", 4096, writer.Checkpoint{Pages: 1}},
		{"idle", "", 4096, writer.Checkpoint{Idle: true, Pages: 4000, Stall: 10 * ms}},
		{"off", "", 4096, writer.Checkpoint{Off: true}},
	} {
		if got, err := ParseCheckpoint(tt.policy, tt.mode, tt.page); got != tt.want || err != nil {
			t.Errorf("ParseCheckpoint(%q, %q, %d) = %+v, %v; want %+v", tt.policy, tt.mode, tt.page, got, err, tt.want)
		}
	}
	for _, policy := range []string{
		"pages:1.5", "pages:0", "pages:-5", "pages:", "pages:many", "pages:99999999999999999999", "pages", "bytes:", "bytes:-1",
		"idle:5", "off:", "rarely", "stall", "stall:", "stall:0", "stall:0s", "stall:-10ms", "stall:10", "stall:long",
	} {
		want := `checkpoint policy "` + policy + `" is none of stall:10ms, pages:4000, bytes:64MiB, idle, off`
		if got, err := ParseCheckpoint(policy, "", 4096); err == nil || err.Error() != want {
			t.Errorf("ParseCheckpoint(%q) = %+v, %v", policy, got, err)
		}
	}
	if got, err := ParseCheckpoint("pages:5", "full", 4096); err == nil {
		t.Errorf("a mode that is none: %+v", got)
	}
}

func TestVersion(t *testing.T) {
	version, err := Version()
	if err != nil || !strings.HasPrefix(version, "3.") {
		t.Errorf("Version() = %q, %v", version, err)
	}
}

// No batch is said to have held more than there were transactions for it.
func TestBatchSizes(t *testing.T) {
	const waiting = 12 // not the end of a bucket of the writer's histogram
	e := start(t, copyOf(t, accounts.SchemaRowid), engine.Needs{Access: engine.Queued})
	observed := observe(e)
	running, release := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	update := func(fn func(engine.Tx) error) {
		if err := e.Update(t.Context(), nil, fn); err != nil {
			t.Error(err)
		}
	}
	group.Go(func() {
		update(func(engine.Tx) error { close(running); <-release; return nil })
	})
	<-running
	for range waiting {
		group.Go(func() { update(add(1, 1)) })
	}
	for e.(*queued).w.Stats().Queued < waiting {
		runtime.Gosched()
	}
	close(release)
	group.Wait()
	got := quiet(t, e, observed)
	if want := []engine.Bucket{{Upto: 1, Count: 1}, {Upto: waiting, Count: 1}}; !slices.Equal(got.BatchSizes, want) {
		t.Errorf("batch sizes %v, want %v", got.BatchSizes, want)
	}
	if got.Batches != 2 || got.BatchQuantile(1) != waiting || got.BatchQuantile(0.5) != 1 {
		t.Errorf("observed %+v", got)
	}
}
