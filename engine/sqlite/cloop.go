package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/cloop"
	"github.com/tpssim/tpssim/internal/wal"
	"github.com/tpssim/tpssim/writer"
)

// CLoopConfig are the transfers of CLoop and how they are committed. Transfer i
// moves Amounts[i] from account From[i] to account To[i]; the three are as long as
// each other.
type CLoopConfig struct {
	From, To, Amounts []int64
	// Warm is how many of the transfers run before the clock starts, so that
	// SQLite's cache is filled as that of a writer is that has run before. Their WAL
	// is settled before it starts too.
	Warm int
	// Batch is the number of transfers in one COMMIT, at least 1; the last batch
	// holds what is left.
	Batch int
	// Savepoints gives each transfer a savepoint of its own.
	Savepoints bool
	// Settle moves the WAL into the database afterwards. Without it, and after an
	// error, the WAL stays for whoever opens the database next.
	Settle bool
}

// CLoopResult is what CLoop did. Of a batch that failed nothing is in it, nor in the
// database unless the error is in doubt.
type CLoopResult struct {
	// Elapsed is the time of the loop alone: from before the first BEGIN until the
	// last COMMIT returned, with the checkpoints in between. The last batch is
	// followed by none, as the callers of a writer do not wait for that one.
	Elapsed time.Duration
	// Settling is the time that Settle took.
	Settling time.Duration
	// Warmed is how many transfers were committed before the clock started, from the
	// first on, and Transfers how many after.
	Warmed, Transfers int64
	// Commits, Rows (changed), and Checkpoints while the clock ran.
	Commits, Rows, Checkpoints int64
	CheckpointPages            int64
	CheckpointTime             time.Duration
	// Settings are the effective ones, as read back.
	Settings engine.Settings
}

// CLoopAvailable reports whether CLoop can run in this program, and if not why.
func CLoopAvailable() (ok bool, why string) { return cloop.Available() }

// CLoop runs transfers in one C loop on one thread, with nobody to wait for: the
// ceiling of what a writer can reach with the same pragmas and the same checkpoints
// on the same data set. opt is used as by Open with engine.Queued; what concerns the
// queue, readers, prefetch, savepoints and Open is not used.
//
// It is the one writer of the database while it runs, and holds the writer's lock:
// writer.ErrInUse if an engine has the database open. Where an engine's Update would
// have that error it fails like one: a *writer.BatchError for BEGIN and COMMIT,
// engine.ErrNoAccount, or ctx's own, which is looked at once for each batch. The
// result is valid with every error.
func CLoop(ctx context.Context, opt Options, cfg CLoopConfig) (result CLoopResult, err error) {
	switch {
	case opt.Foreign:
		return result, errors.New("a database that is no account data set has no transfers for a C loop")
	case cfg.Warm < 0 || cfg.Warm > len(cfg.From) || len(cfg.From) != len(cfg.To) || len(cfg.From) != len(cfg.Amounts):
		return result, fmt.Errorf("%d sources, %d targets and %d amounts must be as many, and %d to warm up with at most that",
			len(cfg.From), len(cfg.To), len(cfg.Amounts), cfg.Warm)
	}
	if err := cmp.Or(ctx.Err(), checkPragmas(opt.Pragmas)); err != nil {
		return result, err
	}
	path, err := filepath.EvalSymlinks(opt.Path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return result, err
	}
	release, err := writer.Lock(path)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, release()) }()
	c, err := cloop.Open(path, cmp.Or(opt.busyTimeout, defaultBusyTimeout))
	if err != nil {
		return result, err
	}
	err = result.run(ctx, c, opt, cfg)
	return result, errors.Join(loopError(err), c.Close(err != nil || !cfg.Settle))
}

