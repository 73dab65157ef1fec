package writer

import (
	"context"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/nowait"
)

// prefetch reads what transactions are about to need, on the goroutines of their
// callers and before they are queued. The writer has one connection and waits for
// one page after the other; beside it as many reads wait for the disk as there are
// places here, and what they bring into the operating system's cache the writer
// finds there.
//
// Where a read can be told not to wait (package nowait), a touch that misses a page is
// tried again a little later, and a connection or two serve all places. Otherwise each
// place has a connection. That was all there was at first, and it starved the writer: a
// thread that waits for the disk keeps one of Go's processors until the scheduler takes
// it away, and with 32 of them in front of it the writer got its turn once in a
// millisecond.
//
// Goroutines that read what is in the queue were rejected: they would race with the
// writer for the requests at its head, which are those that it needs next. A caller
// that reads first makes nobody wait but itself.
type prefetch struct {
	places  chan struct{} // one message for each touch that is under way
	readers *readers
	pace    pace
	epochs  epochs
	touched atomic.Uint64
	misses  atomic.Uint64
}

// prefetchCache is the page cache of each of the connections, in the words of PRAGMA
// cache_size: 2 MiB. It is for the upper levels of a few B-trees: what lies below is
// read once and for another connection, whose cache does not profit from this one.
const prefetchCache = "-2048"

// openPrefetch makes opt.Prefetch places, or returns nil when that is 0.
func openPrefetch(opt Options, path string) (*prefetch, error) {
	if opt.Prefetch == 0 {
		return nil, nil
	}
	opt.Pragmas = maps.Clone(opt.Pragmas)
	opt.Pragmas["cache_size"] = prefetchCache
	opt.Pragmas["mmap_size"] = "0" // a page that is mapped is waited for
	open := opt.Open
	var files []*nowait.File
	opt.Open = func(name string, flags sqliteh.OpenFlags, vfs string) (db sqliteh.DB, err error) {
		files = append(files, nowait.Open(func() { db, err = open(name, flags, vfs) }))
		return db, err
	}
	opt.Readers = min(opt.Prefetch, max(runtime.GOMAXPROCS(0)-1, 1)) // one processor is the writer's
	rs, err := openReaders(opt, path)
	if err == nil && slices.Contains(files, nil) && opt.Readers < opt.Prefetch {
		if err = rs.close(); err == nil {
			opt.Readers, files = opt.Prefetch, nil
			rs, err = openReaders(opt, path)
		}
	}
	if err != nil {
		return nil, err
	}
	for k, c := range rs.all {
		c.busyTimeout(0) // a hint is not worth waiting for a lock
		c.file = files[k]
		c.file.Enable(true)
	}
	return &prefetch{places: make(chan struct{}, opt.Prefetch), readers: rs}, nil
}

// close waits for those who read and closes the connections, if there are any.
func (p *prefetch) close() error {
	if p == nil {
		return nil
	}
	p.readers.drain(ErrClosed)
	return p.readers.close()
}

// touch runs a call's Touch if it is due. It is not inlined for the sake of the many
// callers that wait in DoCall, each with a stack of its own.
//
//go:noinline
func (w *Writer) touch(ctx context.Context, fn func(*Rx) error) error {
	if !w.prefetch.pace.due() {
		return nil
	}
	return w.touchNow(ctx, fn)
}

const (
	// touchTries bounds how often a Touch is run: for each level of some B-trees, and
	// as often again for pages that took longer than a pause.
	touchTries = 20
	// touchPause is how long a page takes that must be fetched, more or less: a
	// try that comes too early costs as much as one that finds it.
	touchPause = 500 * time.Microsecond
)

// touchNow runs a call's Touch until it finds everything in memory, unless the call
// will be refused. The error is a panic in Touch; of everything else the call itself
// will tell.
func (w *Writer) touchNow(ctx context.Context, fn func(*Rx) error) error {
	if w.refuse(ctx) != nil || w.failed() != nil {
		return nil
	}
	p := w.prefetch
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-w.closing:
		return nil
	case <-ctx.Done():
		return nil
	}
	missed := false
	for try := range touchTries {
		outcome, err := w.tryTouch(ctx, fn)
		if err != nil || outcome == touchRefused {
			return err
		}
		if try == 0 {
			p.touched.Add(1)
		}
		missed = missed || outcome != touchFound
		if outcome != touchFailed {
			break
		}
		time.Sleep(touchPause)
	}
	if p.pace.judge(missed); missed {
		p.misses.Add(1)
	}
	return nil
}

