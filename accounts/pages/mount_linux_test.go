package pages

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tpssim/tpssim/internal/tmpfs"
)

// The memory of a file system is its cache: there is nothing to go around, and
// older kernels refuse to try.
func TestWriteToTmpfs(t *testing.T) { writeAll(t, tmpfs.Mount(t, "64m")) }

// A full disk shows before anything is written.
func TestWriteToAFullDisk(t *testing.T) {
	tree := mustLayOut(t, rowid(200_000, 1_000_000_000, 0, 4096))
	path := place(t, tmpfs.Mount(t, "1m"), "unfinished")
	err := tree.Write(t.Context(), path, func(int64) { t.Error("something was written") })
	if !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	if content, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(content, []byte("unfinished")) {
		t.Errorf("the file has %d bytes: %v", len(content), err)
	}
}

// Where nothing can be reserved, the disk may fill while the file is written.
func TestDiskFillsMidway(t *testing.T) {
	path := place(t, tmpfs.Mount(t, "1m"), "")
	f, err := openTarget(path)
	if err != nil {
		t.Fatal(err)
	}
	buf, free, err := alignedBuffer(blockBytes)
	if err != nil {
		t.Fatal(err)
	}
	for block := range int64(2) {
		err = f.writeAt(buf, block*blockBytes)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	if err := errors.Join(free(), f.close()); err != nil {
		t.Error(err)
	}
}

func TestWriteToAReadOnlyFileSystem(t *testing.T) {
	dir := tmpfs.Mount(t, "1m")
	path := place(t, dir, "")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	if err := mustLayOut(t, written[0]).Write(t.Context(), path, nil); !errors.Is(err, unix.EROFS) {
		t.Error(err)
	}
}
