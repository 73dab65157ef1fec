package dataset

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file that is smaller than the lead is read whole, without anybody behind.
func TestReadAhead(t *testing.T) {
	if _, ok := bytesRead(); !ok {
		t.Skip("this system does not count the bytes that a process reads")
	}
	path := filepath.Join(t.TempDir(), "file")
	size := int64(2*aheadChunk + 12345)
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{true, false} {
		r, err := openReadAhead(path, size)
		if err != nil {
			t.Fatal(err)
		}
		stop := r.start()
		for deadline := time.Now().Add(time.Minute); whole && r.read.Load() < size; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d bytes were read", r.read.Load(), size)
			}
		}
		stop()
		if n := r.read.Load(); n > size {
			t.Errorf("%d bytes of %d were read", n, size)
		}
		if err := r.file.Close(); err != nil {
			t.Error(err)
		}
	}
}
