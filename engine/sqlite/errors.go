package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/writer"
)

// health remembers the storage failure that stopped an engine. The writer does so
// for its own batches; this is for every other COMMIT and checkpoint.
type health struct{ failure atomic.Pointer[error] }

// check returns ErrStopped after a storage failure.
func (h *health) check() error {
	if err := h.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// committed looks at the outcome of a COMMIT or a checkpoint and returns it. After
// these codes, as in the writer, an fsync that succeeds later proves nothing.
func (h *health) committed(err error) error {
	switch writer.Primary(err) {
	case sqliteh.SQLITE_IOERR, sqliteh.SQLITE_CORRUPT, sqliteh.SQLITE_NOTADB:
		failure := fmt.Errorf("%w: %w", engine.ErrStopped, err)
		h.failure.CompareAndSwap(nil, &failure)
	}
	return err
}

// stopped marks the error of a writer that a storage failure stopped.
func stopped(err error) error {
	if errors.Is(err, writer.ErrFailed) {
		return fmt.Errorf("%w: %w", engine.ErrStopped, err)
	}
	return err
}

// inDoubt implements engine.Engine for every way in.
func inDoubt(err error) (group any, ok bool) {
	if errors.Is(err, engine.ErrStopped) {
		return nil, false // it did not run; the cause is somebody else's
	}
	if be, is := errors.AsType[*writer.BatchError](err); is && be.InDoubt {
		return be, true
	}
	return nil, false
}

// commitError is the error of a COMMIT that was not the writer's.
func commitError(err error) *writer.BatchError {
	code := writer.Primary(err)
	return &writer.BatchError{Op: "commit", Err: err, InDoubt: code == sqliteh.SQLITE_IOERR || code == sqliteh.SQLITE_FULL}
}

// classes names errors. Of those that one error matches the first counts, so that
// it has the same name each time.
var classes = []struct {
	name   string
	target error
}{
	{"stopped", writer.ErrFailed},
	{"closed", writer.ErrClosed},
	{"queue full", writer.ErrQueueFull},
	{"timeout", writer.ErrTxTimeout},
	{"deadline", context.DeadlineExceeded},
	{"cancelled", context.Canceled},
	{"no account", engine.ErrNoAccount},
}

// classify implements engine.Engine for every way in.
func classify(err error) string {
	if errors.Is(err, engine.ErrStopped) {
		return "stopped" // its cause is somebody else's
	}
	if be, ok := errors.AsType[*writer.BatchError](err); ok {
		switch {
		case be.InDoubt:
			return "in doubt"
		case be.Op == "begin" && writer.Primary(err) == sqliteh.SQLITE_BUSY:
			return "busy"
		}
		return be.Op + " failed"
	}
	if _, ok := errors.AsType[*writer.PanicError](err); ok {
		return "panic"
	}
	for _, c := range classes {
		if errors.Is(err, c.target) {
			return c.name
		}
	}
	switch code := writer.Primary(err); code {
	case sqliteh.SQLITE_OK:
		return "error"
	case sqliteh.SQLITE_BUSY:
		return "busy"
	case sqliteh.SQLITE_CONSTRAINT:
		return "constraint"
	default:
		return "sqlite " + strings.ToLower(strings.TrimPrefix(code.String(), "SQLITE_"))
	}
}
