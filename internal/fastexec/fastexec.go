// Package fastexec runs a statement with integer parameters in one call from Go to
// C: binds, step, number of changes, reset, and before it a RELEASE and a SAVEPOINT
// if they are due. Each such crossing costs as much as a tenth of an UPDATE in
// SQLite, and the driver's methods need four for an UPDATE with two parameters.
//
// The statements are the driver's. The C code calls the driver's SQLite, whose
// functions are looked up when the program starts (package driversym); where they are not found, or
// the driver's statement is not built as expected, [Of] answers 0 and the caller
// goes on with the driver's methods.
package fastexec

// #include "fastexec.h"
//
// #cgo noescape fastexec_run
import "C"

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/driversym"
)

// Parameters is how many parameters a statement may have.
const Parameters = C.FASTEXEC_PARAMETERS

// Stmt is the address of a statement in SQLite, valid as long as the driver's
// statement. 0 stands for none.
type Stmt uintptr

// available looks the functions up, once.
var available = sync.OnceValue(func() bool {
	for i := C.int(0); C.fastexec_function(i) != nil; i++ {
		address, err := driversym.Find(C.GoString(C.fastexec_function(i)))
		if err != nil {
			return false
		}
		C.fastexec_set(i, address)
	}
	return true
})

// Of returns the address of a statement of the driver, 0 when it cannot be had: the
// functions are not there, or stmt is a wrapper around the driver's.
//
// The driver keeps the address in an unexported field, as a number. Only a driver
// that does so in just this way is read.
func Of(stmt sqliteh.Stmt) Stmt {
	s, ok := stmt.(*cgosqlite.Stmt)
	if !ok || !available() {
		return 0
	}
	field := reflect.ValueOf(s).Elem().FieldByName("stmt")
	if field.Kind() != reflect.Struct || field.NumField() != 1 || !field.Field(0).CanUint() || field.Type().Size() != unsafe.Sizeof(Stmt(0)) {
		return 0
	}
	return Stmt(field.Field(0).Uint())
}

// Part is the statement of a [Call] that an outcome is of.
type Part int

// The parts, in no particular order.
const (
	Statement Part = C.FASTEXEC_STATEMENT
	Release   Part = C.FASTEXEC_RELEASE
	Savepoint Part = C.FASTEXEC_SAVEPOINT
)

// Call is what one crossing runs.
type Call struct {
	Release, Savepoint Stmt // before the statement, in this order; 0: not
	Stmt               Stmt
	N                  int // how many of the values are parameters
	Values             [Parameters]int64
}

// Run runs the call's statements, each to its first row or its end, resets them and
// clears the bindings. It stops at the first that fails. The code is SQLite's
// extended result code, OK for a row and for the end alike; changed is what
// sqlite3_changes answers afterwards. The caller has the connection to itself.
func (c *Call) Run() (changed int64, failed Part, code sqliteh.Code) {
	out := uint64(C.fastexec_run(C.uintptr_t(c.Release), C.uintptr_t(c.Savepoint), C.uintptr_t(c.Stmt), C.int(c.N),
		C.int64_t(c.Values[0]), C.int64_t(c.Values[1]), C.int64_t(c.Values[2]), C.int64_t(c.Values[3])))
	return int64(out >> 32), Part(out >> 16 & 3), sqliteh.Code(out & 0xffff)
}
