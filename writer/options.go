package writer

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/wal"
)

// Savepoints chooses how the functions of a batch are isolated from each other.
type Savepoints int

const (
	// SavepointEach gives each function a savepoint, opened before its first
	// statement that may write (anything but SELECT and VALUES without a pragma in
	// it, and EXPLAIN). A failure undoes that function alone.
	SavepointEach Savepoints = iota
	// SavepointNone uses no savepoints: one failure rolls the batch back, and
	// everyone whose function had run gets a *BatchError. It shows what savepoints
	// cost and is for measuring only.
	SavepointNone
	// SavepointOnFailure runs a batch without savepoints. If a function fails, the
	// batch is rolled back and run again with them: fn may then run TWICE, and only
	// the second run counts, so fn must have no effect outside the database. What
	// SQLite itself rolled back is not run again. After a failed batch the next
	// hundred use SavepointEach.
	SavepointOnFailure
)

// Checkpoint says when the writer moves the WAL's content into the database.
// Close and [Writer.Checkpoint] do so whatever the policy.
type Checkpoint struct {
	// Pages is the WAL size in pages above which a PASSIVE checkpoint runs after
	// the batch, and with Stall the most that this may be; at four times this a
	// RESTART is tried. 0 means what Bytes says, or without that 4000 pages (16 MB at
	// 4 KiB a page).
	Pages int
	// Bytes is the same for a WAL size in bytes of pages, used when Pages is 0. It
	// is rounded down to whole pages, of which it means at least one.
	Bytes int64
	// Stall is how long one checkpoint is to hold the writer. Transactions that come
	// meanwhile wait for it, and it costs ten times as much where the WAL holds
	// pages from all over the database as where the same few are written again and
	// again. So the limit follows what checkpoints took: it lies between 250 pages
	// and what Pages or Bytes says, begins at a quarter of that, shrinks after one
	// that took longer than Stall and grows while they take less than half of it.
	// It is no promise: one batch may write more than the limit, and a sync that is
	// slow is slow for few pages too.
	//
	// 0 means 10 ms, or when Pages or Bytes is given that the limit is exactly that.
	Stall time.Duration
	// Idle also checkpoints whenever the queue is empty after a batch.
	Idle bool
	// Off never checkpoints automatically: the WAL grows without end.
	Off bool
	// Mode is the mode of the checkpoint at the limit: PASSIVE (the zero value), FULL,
	// RESTART or TRUNCATE. The last three wait for readers, at most
	// 50 ms, and hold the writer meanwhile.
	Mode sqliteh.Checkpoint
}

// Batch describes one finished batch to [Options.OnBatch].
type Batch struct {
	Size    int           // functions that ran
	Busy    time.Duration // from BEGIN to the end of COMMIT
	Commit  time.Duration // COMMIT alone
	Err     error         // the *BatchError, if the batch failed
	Pending int           // requests that wait in the queue now

	undone bool // it was rolled back, for the one function in it that failed
}

// Options configures a [Writer]. The zero value is safe, durable and fast.
type Options struct {
	// MaxBatch bounds the functions of one batch. 0 means 25,000.
	MaxBatch int
	// MaxBatchTime is for how long a batch may run before its COMMIT, if there is more
	// to do: what is left makes the next batch. A function that has begun is not cut
	// short. 0 means 100 ms; a negative value lets each batch run for as long as its
	// functions take.
	MaxBatchTime time.Duration
	// BatchWindow is how long a batch waits after its first request for more to
	// come. 0 never waits.
	BatchWindow time.Duration
	// QueueLen bounds the requests that wait. 0 means 1<<20.
	QueueLen int
	// FailWhenFull makes Do return ErrQueueFull instead of waiting for room.
	FailWhenFull bool
	// Savepoints is the isolation of a batch's functions. The zero value is
	// SavepointEach.
	Savepoints Savepoints
	// TxTimeout is how long one function may hold the writer before its running
	// statement is interrupted and later ones are refused. 0 means no limit.
	TxTimeout time.Duration
	// BusyTimeout is how long BEGIN waits for another process's lock. 0 means 5 s;
	// a negative value does not wait.
	BusyTimeout time.Duration
	// Readers is the number of read-only connections for View. 0 means GOMAXPROCS;
	// a negative value means none.
	Readers int
	// Prefetch is how many calls of Call.Touch may be under way at a time, and so bounds
	// how many reads wait for the disk. They share read-only connections, each with a
	// page cache of 2 MiB whatever Pragmas say: one for each processor but the writer's
	// on Linux, where reads that would wait are tried again instead, else as many as
	// there are calls. It is for a database in WAL mode that is larger than memory: in
	// other modes a COMMIT waits for those who read. A checkpoint waits for the touches
	// that run, 2 ms at most. 0 means that no Touch is called.
	Prefetch int
	// Pragmas are set on every connection, and read back: a value that SQLite
	// does not accept is an error. Unless named here journal_mode is wal,
	// synchronous full (with fullfsync on macOS), cache_size -65536 (64 MiB) and
	// temp_store memory. A journal_mode of "" leaves the database in the mode that
	// it is found in. busy_timeout, wal_autocheckpoint, query_only and locking_mode
	// belong to the writer and are refused.
	Pragmas map[string]string
	// NoCreate makes Open fail when the database does not exist.
	NoCreate bool
	// Init runs once during Open, before the readers are opened: schema and
	// migrations.
	Init func(*Conn) error
	// Checkpoint is the checkpoint policy.
	Checkpoint Checkpoint
	// Logger receives warnings: failed checkpoints, a function that holds the
	// writer for longer than TxTimeout (or a second). nil logs nothing.
	Logger *slog.Logger
	// OnBatch, if set, is called on the writer goroutine after each batch's callers
	// were woken. It must be quick and must not call the writer.
	OnBatch func(Batch)
	// Open opens connections. nil means the driver's own; tests inject faults here.
	Open sqliteh.OpenFunc
}

