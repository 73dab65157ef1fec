// Package writeback lets the disk begin to write while SQLite still does. A large COMMIT
// writes its frames to the log and then waits for a sync, and a checkpoint does the same
// with pages of the database; until that sync the system keeps all of it in memory and
// the disk has nothing to do. Here it is told to begin after every 256 KiB.
//
// Nothing becomes durable by that, and nothing is promised by it: SQLite syncs as ever,
// and the sync waits for what has begun and tells of its failure. What is written in
// smaller amounts, and temporary files, are left alone.
//
// SQLite's way of writing its files is replaced for the whole program, which its VFS
// has an interface for. It needs Linux (sync_file_range).
package writeback

// #cgo CFLAGS: -I${SRCDIR}/../driversym
// #include "writeback.h"
import "C"

import (
	"unsafe"

	"github.com/tpssim/tpssim/internal/driversym"
)

// calls are those that SQLite writes its files with.
var calls = driversym.Replacement{
	Install: func(find unsafe.Pointer) bool { return C.writeback_install(find) != 0 },
}

// Install sees to it once the driver has opened its first connection, and does nothing
// where it cannot be done. It may be called for each connection.
func Install() { calls.Done() }

// Begun is how often the disk was told to begin so far.
func Begun() uint64 { return uint64(C.writeback_begun()) }
