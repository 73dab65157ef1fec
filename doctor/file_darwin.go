package doctor

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	removesOpenFiles = true
	// syncMethod is what reaches the disk here; fsync alone does not.
	syncMethod      = fullSyncMethod
	referenceMethod = "fsync"
)

// openDirect opens a file that neither fills nor uses the page cache for what it
// reads and writes.
func openDirect(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_NOCACHE, 1); err != nil {
		return nil, f.Close()
	}
	return f, nil
}

// openSynced opens nothing: the reference here is a sync that is weaker.
func openSynced(string) (*os.File, error) { return nil, nil }

// dataSync asks the disk itself to make everything durable.
func dataSync(f *os.File) error {
	for {
		_, err := unix.FcntlInt(f.Fd(), unix.F_FULLFSYNC, 0)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// referenceWrite writes and hands over to the disk, whose own cache may hold it.
func (f *testFile) referenceWrite(buf []byte, offset int64) error {
	if _, err := f.plain.WriteAt(buf, offset); err != nil {
		return err
	}
	return unix.Fsync(int(f.plain.Fd()))
}

// dropCache cannot be done here.
func dropCache(*os.File, bool) (bool, error) { return false, nil }

// reserve does nothing: the blocks are allocated when they are written.
func reserve(*os.File, int64) error { return nil }
