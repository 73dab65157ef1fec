// Package driversym finds functions of the SQLite that the driver has linked into
// this program, for C code that calls them without the driver's Go methods.
//
// The driver exports no C header and no handle, so the functions are looked up in
// the program's own symbols, which -rdynamic puts where dlsym can see them. One that
// comes from elsewhere, such as a system library, is refused: two copies of SQLite
// in one process do not know of each other's file locks, and a close in one drops
// those of the other. A static program has no such symbols. A shared library that is
// loaded later and wants some SQLite is given the program's. This was tried on Linux
// only.
//
// Names that the linker leaves unresolved were rejected: a missing one is noticed
// when it is called, at address 0.
package driversym

// #cgo LDFLAGS: -rdynamic
// #cgo linux LDFLAGS: -ldl
// #include <stdlib.h>
// #include "driversym.h"
import "C"

import (
	"fmt"
	"unsafe"

	_ "github.com/tailscale/sqlite/cgosqlite" // the SQLite that is looked for
)

// Find returns the address of a C function of this program. The error says why it
// cannot be called from here.
func Find(name string) (unsafe.Pointer, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var foreign C.int
	address := C.driversym_find(text, &foreign)
	switch {
	case address == nil:
		return nil, fmt.Errorf("it has no symbol %s; build it without static linking", name)
	case foreign != 0:
		return nil, fmt.Errorf("%s comes from another library; build it without static linking", name)
	}
	return address, nil
}
