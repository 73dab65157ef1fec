package sqlite

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/sqlite/pagecache"
)

// file is the data set's file and what is done to it beside the engine's own
// connections.
type file struct {
	path    string
	cache   *pagecache.File
	connect sqliteh.OpenFunc // nil means the driver's own
	pins    pins
}

// open opens the handle on the page cache, before SQLite opens the file: closing
// any descriptor of a database drops the POSIX locks that SQLite holds on it in
// this process, so this one must be the last to be closed.
func (f *file) open(opt Options) error {
	path, err := filepath.EvalSymlinks(opt.Path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return err
	}
	f.path, f.connect = path, opt.Open
	f.cache, err = pagecache.Open(path)
	if errors.Is(err, errors.ErrUnsupported) {
		f.cache, err = nil, nil
	}
	return err
}

// sizes tells how large the database's files are. It uses stat only: closing a
// descriptor would drop SQLite's locks.
func (f *file) sizes(s *engine.Stats) {
	for suffix, size := range map[string]*int64{"": &s.DBBytes, "-wal": &s.WALFileBytes, "-shm": &s.SHMBytes} {
		if info, err := os.Stat(f.path + suffix); err == nil {
			*size = info.Size()
		}
	}
}

func (f *file) close() error {
	if f.cache == nil {
		return nil
	}
	cache := f.cache
	f.cache = nil
	return cache.Close()
}

// errNoPageCache is returned where the system does not let a program look into
// its page cache.
var errNoPageCache = errors.New("this system has no way to see or drop cached file pages; use --cache as-is or warm")

// Preserve implements engine.Cacher.
func (f *file) Preserve(fn func() error) error {
	if f.cache == nil {
		return fn()
	}
	before, err := f.cache.Snapshot()
	if err != nil {
		return err
	}
	return errors.Join(fn(), f.cache.DropSince(before))
}

// Resident implements engine.Cacher.
func (f *file) Resident() (float64, error) {
	if f.cache == nil {
		return 0, errNoPageCache
	}
	return f.cache.ResidentFraction()
}
