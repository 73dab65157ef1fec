// Package nowait lets a read of a database fail where it would have to wait for the
// disk, and has the page fetched meanwhile. Who reads ahead can so have many pages
// under way from one thread: a thread that waits holds one of Go's processors for as
// long as the scheduler does not notice.
//
// SQLite's way of reading its files is replaced for the whole program, which its VFS
// has an interface for; files that nobody asked this for are read as ever, at the
// cost of one comparison. A read that fails so is an SQLITE_IOERR_READ, which ends a
// read transaction. It needs Linux (preadv2 with RWF_NOWAIT), and a file system that
// can tell what is in memory: where it cannot, reads wait.
package nowait

// #cgo CFLAGS: -I${SRCDIR}/../driversym
// #include "nowait.h"
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/tpssim/tpssim/internal/driversym"
)

// File is a database file as one connection has opened it. A nil File is of a
// connection whose reads wait.
type File struct{ fd C.int }

// calls are those that SQLite reads its files with.
var calls = driversym.Replacement{
	Install: func(find unsafe.Pointer) bool { return C.nowait_install(find) != 0 },
}

// Open calls open, which is to open one connection, and returns the file that it opened
// first: the database. It is nil where reads cannot be made to fail, for the first
// connection of a program, and when an earlier one left SQLite a descriptor to use again.
func Open(open func()) (file *File) {
	if !calls.Done() {
		open()
		return nil
	}
	runtime.LockOSThread() // the thread is what is watched
	defer runtime.UnlockOSThread()
	C.nowait_opening()
	defer func() {
		if fd := C.nowait_opened(); fd >= 0 {
			file = &File{fd}
		}
	}()
	open()
	return nil
}

// Enable says whether reads fail instead of waiting. It must be off again before the
// connection is closed: SQLite may give the file to another one.
func (f *File) Enable(on bool) {
	if f == nil {
		return
	}
	value := C.int(0)
	if on {
		value = 1
	}
	C.nowait_enable(f.fd, value)
}

// Misses is how many reads have failed so far.
func (f *File) Misses() uint32 {
	if f == nil {
		return 0
	}
	return uint32(C.nowait_misses(f.fd))
}
