package tps

import (
	"sync"
	"sync/atomic"
	"time"
)

// Phase is what Run is doing.
type Phase string

// The phases that a Meter shows. Preparing covers all that is not timed: hooks,
// settling, folding of histograms.
const (
	Preparing Phase = ""
	WarmingUp Phase = "warm-up"
	ColdRun   Phase = "cold"
	Measuring Phase = "run"
)

// Progress is the state of a load at one instant. Transactions and Duration are
// the bounds of the phase, 0 where it has none.
type Progress struct {
	Phase        Phase
	Run          int // index in Result.Runs
	Transactions int64
	Duration     time.Duration
	Elapsed      time.Duration
	Acknowledged int64
	Failed       int64
	Dropped      int64
	Skipped      int64
}

// Meter lets another goroutine watch a load: give Config a pointer to a zero
// Meter and call Snapshot as often as a line of progress is wanted. The load
// pays one uncontended atomic addition a transaction. It must not be copied, and
// serves one Run at a time.
type Meter struct {
	mu    sync.Mutex
	now   func() int64
	start int64
	state Progress // all but the counts and Elapsed

	counts           [meterShards]meterCounts
	dropped, skipped atomic.Int64
}

// meterShards spreads the counters so that two cores seldom meet on one line.
const meterShards = 16

type meterCounts struct {
	acknowledged, failed atomic.Int64
	_                    [48]byte // the rest of a cache line
}

// Snapshot returns the progress of the current phase. While Preparing the
// counts are those of the phase that has just ended, and Elapsed is 0.
func (m *Meter) Snapshot() Progress {
	m.mu.Lock()
	p := m.state
	if p.Phase != Preparing {
		p.Elapsed = time.Duration(m.now() - m.start)
	}
	m.mu.Unlock()
	for k := range m.counts {
		p.Acknowledged += m.counts[k].acknowledged.Load()
		p.Failed += m.counts[k].failed.Load()
	}
	p.Dropped, p.Skipped = m.dropped.Load(), m.skipped.Load()
	return p
}

// begin starts a phase at zero.
func (m *Meter) begin(p Progress, now func() int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now, m.start, m.state = now, now(), p
	for k := range m.counts {
		m.counts[k].acknowledged.Store(0)
		m.counts[k].failed.Store(0)
	}
	m.dropped.Store(0)
	m.skipped.Store(0)
}

// prepare ends the phase; its counts stay until the next one begins.
func (m *Meter) prepare() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Phase = Preparing
}

// count adds n transactions with the same outcome, the first numbered i.
func (m *Meter) count(i uint64, n int64, ok bool) {
	c := &m.counts[i%meterShards]
	if ok {
		c.acknowledged.Add(n)
	} else {
		c.failed.Add(n)
	}
}

// finished returns how many transactions have an outcome in this phase.
func (m *Meter) finished() (n int64) {
	for k := range m.counts {
		n += m.counts[k].acknowledged.Load() + m.counts[k].failed.Load()
	}
	return n + m.skipped.Load()
}