const (
	defaultMaxBatch = 25_000
	// A COMMIT and the checkpoint that follows some of them hold the writer for 8 to
	// 20 ms when a burst has written to some thousand pages.
	defaultMaxBatchTime = 100 * time.Millisecond
	defaultQueueLen     = 1 << 20
	defaultBusyTimeout  = 5 * time.Second
)

// withDefaults returns o with every zero value replaced, or an error that names
// the field that cannot be.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.MaxBatch < 0:
		return o, fmt.Errorf("MaxBatch is %d, must be 0 or more", o.MaxBatch)
	case o.QueueLen < 0:
		return o, fmt.Errorf("QueueLen is %d, must be 0 or more", o.QueueLen)
	case o.Prefetch < 0:
		return o, fmt.Errorf("Options.Prefetch is %d, must be 0 or more", o.Prefetch)
	case o.BatchWindow < 0:
		return o, fmt.Errorf("BatchWindow is %v, must be 0 or more", o.BatchWindow)
	case o.TxTimeout < 0:
		return o, fmt.Errorf("TxTimeout is %v, must be 0 or more", o.TxTimeout)
	case o.Checkpoint.Pages < 0:
		return o, fmt.Errorf("Checkpoint.Pages is %d, must be 0 or more", o.Checkpoint.Pages)
	case o.Checkpoint.Bytes < 0:
		return o, fmt.Errorf("Checkpoint.Bytes is %d, must be 0 or more", o.Checkpoint.Bytes)
	case o.Checkpoint.Stall < 0:
		return o, fmt.Errorf("Checkpoint.Stall is %v, must be 0 or more", o.Checkpoint.Stall)
	case o.Checkpoint.Mode < sqliteh.SQLITE_CHECKPOINT_PASSIVE || o.Checkpoint.Mode > sqliteh.SQLITE_CHECKPOINT_TRUNCATE:
		return o, fmt.Errorf("Checkpoint.Mode is %d, which is none of the modes", o.Checkpoint.Mode)
	case o.Savepoints < SavepointEach || o.Savepoints > SavepointOnFailure:
		return o, fmt.Errorf("Savepoints is %d, which is none of the modes", o.Savepoints)
	}
	setDefault(&o.MaxBatch, defaultMaxBatch)
	setDefault(&o.MaxBatchTime, defaultMaxBatchTime)
	setDefault(&o.QueueLen, defaultQueueLen)
	o.MaxBatch = min(o.MaxBatch, o.QueueLen) // a window must not wait for more than can come
	setDefault(&o.BusyTimeout, defaultBusyTimeout)
	if o.Checkpoint.Pages == 0 && o.Checkpoint.Bytes == 0 {
		o.Checkpoint.Pages = wal.DefaultMost
		setDefault(&o.Checkpoint.Stall, wal.DefaultStall)
	}
	setDefault(&o.Readers, runtime.GOMAXPROCS(0))
	o.BusyTimeout = min(max(o.BusyTimeout, 0), math.MaxInt32*time.Millisecond) // SQLite counts it in a C int
	o.Checkpoint.Pages = min(o.Checkpoint.Pages, math.MaxInt32)
	o.Readers = max(o.Readers, 0)
	if o.Open == nil {
		o.Open = cgosqlite.Open
	}
	pragmas := map[string]string{
		"journal_mode": "wal",
		"synchronous":  "full",
		"cache_size":   "-65536",
		"temp_store":   "memory",
	}
	if runtime.GOOS == "darwin" {
		pragmas["fullfsync"] = "on"
	}
	for name, value := range o.Pragmas {
		name = strings.ToLower(name)
		if err := checkPragma(name, value); err != nil {
			return o, err
		}
		pragmas[name] = value
	}
	o.Pragmas = pragmas
	return o, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// checkPragma refuses what would break the writer's own invariants and what is
// not a plain name and value.
func checkPragma(name, value string) error {
	switch name {
	case "busy_timeout", "wal_autocheckpoint", "query_only", "locking_mode", "writable_schema":
		return fmt.Errorf("pragma %s belongs to the writer and cannot be set", name)
	case "journal_mode":
		if value == "" {
			return nil
		}
		if strings.EqualFold(value, "off") {
			return fmt.Errorf("pragma journal_mode=off cannot roll back and is refused")
		}
	}
	plain := func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(r rune) bool {
			return !strings.ContainsRune("_-+.", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) < 0
	}
	if !plain(name) || !plain(value) {
		return fmt.Errorf("pragma %q=%q is not a plain name and value", name, value)
	}
	return nil
}

// pragmaOrder returns the names of p in the order in which SQLite wants them:
// what is fixed once the file exists before the journal mode, then the rest.
func pragmaOrder(p map[string]string) []string {
	rank := map[string]int{"page_size": -3, "auto_vacuum": -2, "journal_mode": -1}
	return slices.SortedFunc(maps.Keys(p), func(a, b string) int {
		if d := rank[a] - rank[b]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}
