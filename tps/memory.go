package tps

import (
	"runtime/metrics"
	"sync"
	"time"
)

const (
	memorySampleEvery = 5 * time.Millisecond
	// memoryMinWaiting is the crowd below which the noise of the heap is larger
	// than what its goroutines take.
	memoryMinWaiting = 1000
)

// memoryPeak keeps the largest crowd of waiting transactions and how much memory had
// grown by then. A crowd beside many that are done counts only if there was no other,
// since what those have left behind is counted with it.
type memoryPeak struct {
	mu      sync.Mutex
	before  int64 // heap and stacks before the load
	waiting int64
	bytes   int64 // growth since before
}

// memoryMaxDone is the share of the waiting that may be done already.
const memoryMaxDone = 0.1

// observe takes a sample, while so many transactions wait and so many are done.
func (p *memoryPeak) observe(waiting, done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pure := float64(done) <= memoryMaxDone*float64(waiting)
	if waiting > p.waiting && (pure || p.waiting < memoryMinWaiting) {
		p.waiting, p.bytes = waiting, heapAndStacks()-p.before
	}
}

// watch observes until stop is closed.
func (p *memoryPeak) watch(crowd func() (waiting, done int64), stop <-chan struct{}) {
	ticker := time.NewTicker(memorySampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.observe(crowd())
		case <-stop:
			return
		}
	}
}

// perWaiting returns bytes for each waiting transaction, 0 if too few waited.
func (p *memoryPeak) perWaiting() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting < memoryMinWaiting {
		return 0
	}
	return p.bytes / p.waiting
}

// heapAndStacks returns the bytes of heap objects, garbage not yet swept
// included, and of goroutine stacks. Reading it does not stop the world.
func heapAndStacks() int64 {
	samples := [...]metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	metrics.Read(samples[:])
	var sum int64
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 { // KindBad: unknown to this runtime
			sum += int64(s.Value.Uint64())
		}
	}
	return sum
}
