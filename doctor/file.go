package doctor

import (
	"errors"
	"io/fs"
	"os"
	"unsafe"
)

// tempPattern names the test file; the star becomes a random number.
const tempPattern = ".tpssim-doctor-*"

// testFile is the temporary file, opened in each way in which it is used.
type testFile struct {
	plain  *os.File // through the page cache
	direct *os.File // around it; nil where that is refused
	synced *os.File // every write durable when it returns; nil where not used
	named  bool
}

// openTestFile makes an empty file in dir.
func openTestFile(dir string) (*testFile, error) {
	plain, err := os.CreateTemp(dir, tempPattern)
	if err != nil {
		return nil, err
	}
	f := &testFile{plain: plain, named: true}
	if f.direct, err = openDirect(plain.Name()); err != nil {
		return nil, errors.Join(err, f.close())
	}
	if f.synced, err = openSynced(plain.Name()); err != nil {
		return nil, errors.Join(err, f.close())
	}
	if f.direct == nil {
		return f, nil
	}
	// Whether direct I/O is refused may show only when something is written.
	if _, err := f.direct.WriteAt(aligned(pageBytes), 0); err != nil {
		if refused := f.direct.Close(); refused != nil {
			return nil, errors.Join(err, refused, f.close())
		}
		f.direct = nil
	}
	if err := plain.Truncate(0); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// best is the file around the page cache, or through it where that is refused.
func (f *testFile) best() *os.File {
	if f.direct != nil {
		return f.direct
	}
	return f.plain
}

// unname takes the file's name away; its blocks live until it is closed. A system
// that refuses this for an open file keeps the name until then.
func (f *testFile) unname() error {
	err := os.Remove(f.plain.Name())
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		f.named = false
	case removesOpenFiles:
		return err
	}
	return nil
}

// close closes and removes the file.
func (f *testFile) close() error {
	var errs []error
	for _, file := range []*os.File{f.direct, f.synced, f.plain} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	if f.named {
		errs = append(errs, os.Remove(f.plain.Name()))
	}
	return errors.Join(errs...)
}

// aligned returns memory that begins on a page. The collector does not move it.
func aligned(size int) []byte {
	buf := make([]byte, size+pageBytes)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(buf))) % pageBytes
	return buf[skip:][:size:size]
}