// touchOutcome is what one try of a Touch came to.
type touchOutcome int

const (
	touchRefused touchOutcome = iota // it did not run: ctx has ended, or the writer is closing
	touchFound                       // everything was in memory
	touchWaited                      // for something that was not
	touchFailed                      // instead of waiting; it is being fetched
)

// tryTouch runs a call's Touch once. The error is its panic.
func (w *Writer) tryTouch(ctx context.Context, fn func(*Rx) error) (outcome touchOutcome, err error) {
	p := w.prefetch
	var epoch *atomic.Int64
	defer func() { // its snapshot is over, also when fn called runtime.Goexit
		if epoch != nil {
			epoch.Add(-1)
		}
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	p.readers.view(ctx, w.closing, func(rx *Rx) error {
		epoch = p.epochs.enter()
		file := rx.conn.file
		misses, start := file.Misses(), Now()
		fn(rx)
		switch outcome = touchFound; {
		case file.Misses() != misses:
			outcome = touchFailed
		case file == nil && Now()-start >= int64(touchMiss):
			outcome = touchWaited
		}
		return nil
	})
	return outcome, nil
}

// settle waits until the touches are over that began before the last commit, as long
// as patience lasts. A checkpoint moves nothing that is newer than the oldest snapshot,
// and where transactions are touched all the time one of them always has an old one:
// the WAL would never be emptied. Those that begin meanwhile see that commit, and go on.
func (p *prefetch) settle(patience time.Duration) {
	if p == nil {
		return
	}
	before := p.epochs.next()
	for end := Now() + int64(patience); before.Load() > 0 && Now() < end; {
		time.Sleep(settlePoll)
	}
}

const (
	// settlePatience is how long a checkpoint waits for touches: ten times as long as
	// two reads from a disk take, and little beside what it takes itself. A Touch that
	// is slower hinders it, as a View would.
	settlePatience = 2 * time.Millisecond
	settlePoll     = 20 * time.Microsecond
)

// epochs counts those who are under way apart from those who came later. There are
// two counters, used in turn: who is too slow to be waited for is counted with the
// epoch after the next.
type epochs struct {
	number atomic.Uint32
	inside [2]atomic.Int64
}

// enter counts somebody in, who counts himself out of the counter.
func (e *epochs) enter() *atomic.Int64 {
	c := &e.inside[e.number.Load()%2]
	c.Add(1)
	return c
}

// next begins an epoch and returns the counter of the one before. It is for one
// goroutine.
func (e *epochs) next() *atomic.Int64 { return &e.inside[(e.number.Add(1)-1)%2] }

const (
	// touchMiss is how long a Touch takes that has waited for a disk, where only time can
	// tell: reading a page that is in memory takes some microseconds, a random read of
	// the fastest disks 60 and more.
	touchMiss = 50 * time.Microsecond
	// maxTouchShift bounds how rare touches become where everything is in memory: one
	// call in 1024, so that they cost next to nothing and it is still seen within some
	// milliseconds that the load has moved to where it is not.
	maxTouchShift = 10
)

// pace decides which calls are touched: all of them as long as that finds what is
// not in memory; after each that does not, half as many. A miss halves the number of
// such halvings: a few in a row are all it takes to touch every call again, and one
// that was no miss, but a touch that had to wait for a core, is made up for by a few
// more touches. It is for many goroutines at once and has no lock: a decision that
// comes a call too late does no harm.
type pace struct {
	shift atomic.Uint32 // one call in 1<<shift is touched
	calls atomic.Uint64 // counted while that is not each
}

// due counts a call and tells whether it is to be touched.
func (p *pace) due() bool {
	shift := p.shift.Load()
	return shift == 0 || p.calls.Add(1)&(1<<shift-1) == 0
}

// judge learns from a touch.
func (p *pace) judge(missed bool) {
	shift := p.shift.Load()
	switch {
	case missed:
		p.shift.Store(shift / 2)
	case shift < maxTouchShift:
		p.shift.CompareAndSwap(shift, shift+1) // unless there was a miss meanwhile
	}
}
