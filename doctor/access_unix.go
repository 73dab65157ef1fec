//go:build linux || darwin

package doctor

import "golang.org/x/sys/unix"

// mayWrite tells why this process may not write to a file. It does not open it:
// closing a descriptor of a database drops the locks that SQLite holds on it in the
// same process.
func mayWrite(path string) error { return unix.Access(path, unix.W_OK) }
