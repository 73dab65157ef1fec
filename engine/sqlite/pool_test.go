package sqlite

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/wal"
	"github.com/tpssim/tpssim/writer/writertest"
)

// watch counts, from outside, the transactions that are open and the checkpoints.
type watch struct {
	mu            sync.Mutex
	open          int
	checkpointing bool
	checkpoints   int
	overlaps      int // of a transaction with a checkpoint
}

// faults returns a way to open connections that w watches.
func (w *watch) faults() *writertest.Faults {
	return &writertest.Faults{
		Before: func(e writertest.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case strings.HasPrefix(e.SQL, "CHECKPOINT"):
				if w.open > 0 {
					w.overlaps++
				}
				w.checkpointing = true
				w.checkpoints++
			case strings.HasPrefix(e.SQL, "BEGIN"):
				if w.checkpointing {
					w.overlaps++
				}
				w.open++ // it has begun to ask for it
			}
		},
		After: func(e writertest.Event, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case strings.HasPrefix(e.SQL, "CHECKPOINT"):
				w.checkpointing = false
			case strings.HasPrefix(e.SQL, "BEGIN") && err != nil,
				strings.HasPrefix(e.SQL, "COMMIT") && err == nil,
				strings.HasPrefix(e.SQL, "ROLLBACK"):
				w.open--
			}
		},
	}
}

