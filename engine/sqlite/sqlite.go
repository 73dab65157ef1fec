// Package sqlite measures SQLite: through the batching writer ([Open] with
// engine.Queued), on one goroutine without a queue (its Batch), and through a
// pool of connections that fight for the lock (engine.Pooled).
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/quantity"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/internal/wal"
	"github.com/tpssim/tpssim/writer"
)

// The statements of the account data set.
const (
	addSQL     = "UPDATE account SET balance = balance + ?1 WHERE id = ?2"
	balanceSQL = "SELECT balance FROM account WHERE id = ?1"
	swapSQL    = "UPDATE account SET balance = ?1 WHERE id = ?2 AND balance = ?3"
	recordSQL  = "INSERT INTO transfer(source, target, amount) VALUES (?1, ?2, ?3)"
	clearSQL   = "DELETE FROM transfer"
)

// Options are the settings of an engine. Zero values are the writer's defaults.
type Options struct {
	Path string        // a data set that is complete
	Spec accounts.Spec // what it holds
	// Foreign says that Path is any SQLite database, for engine.Scripter alone:
	// Spec is not used, Reset does nothing, and what is asked of accounts fails. It
	// stays in the journal mode that it is found in unless Pragmas names one. The
	// pool cannot open one.
	Foreign      bool
	Pragmas      map[string]string // as in writer.Options
	MaxBatch     int
	MaxBatchTime time.Duration
	BatchWindow  time.Duration
	Queue        int
	Readers      int
	Prefetch     int    // how many calls of engine.Toucher read ahead at a time; the pool has none
	Savepoints   string // "each", "none" or "on-failure"; "" means each
	Checkpoint   string // see ParseCheckpoint
	// CheckpointMode is "passive", "restart" or "truncate"; "" means passive.
	CheckpointMode string
	// Connections is the size of the pool of engine.Pooled. 0 means 8.
	Connections int
	Logger      *slog.Logger
	// Open opens connections; nil means the driver's own. Tests inject faults here.
	Open sqliteh.OpenFunc

	busyTimeout time.Duration // 0 means 5 s; tests shorten it
}

// Open opens the data set in the way that needs ask for. The Engine is also an
// engine.Cacher and an engine.Pinner, and when it is queued an engine.Batcher, an
// engine.Toucher and an engine.Scripter.
func Open(ctx context.Context, opt Options, needs engine.Needs) (engine.Engine, error) {
	if needs.MaxBatch != 0 {
		opt.MaxBatch = needs.MaxBatch
	}
	if needs.Savepoints != "" {
		opt.Savepoints = needs.Savepoints
	}
	if needs.Access == engine.Pooled {
		return openPool(ctx, opt)
	}
	return openQueued(ctx, opt)
}

// pragmas returns the user's pragmas, in lower case, over the defaults, the same
// for every way in.
func pragmas(opt Options) map[string]string {
	p := map[string]string{"journal_mode": "wal", "synchronous": "full", "cache_size": "-65536", "temp_store": "memory"}
	if runtime.GOOS == "darwin" {
		p["fullfsync"] = "on" // the writer does so by itself, the pool must not be cheaper
	}
	if opt.Foreign {
		p["journal_mode"] = "" // as it is
	}
	for name, value := range opt.Pragmas {
		p[strings.ToLower(name)] = value
	}
	return p
}

// savepointModes names the writer's modes as flags do.
var savepointModes = map[string]writer.Savepoints{
	"":           writer.SavepointEach,
	"each":       writer.SavepointEach,
	"none":       writer.SavepointNone,
	"on-failure": writer.SavepointOnFailure,
}

// checkpointModes names the checkpoint modes as flags do.
var checkpointModes = map[string]sqliteh.Checkpoint{
	"":         sqliteh.SQLITE_CHECKPOINT_PASSIVE,
	"passive":  sqliteh.SQLITE_CHECKPOINT_PASSIVE,
	"restart":  sqliteh.SQLITE_CHECKPOINT_RESTART,
	"truncate": sqliteh.SQLITE_CHECKPOINT_TRUNCATE,
}

// DefaultCheckpoint is the policy when none is given.
const DefaultCheckpoint = "stall:10ms"

