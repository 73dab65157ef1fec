package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
)

// paged is written in five blocks, in a moment.
var paged = rowid(400_000, 1_000_000_000, 0, 4096)

// childWritesPages makes the data set and says so.
func childWritesPages(path string) int {
	fmt.Println("begun")
	if _, err := Seed(context.Background(), path, paged, Options{Method: Pages}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("done")
	return 0
}

// childPoint names when childDies does: at the progress of so many rows, or when
// the stage "finishing" begins.
const childPoint = "TPSSIM_TEST_POINT"

// childDies kills itself in the midst of the work, as kill -9 does.
func childDies(path string) int {
	die := func() {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		fmt.Fprintln(os.Stderr, "still alive", err)
		select {}
	}
	rows, err := strconv.ParseInt(os.Getenv(childPoint), 10, 64)
	if err != nil {
		rows = paged.Rows + 1
	}
	_, err = Seed(context.Background(), path, paged, Options{
		Method: Pages,
		Progress: func(done, _ int64) {
			if done >= rows {
				die()
			}
		},
		Stage: func(name string) {
			if name == os.Getenv(childPoint) {
				die()
			}
		},
	})
	fmt.Fprintln(os.Stderr, "it came to its end", err)
	return 1
}

// Wherever the process dies before the file has its name, there is no data set,
// and what is left is known for what it is.
func TestKilledAtAPoint(t *testing.T) {
	last := paged.Rows
	for _, test := range []struct {
		point string
		next  Method
	}{
		{"0", Pages}, {"1", Pages}, {strconv.FormatInt(last/2, 10), Pages}, {strconv.FormatInt(last/2, 10), SQL},
		{strconv.FormatInt(last, 10), Pages}, {"finishing", Pages}, {"finishing", SQL},
	} {
		t.Run(test.point+" then "+string(test.next), func(t *testing.T) {
			t.Setenv(childPoint, test.point)
			path := place(t)
			c := startChild(t, "dies", path)
			if err := c.Wait(); err == nil || c.ProcessState.Exited() {
				t.Fatalf("the child was not killed: %v", err)
			}
			if _, err := Inspect(path); !errors.Is(err, ErrNotExist) {
				t.Errorf("inspect: %v", err)
			}
			if test.point != "0" {
				onlyHas(t, filepath.Dir(path), filepath.Base(path)+PartialSuffix)
			}
			spec := paged
			if test.next == SQL {
				spec.Rows = 1000
			}
			// The room that the leftover takes is not missed.
			opts := Options{Method: test.next, FreeBytes: func(path string) (uint64, error) {
				onlyHas(t, filepath.Dir(path))
				return uint64(Forecast(spec)), nil
			}}
			if report, err := Seed(t.Context(), path, spec, opts); err != nil || !report.Complete || report.Method != test.next {
				t.Fatalf("report %+v, error %v", report, err)
			}
			onlyHas(t, filepath.Dir(path), filepath.Base(path))
			if checked, err := Check(t.Context(), path, Options{}); err != nil || !checked.OK() {
				t.Errorf("check %+v, error %v", checked, err)
			}
		})
	}
}

// Killed from outside at random moments, also in SQLite, in a sync, and while it
// gets its name: there is no data set or a whole one.
func TestKilledAtAnyMoment(t *testing.T) {
	path := place(t)
	dir, base := filepath.Dir(path), filepath.Base(path)
	c := startChild(t, "pages", path)
	started := time.Time{}
	for line := ""; line != "done\n"; {
		var err error
		if line, err = c.out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if line == "begun\n" {
			started = time.Now()
		}
	}
	whole := time.Since(started)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	missing, complete := 0, 0
	for range 15 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		c := startChild(t, "pages", path)
		if line, err := c.out.ReadString('\n'); line != "begun\n" {
			t.Fatalf("the child said %q, %v", line, err)
		}
		time.Sleep(time.Duration(rand.Float64() * 1.1 * float64(whole)))
		if err := c.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		c.Wait() // killed or not, both is well
		info, err := Inspect(path)
		switch {
		case errors.Is(err, ErrNotExist):
			missing++
		case err != nil || !info.Complete || info.Seeded != paged.Rows:
			t.Fatalf("info %+v, error %v", info, err)
		default:
			complete++
			if checked, err := Check(t.Context(), path, Options{}); err != nil || !checked.OK() {
				t.Fatalf("check %+v, error %v", checked, err)
			}
			mustSeedBy(t, Pages, path, paged) // killed in the last step it had both names
			onlyHas(t, dir, base)
		}
	}
	t.Logf("of the kills %d left nothing, %d a data set", missing, complete)
	mustSeedBy(t, Pages, path, paged)
	onlyHas(t, dir, base)
}

