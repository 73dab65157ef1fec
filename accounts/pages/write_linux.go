package pages

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openDirect opens path for direct I/O, nil where the file system does not offer
// it (tmpfs, some overlays).
func openDirect(path string) *os.File {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		return nil
	}
	return f
}

// isRefused reports whether a write failed because it was direct.
func isRefused(err error) bool { return errors.Is(err, unix.EINVAL) }

// reserve allocates the file's blocks, so that a full disk shows at once.
func (t *target) reserve(size int64) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) { // by a signal that is none of ours
		err = unix.Fallocate(int(t.file.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

// alignedBuffer returns memory that starts on a page, and how to give it back.
func alignedBuffer(size int) (buf []byte, free func() error, err error) {
	buf, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return buf, func() error { return unix.Munmap(buf) }, err
}
