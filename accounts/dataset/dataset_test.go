package dataset

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"
	"go.uber.org/goleak"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

func TestMain(m *testing.M) {
	if work, ok := children[os.Getenv(childWork)]; ok {
		os.Exit(work(os.Getenv(childPath)))
	}
	// Each check seeds several times and syncs to the disk each time; the
	// number can still be raised on the command line.
	if f := flag.Lookup("rapid.checks"); f != nil {
		f.Value.Set("25")
	}
	goleak.VerifyTestMain(m)
}

// small is a data set that is made in a few milliseconds and has everything.
var small = accounts.Spec{Rows: 3000, Balance: 1000, Schema: accounts.SchemaRowid, Payload: 20, Indexes: 2, PageSize: 1024}

// place returns the path of a data set in a folder of its own, and checks after
// the test that no journal is left in it.
func place(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { noJournals(t, dir) })
	return filepath.Join(dir, "a ? b%20#.DB") // a URI would misread it
}

func noJournals(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		for _, suffix := range []string{"-wal", "-shm", "-journal", PartialSuffix} {
			if strings.HasSuffix(path, suffix) {
				t.Errorf("%s was left behind", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func mustSeed(t *testing.T, path string, spec accounts.Spec) Report {
	t.Helper()
	return mustSeedBy(t, Auto, path, spec)
}

func mustSeedBy(t *testing.T, method Method, path string, spec accounts.Spec) Report {
	t.Helper()
	report, err := Seed(t.Context(), path, spec, Options{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// change runs statements on a database, past everything this package guards.
func change(t *testing.T, path string, statements ...string) {
	t.Helper()
	c, err := sqlconn.Open(nil, path, sqlconn.Create)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if err := c.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// content returns the bytes of a database file without the two counters of its
// header that count transactions, which depend on how often it was committed.
func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[24:28])
	clear(b[92:96])
	return b
}

func TestSeedInspectCheck(t *testing.T) {
	for _, spec := range []accounts.Spec{
		{Rows: 1, Balance: 0, Schema: accounts.SchemaRowid, PageSize: 512},
		{Rows: 249, Balance: 1, Schema: accounts.SchemaRowid, PageSize: 4096},
		{Rows: 251, Balance: 7, Schema: accounts.SchemaArticle, PageSize: 4096},
		{Rows: 5000, Balance: 1_000_000_000, Schema: accounts.SchemaArticle, Payload: 300, Indexes: 1, PageSize: 65536},
		{Rows: 40, Balance: accounts.MaxTotalBalance / 40, Schema: accounts.SchemaRowid, Payload: 9000, Indexes: accounts.MaxIndexes, PageSize: 1024},
		small,
	} {
		t.Run(fmt.Sprintf("%+v", spec), func(t *testing.T) {
			t.Parallel()
			path := place(t)
			report := mustSeed(t, path, spec)
			if report.Rows != spec.Rows || report.Inserted != spec.Rows || !report.Complete || report.Existed {
				t.Errorf("report %+v", report)
			}
			info, err := Inspect(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Spec != spec || !info.Complete || info.Seeded != spec.Rows || info.Bytes() != report.Bytes {
				t.Errorf("info %+v, spec %+v, report %+v", info, spec, report)
			}
			if err := errors.Join(info.Ready(), info.Match(spec)); err != nil {
				t.Error(err)
			}
			if header := content(t, path); header[18] != 2 || header[19] != 2 {
				t.Errorf("not in WAL mode: %v", header[18:20])
			}
			checked, err := Check(t.Context(), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !checked.OK() || checked.Rows != spec.Rows || checked.Total != spec.Rows*spec.Balance {
				t.Errorf("check %+v", checked)
			}
		})
	}
}

func TestSeedAgainDoesNothing(t *testing.T) {
	path := place(t)
	mustSeed(t, path, small)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	report := mustSeed(t, path, small)
	if !report.Existed || report.Inserted != 0 || !report.Complete || report.Rows != small.Rows {
		t.Errorf("report %+v", report)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file changed: %v", err)
	}
}

func TestSeedFillsAnEmptyFile(t *testing.T) {
	path := place(t)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(path); !errors.Is(err, ErrNotExist) {
		t.Errorf("inspect: %v", err)
	}
	if report := mustSeed(t, path, small); !report.Complete || report.Existed {
		t.Errorf("report %+v", report)
	}
}

func TestSeedFollowsALink(t *testing.T) {
	path := place(t)
	mustSeed(t, path, small)
	link := filepath.Join(t.TempDir(), "link.DB")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	info, err := Inspect(link)
	if err != nil {
		t.Fatal(err)
	}
	if resolved, err := filepath.EvalSymlinks(path); err != nil || info.Path != resolved {
		t.Errorf("path %s, want %s (%v)", info.Path, resolved, err)
	}
}

func TestProgressAndStages(t *testing.T) {
	path := place(t)
	var stages []string
	last := int64(-1)
	opts := Options{
		CommitRows: 700,
		Stage:      func(name string) { stages = append(stages, name) },
		Progress: func(done, total int64) {
			if done < last || total != small.Rows {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
		},
	}
	if _, err := Seed(t.Context(), path, small, opts); err != nil {
		t.Fatal(err)
	}
	if want := []string{"accounts", "index 1 of 2", "index 2 of 2", "finishing"}; !slices.Equal(stages, want) || last != small.Rows {
		t.Errorf("stages %q, last progress %d", stages, last)
	}
}

func TestLockIsTakenAndGivenBack(t *testing.T) {
	path := place(t)
	held, taken := false, 0
	opts := Options{Lock: func(got string) (func() error, error) {
		if resolved, err := filepath.EvalSymlinks(filepath.Dir(path)); err != nil || filepath.Dir(got) != resolved {
			t.Errorf("lock of %s (%v)", got, err)
		}
		held, taken = true, taken+1
		return func() error { held = false; return nil }, nil
	}}
	if _, err := Seed(t.Context(), path, small, opts); err != nil || held || taken != 1 {
		t.Errorf("seed: %v, held %v, taken %d", err, held, taken)
	}
	if _, err := Check(t.Context(), path, opts); err != nil || held || taken != 2 {
		t.Errorf("check: %v, held %v, taken %d", err, held, taken)
	}
	inUse := errors.New("in use")
	opts.Lock = func(string) (func() error, error) { return nil, inUse }
	if _, err := Seed(t.Context(), path, small, opts); !errors.Is(err, inUse) {
		t.Errorf("seed: %v", err)
	}
	if _, err := Check(t.Context(), path, opts); !errors.Is(err, inUse) {
		t.Errorf("check: %v", err)
	}
}

func TestForecast(t *testing.T) {
	for _, spec := range []accounts.Spec{
		{Schema: accounts.SchemaRowid, PageSize: 4096},
		{Schema: accounts.SchemaRowid, PageSize: 1024},
		{Schema: accounts.SchemaRowid, PageSize: 65536},
		{Schema: accounts.SchemaRowid, PageSize: 4096, Payload: 200},
		{Schema: accounts.SchemaRowid, PageSize: 4096, Indexes: 2},
		{Schema: accounts.SchemaRowid, PageSize: 4096, Payload: 200, Indexes: 2},
		{Schema: accounts.SchemaArticle, PageSize: 4096},
		{Schema: accounts.SchemaArticle, PageSize: 65536, Indexes: 1},
	} {
		spec.Rows, spec.Balance = 200_000, 1_000_000
		if testing.Short() {
			spec.Rows = 50_000
		}
		t.Run(fmt.Sprintf("%+v", spec), func(t *testing.T) {
			t.Parallel()
			methods := []Method{SQL}
			if spec.Schema == accounts.SchemaRowid && spec.Indexes == 0 {
				methods = append(methods, Pages)
			}
			for _, method := range methods {
				got := mustSeedBy(t, method, place(t), spec).Bytes
				ratio := float64(Forecast(spec)) / float64(got)
				if ratio < 0.97 || ratio > 1.03 {
					t.Errorf("%s: forecast %d, file %d: ratio %.3f", method, Forecast(spec), got, ratio)
				}
			}
		})
	}
}

// limited opens connections whose database cannot grow beyond *pages.
func limited(pages *int64) sqliteh.OpenFunc {
	return func(name string, flags sqliteh.OpenFlags, vfs string) (sqliteh.DB, error) {
		db, err := cgosqlite.Open(name, flags, vfs)
		if err != nil || *pages == 0 {
			return db, err
		}
		c := &sqlconn.Conn{DB: db}
		return db, c.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", *pages))
	}
}

func TestSeedOnAFullDisk(t *testing.T) {
	t.Parallel()
	spec := small
	spec.Rows = 20_000
	whole := place(t)
	mustSeed(t, whole, spec)

	path, pages := place(t), int64(300)
	opts := Options{CommitRows: 1000, Open: limited(&pages)}
	report, err := Seed(t.Context(), path, spec, opts)
	if !errors.Is(err, ErrNoSpace) || report.Rows == 0 || report.Rows == spec.Rows || report.Complete {
		t.Fatalf("report %+v, error %v", report, err)
	}
	oneLine(t, err)
	info, err := Inspect(path)
	if err != nil || info.Seeded != report.Rows || !errors.Is(info.Ready(), ErrIncomplete) {
		t.Fatalf("info %+v, error %v", info, err)
	}
	pages = 0
	again, err := Seed(context.Background(), path, spec, opts)
	if err != nil || again.Inserted != spec.Rows-report.Rows || !again.Complete {
		t.Fatalf("report %+v, error %v", again, err)
	}
	if !bytes.Equal(content(t, path), content(t, whole)) {
		t.Error("the file differs from one that was seeded at once")
	}
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "dataset: ") {
		t.Errorf("not one line of this package: %v", err)
	}
}
