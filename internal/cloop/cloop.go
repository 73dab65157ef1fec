// Package cloop does bank transfers in one hand-written C loop, as fast as one
// thread can that waits for nobody: the ceiling that a writer with a queue is
// measured against.
//
// One call from Go runs the whole loop, and nothing in it calls back into Go. The
// transfers are arrays that were drawn beforehand. What is left is SQLite's own
// work, with the statements, the settings and the checkpoints of the writer.
//
// # Whose SQLite
//
// The loop calls the SQLite that the driver has linked into this program, so that
// both sides of the measurement run the same machine code; package driversym finds
// its functions. In a program that does not show them [Available] says so and
// nothing else works.
//
// Rejected:
//   - the driver's calls, one for each bind and step, from Go: they are part of what
//     is measured;
//   - a second copy of SQLite with names of its own: it would not know of the
//     driver's file locks;
//   - a program of its own in C: it would need a compiler where tpssim runs, and
//     would find other caches and another process's locks.
//
// # The one writer
//
// SQLite up to 3.51.2 can corrupt a WAL database when one connection checkpoints
// while another resets the WAL. The loop commits and checkpoints, so while a [Conn]
// is open the caller holds the lock of package writer on its file, and nothing else
// writes to it.
package cloop

// #include <stdlib.h>
// #include "cloop.h"
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/driversym"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/internal/wal"
)

// ErrUnavailable means that the driver's SQLite cannot be called from here.
var ErrUnavailable = errors.New("cloop: this program's SQLite cannot be called directly")

// ErrNoAccount means that a transfer named an account that is not there, or is
// there more than once.
var ErrNoAccount = errors.New("cloop: no account with this id")

// Failure says where a loop ended early, and why.
type Failure struct {
	// Op is prepare, begin, savepoint, update, release, commit or checkpoint.
	Op string
	// Transfer is the index of the transfer; for begin and commit of the first of
	// the batch, for checkpoint of the first that was not run.
	Transfer int
	Account  int64 // that an UPDATE did not find, with ErrNoAccount
	Err      error // a *sqlconn.Error, or ErrNoAccount
}

func (f *Failure) Error() string {
	if f.Err == ErrNoAccount {
		return fmt.Sprintf("%v: account %d, transfer %d", f.Err, f.Account, f.Transfer)
	}
	return fmt.Sprintf("cloop: %s, transfer %d: %v", f.Op, f.Transfer, f.Err)
}

func (f *Failure) Unwrap() error { return f.Err }

// linked looks SQLite's functions up, once.
var linked = sync.OnceValue(func() error { return link(driversym.Find) })

// Available reports whether the loop can run in this program, and if not why.
func Available() (ok bool, why string) {
	if err := linked(); err != nil {
		return false, err.Error()
	}
	return true, ""
}

