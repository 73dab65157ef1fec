package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tpssim/tpssim/accounts"
)

func write(t *testing.T, path string, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Everything that is no data set to work on is refused with one line that says
// what to do, and is left as it was.
func TestRefusals(t *testing.T) {
	other := func(change func(*accounts.Spec)) accounts.Spec {
		spec := small
		change(&spec)
		return spec
	}
	for _, test := range []struct {
		name    string
		make    func(t *testing.T, path string) (now string) // the path to use, or "" for path
		spec    accounts.Spec                                // for Seed; small when empty
		seed    error
		inspect error // nil: works
		check   error // nil: works
		says    string
	}{
		{name: "no file", make: func(*testing.T, string) string { return "" },
			inspect: ErrNotExist, check: ErrNotExist, says: "seed it first"},
		{name: "no folder", make: func(_ *testing.T, path string) string { return filepath.Join(path, "in", "x.DB") },
			seed: ErrNoFolder, inspect: ErrNoFolder, check: ErrNoFolder, says: "make "},
		{name: "a folder", make: func(_ *testing.T, path string) string { return filepath.Dir(path) },
			seed: ErrNotFile, inspect: ErrNotFile, check: ErrNotFile, says: "name a file"},
		{name: "text", make: func(t *testing.T, path string) string {
			write(t, path, strings.Repeat("not a database\n", 1000))
			return ""
		}, seed: ErrNotDatabase, inspect: ErrNotDatabase, check: ErrNotDatabase, says: "choose another path"},
		{name: "short text", make: func(t *testing.T, path string) string { write(t, path, "x"); return "" },
			seed: ErrNotDatabase, inspect: ErrNotDatabase, check: ErrNotDatabase, says: "choose another path"},
		{name: "somebody's database", make: func(t *testing.T, path string) string {
			change(t, path, "CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)", "INSERT INTO account VALUES(1, 1)")
			return ""
		}, seed: ErrNotOurs, inspect: ErrNotOurs, check: ErrNotOurs, says: "choose another path"},
		{name: "somebody's WAL database", make: func(t *testing.T, path string) string {
			change(t, path, "PRAGMA journal_mode = WAL", "CREATE TABLE precious(x)")
			return ""
		}, seed: ErrNotOurs, inspect: ErrNotOurs, check: ErrNotOurs, says: "choose another path"},
		{name: "our number only", make: func(t *testing.T, path string) string {
			change(t, path, fmt.Sprintf("PRAGMA application_id = %d", ApplicationID), "CREATE TABLE x(y)")
			return ""
		}, seed: ErrCorrupt, inspect: ErrCorrupt, check: ErrCorrupt, says: "delete it and seed again"},
		{name: "a later format", make: func(t *testing.T, path string) string {
			mustSeed(t, path, small)
			change(t, path, "UPDATE tpssim SET value = 2 WHERE key = 'format'")
			return ""
		}, seed: ErrFormat, inspect: ErrFormat, check: ErrFormat, says: "format 2"},
		{name: "truncated", make: func(t *testing.T, path string) string {
			mustSeed(t, path, small)
			if err := os.Truncate(path, 20*1024); err != nil {
				t.Fatal(err)
			}
			return ""
		}, seed: ErrCorrupt, inspect: ErrCorrupt, check: ErrCorrupt, says: "delete it and seed again"},
		{name: "not complete", make: func(t *testing.T, path string) string {
			mustSeed(t, path, small)
			change(t, path, "UPDATE tpssim SET value = 0 WHERE key = 'complete'")
			return ""
		}, check: ErrIncomplete, says: "seed it again"},
		{name: "other rows", make: seeded, spec: other(func(s *accounts.Spec) { s.Rows++ }),
			seed: ErrMismatch, says: "rows 3000 instead of 3001"},
		{name: "other balance", make: seeded, spec: other(func(s *accounts.Spec) { s.Balance++ }),
			seed: ErrMismatch, says: "balance 1000 instead of 1001"},
		{name: "other schema", make: seeded, spec: other(func(s *accounts.Spec) { s.Schema = accounts.SchemaArticle }),
			seed: ErrMismatch, says: "schema rowid instead of article"},
		{name: "other payload", make: seeded, spec: other(func(s *accounts.Spec) { s.Payload = 0 }),
			seed: ErrMismatch, says: "payload 20 instead of 0"},
		{name: "other indexes", make: seeded, spec: other(func(s *accounts.Spec) { s.Indexes = 1 }),
			seed: ErrMismatch, says: "indexes 2 instead of 1"},
		{name: "other page size", make: seeded, spec: other(func(s *accounts.Spec) { s.PageSize = 4096 }),
			seed: ErrMismatch, says: "page size 1024 instead of 4096"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := place(t)
			if now := test.make(t, path); now != "" {
				path = now
			}
			before, _ := os.ReadFile(path)
			refused := func(what string, err, want error) {
				t.Helper()
				switch {
				case !errors.Is(err, want):
					t.Errorf("%s: %v, want %v", what, err, want)
				case want != nil:
					oneLine(t, err)
					if !strings.Contains(err.Error(), test.says) {
						t.Errorf("%s: %q does not say %q", what, err, test.says)
					}
				}
			}
			_, err := Inspect(path)
			refused("inspect", err, test.inspect)
			_, err = Check(t.Context(), path, Options{})
			refused("check", err, test.check)
			spec := test.spec
			if spec == (accounts.Spec{}) {
				spec = small
			}
			_, err = Seed(t.Context(), path, spec, Options{})
			refused("seed", err, test.seed)
			if after, _ := os.ReadFile(path); test.seed != nil && string(after) != string(before) {
				t.Error("a refused file was changed")
			}
		})
	}
}

