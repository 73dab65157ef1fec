// Package pagecache sees and empties the part of the kernel's page cache that
// holds one file.
package pagecache

// File is a file whose cached pages are looked at and dropped, so that a
// measurement can start cold, or put the cache back to what it was before the
// preparation read from it.
//
// # When to open and close
//
// Open it before SQLite opens the file in this process, and close it after
// SQLite has closed it. POSIX record locks belong to a process and a file, not
// to a descriptor: closing any descriptor of the database drops all the locks
// that SQLite holds on it, after which another process may write inside our
// transaction. In between, all methods are safe: they use the one descriptor
// and close nothing.
//
// # Limits
//
// Only clean pages that no process has mapped can be dropped, so a database
// with mmap_size > 0 stays warm while it is open, and tmpfs, where the cache
// is the file, drops nothing. Since Linux 5.0 mincore says "resident" for
// every page to a process that neither owns the file nor may write to it.
// The methods that are not supported by the system return an error that
// matches [errors.ErrUnsupported].
//
// A File is not safe for concurrent use.
type File struct {
	handle
}

// Residency is which pages of a file were in the page cache at one moment. It
// takes one bit a page: 32 KiB for each GiB of the file with 4 KiB pages.
type Residency struct {
	pages pageSet
	bytes int64
}

// Bytes returns how much of the file was resident, in bytes, in whole pages:
// it can exceed the file's size by less than one page.
func (r Residency) Bytes() int64 { return r.bytes }

// pageSet is a set of page numbers, one bit each.
type pageSet []uint64

func (s *pageSet) add(page int64) {
	word := int(page / 64)
	for len(*s) <= word {
		*s = append(*s, 0)
	}
	(*s)[word] |= 1 << (page % 64)
}

func (s pageSet) has(page int64) bool {
	word := page / 64
	return word < int64(len(s)) && s[word]&(1<<(page%64)) != 0
}

// pageRange is the pages [first, end).
type pageRange struct{ first, end int64 }

// ranges returns the pages below end that are in s and not in old, neighbours
// joined, so that the file is dropped with few system calls.
func (s pageSet) ranges(old pageSet, end int64) []pageRange {
	var out []pageRange
	for page := int64(0); page < end; page++ {
		if page%64 == 0 && page/64 < int64(len(s)) && s[page/64] == 0 {
			page += 63
			continue
		}
		if !s.has(page) || old.has(page) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].end == page {
			out[n-1].end++
			continue
		}
		out = append(out, pageRange{page, page + 1})
	}
	return out
}