// ParseCheckpoint reads a checkpoint policy: "stall:10ms" (at most 4,000 pages),
// "pages:4000", "bytes:64MiB", "idle" (or when stall:10ms says so) or "off"; "" is
// DefaultCheckpoint. Bytes become pages of pageSize, and stay bytes when that is 0,
// for the writer to divide.
func ParseCheckpoint(policy, mode string, pageSize int64) (writer.Checkpoint, error) {
	m, ok := checkpointModes[mode]
	if !ok {
		return writer.Checkpoint{}, fmt.Errorf("checkpoint mode %q is none of passive, restart, truncate", mode)
	}
	if policy == "" {
		policy = DefaultCheckpoint
	}
	c := writer.Checkpoint{Mode: m}
	kind, value, _ := strings.Cut(policy, ":")
	good := true
	switch {
	case policy == "idle":
		c.Idle, c.Pages, c.Stall = true, wal.DefaultMost, wal.DefaultStall
	case policy == "off":
		c.Off = true
	case kind == "stall":
		stall, err := time.ParseDuration(value)
		c.Pages, c.Stall = wal.DefaultMost, stall
		good = err == nil && stall > 0
	case kind == "pages":
		n, err := quantity.Count(value)
		c.Pages = int(min(n, math.MaxInt32))
		good = err == nil && n > 0
	case kind == "bytes":
		n, err := quantity.Size(value)
		if pageSize == 0 {
			c.Bytes = max(n, 1)
		} else {
			c.Pages = int(min(max(n/pageSize, 1), math.MaxInt32))
		}
		good = err == nil
	default:
		good = false
	}
	if !good {
		return writer.Checkpoint{}, fmt.Errorf("checkpoint policy %q is none of stall:10ms, pages:4000, bytes:64MiB, idle, off", policy)
	}
	return c, nil
}

// account is the account statements on a transaction or connection of the writer.
type account struct{ rx *writer.Rx }

// Balance implements engine.Rx.
func (a account) Balance(id int64) (int64, error) {
	s := a.rx.Stmt(balanceSQL).BindInt64(1, id)
	row, err := s.Step()
	if err != nil {
		return 0, err
	}
	if !row {
		return 0, engine.ErrNoAccount
	}
	balance := s.Int64(0)
	s.Reset()
	return balance, nil
}

// Add implements engine.Tx.
func (a account) Add(id, delta int64) error {
	n, err := a.rx.Stmt(addSQL).BindInt64(1, delta).BindInt64(2, id).Exec()
	if err == nil && n != 1 {
		err = engine.ErrNoAccount
	}
	return err
}

// Swap implements engine.Tx.
func (a account) Swap(id, old, balance int64) (bool, error) {
	n, err := a.rx.Stmt(swapSQL).BindInt64(1, balance).BindInt64(2, id).BindInt64(3, old).Exec()
	return n == 1, err
}

// Record implements engine.Tx.
func (a account) Record(from, to, amount int64) error {
	_, err := a.rx.Stmt(recordSQL).BindInt64(1, from).BindInt64(2, to).BindInt64(3, amount).Exec()
	return err
}

// readSettings reads the effective pragmas of a connection back.
func readSettings(rx *writer.Rx) (s engine.Settings, err error) {
	var sync int64
	for name, dest := range map[string]any{
		"journal_mode": &s.JournalMode,
		"synchronous":  &sync,
		"page_size":    &s.PageSize,
		"cache_size":   &s.CacheSize,
		"mmap_size":    &s.MmapSize,
	} {
		err := rx.QueryRow("PRAGMA " + name).Scan(dest)
		if err != nil && !(name == "mmap_size" && errors.Is(err, writer.ErrNoRows)) {
			return s, err
		}
	}
	s.Synchronous = synchronousName(sync)
	return s, nil
}

// synchronousName is the word for what PRAGMA synchronous answers.
func synchronousName(level int64) string {
	return [...]string{"off", "normal", "full", "extra"}[min(max(level, 0), 3)]
}

// Version returns the version of the SQLite that is linked in.
func Version() (string, error) {
	db, err := cgosqlite.Open(":memory:", sqliteh.SQLITE_OPEN_READWRITE|sqliteh.SQLITE_OPEN_MEMORY, "")
	if err != nil {
		return "", fmt.Errorf("open a database in memory: %w", err)
	}
	c := &sqlconn.Conn{DB: db}
	version, err := c.Text("SELECT sqlite_version()")
	return version, errors.Join(err, c.Close())
}
