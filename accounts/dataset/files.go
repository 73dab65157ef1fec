package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// files is what lies at a data set's path, as seen by stat alone: opening and
// closing a descriptor of a database drops the locks that SQLite holds on it
// in this process.
type files struct {
	path    string // absolute, symbolic links followed, as SQLite does to name the journals
	size    int64  // of the database; 0 when missing or empty
	found   bool
	wal     bool // a -wal is there, be it empty
	walSize int64
	journal bool // a rollback journal that holds something is there
}

// lookAt finds out what lies at path, and refuses what no database can come of.
func lookAt(path string) (files, error) {
	if path == "" {
		return files{}, errors.New("dataset: the path is empty: name a file")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return files{}, fmt.Errorf("dataset: %s: %w", path, err)
	}
	if folder, err := os.Stat(filepath.Dir(abs)); err != nil || !folder.IsDir() {
		if errors.Is(err, fs.ErrPermission) {
			return files{}, explain(abs, err)
		}
		return files{}, refuse(abs, ErrNoFolder, "make %s first, or choose another path", filepath.Dir(abs))
	}
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		abs = resolved
	} else if link, lerr := os.Lstat(abs); lerr == nil && link.Mode()&fs.ModeSymlink != 0 {
		// What is made here would replace the link or go where it points,
		// depending on how it is made.
		return files{}, refuse(abs, ErrNotFile, "it is a link that leads nowhere: name the file itself (%s)", err)
	}
	f := files{path: abs}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return files{}, explain(abs, err)
	case !info.Mode().IsRegular():
		return files{}, refuse(abs, ErrNotFile, "name a file in it, or choose another path")
	default:
		f.found, f.size = true, info.Size()
	}
	if info, err := os.Stat(abs + "-wal"); err == nil {
		f.wal, f.walSize = true, info.Size()
	}
	if info, err := os.Stat(abs + "-journal"); err == nil {
		f.journal = info.Size() > 0
	}
	return f, f.refuseOrphans()
}

// refuseOrphans refuses journals whose database is gone. A database made
// beside an old -wal would show that one's rows, with every check content.
//
// A journal beside an empty database is none: it is what a seeding that was
// killed in its first transaction leaves, and it holds nothing.
func (f files) refuseOrphans() error {
	orphan := ""
	switch {
	case f.size == 0 && f.walSize > 0, !f.found && f.wal:
		orphan = f.path + "-wal"
	case !f.found && f.journal:
		orphan = f.path + "-journal"
	default:
		return nil
	}
	return refuse(f.path, ErrOrphan, "put the database back, or delete %s", orphan)
}

// mustBeWritable refuses a database file that may not be written to. It opens
// the file for a moment, so SQLite must not have it open in this process.
func (f files) mustBeWritable() error {
	file, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return explain(f.path, err)
	}
	return file.Close()
}

// syncFolder makes the names in the folder of path durable: that of a new
// database, and that its journals are gone. The contents need no more syncing:
// SQLite has done that in each COMMIT and in the last checkpoint.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be opened there, and need no sync
	}
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("sync the folder: %w", err)
	}
	return nil
}
