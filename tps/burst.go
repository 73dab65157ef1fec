package tps

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// burst starts a goroutine for every transaction, as fast as they start.
//
// While the clock runs a transaction only writes to its own Trace; histograms
// are filled afterwards. The traces are allocated and touched beforehand, so
// that neither the allocator nor the kernel's page faults are timed.
type burst struct {
	*runner
	start int64
	first uint64 // number of the first transaction
	wg    sync.WaitGroup

	spawned atomic.Int64 // in steps of spawnStep, for the memory sample

	mu        sync.Mutex // failures are expected to be few
	errors    map[string]int64
	classes   map[int]string // of each failure, for Config.Record
	cancelled bool           // one failed because ctx ended
}

// spawnStep is how many goroutines are started between two looks at ctx.
const spawnStep = 64

// prepareBurst readies the traces. It is not timed.
func (r *runner) prepareBurst() {
	if r.traces == nil {
		r.traces = make([]Trace, r.cfg.Transactions)
	}
	clear(r.traces) // even fresh ones: the write is what maps their pages
}

// burst runs one burst. Transactions that had not started when ctx ended count
// neither as acknowledged nor as failed.
func (r *runner) burst(ctx context.Context, cold bool) outcome {
	n := len(r.traces)
	b := &burst{runner: r, errors: map[string]int64{}, classes: map[int]string{}}
	b.first = r.seq.Add(uint64(n)) - uint64(n)
	if cold {
		defer b.watchMemory()()
	}
	b.wg.Add(n)
	b.start = r.now()
	load, finish := r.sample(ctx, b.start, nil, b.waiting)
	started := 0
	for started < n {
		if started%spawnStep == 0 {
			if load.Err() != nil {
				break
			}
			b.spawned.Store(int64(started))
			runtime.Gosched()
		}
		go b.one(ctx, started)
		started++
	}
	spawn := r.now() - b.start
	b.wg.Add(started - n)
	b.spawned.Store(int64(started))
	if cold {
		r.peak.observe(b.crowd())
	}
	b.wg.Wait()
	o := outcome{start: b.start, spawn: spawn, cut: started < n, series: finish(), interrupted: b.interrupted(ctx)}
	o.fold = func() *tally {
		sampleTraces(o.series, b.traces, b.start)
		return b.fold()
	}
	return o
}

// one runs transaction k of the burst. What surrounds Op is in functions of its
// own: a goroutine starts with a stack of 2 KiB, and every byte of this frame
// brings the waiting Op closer to the moment when that is doubled.
func (b *burst) one(ctx context.Context, k int) {
	if tr := b.begin(ctx, k); tr != nil {
		b.end(ctx, k, b.cfg.Op(ctx, b.first+uint64(k), tr))
	}
	b.wg.Done()
}

// begin returns the trace of transaction k, nil when ctx has ended.
//
//go:noinline
func (b *burst) begin(ctx context.Context, k int) *Trace {
	if ctx.Err() != nil {
		return nil
	}
	tr := &b.traces[k]
	tr.Intended = b.start
	tr.Called = b.now()
	return tr
}

// end records the outcome of transaction k.
//
//go:noinline
func (b *burst) end(ctx context.Context, k int, err error) {
	tr := &b.traces[k]
	tr.Done = b.now()
	b.meter.count(b.first+uint64(k), 1, err == nil)
	if err == nil {
		tr.state = traceAcknowledged
		return
	}
	tr.state = traceFailed
	class, cancelled := b.class(ctx, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors[class]++
	if b.cfg.Record != nil {
		b.classes[k] = class
	}
	b.cancelled = b.cancelled || cancelled
}

// interrupted tells whether the end of ctx kept a transaction from its outcome.
func (b *burst) interrupted(ctx context.Context) bool {
	if b.cancelled || ctx.Err() == nil {
		return b.cancelled
	}
	for k := range b.traces {
		if b.traces[k].state == traceUnused {
			return true
		}
	}
	return false
}

// fold fills the histograms from the traces.
func (b *burst) fold() *tally {
	t := newTally(int64(b.cfg.LatencyLimit))
	for k := range b.traces {
		switch tr := &b.traces[k]; tr.state {
		case traceAcknowledged:
			t.add(tr, 1)
			b.record(b.first+uint64(k), tr, "")
		case traceFailed:
			t.failed++
			t.attempt(tr, 1)
			b.record(b.first+uint64(k), tr, b.classes[k])
		}
	}
	t.errors = b.errors
	return t
}

// waiting returns how many transactions are on their way.
func (b *burst) waiting() int64 {
	waiting, _ := b.crowd()
	return waiting
}

// crowd returns how many transactions are on their way, and how many have arrived.
func (b *burst) crowd() (waiting, done int64) {
	done = b.meter.finished()
	return b.spawned.Load() - done, done
}

// watchMemory samples the memory of the waiting goroutines until the function
// that it returns is called.
func (b *burst) watchMemory() (stop func()) {
	b.peak.before = heapAndStacks()
	quit := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { b.peak.watch(b.crowd, quit) })
	return func() {
		close(quit)
		watcher.Wait()
	}
}