func seeded(t *testing.T, path string) string {
	mustSeed(t, path, small)
	return ""
}

// A journal whose database is gone is never given another one.
func TestOrphans(t *testing.T) {
	for _, test := range []struct {
		suffix, content string
		empty           bool // an empty file lies in the database's place
	}{
		{suffix: "-wal"},
		{suffix: "-wal", content: "frames"},
		{suffix: "-wal", content: "frames", empty: true},
		{suffix: "-journal", content: "pages"},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.DB")
			write(t, path+test.suffix, test.content)
			if test.empty {
				write(t, path, "")
			}
			_, inspected := Inspect(path)
			_, checked := Check(t.Context(), path, Options{})
			_, seeded := Seed(t.Context(), path, small, Options{})
			for _, err := range []error{inspected, checked, seeded} {
				if !errors.Is(err, ErrOrphan) || !strings.Contains(err.Error(), "delete "+path+test.suffix) {
					t.Error(err)
				}
				oneLine(t, err)
			}
			if b, err := os.ReadFile(path + test.suffix); err != nil || string(b) != test.content {
				t.Errorf("the journal is not what it was: %q, %v", b, err)
			}
		})
	}
}

func TestForecastAgainstFreeSpace(t *testing.T) {
	path := place(t)
	free := uint64(1000)
	opts := Options{FreeBytes: func(string) (uint64, error) { return free, nil }}
	_, err := Seed(t.Context(), path, small, opts)
	if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "1000 B are free") || !strings.Contains(err.Error(), "KiB are to be written") {
		t.Error(err)
	}
	oneLine(t, err)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	free = uint64(Forecast(small))
	if _, err := Seed(t.Context(), path, small, opts); err != nil {
		t.Error(err)
	}
	free = 0
	if _, err := Seed(t.Context(), path, small, opts); err != nil {
		t.Errorf("nothing is to be written: %v", err)
	}
}

func TestInvalidSpec(t *testing.T) {
	path := place(t)
	if _, err := Seed(t.Context(), path, accounts.Spec{}, Options{}); err == nil {
		t.Error("accepted")
	}
	if _, err := Seed(t.Context(), "", small, Options{}); err == nil {
		t.Error("an empty path was accepted")
	}
}

func TestLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := place(t)
	mustSeed(t, path, small)
	change(t, path, "UPDATE tpssim SET value = 0 WHERE key = 'complete'")
	c := startChild(t, "lock", path)
	if line, err := c.out.ReadString('\n'); line != "locked\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	_, checked := Check(t.Context(), path, Options{})
	_, seeded := Seed(t.Context(), path, small, Options{})
	for _, err := range []error{checked, seeded} {
		if !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
		oneLine(t, err)
	}
	c.in.Close()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if report, err := Seed(t.Context(), path, small, Options{}); err != nil || !report.Complete {
		t.Errorf("report %+v, error %v", report, err)
	}
}

func TestReadOnly(t *testing.T) {
	path := place(t)
	for _, cause := range []error{fs.ErrPermission, &fs.PathError{Op: "open", Path: path, Err: syscall.EROFS}} {
		opts := Options{Lock: func(string) (func() error, error) { return nil, cause }}
		_, err := Seed(t.Context(), path, small, opts)
		if !errors.Is(err, ErrReadOnly) {
			t.Error(err)
		}
		oneLine(t, err)
	}
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	mustSeed(t, path, small)
	dir := filepath.Dir(path)
	if err := errors.Join(os.Chmod(path, 0o444), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	readOnlyFolder(t, path)
}

// readOnlyFolder checks what can be done with a data set where nothing may be
// written: look at it, and nothing else.
func readOnlyFolder(t *testing.T, path string) {
	t.Helper()
	if info, err := Inspect(path); err != nil || info.Spec != small {
		t.Errorf("inspect %+v, %v", info, err)
	}
	_, checked := Check(t.Context(), path, Options{})
	_, seeded := Seed(t.Context(), filepath.Join(filepath.Dir(path), "new.DB"), small, Options{})
	for _, err := range []error{checked, seeded} {
		if !errors.Is(err, ErrReadOnly) {
			t.Error(err)
		}
		oneLine(t, err)
	}
}