// run sets the connection up and runs the loop on it.
func (r *CLoopResult) run(ctx context.Context, c *cloop.Conn, opt Options, cfg CLoopConfig) error {
	if err := setLoopPragmas(c, pragmas(opt)); err != nil {
		return err
	}
	s, err := loopSettings(c)
	if err != nil {
		return err
	}
	policy, err := ParseCheckpoint(opt.Checkpoint, opt.CheckpointMode, s.PageSize)
	if err != nil {
		return err
	}
	s.Checkpoint, s.MaxBatch, s.Savepoints = checkpointName(opt), cfg.Batch, "none"
	if cfg.Savepoints {
		s.Savepoints = "each"
	}
	r.Settings = s
	limit := wal.Limit{Most: policy.Pages, Stall: policy.Stall}
	part := func(from, to, first int) cloop.Config {
		return cloop.Config{
			From: cfg.From[from:to], To: cfg.To[from:to], Amount: cfg.Amounts[from:to],
			Batch: cfg.Batch, Savepoints: cfg.Savepoints,
			CheckpointMost: limit.Most, CheckpointFirst: first, CheckpointStall: limit.Stall, CheckpointMode: policy.Mode,
		}
	}
	first := limit.Pages()
	if cfg.Warm > 0 {
		warm, err := c.Run(ctx, part(0, cfg.Warm, first))
		r.Warmed, first = warm.Transfers, warm.CheckpointLimit // as a writer knows what it has learned
		if err != nil {
			return err
		}
		if _, err := c.Settle(); err != nil {
			return err
		}
	}
	timed, err := c.Run(ctx, part(cfg.Warm, len(cfg.From), first))
	r.Elapsed, r.Transfers, r.Commits, r.Rows = timed.Elapsed, timed.Transfers, timed.Commits, timed.Rows
	r.Checkpoints, r.CheckpointPages, r.CheckpointTime = timed.Checkpoints, timed.CheckpointPages, timed.CheckpointTime
	if err != nil {
		if f, ok := errors.AsType[*cloop.Failure](err); ok {
			f.Transfer += cfg.Warm
		}
		return err
	}
	if cfg.Settle {
		r.Settling, err = c.Settle()
	}
	return err
}

// setLoopPragmas sets the pragmas. SQLite ignores one that it does not know, so
// that is asked for.
func setLoopPragmas(c *cloop.Conn, pragmas map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(pragmas)) {
		if _, err := c.Text("PRAGMA " + name + "=" + pragmas[name]); err != nil {
			return err
		}
		quoted := "'" + strings.ReplaceAll(name, "'", "''") + "'"
		known, err := c.Text("SELECT count(*) FROM pragma_pragma_list WHERE name = " + quoted)
		if err != nil {
			return err
		}
		if known == "0" {
			return fmt.Errorf("SQLite has no pragma %s; correct the name", name)
		}
	}
	return nil
}

// loopSettings reads the effective settings back.
func loopSettings(c *cloop.Conn) (s engine.Settings, err error) {
	if s.JournalMode, err = c.Text("PRAGMA journal_mode"); err != nil {
		return s, err
	}
	var sync int64
	for name, dest := range map[string]*int64{
		"synchronous": &sync, "page_size": &s.PageSize, "cache_size": &s.CacheSize, "mmap_size": &s.MmapSize,
	} {
		text, err := c.Text("PRAGMA " + name)
		if err == nil && text != "" { // mmap_size has no answer where there is no mmap
			*dest, err = strconv.ParseInt(text, 10, 64)
		}
		if err != nil {
			return s, fmt.Errorf("pragma %s: %w", name, err)
		}
	}
	s.Synchronous = synchronousName(sync)
	return s, nil
}

// loopError gives a loop's error the form that those of an engine have.
func loopError(err error) error {
	f, ok := errors.AsType[*cloop.Failure](err)
	switch {
	case !ok:
		return err
	case errors.Is(f.Err, cloop.ErrNoAccount):
		return fmt.Errorf("transfer %d: %w: %d", f.Transfer, engine.ErrNoAccount, f.Account)
	case f.Op == "begin":
		return &writer.BatchError{Op: "begin", Err: f}
	case f.Op == "commit":
		return commitError(f)
	}
	return err
}
