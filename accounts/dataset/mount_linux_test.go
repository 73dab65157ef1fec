package dataset

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/tmpfs"
)

// mounted is a small file system in which no journal may be left.
func mounted(t *testing.T, size string) string {
	t.Helper()
	dir := tmpfs.Mount(t, size)
	t.Cleanup(func() { noJournals(t, dir) })
	return dir
}

// The disk is really full: what was committed stays, and with room again the
// seeding goes on.
func TestSeedOnAFullFileSystem(t *testing.T) {
	dir := mounted(t, "1m")
	path := filepath.Join(dir, "x.DB")
	spec := accounts.Spec{Rows: 200_000, Balance: 1000, Schema: accounts.SchemaRowid, PageSize: 4096}
	report, err := Seed(t.Context(), path, spec, Options{CommitRows: 10_000, Method: SQL})
	if !errors.Is(err, ErrNoSpace) || report.Rows == 0 || report.Complete {
		t.Fatalf("report %+v, error %v", report, err)
	}
	oneLine(t, err)
	if info, err := Inspect(path); err != nil || info.Seeded != report.Rows {
		t.Fatalf("info %+v, error %v", info, err)
	}
	tmpfs.Resize(t, dir, "16m")
	again, err := Seed(t.Context(), path, spec, Options{})
	if err != nil || !again.Complete || again.Inserted != spec.Rows-report.Rows {
		t.Fatalf("report %+v, error %v", again, err)
	}
	if checked, err := Check(t.Context(), path, Options{}); err != nil || !checked.OK() {
		t.Errorf("check %+v, error %v", checked, err)
	}
}

// By pages nothing is kept, and nothing lies there that would take up the room,
// whether the disk is full before the first page or long after it.
func TestPagesOnAFullFileSystem(t *testing.T) {
	spec := accounts.Spec{Rows: 200_000, Balance: 1000, Schema: accounts.SchemaRowid, PageSize: 4096}
	for _, size := range []string{"4k", "1m"} {
		dir := mounted(t, size)
		path := filepath.Join(dir, "x.DB")
		report, err := Seed(t.Context(), path, spec, Options{})
		if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "nothing of it is left") || report.Rows != 0 || report.Complete {
			t.Errorf("%s: report %+v, error %v", size, report, err)
		}
		oneLine(t, err)
		onlyHas(t, dir)
		tmpfs.Resize(t, dir, "16m")
		if again, err := Seed(t.Context(), path, spec, Options{}); err != nil || !again.Complete || again.Method != Pages {
			t.Errorf("%s: report %+v, error %v", size, again, err)
		}
		onlyHas(t, dir, "x.DB")
	}
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := mounted(t, "1m")
	path := filepath.Join(dir, "x.DB")
	mustSeed(t, path, small)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	readOnlyFolder(t, path)
}
