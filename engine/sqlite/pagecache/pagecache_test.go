package pagecache

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// The ranges are exactly the pages that are new, each once, in order, joined.
func TestPageRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.SliceOf(rapid.Int64Range(0, 400))
		var old, now pageSet
		want := make(map[int64]bool)
		for _, p := range pages.Draw(t, "now") {
			now.add(p)
			want[p] = true
		}
		for _, p := range pages.Draw(t, "old") {
			old.add(p)
			delete(want, p)
		}
		got, last := make(map[int64]bool), int64(-1)
		for _, r := range now.ranges(old, int64(len(now))*64) {
			if r.first <= last || r.end <= r.first {
				t.Fatalf("range %v after page %d", r, last)
			}
			last = r.end // a page between two ranges, or they were one
			for p := r.first; p < r.end; p++ {
				got[p] = true
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// cached makes a file of 64 pages and a bit, on the disk and in the page cache.
// Where the cache cannot be emptied, as on tmpfs, the test is skipped.
func cached(t *testing.T) (*File, *os.File, int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	size := 64*int64(os.Getpagesize()) + 100
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if n := resident(t, c); n < size {
		t.Fatalf("%d bytes of %d resident after writing them", n, size)
	}
	if err := c.Drop(); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, c); n > 0 {
		t.Skipf("the file system keeps %d of %d bytes in memory", n, size)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return c, f, size
}

func resident(t *testing.T, c *File) int64 {
	t.Helper()
	n, err := c.Resident()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFileDrop(t *testing.T) {
	c, f, size := cached(t)
	if _, err := f.ReadAt(make([]byte, size), 0); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, c); n < size {
		t.Errorf("%d of %d bytes resident after reading them", n, size)
	}
	if err := c.Drop(); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, c); n != 0 {
		t.Errorf("%d bytes resident after dropping all", n)
	}
}

func TestFileDropSince(t *testing.T) {
	c, f, size := cached(t)
	if _, err := f.ReadAt(make([]byte, 10), 0); err != nil { // reads ahead, how far is the kernel's business
		t.Fatal(err)
	}
	before, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if before.Bytes() == 0 || before.Bytes() != resident(t, c) {
		t.Fatalf("%d bytes in the snapshot, %d resident", before.Bytes(), resident(t, c))
	}
	if _, err := f.ReadAt(make([]byte, size), 0); err != nil {
		t.Fatal(err)
	}
	if err := c.DropSince(before); err != nil {
		t.Fatal(err)
	}
	after, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if added := after.pages.ranges(before.pages, int64(len(after.pages))*64); len(added) > 0 {
		t.Errorf("still there: %v", added)
	}
	if lost := before.pages.ranges(after.pages, int64(len(before.pages))*64); len(lost) > 0 {
		t.Errorf("dropped although it was there before: %v", lost)
	}
	if err := c.DropSince(Residency{}); err != nil {
		t.Fatal(err)
	}
	if n := resident(t, c); n != 0 {
		t.Errorf("%d bytes resident after dropping what came since nothing", n)
	}
}

func TestFileOfNothing(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file was opened")
	}
	path := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n := resident(t, c); n != 0 {
		t.Errorf("%d bytes of an empty file", n)
	}
	if err := errors.Join(c.Drop(), c.DropSince(Residency{})); err != nil {
		t.Error(err)
	}
}
