package doctor

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	removesOpenFiles = true
	// syncMethod is what SQLite calls in a COMMIT at synchronous=FULL.
	syncMethod      = "fdatasync"
	referenceMethod = "O_DSYNC"
)

// openDirect opens a file for direct I/O; it returns nil where the file system
// does not offer it.
func openDirect(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	return f, err
}

func openSynced(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|unix.O_DSYNC, 0)
}

// again repeats a call that a signal cut off.
func again(call func() error) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = call()
	}
	return err
}

func dataSync(f *os.File) error {
	return again(func() error { return unix.Fdatasync(int(f.Fd())) })
}

// referenceWrite writes what is durable when the write itself returns.
func (f *testFile) referenceWrite(buf []byte, offset int64) error {
	_, err := f.synced.WriteAt(buf, offset)
	return err
}

// dropCache makes the kernel forget the cached pages of a file that is synced, and
// when it is read in a random order also not read ahead. It does nothing where the
// file system lies in memory.
func dropCache(f *os.File, random bool) (bool, error) {
	pattern := unix.FADV_SEQUENTIAL
	if random {
		pattern = unix.FADV_RANDOM
	}
	for _, advice := range []int{pattern, unix.FADV_DONTNEED} {
		if err := again(func() error { return unix.Fadvise(int(f.Fd()), 0, 0, advice) }); err != nil {
			return false, err
		}
	}
	return true, nil
}

// reserve allocates a file's blocks, so that a full disk shows before the clock
// runs.
func reserve(f *os.File, size int64) error {
	err := again(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
