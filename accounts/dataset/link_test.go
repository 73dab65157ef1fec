package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A link to nothing, or to itself, is refused and stays what it was.
func TestLinkThatLeadsNowhere(t *testing.T) {
	for _, target := range []string{"missing.db", "s.db"} {
		path := filepath.Join(t.TempDir(), "s.db")
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		for _, method := range []Method{Pages, SQL} {
			if _, err := Seed(t.Context(), path, small, Options{Method: method}); !errors.Is(err, ErrNotFile) {
				t.Errorf("%s to %s: %v, want ErrNotFile", method, target, err)
			}
		}
		if got, err := os.Readlink(path); err != nil || got != target {
			t.Errorf("the link leads to %q now, %v", got, err)
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			t.Errorf("beside it there is %v, %v", entries, err)
		}
	}
}
