package dataset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What a killed seeding of pgbench's tables leaves is removed by one of a data set:
// that one has no journal, so the header may tell of pages that never came.
func TestPartialsOfBothKinds(t *testing.T) {
	whole := func(t *testing.T, id int64) string {
		return made(t, filepath.Join(t.TempDir(), "x"), "PRAGMA page_size = 1024", fmt.Sprintf("PRAGMA application_id = %d", id),
			"CREATE TABLE pgbench_branches(x)", "CREATE TABLE pgbench_tellers(x)")
	}
	for _, id := range []int64{ApplicationID, TPCBApplicationID} {
		content := whole(t, id)
		for name, left := range map[string]string{
			"whole": content, "a page": content[:1024], "half a page": content[:512], "a header": content[:100],
			"half a header": content[:50], "a byte": content[:1], "nothing": "",
			"a blank page": strings.Repeat("\x00", 4096), "a blank byte": "\x00",
		} {
			path := place(t)
			write(t, path+PartialSuffix, left)
			for _, suffix := range journals {
				write(t, path+PartialSuffix+suffix, "old")
			}
			if err := RemovePartial(path); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			onlyHas(t, filepath.Dir(path))
		}
		for _, method := range []Method{Pages, SQL} {
			path := place(t)
			write(t, path+PartialSuffix, content[:1024])
			report, err := Seed(t.Context(), path, small4096, Options{Method: method})
			if err != nil || !report.Complete {
				t.Errorf("by %s: report %+v, error %v", method, report, err)
			}
			onlyHas(t, filepath.Dir(path), filepath.Base(path))
		}
	}
}

// What holds anything else is none.
func TestNoPartials(t *testing.T) {
	for name, content := range map[string]string{
		"a foreign header":      made(t, filepath.Join(t.TempDir(), "x"), "CREATE TABLE x(y)"),
		"behind blanks":         strings.Repeat("\x00", 32<<10) + "CD001",
		"more blanks than ours": strings.Repeat("\x00", maxBlankBytes+1),
		"short text":            "SELECT 1",
		"a text that begins so": "SQLite format 3 is what I write about",
	} {
		path := filepath.Join(t.TempDir(), "x.DB")
		write(t, path+PartialSuffix, content)
		before := folder(t, filepath.Dir(path))
		err := RemovePartial(path)
		if !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			oneLine(t, err)
		}
		if folder(t, filepath.Dir(path)) != before {
			t.Errorf("%s: the folder has changed", name)
		}
	}
}

// A process that was killed when the database had both names leaves it whole, and the
// next seeding removes the other name.
func TestBothNames(t *testing.T) {
	path := place(t)
	mustSeed(t, path, small4096)
	if err := os.Link(path, path+PartialSuffix); err != nil {
		t.Skip(err)
	}
	if report := mustSeed(t, path, small4096); !report.Existed {
		t.Errorf("report %+v", report)
	}
	onlyHas(t, filepath.Dir(path), filepath.Base(path))
	if info, err := Inspect(path); err != nil || !info.Complete {
		t.Errorf("info %+v, error %v", info, err)
	}
}

func TestTakeName(t *testing.T) {
	refused := errors.New("refused")
	allow, forbid := func() error { return nil }, func() error { return refused }
	noLinks := func(from, to string) error {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.ENOTSUP}
	}
	// Somebody makes the file between the look and the link.
	late := func(link func(from, to string) error) func(from, to string) error {
		return func(from, to string) error {
			return errors.Join(os.WriteFile(to, []byte("late"), 0o644), link(from, to))
		}
	}
	for _, test := range []struct {
		name  string
		link  func(from, to string) error
		may   func() error
		files map[string]string // beside the partial, by suffix
		want  error
		after map[string]string
	}{
		{name: "free", link: os.Link, after: map[string]string{"": "new"}},
		{name: "free again", link: os.Link, may: forbid, after: map[string]string{"": "new"}},
		{name: "without links", link: noLinks, after: map[string]string{"": "new"}},
		{name: "taken", link: os.Link, files: map[string]string{"": "old", "-wal": "w"}, want: ErrTaken, after: map[string]string{"": "old", "-wal": "w", PartialSuffix: "new"}},
		{name: "taken late", link: late(os.Link), want: ErrTaken, after: map[string]string{"": "late", PartialSuffix: "new"}},
		{name: "taken late without links", link: late(noLinks), want: ErrTaken, after: map[string]string{"": "late", PartialSuffix: "new"}},
		{name: "an orphan", link: os.Link, files: map[string]string{"-wal": "w"}, want: ErrOrphan, after: map[string]string{"-wal": "w", PartialSuffix: "new"}},
		{name: "another orphan", link: os.Link, may: allow, files: map[string]string{"-journal": "j"}, want: ErrOrphan, after: map[string]string{"-journal": "j", PartialSuffix: "new"}},
		{name: "allowed", link: os.Link, may: allow, files: map[string]string{"": "old", "-wal": "", "-shm": "s", "-journal": "j"}, after: map[string]string{"": "new"}},
		{name: "forbidden", link: os.Link, may: forbid, files: map[string]string{"": "old", "-wal": "w"}, want: refused, after: map[string]string{"": "old", "-wal": "w", PartialSuffix: "new"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.DB")
			write(t, path+PartialSuffix, "new")
			for suffix, content := range test.files {
				write(t, path+suffix, content)
			}
			if err := takeName(test.link, path, test.may); !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			var names []string
			for _, suffix := range []string{"", "-journal", PartialSuffix, "-shm", "-wal"} {
				want, there := test.after[suffix]
				if !there {
					continue
				}
				names = append(names, "x.DB"+suffix)
				if got, err := os.ReadFile(path + suffix); err != nil || string(got) != want {
					t.Errorf("x.DB%s holds %q, %v; want %q", suffix, got, err, want)
				}
			}
			onlyHas(t, filepath.Dir(path), names...)
		})
	}
}
