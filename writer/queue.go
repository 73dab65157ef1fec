package writer

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// request is one call of Do or Exclusive on its way through the writer.
type request struct {
	ctx       context.Context
	fn        func(*Tx) error   // a transaction, or
	exclusive func(*Conn) error // work between batches
	timing    *Timing
	state     atomic.Uint32
	err       error         // the outcome, before done
	committed *commit       // the COMMIT that it came to, nil if none
	done      chan struct{} // one message: the outcome is there

	accepted, started, ended int64
}

// commit is what the requests of one COMMIT have in common. It is not changed any
// more when the first of them is woken.
type commit struct {
	begun, committing, committed int64
	failure                      error
	pauses                       pauses // until the batch began
}

// The states of a request. Only its caller abandons it, only the writer takes it.
const (
	stateWaiting uint32 = iota
	stateTaken
	stateAbandoned
)

// requests are used again: a burst would otherwise leave a channel each to the
// collector. An abandoned one is not, since the queue still holds it.
var requests = sync.Pool{New: func() any { return &request{done: make(chan struct{}, 1)} }}

func newRequest(ctx context.Context) *request {
	r := requests.Get().(*request)
	r.ctx = ctx
	return r
}

// free gives a request back whose outcome was received.
func (r *request) free() {
	r.ctx, r.fn, r.exclusive, r.timing, r.err, r.committed = nil, nil, nil, nil, nil, nil
	r.state.Store(stateWaiting)
	requests.Put(r)
}

// take claims the request for the writer. A batch that runs again finds its
// requests taken already.
func (r *request) take() bool {
	return r.state.CompareAndSwap(stateWaiting, stateTaken) || r.state.Load() == stateTaken
}

// abandon withdraws the request for its caller.
func (r *request) abandon() bool { return r.state.CompareAndSwap(stateWaiting, stateAbandoned) }

func (r *request) abandoned() bool { return r.state.Load() == stateAbandoned }

// finish hands the outcome to the caller. The request is the caller's afterwards.
func (r *request) finish(err error) {
	r.err = err
	r.done <- struct{}{}
}

// outcome returns what became of the request, to its caller who was woken, and
// fills in its Timing.
func (r *request) outcome() error {
	c := r.committed
	if c == nil {
		return r.err
	}
	if r.timing != nil {
		*r.timing = Timing{r.accepted, max(c.begun, r.accepted), r.started, r.ended, c.committing, c.committed, c.pauses.since(r.accepted)}
	}
	if c.failure != nil {
		return c.failure
	}
	return r.err
}

// wakeTurn is how many callers are woken before they get a turn to run. The scheduler
// is first come, first served: a writer that has used up its time slice would
// otherwise wait behind all of its last batch.
const wakeTurn = 64

// wake hands the outcome of a COMMIT to the callers of reqs and forgets them.
func (c *commit) wake(reqs []*request) {
	for i, r := range reqs {
		if i > 0 && i%wakeTurn == 0 {
			runtime.Gosched()
		}
		r.committed = c
		r.done <- struct{}{}
	}
	clear(reqs)
}

// queue is the bounded FIFO between callers and the writer. A slice under a mutex
// was chosen over a channel: the writer takes a whole batch in one step, and the
// collector scans what waits rather than a million empty places.
type queue struct {
	limit int
	wake  chan struct{} // to the writer: wakeAt requests wait, or the queue closed
	room  chan struct{} // to one blocked caller: there may be room

	mu      sync.Mutex
	waiting []*request
	head    int   // waiting[head:] is what waits
	refusal error // why nothing more is accepted
	wakeAt  int   // the writer sleeps until this many wait; 0 while it is awake
	blocked int   // callers that wait for room
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// push appends r. full means that there was no room.
func (q *queue) push(r *request) (full bool, err error) {
	r.accepted = Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.refusal != nil:
		return false, q.refusal
	case len(q.waiting)-q.head >= q.limit:
		return true, nil
	}
	q.waiting = append(q.waiting, r)
	q.rouse()
	return false, nil
}

// rouse wakes the writer if what it sleeps for has come. q.mu is held.
func (q *queue) rouse() {
	if q.wakeAt > 0 && (q.refusal != nil || len(q.waiting)-q.head >= q.wakeAt) {
		q.wakeAt = 0
		q.wake <- struct{}{} // has room: the writer sleeps, and wakeAt allows one message
	}
}

// waitPush is push for a caller that waits for room until ctx ends.
func (q *queue) waitPush(ctx context.Context, r *request) error {
	q.mu.Lock()
	q.blocked++
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.blocked--
		q.passRoom()
		q.mu.Unlock()
	}()
	for {
		full, err := q.push(r)
		if !full {
			return err
		}
		select {
		case <-q.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// passRoom tells one blocked caller that there is room, or that the queue closed;
// that caller tells the next. A channel serves its receivers in order. q.mu is
// held.
func (q *queue) passRoom() {
	if q.blocked == 0 || q.refusal == nil && len(q.waiting)-q.head >= q.limit {
		return
	}
	select {
	case q.room <- struct{}{}:
	default: // the message is there and was not read yet
	}
}

// refuse makes push return err from now on. The first reason stays.
func (q *queue) refuse(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refusal == nil {
		q.refusal = err
	}
	q.rouse()
	q.passRoom()
}

// wait sleeps until n requests wait, the queue is closed or timeout fires.
func (q *queue) wait(n int, timeout <-chan time.Time) {
	q.mu.Lock()
	if len(q.waiting)-q.head >= n || q.refusal != nil {
		q.mu.Unlock()
		return
	}
	q.wakeAt = n
	q.mu.Unlock()
	select {
	case <-q.wake:
	case <-timeout:
		q.mu.Lock()
		if q.wakeAt == 0 {
			<-q.wake // it was sent meanwhile
		}
		q.wakeAt = 0
		q.mu.Unlock()
	}
}

// maxYields bounds the turns that gather gives to goroutines that are ready.
const maxYields = 100

// gather lets goroutines that are ready to run queue their requests, as long as
// each turn brings more and max is not reached. On one CPU the writer would
// otherwise be woken for the first request of a burst and form batches of one.
func (q *queue) gather(limit int) {
	before := 0
	for range maxYields {
		n := q.len()
		if n >= limit || n == before {
			return
		}
		before = n
		runtime.Gosched()
	}
}

// take appends at most limit requests to dst, frees their places and reports whether
// the queue is closed. An exclusive request comes alone.
func (q *queue) take(dst []*request, limit int) (reqs []*request, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.waiting[q.head:]
	n := 0
	for n < min(limit, len(waiting)) && (len(dst)+n == 0 || waiting[n].exclusive == nil && waiting[0].exclusive == nil) {
		n++
	}
	switch {
	case n == len(q.waiting) && len(dst) == 0: // everything: swap the slices
		dst, q.waiting = q.waiting, dst
	default:
		dst = append(dst, waiting[:n]...)
		clear(waiting[:n])
		q.head += n
		if q.head > len(q.waiting)/2 {
			rest := copy(q.waiting, q.waiting[q.head:])
			clear(q.waiting[rest:])
			q.waiting, q.head = q.waiting[:rest], 0
		}
	}
	q.passRoom()
	return dst, q.refusal != nil
}

// len returns the number of requests that wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) - q.head
}

// oldest returns when the request that waits longest was accepted, 0 if none.
func (q *queue) oldest() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == len(q.waiting) {
		return 0
	}
	return q.waiting[q.head].accepted
}
