package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/tpssim/tpssim/doctor"
	"github.com/tpssim/tpssim/internal/tmpfs"
)

// What cannot be written to is read all the same, and stays as it is.
func TestDoctorOfAReadOnlyFolder(t *testing.T) {
	dir := tmpfs.Mount(t, "2m")
	path := filepath.Join(dir, "s.db")
	seedAt(t, path)
	tmpfs.ReadOnly(t, dir)
	before, err := contents(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := examine(t, path, exitError)
	found(t, r, "folder", doctor.Fail, "is read-only")
	found(t, r, "database", doctor.Fail, "page_size=4096, the rest not read")
	if after, err := contents(dir); err != nil || !maps.Equal(before, after) {
		t.Errorf("the files changed: %v, %v", after, err)
	}
}

func TestDoctorOnAFullDisk(t *testing.T) {
	dir := tmpfs.Mount(t, "2m")
	path := filepath.Join(dir, "s.db")
	seedAt(t, path)
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // until the disk is full
		_, err = ballast.Write(make([]byte, 4096))
	}
	if err := ballast.Close(); err != nil {
		t.Fatal(err)
	}
	r := examine(t, path, exitError)
	found(t, r, "folder", doctor.Warn, "lies in memory")
	found(t, r, "space", doctor.Fail, "0 B free")
	found(t, r, "disk", doctor.Fail, "the disk is full")
	found(t, r, "database", doctor.OK, "page_size=4096, the rest not read")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("left %v, %v", entries, err)
	}
}
