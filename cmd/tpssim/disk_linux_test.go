package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tpssim/tpssim/internal/tmpfs"
	"github.com/tpssim/tpssim/tps"
)

func TestReadOnlyFolder(t *testing.T) {
	dir := tmpfs.Mount(t, "2m")
	path := filepath.Join(dir, "s.db")
	seedAt(t, path)
	tmpfs.ReadOnly(t, dir)
	t.Chdir(dir)
	before, err := contents(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"run --db s.db --dist uniform -n 10",
		"run -q --dist uniform --rows 100",
		"seed --rows 100",
		"seed --db s.db --rows 2000 --balance 1000",
		"check --db s.db",
	} {
		code, stdout, stderr := invoke(t, strings.Fields(args)...)
		if wrong := complaint(stdout, stderr); code != exitError || wrong != "" {
			t.Errorf("%s: exit code %d: %s", args, code, wrong)
		}
		if !strings.Contains(stderr, "read-only: choose a folder that you may write to") {
			t.Errorf("%s: stderr %q", args, stderr)
		}
	}
	if after, err := contents(dir); err != nil || !maps.Equal(before, after) {
		t.Errorf("the files changed: %v, %v", after, err)
	}
}

// What would not fit is refused before it is begun.
func TestSeedThatDoesNotFit(t *testing.T) {
	dir := tmpfs.Mount(t, "2m")
	path := filepath.Join(dir, "s.db")
	code, stdout, stderr := invoke(t, "seed", "--rows", "1m", "--db", path)
	if wrong := complaint(stdout, stderr); code != exitError || wrong != "" {
		t.Errorf("exit code %d: %s", code, wrong)
	}
	if !strings.Contains(stderr, "12 MiB are to be written and 2.0 MiB are free") {
		t.Errorf("stderr %q", stderr)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("made %v, %v", entries, err)
	}
}

// The disk fills while a ledger grows: whatever the run comes to, it says so, no
// money is lost, and with room again the data set is as good as new.
func TestRunFillsTheDisk(t *testing.T) {
	dir := tmpfs.Mount(t, "2m")
	path := filepath.Join(dir, "s.db")
	seedAt(t, path)
	code, stdout, stderr := invoke(t, "run", "ledger", "-q", "--db", path, "--dist", "uniform",
		"-n", "300k", "-c", "2000", "--format", "json", "--checkpoint", "pages:100")
	switch code {
	case exitOK:
		var res tps.Result
		if err := json.Unmarshal([]byte(stdout), &res); err != nil {
			t.Fatalf("%v: %s", err, stdout)
		}
		if !res.Verify.OK || res.Failed == 0 || len(res.Errors) == 0 {
			t.Errorf("ok %v, %d failed: %v", res.Verify.OK, res.Failed, res.Errors)
		}
	case exitError:
		if wrong := complaint(stdout, stderr); wrong != "" {
			t.Error(wrong)
		}
		if !strings.Contains(stderr, "the disk is full: make room, then try again; what was committed is kept") {
			t.Errorf("stderr %q", stderr)
		}
	default:
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	// A full disk has no room for what the -wal holds: it may be left there.
	tmpfs.Resize(t, dir, "32m")
	if code, stdout, stderr := invoke(t, "check", "-q", "--db", path); code != exitOK {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	whole(t, path)
	if code, stdout, stderr := invoke(t, "run", "-q", "--db", path, "--dist", "uniform", "-n", "100", "--runs", "1"); code != exitOK {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
