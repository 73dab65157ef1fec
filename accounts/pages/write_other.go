//go:build !linux

package pages

import "os"

// openDirect returns nil: direct I/O is used on Linux only.
func openDirect(string) *os.File { return nil }

func isRefused(error) bool { return false }

// reserve does nothing.
func (t *target) reserve(int64) error { return nil }

func alignedBuffer(size int) (buf []byte, free func() error, err error) {
	return make([]byte, size), func() error { return nil }, nil
}