// What has the name of the file to write and is not ours is not touched; by SQL
// it is in nobody's way.
func TestForeignPartial(t *testing.T) {
	spec := rowid(300, 1, 0, 512)
	for _, test := range []struct {
		name string
		make func(t *testing.T, partial string)
	}{
		{"text", func(t *testing.T, partial string) { write(t, partial, strings.Repeat("precious\n", 100)) }},
		{"short text", func(t *testing.T, partial string) { write(t, partial, "x") }},
		{"somebody's database", func(t *testing.T, partial string) { change(t, partial, "CREATE TABLE precious(x)") }},
		{"our number in no database", func(t *testing.T, partial string) {
			write(t, partial, strings.Repeat("\x00", 68)+"TPSs"+strings.Repeat("\x00", 30))
		}},
		{"a folder", func(t *testing.T, partial string) {
			if err := os.Mkdir(partial, 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{"a link to a data set", func(t *testing.T, partial string) {
			other := place(t)
			mustSeedBy(t, Pages, other, spec)
			if err := os.Symlink(other, partial); err != nil {
				t.Skip(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.DB")
			test.make(t, path+PartialSuffix)
			before, _ := os.ReadFile(path + PartialSuffix)
			for _, method := range []Method{Auto, Pages, SQL} {
				report, err := Seed(t.Context(), path, spec, Options{Method: method})
				if method == SQL {
					if err != nil || !report.Complete {
						t.Errorf("report %+v, error %v", report, err)
					}
				} else {
					if !errors.Is(err, ErrNotOurs) || !strings.Contains(err.Error(), "x.DB-partial") || !strings.Contains(err.Error(), "move it away") {
						t.Errorf("%s: %v", method, err)
					}
					oneLine(t, err)
					onlyHas(t, filepath.Dir(path), "x.DB-partial")
				}
				if after, _ := os.ReadFile(path + PartialSuffix); string(after) != string(before) {
					t.Errorf("%s: it was changed", method)
				}
			}
			onlyHas(t, filepath.Dir(path), "x.DB", "x.DB-partial")
		})
	}
}

// Our own leftovers are removed: a whole data set, and a file without content.
func TestOwnPartial(t *testing.T) {
	spec := rowid(300, 1, 0, 512)
	for _, make := range []func(partial string){
		func(partial string) { mustSeedBy(t, SQL, partial, small) },
		func(partial string) { write(t, partial, "") },
	} {
		for _, method := range []Method{Pages, SQL} {
			path := place(t)
			make(path + PartialSuffix)
			if report := mustSeedBy(t, method, path, spec); report.Inserted != spec.Rows {
				t.Errorf("report %+v", report)
			}
			onlyHas(t, filepath.Dir(path), filepath.Base(path))
		}
	}
}

// A journal that could be applied to the new database is refused, with the method
// that would never look at it too.
func TestPagesBesideOrphans(t *testing.T) {
	for _, test := range []struct{ suffix, content string }{{"-wal", ""}, {"-wal", "frames"}, {"-journal", "pages"}} {
		path := filepath.Join(t.TempDir(), "x.DB")
		write(t, path+test.suffix, test.content)
		_, err := Seed(t.Context(), path, rowid(9, 1, 0, 512), Options{Method: Pages})
		if !errors.Is(err, ErrOrphan) {
			t.Error(err)
		}
		onlyHas(t, filepath.Dir(path), "x.DB"+test.suffix)
	}
}

// A process that died in the first transaction of a database left an empty file
// and a journal that says that the database was empty. SQLite would make the new
// one so, if it found the journal beside it.
func TestPagesBesideAHotJournal(t *testing.T) {
	dead := func(t *testing.T, path string) {
		if err := startChild(t, "begin", path).Wait(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path + "-journal"); err != nil || info.Size() == 0 {
			t.Fatalf("the child left no journal: %v", err)
		}
	}
	for name, make := range map[string]func(t *testing.T, path string){
		"as a child left it": dead,
		"with a -shm":        func(t *testing.T, path string) { dead(t, path); write(t, path+"-shm", "old") },
		"with a -wal":        func(t *testing.T, path string) { dead(t, path); write(t, path+"-wal", "") },
		"synced": func(t *testing.T, path string) {
			// https://www.sqlite.org/fileformat2.html#the_rollback_journal: magic, no
			// pages, a nonce, a database of 0 pages, sectors of 512, pages of 4096 bytes.
			header := "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + strings.Repeat("\x00", 12) + "\x00\x00\x02\x00" + "\x00\x00\x10\x00"
			write(t, path, "")
			write(t, path+"-journal", header+strings.Repeat("\x00", 512-len(header)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			make(t, path)
			mustSeedBy(t, Pages, path, small4096)
			onlyHas(t, filepath.Dir(path), filepath.Base(path))
			if checked, err := Check(t.Context(), path, Options{}); err != nil || !checked.OK() {
				t.Errorf("check %+v, error %v", checked, err)
			}
		})
	}
}

var small4096 = rowid(10_000, 1, 0, 4096)

// An empty file is taken, but not from under another program's hands.
func TestPagesIntoAnEmptyFile(t *testing.T) {
	t.Parallel()
	path := place(t)
	write(t, path, "")
	c := startChild(t, "lock", path)
	if line, err := c.out.ReadString('\n'); line != "locked\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	_, err := Seed(t.Context(), path, small4096, Options{})
	if !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	oneLine(t, err)
	c.in.Close()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if report := mustSeed(t, path, small4096); report.Method != Pages || report.Existed {
		t.Errorf("report %+v", report)
	}
	onlyHas(t, filepath.Dir(path), filepath.Base(path))
}

// When the context ends nothing is left, not even of a file of one block.
func TestPagesCancelled(t *testing.T) {
	for _, test := range []struct {
		spec accounts.Spec
		at   int64
	}{{small4096, 0}, {paged, 0}, {paged, 1}, {paged, paged.Rows / 2}, {paged, paged.Rows * 3 / 4}} {
		path := place(t)
		ctx, cancel := context.WithCancel(t.Context())
		report, err := Seed(ctx, path, test.spec, Options{Method: Pages, Progress: func(done, _ int64) {
			if done >= test.at {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path+": stopped: nothing of it is left") ||
			report.Complete || report.Rows != 0 || report.Inserted != 0 {
			t.Errorf("at %d: report %+v, error %v", test.at, report, err)
		}
		oneLine(t, err)
		onlyHas(t, filepath.Dir(path))
	}
}

// before opens connections that call f before they compile a statement that begins
// so, and fail when it does.
func before(begin string, f func() error) sqliteh.OpenFunc {
	return func(name string, flags sqliteh.OpenFlags, vfs string) (sqliteh.DB, error) {
		db, err := cgosqlite.Open(name, flags, vfs)
		return watchedDB{db, begin, f}, err
	}
}

type watchedDB struct {
	sqliteh.DB
	begin string
	f     func() error
}

func (w watchedDB) Prepare(query string, flags sqliteh.PrepareFlags) (sqliteh.Stmt, string, error) {
	if strings.HasPrefix(query, w.begin) {
		if err := w.f(); err != nil {
			return nil, "", err
		}
	}
	return w.DB.Prepare(query, flags)
}

// A kill while SQLite makes the empty tables leaves no journal either.
func TestTemplateHasNoJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.DB")
	commits := 0
	opts := Options{Open: before("COMMIT", func() error {
		commits++
		onlyHas(t, filepath.Dir(path), "x.DB-partial")
		return nil
	})}
	if _, err := Seed(t.Context(), path, small4096, opts); err != nil || commits != 1 {
		t.Errorf("%d commits, error %v", commits, err)
	}
	onlyHas(t, filepath.Dir(path), "x.DB")
}

// Whatever fails, there is one line about it, and nothing is left.
func TestPagesFail(t *testing.T) {
	fails := func(begin string, code sqliteh.Code) Options {
		return Options{Open: before(begin, func() error { return sqliteh.ErrCode(code) })}
	}
	for _, test := range []struct {
		name string
		opts func(path string) Options
		want error // nil: any
		kept string
	}{
		{"a table", func(string) Options { return fails("CREATE TABLE account", sqliteh.SQLITE_FULL) }, ErrNoSpace, ""},
		{"the commit", func(string) Options { return fails("COMMIT", sqliteh.SQLITE_IOERR) }, nil, ""},
		{"the name", func(path string) Options {
			return Options{Stage: func(stage string) {
				if stage == "finishing" {
					if err := os.Mkdir(path, 0o755); err != nil {
						t.Error(err)
					}
				}
			}}
		}, nil, "x.DB"},
		{"the file vanishes", func(path string) Options {
			return Options{Stage: func(stage string) {
				if stage == "finishing" {
					if err := os.Remove(path + PartialSuffix); err != nil {
						t.Error(err)
					}
				}
			}}
		}, fs.ErrNotExist, ""},
	} {
		path := filepath.Join(t.TempDir(), "x.DB")
		report, err := Seed(t.Context(), path, small4096, test.opts(path))
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) || report.Complete || report.Rows != 0 {
			t.Errorf("%s: report %+v, error %v", test.name, report, err)
		}
		oneLine(t, err)
		if test.kept == "" {
			onlyHas(t, filepath.Dir(path))
		} else {
			onlyHas(t, filepath.Dir(path), test.kept)
		}
	}
}

// A table with more pages than SQLite allows is refused before the disk is asked
// for them.
func TestPagesTooMany(t *testing.T) {
	path := place(t)
	_, err := Seed(t.Context(), path, rowid(1<<53, 1, 0, 512), Options{})
	if err == nil || !strings.Contains(err.Error(), "choose fewer rows") {
		t.Error(err)
	}
	oneLine(t, err)
	onlyHas(t, filepath.Dir(path))
}
