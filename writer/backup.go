package writer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tailscale/sqlite/sqliteh"
)

// Backup writes a consistent, defragmented copy of the database to dst, which must
// not exist, while the writer goes on. It reads one snapshot on a connection of
// its own, so the WAL cannot be reset until it is done; a database that is not in
// WAL mode cannot commit meanwhile. The copy is synced and gets its name only when
// it is whole; it is in rollback-journal mode. Close waits for a Backup that runs.
// ErrInUse means that another Backup to dst runs.
func (w *Writer) Backup(ctx context.Context, dst string) (err error) {
	if err := w.refuse(ctx); err != nil {
		return err
	}
	w.backups.RLock() // Close waits for it
	defer w.backups.RUnlock()
	select {
	case <-w.closing:
		return ErrClosed
	default:
	}
	if err := w.failed(); err != nil {
		return err
	}
	if dst, err = filepath.Abs(dst); err != nil { // also so that SQLite takes none for a URI
		return fmt.Errorf("writer.Backup: %w", err)
	}
	release, err := Lock(dst) // two that write the same partial copy would publish each other's
	if err != nil {
		return fmt.Errorf("writer.Backup: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := os.Lstat(dst); err == nil {
		return fmt.Errorf("writer.Backup: %s exists; remove it or choose another name", dst)
	}
	tmp := dst + "-partial"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("writer.Backup: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(tmp)
			err = fmt.Errorf("writer.Backup: %w", err)
		}
	}()
	if err := w.vacuumInto(ctx, tmp); err != nil {
		return err
	}
	if err := syncPath(tmp); err != nil {
		return err
	}
	if err := os.Link(tmp, dst); err != nil { // unlike a rename it never overwrites
		return err
	}
	if err := os.Remove(tmp); err != nil {
		return err
	}
	return syncPath(filepath.Dir(dst))
}

// vacuumInto copies the database with a read-only connection.
func (w *Writer) vacuumInto(ctx context.Context, dst string) (err error) {
	c, err := openConn(w.opt.Open, w.path, sqliteh.SQLITE_OPEN_READONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.busyTimeout(w.opt.BusyTimeout)
	defer c.interruptAfter(ctx)()
	rx := c.session()
	defer rx.end()
	_, err = rx.Stmt("VACUUM INTO ?").BindText(1, dst).Exec()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return err
}

// syncPath makes a file, or the names in a folder, durable.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
