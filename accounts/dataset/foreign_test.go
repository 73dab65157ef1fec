package dataset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tpssim/tpssim/internal/sqlconn"
)

// crashed makes at path what a process leaves that dies in the midst of writing to a
// database in the journal mode, after the statements of setup: with "wal" a -wal that
// holds all it has committed since, with "delete" a hot -journal. It copies the files
// of a living one.
func crashed(t *testing.T, path, mode string, setup ...string) {
	t.Helper()
	origin := filepath.Join(t.TempDir(), "living.DB")
	c, err := sqlconn.Open(nil, origin, sqlconn.Create)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	statements := append(setup,
		"CREATE TABLE precious(x)", "PRAGMA journal_mode = "+mode,
		"INSERT INTO precious SELECT randomblob(3000) FROM (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3)")
	if mode == "delete" {
		// A cache this small writes pages of the transaction to the file.
		statements = append(statements, "PRAGMA cache_size = 1", "BEGIN", "UPDATE precious SET x = randomblob(3000)")
	}
	for _, statement := range statements {
		if err := c.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	journals := 0
	for _, suffix := range []string{"", "-wal", "-journal"} {
		content, err := os.ReadFile(origin + suffix)
		if err != nil || len(content) == 0 {
			continue
		}
		write(t, path+suffix, string(content))
		journals++
	}
	if journals != 2 {
		t.Fatalf("no journal was left in mode %s", mode)
	}
}

// folder returns the names and contents of all files in dir.
func folder(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d\n%s\n", e.Name(), len(content), content)
	}
	return b.String()
}

// What is not ours is refused before SQLite could recover it: that is for the program
// it belongs to, which may know of more than its journal.
func TestForeignIsNotRecovered(t *testing.T) {
	headless := func(content string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			crashed(t, path, "wal")
			write(t, path, content)
		}
	}
	for _, test := range []struct {
		name string
		make func(t *testing.T, path string)
		want error
	}{
		{"a -wal", func(t *testing.T, path string) { crashed(t, path, "wal") }, ErrNotOurs},
		{"a hot -journal", func(t *testing.T, path string) { crashed(t, path, "delete") }, ErrNotOurs},
		{"a -wal of pgbench's tables", func(t *testing.T, path string) {
			crashed(t, path, "wal", fmt.Sprintf("PRAGMA application_id = %d", TPCBApplicationID))
		}, ErrNotOurs},
		{"our number in its -wal only", func(t *testing.T, path string) {
			crashed(t, path, "wal", "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", fmt.Sprintf("PRAGMA application_id = %d", ApplicationID))
		}, ErrNotOurs},
		{"a -wal without a header", headless("SQLite format 3\x00"), ErrNotDatabase},
		{"a -wal with a blank header", headless(strings.Repeat("\x00", 4096)), ErrNotDatabase},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.DB")
			test.make(t, path)
			before := folder(t, filepath.Dir(path))
			_, inspected := Inspect(path)
			_, checked := Check(t.Context(), path, Options{})
			_, seeded := Seed(t.Context(), path, small4096, Options{})
			_, replaced := Seed(t.Context(), path, small4096, Options{Overwrite: true})
			for i, err := range []error{inspected, checked, seeded, replaced} {
				if !errors.Is(err, test.want) {
					t.Errorf("%d: %v", i, err)
				}
				oneLine(t, err)
			}
			if after := folder(t, filepath.Dir(path)); after != before {
				t.Error("the folder has changed")
			}
		})
	}
}

// A data set of ours with such journals is recovered, as before.
func TestOursIsRecovered(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		path := place(t)
		crashed(t, path, mode, fmt.Sprintf("PRAGMA application_id = %d", ApplicationID),
			createMeta, "CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER)", createTransfer,
			"INSERT INTO tpssim VALUES('format', 1), ('rows', 5), ('balance', 1), ('schema', 'rowid'), ('page_size', 4096)")
		info, err := Inspect(path)
		if err != nil || info.Spec.Rows != 5 {
			t.Errorf("%s: %+v, %v", mode, info, err)
		}
		onlyHas(t, filepath.Dir(path), filepath.Base(path))
	}
}

func TestLook(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(t *testing.T, path string)
		kind Kind
		want error
	}{
		{"nothing", func(*testing.T, string) {}, 0, ErrNotExist},
		{"an empty file", func(t *testing.T, path string) { write(t, path, "") }, 0, ErrNotExist},
		{"a data set", func(t *testing.T, path string) { mustSeed(t, path, small) }, KindAccounts, nil},
		{"a data set with a -wal", func(t *testing.T, path string) {
			mustSeed(t, path, small)
			if err := startChild(t, "crash", path).Wait(); err != nil {
				t.Fatal(err)
			}
		}, KindAccounts, nil},
		{"pgbench's tables", func(t *testing.T, path string) {
			change(t, path, fmt.Sprintf("PRAGMA application_id = %d", TPCBApplicationID))
		}, KindTPCB, nil},
		{"somebody's", func(t *testing.T, path string) { change(t, path, "CREATE TABLE x(y)") }, 0, ErrNotOurs},
		{"text", func(t *testing.T, path string) { write(t, path, strings.Repeat("text\n", 100)) }, 0, ErrNotDatabase},
		{"short text", func(t *testing.T, path string) { write(t, path, "x") }, 0, ErrNotDatabase},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, 0, ErrNotFile},
		{"an orphan", func(t *testing.T, path string) { write(t, path+"-wal", "frames") }, 0, ErrOrphan},
	} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "x.DB")
		test.make(t, path)
		found, err := Look(path)
		if found.Kind != test.kind || !errors.Is(err, test.want) || (err == nil || errors.Is(err, ErrNotExist)) && found.Path != path {
			t.Errorf("%s: %+v, %v", test.name, found, err)
		}
	}
}

