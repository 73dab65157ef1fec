package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tpssim/tpssim/internal/tmpfs"
)

func TestInMemory(t *testing.T) {
	dir := tmpfs.Mount(t, "64m")
	c := quick(filepath.Join(dir, "some.db"))
	c.DataBytes = 1 << 30
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	judged(t, "folder", named(t, r, "folder"), Warn, "lies in memory (tmpfs)")
	judged(t, "sync", named(t, r, "sync"), Warn, "nothing to sync")
	judged(t, "space", named(t, r, "space"), Fail, "1.0 GiB needed")
	if size := named(t, r, "sequential").Values["file_bytes"]; size < blockBytes || size > 64<<20/freeShare {
		t.Errorf("a file of %v bytes on 64 MiB", size)
	}
	empty(t, dir)
}

func TestHardlyAnyRoom(t *testing.T) {
	dir := tmpfs.Mount(t, "4m")
	r, err := Run(t.Context(), quick(filepath.Join(dir, "some.db")))
	if err != nil {
		t.Fatal(err)
	}
	judged(t, "disk", named(t, r, "disk"), Fail, "no room for a test file")
	if got, want := names(r), "folder space sync disk memory swap cpus governor load steal sqlite wal_reset database"; got != want {
		t.Errorf("checks %q, want %q", got, want)
	}
	empty(t, dir)
}

func TestFullDisk(t *testing.T) {
	dir := tmpfs.Mount(t, "1m")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), quick(filepath.Join(dir, "some.db")))
	if err != nil {
		t.Fatal(err)
	}
	judged(t, "space", named(t, r, "space"), Fail, "0 B free")
	judged(t, "disk", named(t, r, "disk"), Fail, "the disk is full")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	empty(t, dir)
}

func TestReadOnlyFolder(t *testing.T) {
	dir := tmpfs.Mount(t, "1m")
	tmpfs.ReadOnly(t, dir)
	r, err := Run(t.Context(), quick(filepath.Join(dir, "some.db")))
	if err != nil {
		t.Fatal(err)
	}
	judged(t, "folder", named(t, r, "folder"), Fail, "is read-only")
	named(t, r, "memory") // the rest is examined all the same
}
