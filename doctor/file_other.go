//go:build !linux && !darwin

package doctor

import "os"

const (
	removesOpenFiles = false // not everywhere
	syncMethod       = "fsync"
	referenceMethod  = ""
)

// openDirect returns nil: everything goes through the page cache here.
func openDirect(string) (*os.File, error) { return nil, nil }

func openSynced(string) (*os.File, error) { return nil, nil }

func dataSync(f *os.File) error { return f.Sync() }

// referenceWrite is not called where there is no referenceMethod.
func (f *testFile) referenceWrite(buf []byte, offset int64) error {
	_, err := f.plain.WriteAt(buf, offset)
	return err
}

// dropCache cannot be done here.
func dropCache(*os.File, bool) (bool, error) { return false, nil }

// reserve does nothing: the blocks are allocated when they are written.
func reserve(*os.File, int64) error { return nil }
