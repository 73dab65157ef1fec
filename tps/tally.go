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
	t.behind.record(tr.Called-tr.Intended, n)
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
// its reads and retries happened, and its caller was busy until Done.
func (t *tally) attempt(tr *Trace, n int64) {
	t.retries += int64(tr.Retries) * n
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
	t.latency.merge(other.latency)
	t.service.merge(other.service)
	t.behind.merge(other.behind)
	t.readLatency.merge(other.readLatency)
	for k := range t.stages {
		t.stages[k].merge(other.stages[k])
	}
}

// clamped returns how many latencies did not fit the histogram.
func (t *tally) clamped() int64 { return t.latency.clamped }

// maxShards bounds the memory of a sharded tally: one shard takes about 3.5 MB,
// and beyond 16 the mutexes are no longer what a load waits for.
const maxShards = 16

// shardedTally lets many goroutines record at once: each uses the shard of its
// number, so that two seldom want the same mutex.
type shardedTally struct {
	shards []tallyShard
}

type tallyShard struct {
	mu    sync.Mutex
	tally *tally
}

func newShardedTally(limit int64) *shardedTally {
	s := &shardedTally{shards: make([]tallyShard, min(2*runtime.GOMAXPROCS(0), maxShards))}
	for k := range s.shards {
		s.shards[k].tally = newTally(limit)
	}
	return s
}

// add and fail are tally's, in the shard of number i.

func (s *shardedTally) add(i uint64, tr *Trace) {
	shard := &s.shards[i%uint64(len(s.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.tally.add(tr, 1)
}

func (s *shardedTally) fail(i uint64, tr *Trace, class string) {
	shard := &s.shards[i%uint64(len(s.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.tally.fail(tr, 1, class)
}

// fold merges all shards into one tally. No one may record any more.
func (s *shardedTally) fold() *tally {
	whole := s.shards[0].tally
	for k := range s.shards[1:] {
		whole.merge(s.shards[1+k].tally)
	}
	return whole
}
