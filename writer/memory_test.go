package writer_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/tpssim/tpssim/writer"
)

// maxWaitingBytes is what a call of Do may take while it waits: its goroutine with a
// stack of 2 KiB, its request and its place in the queue.
const maxWaitingBytes = 3000

func TestMemoryOfWaiting(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	const waiting = 20_000
	w := openTest(t, writer.Options{})
	release := hold(t, w)
	before := memoryInUse()
	var wg sync.WaitGroup
	for range waiting {
		wg.Go(func() {
			if err := w.Do(context.Background(), nothing); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "all wait", func() bool { return w.Stats().Queued == waiting })
	each := (memoryInUse() - before) / waiting
	release()
	wg.Wait()
	t.Logf("%d bytes for each call that waits", each)
	if each > maxWaitingBytes {
		t.Errorf("%d bytes for each call that waits, at most %d are promised", each, maxWaitingBytes)
	}
}

// memoryInUse is how many bytes of heap and stacks are in use.
func memoryInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
