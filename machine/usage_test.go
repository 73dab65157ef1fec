package machine

import (
	"runtime"
	"testing"
	"time"
)

func TestReadUsage(t *testing.T) {
	before := ReadUsage()
	if before.RSSBytes < 1<<20 {
		t.Errorf("a running program has %d bytes of memory", before.RSSBytes)
	}
	// Work until the counters move; they may have the resolution of a clock tick.
	deadline := time.Now().Add(10 * time.Second)
	var grown Usage
	for grown.CPU == 0 && time.Now().Before(deadline) {
		runtime.GC()
		grown = ReadUsage().Sub(before)
	}
	if grown.CPU <= 0 || grown.GCs < 1 || grown.GCPause <= 0 {
		t.Errorf("after a collection: %+v", grown)
	}
	if grown.RSSBytes < 1<<20 {
		t.Errorf("the memory became a difference: %d", grown.RSSBytes)
	}
}

// The memory that a program takes is seen.
func TestReadUsageMemory(t *testing.T) {
	const size = 64 << 20
	before := ReadUsage().RSSBytes
	block := make([]byte, size)
	for k := 0; k < len(block); k += 4096 {
		block[k] = 1
	}
	if after := ReadUsage().RSSBytes; after < before+size/2 {
		t.Errorf("%d bytes before, %d with %d more", before, after, size)
	}
	runtime.KeepAlive(block)
}

func TestResidentPages(t *testing.T) {
	for _, test := range []struct {
		statm string
		pages int64
		ok    bool
	}{
		{"29000 1234 900 100 0 2000 0\n", 1234, true},
		{"", 0, false},
		{"29000\n", 0, false},
		{"29000 x 1\n", 0, false},
	} {
		pages, ok := residentPages(tree(map[string]string{"proc/self/statm": test.statm}))
		if pages != test.pages || ok != test.ok {
			t.Errorf("%q: %d %v", test.statm, pages, ok)
		}
	}
	if _, ok := residentPages(tree(nil)); ok {
		t.Error("there is no such file")
	}
}

// What other systems are asked agrees with what this one was.
func TestProcessRSS(t *testing.T) {
	one, other := residentBytes(), processRSS()
	if one <= 0 || other < one/2 || other > 2*one {
		t.Errorf("%d and %d", one, other)
	}
}

func TestUsageSub(t *testing.T) {
	a := Usage{RSSBytes: 7, CPU: 1, GCs: 2, GCPause: 3}
	b := Usage{RSSBytes: 5, CPU: 11, GCs: 22, GCPause: 33}
	if got, want := b.Sub(a), (Usage{RSSBytes: 5, CPU: 10, GCs: 20, GCPause: 30}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := a.Sub(b), (Usage{RSSBytes: 7}); got != want {
		t.Errorf("counters that fell: %+v, want %+v", got, want)
	}
}
