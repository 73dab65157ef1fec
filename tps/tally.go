package tps

import (
	"runtime"
	"sync"
)

// tally accumulates what a load observed. It is not safe for concurrent use.
type tally struct {
	limit int64 // acknowledged transactions slower than this are late; 0: none

	acknowledged, failed, late, retries int64

	reads       int64 // all of them, also those that readLatency no longer holds
	errors      map[string]int64
	lastDone    int64 // when the last Op returned, 0: none did
	latency     *histogram
	service     *histogram
	behind      *histogram // intended start to call: the load generator's own delay
	readLatency *histogram
	tries       *histogram // attempts of each acknowledged transaction, not a time
	stages      [stageCount]*histogram
}

func newTally(limit int64) *tally {
	t := &tally{
		limit:       limit,
		errors:      map[string]int64{},
		latency:     newHistogram(),
		service:     newHistogram(),
		behind:      newHistogram(),
		readLatency: newHistogram(),
		tries:       newHistogram(),
	}
	for k := range t.stages {
		t.stages[k] = newHistogram()
	}
	return t
}

// add records n acknowledged transactions that all have the trace tr.
func (t *tally) add(tr *Trace, n int64) {
	t.acknowledged += n
	if t.limit > 0 && tr.Done-tr.Intended > t.limit {
		t.late += n
	}
	t.latency.record(tr.Done-tr.Intended, n)
	t.service.record(tr.Done-tr.Called, n)
	t.tries.record(int64(tr.retries)+1, n)
	for k, span := range tr.stages() {
		t.stages[k].record(span, n)
	}
	t.attempt(tr, n)
}

// fail records n transactions of trace tr that failed with an error of class.
func (t *tally) fail(tr *Trace, n int64, class string) {
	t.failed += n
	t.errors[class] += n
	t.attempt(tr, n)
}

// attempt records what counts whether or not the transaction was acknowledged:
// it was started late or not, its reads and retries happened, and its caller was
// busy until Done.
func (t *tally) attempt(tr *Trace, n int64) {
	t.behind.record(tr.Called-tr.Intended, n)
	t.retries += int64(tr.retries) * n
	t.reads += int64(tr.readCount) * n
	for _, d := range tr.reads[:min(tr.readCount, MaxReads)] {
		t.readLatency.record(d, n)
	}
	t.lastDone = max(t.lastDone, tr.Done)
}

// merge adds other to t.
func (t *tally) merge(other *tally) {
	t.acknowledged += other.acknowledged
	t.failed += other.failed
	t.late += other.late
	t.retries += other.retries
	t.reads += other.reads
	t.lastDone = max(t.lastDone, other.lastDone)
	for class, n := range other.errors {
		t.errors[class] += n
	}
	for k, h := range t.histograms() {
		h.merge(other.histograms()[k])
	}
}

// reset empties t.
func (t *tally) reset() {
	for _, h := range t.histograms() {
		h.reset()
	}
	clear(t.errors)
	empty := tally{limit: t.limit, errors: t.errors, latency: t.latency, service: t.service, behind: t.behind,
		readLatency: t.readLatency, tries: t.tries, stages: t.stages}
	*t = empty
}

// histograms returns all of them, always in the same order.
func (t *tally) histograms() []*histogram {
	return append([]*histogram{t.latency, t.service, t.behind, t.readLatency, t.tries}, t.stages[:]...)
}

// clamped returns how many latencies did not fit the histogram.
func (t *tally) clamped() int64 { return t.latency.clamped }

// maxShards bounds the memory of a sharded tally: one shard takes about 9 MB, and
// beyond 16 the mutexes are no longer what a load waits for.
const maxShards = 16

// shardedTally lets many goroutines record at once: each uses the shard of its
// number, so that two seldom want the same mutex. Another goroutine takes what was
// recorded out from time to time; a shard is locked for no longer than it takes to
// exchange two pointers, because those who record are part of what is measured.
type shardedTally struct {
	shards []tallyShard
	// Of the one who takes.
	whole    *tally     // all that was taken
	interval *histogram // latencies of what was taken last
}

type tallyShard struct {
	mu           sync.Mutex
	tally, spare *tally
}

func newShardedTally(limit int64) *shardedTally {
	s := &shardedTally{
		shards:   make([]tallyShard, min(2*runtime.GOMAXPROCS(0), maxShards)),
		whole:    newTally(limit),
		interval: newHistogram(),
	}
	for k := range s.shards {
		s.shards[k].tally, s.shards[k].spare = newTally(limit), newTally(limit)
	}
	return s
}

// shard locks the shard of number i and returns its tally.
func (s *shardedTally) shard(i uint64) (t *tally, unlock func()) {
	shard := &s.shards[i%uint64(len(s.shards))]
	shard.mu.Lock()
	return shard.tally, shard.mu.Unlock
}

// add and fail are tally's, in the shard of number i; skip records a transaction
// that was skipped.

func (s *shardedTally) add(i uint64, tr *Trace) {
	t, unlock := s.shard(i)
	defer unlock()
	t.add(tr, 1)
}

func (s *shardedTally) fail(i uint64, tr *Trace, class string) {
	t, unlock := s.shard(i)
	defer unlock()
	t.fail(tr, 1, class)
}

func (s *shardedTally) skip(i uint64, tr *Trace) {
	t, unlock := s.shard(i)
	defer unlock()
	t.attempt(tr, 1)
}

// addBatch records a batch of trace tr: so many that were acknowledged, and those
// that failed with a class.
func (s *shardedTally) addBatch(tr *Trace, acknowledged int64, classes []string) {
	t, unlock := s.shard(0)
	defer unlock()
	if acknowledged > 0 {
		t.add(tr, acknowledged)
	}
	for _, class := range classes {
		if class != "" {
			t.fail(tr, 1, class)
		}
	}
}

// take moves what was recorded since the last take into whole, and leaves its
// latencies in interval. It returns whole, which is complete when no one records
// any more.
func (s *shardedTally) take() *tally {
	s.interval.reset()
	for k := range s.shards {
		shard := &s.shards[k]
		shard.mu.Lock()
		shard.tally, shard.spare = shard.spare, shard.tally
		shard.mu.Unlock()
		s.interval.merge(shard.spare.latency)
		s.whole.merge(shard.spare)
		shard.spare.reset()
	}
	return s.whole
}
