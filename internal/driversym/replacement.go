package driversym

import (
	"sync"
	"unsafe"
)

// Replacement is of system calls that SQLite's unix VFS makes, for the whole program. C
// code does it, with vfs.h.
type Replacement struct {
	// Install is C code's part. It is given sqlite3_vfs_find and returns whether the
	// calls are replaced.
	Install func(find unsafe.Pointer) bool

	mu   sync.Mutex
	done bool
}

// Done reports whether the calls are replaced, and sees to it: not before the driver has
// initialized SQLite, which it does as it opens its first connection, and never where
// Install or [Find] cannot. It may be called for each connection.
func (r *Replacement) Done() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		find, err := Find("sqlite3_vfs_find")
		r.done = err == nil && r.Install(find)
	}
	return r.done
}
