package writer

import (
	"log/slog"
	"reflect"
	"runtime"
	"time"
)

// slowHold is how long a function may hold the writer before the log names it,
// when there is no TxTimeout.
const slowHold = time.Second

// holder is a function that runs on the writer goroutine.
type holder struct {
	fn    any
	since int64
	tx    *Tx // nil for Exclusive
}

// name returns the function's name, as "package.function".
func (h *holder) name() string {
	if f := runtime.FuncForPC(reflect.ValueOf(h.fn).Pointer()); f != nil {
		return f.Name()
	}
	return "unknown"
}

func (h *holder) held() time.Duration { return time.Duration(Now() - h.since) }

// hold publishes who runs on the writer goroutine; nil means nobody. While a
// statement may be interrupted it waits for that to be over, so that an interrupt
// never meets the work that comes next.
func (w *Writer) hold(h *holder) {
	if w.opt.TxTimeout > 0 {
		w.watchMu.Lock()
		defer w.watchMu.Unlock()
	}
	w.holding.Store(h)
}

// watch starts the goroutine that interrupts and reports functions that hold the
// writer for too long. Without a use for it, there is none.
func (w *Writer) watch() {
	w.watchStop = func() {}
	limit := w.opt.TxTimeout
	if limit == 0 {
		limit = slowHold
		if w.opt.Logger == nil {
			return
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	w.watchStop = func() {
		close(stop)
		<-stopped
	}
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(max(limit/4, time.Millisecond))
		defer ticker.Stop()
		var reported *holder
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			h := w.holding.Load()
			if h == nil || h.held() < limit {
				continue
			}
			w.interrupt(h)
			if h != reported {
				reported = h
				w.log(slog.LevelWarn, "a function holds the writer", "function", h.name(), "held", h.held())
			}
		}
	}()
}

// interrupt ends the running statement of h, if h still runs and TxTimeout is for
// it. It is called again as long as h goes on: SQLite forgets an interrupt that
// comes between two statements.
func (w *Writer) interrupt(h *holder) {
	if w.opt.TxTimeout == 0 || h.tx == nil {
		return
	}
	w.watchMu.Lock()
	defer w.watchMu.Unlock()
	if w.holding.Load() == h {
		h.tx.timedOut.Store(true)
		w.conn.db.Interrupt()
	}
}
