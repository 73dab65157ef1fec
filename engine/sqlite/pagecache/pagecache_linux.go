package pagecache

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapWindow is how much of the file is mapped at a time: address space for a
// file of any size would be refused under a limit on it, and the residency
// vector of one window takes 256 KiB with 4 KiB pages.
const mapWindow = 1 << 30

type handle struct {
	file *os.File
	page int64
}

// Open opens path for reading. See [File] for when.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("page cache: %w", err)
	}
	return &File{handle{file: f, page: int64(os.Getpagesize())}}, nil
}

// Close closes the descriptor. SQLite must have closed the file before.
func (c *File) Close() error { return c.file.Close() }

// Resident returns how many bytes of the file are in the page cache, in whole
// pages.
func (c *File) Resident() (bytes int64, err error) {
	err = c.eachResident(func(int64) { bytes += c.page })
	return bytes, err
}

// ResidentFraction returns the share of the file that is in the page cache, 0 to
// 1; 1 for an empty file.
func (c *File) ResidentFraction() (float64, error) {
	info, err := c.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("page cache: %w", err)
	}
	resident, err := c.Resident()
	if err != nil || info.Size() == 0 {
		return 1, err
	}
	return min(float64(resident)/float64(info.Size()), 1), nil
}

// Snapshot returns which pages are in the page cache now.
func (c *File) Snapshot() (Residency, error) {
	var r Residency
	err := c.eachResident(func(page int64) {
		r.pages.add(page)
		r.bytes += c.page
	})
	return r, err
}

// Drop asks the kernel to forget every page of the file. Pages that are not
// yet on the disk are written first, as only clean ones can go.
func (c *File) Drop() error {
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("page cache: %w", err)
	}
	return c.forget(0, 0)
}

// DropSince asks the kernel to forget the pages that are in the page cache now
// and were not when before was taken. What was already there stays, also when
// it has been used since.
func (c *File) DropSince(before Residency) error {
	now, err := c.Snapshot()
	if err != nil {
		return err
	}
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("page cache: %w", err)
	}
	for _, r := range now.pages.ranges(before.pages, int64(len(now.pages))*64) {
		if err := c.forget(r.first*c.page, (r.end-r.first)*c.page); err != nil {
			return err
		}
	}
	return nil
}

// forget drops length bytes from offset on; a length of 0 means to the end.
func (c *handle) forget(offset, length int64) error {
	if err := unix.Fadvise(int(c.file.Fd()), offset, length, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("page cache: fadvise: %w", err)
	}
	return nil
}

// eachResident calls f with the number of each resident page, in order.
func (c *handle) eachResident(f func(page int64)) error {
	info, err := c.file.Stat()
	if err != nil {
		return fmt.Errorf("page cache: %w", err)
	}
	for offset := int64(0); offset < info.Size(); offset += mapWindow {
		vec, err := c.residency(offset, min(mapWindow, info.Size()-offset))
		if err != nil {
			return err
		}
		for i, b := range vec {
			if b&1 != 0 {
				f(offset/c.page + int64(i))
			}
		}
	}
	return nil
}

// residency returns a byte for each page of a part of the file, whose lowest
// bit says whether the page is resident. The mapping is never touched, so that
// looking reads nothing in.
func (c *handle) residency(offset, length int64) ([]byte, error) {
	m, err := unix.Mmap(int(c.file.Fd()), offset, int(length), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("page cache: mmap: %w", err)
	}
	vec := make([]byte, (length+c.page-1)/c.page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(length), uintptr(unsafe.Pointer(&vec[0])))
	if err := unix.Munmap(m); err != nil {
		return nil, fmt.Errorf("page cache: munmap: %w", err)
	}
	if errno != 0 {
		return nil, fmt.Errorf("page cache: mincore: %w", errno)
	}
	return vec, nil
}
