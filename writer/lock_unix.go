//go:build unix

package writer

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Lock takes the lock that a Writer holds on the database at path, for programs
// that must keep writers away: a check, a restore, a rename. The lock is a file
// beside the database, path + "-lock", held with flock, so that it works between
// processes and within one and ends with its process. path must be the database's
// own name, not a link to it. ErrInUse means that a Writer, or another Lock, has
// it. release may be called more than once.
func Lock(path string) (release func() error, err error) {
	name := path + "-lock"
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fmt.Errorf("cannot make the lock file: %w", err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, fmt.Errorf("%w (%s is locked)", ErrInUse, name)
			}
			return nil, fmt.Errorf("cannot lock %s: %w", name, err)
		}
		if sameFile(f, name) {
			return sync.OnceValue(func() error {
				if !sameFile(f, name) { // somebody removed it; what is there now is another holder's
					return f.Close()
				}
				return errors.Join(os.Remove(name), f.Close())
			}), nil
		}
		f.Close() // its holder removed it between our open and our lock: try the new one
	}
}

// sameFile reports whether name still leads to the open file f.
func sameFile(f *os.File, name string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(name)
	return err == nil && os.SameFile(held, now)
}