// link sets the functions that the loop calls, all or none.
func link(find func(name string) (unsafe.Pointer, error)) error {
	found := make([]unsafe.Pointer, C.cloop_symbol_count())
	for i := range found {
		var err error
		if found[i], err = find(C.GoString(C.cloop_symbol_name(C.int(i)))); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	for i, address := range found {
		C.cloop_symbol_set(C.int(i), address)
	}
	return nil
}

// Conn is a read-write connection for loops. One goroutine at a time uses it.
type Conn struct {
	db   *C.sqlite3
	path string
}

// Open opens path, which must exist, be absolute and free of symbolic links, with
// SQLite's own checkpoints off. A statement waits up to busy for another process's
// lock. The caller holds the writer's lock on path until Close returned.
func Open(path string, busy time.Duration) (*Conn, error) {
	return open(linked, path, busy)
}

func open(linked func() error, path string, busy time.Duration) (*Conn, error) {
	if err := linked(); err != nil {
		return nil, err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	c := &Conn{path: path}
	if rc := C.cloop_open(name, &c.db); rc != 0 {
		err := c.failure(rc)
		C.cloop_close(c.db, 0) // a failed open may still leave a handle
		return nil, fmt.Errorf("cloop: cannot open %s: %w", path, err)
	}
	C.cloop_busy_timeout(c.db, C.int(min(max(busy.Milliseconds(), 0), math.MaxInt32)))
	return c, nil
}

// failure returns the connection's last error, which had code rc.
func (c *Conn) failure(rc C.int) error {
	var text [C.CLOOP_TEXT]C.char
	C.cloop_message(c.db, &text[0])
	return &sqlconn.Error{Code: sqliteh.Code(rc), Msg: C.GoString(&text[0])}
}

// Text runs one statement, such as a pragma, and returns the first column of its
// last row, "" without rows, at most 255 bytes. Anything behind the statement is
// refused.
func (c *Conn) Text(sql string) (string, error) {
	query := C.CString(sql)
	defer C.free(unsafe.Pointer(query))
	var text [C.CLOOP_TEXT]C.char
	switch rc := C.cloop_query(c.db, query, &text[0]); rc {
	case 0:
		return C.GoString(&text[0]), nil
	case C.CLOOP_NOT_ONE:
		return "", fmt.Errorf("cloop: %s: must be one statement", sql)
	default:
		return "", fmt.Errorf("cloop: %s: %w", sql, c.failure(rc))
	}
}

// Config is a loop. From, To and Amount are as long as each other; transfer i moves
// Amount[i] from the account From[i] to To[i].
type Config struct {
	From, To, Amount []int64
	// Batch is the number of transfers in one COMMIT, at least 1. The last batch
	// holds what is left.
	Batch int
	// Savepoints gives each transfer a savepoint of its own.
	Savepoints bool
	// CheckpointMost and CheckpointStall are the wal.Limit above which a checkpoint in
	// CheckpointMode runs after a batch; at four times CheckpointMost it is a RESTART,
	// as in the writer. CheckpointMost 0 means none. After the last batch there is
	// none: the writer's callers do not wait for it either.
	CheckpointMost  int
	CheckpointStall time.Duration
	// CheckpointFirst is the limit to begin with, such as the CheckpointLimit of the
	// loop before. 0 means that of a new wal.Limit.
	CheckpointFirst int
	CheckpointMode  sqliteh.Checkpoint
}

// Result is what a loop did. What a failed batch did is rolled back and not in it.
type Result struct {
	// Elapsed is the time from before the first BEGIN until the last COMMIT
	// returned, or until the loop ended early. Checkpoints in between are part of it.
	Elapsed time.Duration
	// Transfers that are committed, with as many COMMITs, and Rows that they changed.
	Transfers, Commits, Rows int64
	// Checkpoints, the time that they took, and the pages that they moved.
	Checkpoints, CheckpointPages int64
	CheckpointTime               time.Duration
	// CheckpointLimit is what the limit has become, in pages.
	CheckpointLimit int
}

// check refuses a loop that makes no sense.
func (cfg *Config) check() error {
	switch {
	case cfg.Batch < 1:
		return fmt.Errorf("cloop: a batch of %d, must be at least 1", cfg.Batch)
	case len(cfg.From) != len(cfg.To) || len(cfg.From) != len(cfg.Amount):
		return fmt.Errorf("cloop: %d sources, %d targets and %d amounts, must be as many",
			len(cfg.From), len(cfg.To), len(cfg.Amount))
	case cfg.CheckpointMost < 0 || cfg.CheckpointMost > math.MaxInt32:
		return fmt.Errorf("cloop: a checkpoint at %d pages, must be from 0 to %d", cfg.CheckpointMost, math.MaxInt32)
	case cfg.CheckpointFirst < 0 || cfg.CheckpointFirst > cfg.CheckpointMost:
		return fmt.Errorf("cloop: the first checkpoint at %d pages, must be from 0 to %d", cfg.CheckpointFirst, cfg.CheckpointMost)
	case cfg.CheckpointStall < 0:
		return fmt.Errorf("cloop: a checkpoint to take %v, must be 0 or more", cfg.CheckpointStall)
	}
	return nil
}

// Run runs a loop on one thread and returns what it did, also with an error. That
// is a *Failure, or ctx's own: whether ctx has ended is looked at once for each
// batch.
func (c *Conn) Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cmp.Or(cfg.check(), ctx.Err()); err != nil {
		return Result{}, err
	}
	text, err := c.Text("PRAGMA busy_timeout") // whoever set it
	if err != nil {
		return Result{}, err
	}
	busy, err := strconv.Atoi(text)
	if err != nil {
		return Result{}, fmt.Errorf("cloop: busy timeout: %w", err)
	}
	limit := wal.Limit{Most: cfg.CheckpointMost, Stall: cfg.CheckpointStall}
	savepoints := C.int(0)
	if cfg.Savepoints {
		savepoints = 1
	}
	log := C.CString(c.path + "-wal")
	defer C.free(unsafe.Pointer(log))
	config := C.cloop_config{
		n:                C.int64_t(len(cfg.From)),
		batch:            C.int64_t(cfg.Batch),
		savepoints:       savepoints,
		busy_ms:          C.int(busy),
		checkpoint_most:  C.int64_t(limit.Most),
		checkpoint_first: C.int64_t(cmp.Or(cfg.CheckpointFirst, limit.Pages())),
		checkpoint_least: C.int64_t(min(wal.Least, limit.Most)),
		stall_ns:         C.int64_t(limit.Stall),
		checkpoint_mode:  C.int(cfg.CheckpointMode),
		wal:              log,
	}
	// The C loop reads this while Go writes it. It lives in Go's memory, which does
	// not move and is kept as long as the call runs, so that an end of ctx that comes
	// after the call cannot meet freed memory.
	cancel := new(int32)
	stop := context.AfterFunc(ctx, func() { atomic.StoreInt32(cancel, 1) })
	defer stop()
	var out C.cloop_result
	C.cloop_run(c.db, &config, array(cfg.From), array(cfg.To), array(cfg.Amount),
		(*C.int32_t)(unsafe.Pointer(cancel)), &out)
	return result(&out), ended(ctx, &out, len(cfg.From))
}

// array returns where a slice's values are, for C.
func array(values []int64) *C.int64_t {
	return (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(values)))
}