// SQLite up to 3.51.2 can corrupt a database when a checkpoint meets a writer that
// resets the WAL, so the two must never meet; and however many callers there are,
// a checkpoint must find its moment.
func TestPoolCheckpoints(t *testing.T) {
	const callers, each, limit = 16, 60, 40
	w := new(watch)
	opt := copyOf(t, accounts.SchemaRowid)
	opt.Open = w.faults().Open
	opt.Connections = 4
	opt.Checkpoint = "pages:40"
	opt.Pragmas = map[string]string{"synchronous": "off"}
	e := start(t, opt, engine.Needs{Access: engine.Pooled})
	observed, began := observe(e), time.Now()
	var group sync.WaitGroup
	for g := range int64(callers) {
		group.Go(func() {
			for k := range int64(each) {
				// Far apart, so that each transaction writes pages of its own.
				if err := e.Update(t.Context(), nil, func(tx engine.Tx) error {
					return errors.Join(tx.Add(1+(g*each+k)*20, -1), tx.Add(rows-(g*each+k)*20, 1))
				}); err != nil {
					t.Error(err)
				}
				if err := e.View(t.Context(), func(rx engine.Rx) error { _, err := rx.Balance(1); return err }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	info, err := os.Stat(opt.Path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	// The file keeps the largest size that the log ever had.
	const frame, pagesOfOne = 4096 + wal.FrameHeader, 2
	if most := int64((limit + callers*pagesOfOne) * frame); info.Size() > most {
		t.Errorf("the WAL grew to %d frames with a checkpoint every %d", info.Size()/frame, limit)
	}
	if w.overlaps > 0 {
		t.Errorf("%d times a transaction met a checkpoint", w.overlaps)
	}
	stats := observed()
	written := stats.WALBytes / frame
	if stats.Checkpoints < written/(limit+callers*pagesOfOne) || stats.Checkpoints > written/limit {
		t.Errorf("%d checkpoints for %d pages", stats.Checkpoints, written)
	}
	if int64(w.checkpoints) != stats.Checkpoints {
		t.Errorf("%d checkpoints were observed, %d seen", stats.Checkpoints, w.checkpoints)
	}
	// Only one at a time holds the lock, but for a moment between two clock readings.
	if elapsed := time.Since(began); stats.Busy > elapsed*3/2 {
		t.Errorf("busy for %v in %v", stats.Busy, elapsed)
	}
	if stats.Commits != callers*each || stats.CheckpointTime <= 0 || stats.Busy <= 0 {
		t.Errorf("observed %+v", stats)
	}
}

func TestPoolCheckpointOff(t *testing.T) {
	opt := copyOf(t, accounts.SchemaRowid)
	opt.Checkpoint = "off"
	e := start(t, opt, engine.Needs{Access: engine.Pooled})
	observed := observe(e)
	for id := range int64(20) {
		if err := e.Update(t.Context(), nil, add(1+id*1000, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if got := observed(); got.Checkpoints != 0 || got.WALPending < 20*4096 {
		t.Errorf("observed %+v", got)
	}
}

// What the settings say of checkpoints is what is done.
func TestPoolCheckpointPolicy(t *testing.T) {
	for _, tt := range []struct{ policy, mode, says, does string }{
		{"pages:1", "", "pages:1, while nothing runs", "CHECKPOINT PASSIVE"},
		{"pages:1", "restart", "pages:1 restart, while nothing runs", "CHECKPOINT RESTART"},
		{"pages:1", "truncate", "pages:1 truncate, while nothing runs", "CHECKPOINT TRUNCATE"},
		{"idle", "", "stall:10ms, while nothing runs", ""},
	} {
		t.Run(tt.policy+tt.mode, func(t *testing.T) {
			did := ""
			faults := &writertest.Faults{Before: func(e writertest.Event) {
				if strings.HasPrefix(e.SQL, "CHECKPOINT") {
					did = e.SQL
				}
			}}
			opt := copyOf(t, accounts.SchemaRowid)
			opt.Open, opt.Checkpoint, opt.CheckpointMode = faults.Open, tt.policy, tt.mode
			e := start(t, opt, engine.Needs{Access: engine.Pooled})
			if got := e.Settings().Checkpoint; got != tt.says {
				t.Errorf("the settings say %q, want %q", got, tt.says)
			}
			if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
				t.Fatal(err)
			}
			if did != tt.does {
				t.Errorf("it did %q, want %q", did, tt.does)
			}
		})
	}
}

// A checkpoint that waits for readers holds everybody up, so it is less patient than
// its connection, which has its patience back afterwards.
func TestPoolCheckpointPatience(t *testing.T) {
	for _, tt := range []struct{ pragma, waits, after string }{
		{"", "50ms", "5000"}, {"1234", "50ms", "1234"}, {"20", "20ms", "20"},
	} {
		var mu sync.Mutex
		patience, did := map[int]string{}, map[string]string{} // by connection, by checkpoint
		faults := &writertest.Faults{Before: func(e writertest.Event) {
			mu.Lock()
			defer mu.Unlock()
			if timeout, is := strings.CutPrefix(e.SQL, "BUSY TIMEOUT "); is {
				patience[e.Conn] = timeout
			} else if mode, is := strings.CutPrefix(e.SQL, "CHECKPOINT "); is {
				did[mode] = patience[e.Conn]
			}
		}}
		opt := copyOf(t, accounts.SchemaRowid)
		opt.Open, opt.Connections, opt.Checkpoint, opt.CheckpointMode = faults.Open, 2, "pages:1", "restart"
		if tt.pragma != "" {
			opt.Pragmas = map[string]string{"busy_timeout": tt.pragma}
		}
		e := start(t, opt, engine.Needs{Access: engine.Pooled})
		release, err := e.(engine.Pinner).Pin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
			t.Error(err)
		}
		if err := e.Settle(t.Context()); e.Classify(err) != "busy" {
			t.Errorf("Settle with a reader in the way: %v", err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
		for _, mode := range []string{"RESTART", "TRUNCATE"} {
			if did[mode] != tt.waits {
				t.Errorf("busy_timeout %q: %s waits for %q, want %s", tt.pragma, mode, did[mode], tt.waits)
			}
		}
		for _, c := range e.(*pool).conns {
			if got, err := c.Text("PRAGMA busy_timeout"); got != tt.after || err != nil {
				t.Errorf("busy_timeout %q: it is %s afterwards, %v", tt.pragma, got, err)
			}
		}
	}
}

// With a snapshot pinned the WAL outlives Cold, and goes on.
func TestPoolColdPinned(t *testing.T) {
	opt := copyOf(t, accounts.SchemaRowid)
	e := start(t, opt, engine.Needs{Access: engine.Pooled})
	write := func() engine.Stats {
		interval := observe(e)
		for range 5 {
			if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
				t.Fatal(err)
			}
		}
		return interval()
	}
	release, err := e.(engine.Pinner).Pin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := write()
	if err := e.(engine.Cacher).Cold(t.Context()); errors.Is(err, errNoPageCache) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	after := write()
	if after.WALBytes != before.WALBytes || after.WALPending != 2*before.WALPending {
		t.Errorf("%d bytes were written before Cold and %d after it, %d and %d were pending",
			before.WALBytes, after.WALBytes, before.WALPending, after.WALPending)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

// A checkpoint that fails is not the failure of the transaction before it.
func TestPoolCheckpointFails(t *testing.T) {
	faults := &writertest.Faults{}
	var log bytes.Buffer
	opt := copyOf(t, accounts.SchemaRowid)
	opt.Open, opt.Checkpoint = faults.Open, "pages:1"
	opt.Logger = slog.New(slog.NewTextHandler(&log, nil))
	e := start(t, opt, engine.Needs{Access: engine.Pooled})
	faults.Add(writertest.Rule{SQL: "CHECKPOINT PASSIVE", Code: sqliteh.SQLITE_BUSY, Times: 3})
	for range 5 {
		if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
			t.Error(err)
		}
	}
	if faults.Injected() != 3 || strings.Count(log.String(), "checkpoint failed") != 3 {
		t.Errorf("%d faults, the log says:\n%s", faults.Injected(), log.String())
	}
	if got := observe(e)().WALPending; got != 0 {
		t.Errorf("%d bytes are pending after checkpoints that succeeded", got)
	}
}

// Without a free connection a caller waits as long as its context allows.
func TestPoolWaits(t *testing.T) {
	opt := copyOf(t, accounts.SchemaRowid)
	opt.Connections = 1
	e := start(t, opt, engine.Needs{Access: engine.Pooled})
	entered, release, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		held <- e.View(t.Context(), func(engine.Rx) error {
			close(entered)
			<-release
			return nil
		})
	}()
	<-entered
	ctx := ending{t.Context(), make(chan struct{})}
	waiting := make(chan error, 1)
	go func() {
		waiting <- e.Update(ctx, nil, func(engine.Tx) error { t.Error("it ran"); return nil })
	}()
	close(ctx.done)
	if err := <-waiting; !errors.Is(err, errEnded) {
		t.Errorf("the caller that waited: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }() // waits for the View
	close(release)
	if err := errors.Join(<-held, <-closed); err != nil {
		t.Error(err)
	}
}

// A transaction that came while a checkpoint held everybody up says for how long.
func TestPoolCheckpointing(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	faults := &writertest.Faults{Before: func(e writertest.Event) {
		if strings.HasPrefix(e.SQL, "CHECKPOINT") {
			close(entered)
			<-release
		}
	}}
	opt := copyOf(t, accounts.SchemaRowid)
	opt.Open, opt.Checkpoint, opt.Connections = faults.Open, "off", 2
	e := start(t, opt, engine.Needs{Access: engine.Pooled})
	settled, updated := make(chan error, 1), make(chan error, 1)
	go func() { settled <- e.Settle(t.Context()) }()
	<-entered
	var behind, after engine.Timing
	go func() { updated <- e.Update(t.Context(), &behind, add(1, 1)) }()
	interval := observe(e)
	for interval().Queued != 1 {
		runtime.Gosched()
	}
	close(release)
	if err := errors.Join(<-settled, <-updated, e.Update(t.Context(), &after, add(1, 1))); err != nil {
		t.Fatal(err)
	}
	if behind.Checkpointing <= 0 || behind.Checkpointing > behind.Begun-behind.Accepted {
		t.Errorf("behind a checkpoint: %+v", behind)
	}
	if after.Checkpointing != 0 {
		t.Errorf("after it: %+v", after)
	}
}
