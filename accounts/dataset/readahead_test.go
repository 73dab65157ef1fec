package dataset

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// It reads to its lead in front of the one that it follows, and no further.
func TestReadAhead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	const size = 3*aheadChunk + 12345
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openReadAhead(path, size)
	if err != nil {
		t.Fatal(err)
	}
	r.lead = aheadChunk
	var done atomic.Int64
	stop := r.follow(done.Load)
	for _, step := range []struct{ done, want int64 }{
		{0, aheadChunk},
		{1, 2 * aheadChunk}, // a whole chunk at a time
		{aheadChunk + 1, 3 * aheadChunk},
		{2*aheadChunk + 1, size},
	} {
		done.Store(step.done)
		for deadline := time.Now().Add(time.Minute); r.read.Load() < step.want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d bytes were read in front of %d, want %d", r.read.Load(), step.done, step.want)
			}
		}
		if got := r.read.Load(); got != step.want {
			t.Errorf("%d bytes were read in front of %d, want %d", got, step.done, step.want)
		}
	}
	stop()
	if err := r.file.Close(); err != nil {
		t.Error(err)
	}
}

// What was read already is left out.
func TestReadAheadOfOneWhoIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openReadAhead(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	r.follow(func() int64 { return 1000 })()
	if n := r.read.Load(); n != 0 {
		t.Errorf("%d bytes were read", n)
	}
	if err := r.file.Close(); err != nil {
		t.Error(err)
	}
}