// made makes a database somewhere else and gives it the name path, with its content.
func made(t *testing.T, path string, statements ...string) string {
	t.Helper()
	other := filepath.Join(t.TempDir(), "made.DB")
	change(t, other, statements...)
	content, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(content))
	return string(content)
}

// While a data set is written page by page somebody makes a database of its name.
func TestSomebodyIsFaster(t *testing.T) {
	for _, test := range []struct {
		name  string
		begin func(t *testing.T, path string)
		then  func(t *testing.T, path string)
		opts  Options
		want  error
		kept  []string
	}{
		{name: "a database", then: func(t *testing.T, path string) { made(t, path, "CREATE TABLE precious(x)") }, want: ErrTaken, kept: []string{"x.DB"}},
		{name: "an empty file", then: func(t *testing.T, path string) { write(t, path, "") }, want: ErrTaken, kept: []string{"x.DB"}},
		{name: "whatever was asked for", then: func(t *testing.T, path string) { made(t, path, "CREATE TABLE precious(x)") },
			opts: Options{Overwrite: true}, want: ErrTaken, kept: []string{"x.DB"}},
		{name: "a -wal", then: func(t *testing.T, path string) { write(t, path+"-wal", "frames") }, want: ErrOrphan, kept: []string{"x.DB-wal"}},
		{name: "a -journal", then: func(t *testing.T, path string) { write(t, path+"-journal", "pages") }, want: ErrOrphan, kept: []string{"x.DB-journal"}},
		{name: "in an empty file", begin: func(t *testing.T, path string) { write(t, path, "") },
			then: func(t *testing.T, path string) { made(t, path, "CREATE TABLE precious(x)") }, want: ErrNotOurs, kept: []string{"x.DB"}},
		{name: "a data set in an empty file", begin: func(t *testing.T, path string) { write(t, path, "") },
			then: func(t *testing.T, path string) {
				made(t, path, fmt.Sprintf("PRAGMA application_id = %d", ApplicationID))
			}, want: ErrTaken, kept: []string{"x.DB"}},
		{name: "in place of a data set", begin: func(t *testing.T, path string) { mustSeed(t, path, small) }, opts: Options{Overwrite: true},
			then: func(t *testing.T, path string) { made(t, path, "CREATE TABLE precious(x)") }, want: ErrNotOurs, kept: []string{"x.DB"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.DB")
			if test.begin != nil {
				test.begin(t, path)
			}
			before := ""
			test.opts.Method = Pages
			test.opts.Stage = func(stage string) {
				if stage == "finishing" {
					test.then(t, path)
					partial := path + PartialSuffix
					whole, err := os.ReadFile(partial)
					if err = errors.Join(err, os.Remove(partial)); err != nil {
						t.Error(err)
					}
					before = folder(t, filepath.Dir(path))
					write(t, partial, string(whole))
				}
			}
			report, err := Seed(t.Context(), path, small4096, test.opts)
			if !errors.Is(err, test.want) || report.Complete {
				t.Errorf("report %+v, error %v", report, err)
			}
			oneLine(t, err)
			if n := strings.Count(fmt.Sprint(err), "dataset: "); n != 1 {
				t.Errorf("said %d times whose error it is: %v", n, err)
			}
			if after := folder(t, filepath.Dir(path)); after != before {
				t.Error("the folder has changed")
			}
			onlyHas(t, filepath.Dir(path), test.kept...)
		})
	}
}

// A data set that another process opens while its successor is written is not taken
// away from it, though it holds no lock that writing would meet.
func TestOpenedMeanwhile(t *testing.T) {
	path := place(t)
	mustSeed(t, path, small)
	var idle child
	opts := Options{Method: Pages, Overwrite: true, Stage: func(stage string) {
		if stage == "finishing" {
			idle = startChild(t, "idle", path)
			if line, err := idle.out.ReadString('\n'); line != "open\n" {
				t.Errorf("the child said %q, %v", line, err)
			}
		}
	}}
	_, err := Seed(context.Background(), path, small4096, opts)
	if !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	oneLine(t, err)
	idle.in.Close()
	if err := idle.Wait(); err != nil {
		t.Fatal(err)
	}
	if info, err := Inspect(path); err != nil || info.Spec != small {
		t.Errorf("info %+v, error %v", info, err)
	}
	opts.Stage = nil
	if report, err := Seed(t.Context(), path, small4096, opts); err != nil || !report.Complete {
		t.Errorf("report %+v, error %v", report, err)
	}
	onlyHas(t, filepath.Dir(path), filepath.Base(path))
}

// A data set that was to be replaced and was not is what it was.
func TestOverwriteCancelled(t *testing.T) {
	path := place(t)
	mustSeed(t, path, small)
	before := folder(t, filepath.Dir(path))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Seed(ctx, path, small4096, Options{Method: Pages, Overwrite: true}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if folder(t, filepath.Dir(path)) != before {
		t.Error("the folder has changed")
	}
}
