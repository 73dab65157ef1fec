package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestMayWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.db")
	if err := mayWrite(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mayWrite(path); err != nil {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		t.Skip("root may write to any file")
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := mayWrite(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("read-only: %v", err)
	}
	r, err := Run(t.Context(), quick(path))
	if err != nil {
		t.Fatal(err)
	}
	judged(t, "read-only", named(t, r, "database"), Fail, "some.db may not be written to: permission denied")
	judged(t, "its folder", named(t, r, "folder"), named(t, r, "folder").Status, "may be written to")
}

// Only a database that is there is asked about.
func TestReadFolderAsksAboutTheDatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "some.db")
	if err := os.WriteFile(path, make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]error{path: fs.ErrPermission, filepath.Join(dir, "other.db"): nil, dir: nil} {
		f := readFolder(asked, func(about string) error {
			if about != path {
				t.Errorf("asked about %s", about)
			}
			return fs.ErrPermission
		})
		if f.err != nil || f.writeErr != want || f.database != asked {
			t.Errorf("%s: %+v", asked, f)
		}
	}
}
