//go:build !linux && !darwin

package doctor

import (
	"io/fs"
	"os"
)

// mayWrite tells why nobody may write to a file, as far as its mode says. It does
// not open it.
func mayWrite(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o222 == 0 {
		err = fs.ErrPermission
	}
	return err
}