func result(out *C.cloop_result) Result {
	return Result{
		Elapsed:         time.Duration(out.elapsed_ns),
		Transfers:       int64(out.transfers),
		Commits:         int64(out.commits),
		Rows:            int64(out.changed),
		Checkpoints:     int64(out.checkpoints),
		CheckpointPages: int64(out.checkpoint_pages),
		CheckpointTime:  time.Duration(out.checkpoint_ns),
		CheckpointLimit: int(out.checkpoint_limit),
	}
}

// ended returns why a loop of n transfers ended before it was done, or nil.
func ended(ctx context.Context, out *C.cloop_result, n int) error {
	switch {
	case out.op == nil && int(out.transfers) == n:
		return nil
	case out.op == nil:
		return ctx.Err()
	}
	f := &Failure{Op: C.GoString(out.op), Transfer: int(out.transfer)}
	if out.code == 0 {
		f.Err, f.Account = ErrNoAccount, int64(out.account)
	} else {
		f.Err = &sqlconn.Error{Code: sqliteh.Code(out.code), Msg: C.GoString(&out.message[0])}
	}
	return f
}

// Settle moves the whole WAL into the database and empties it, and returns how long
// that took.
func (c *Conn) Settle() (time.Duration, error) {
	start := time.Now()
	rc := C.cloop_truncate(c.db)
	took := time.Since(start)
	if rc != 0 {
		return took, fmt.Errorf("cloop: checkpoint: %w", c.failure(rc))
	}
	return took, nil
}

// Close closes the connection. With keepWAL the WAL stays as it is, for whoever
// opens the database next; otherwise the last connection to a database moves it
// into the database and removes it.
func (c *Conn) Close(keepWAL bool) error {
	keep := C.int(0)
	if keepWAL {
		keep = 1
	}
	db := c.db
	c.db = nil
	if rc := C.cloop_close(db, keep); rc != 0 {
		return fmt.Errorf("cloop: close: %w", sqliteh.CodeAsError(sqliteh.Code(rc)))
	}
	return nil
}
