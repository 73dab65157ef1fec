package tmpfs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Mount mounts a file system of a size such as 4k or 1m, and unmounts it when the
// test ends. Where mounting is not allowed the test is skipped.
func Mount(t testing.TB, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tpssim-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Resize gives the file system at dir another size.
func Resize(t testing.TB, dir, size string) {
	t.Helper()
	remount(t, dir, 0, "size="+size)
}

// ReadOnly makes the file system at dir read-only.
func ReadOnly(t testing.TB, dir string) {
	t.Helper()
	remount(t, dir, unix.MS_RDONLY, "")
}

func remount(t testing.TB, dir string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, options); err != nil {
		t.Fatal(err)
	}
}
