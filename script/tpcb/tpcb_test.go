package tpcb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"
	"go.uber.org/goleak"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/script"
)

// Tests that need another process run this test binary again, with what to do and the
// path to do it to in the environment.
const (
	childWork = "TPSSIM_TEST_CHILD"
	childPath = "TPSSIM_TEST_PATH"
)

func TestMain(m *testing.M) {
	switch path := os.Getenv(childPath); os.Getenv(childWork) {
	case "dies":
		// In the middle of a transaction, with pages of it in the file.
		_, err := Seed(context.Background(), path, Options{Progress: func(done, total int64) {
			if done >= total/2 {
				os.Exit(0)
			}
		}})
		fmt.Fprintln(os.Stderr, "it did not die:", err)
		os.Exit(1)
	case "seeds":
		if _, err := Seed(context.Background(), path, Options{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "reads":
		c, err := sqlconn.Open(nil, path, sqlconn.Existing)
		if err == nil {
			_, err = c.Integer("SELECT count(*) FROM pgbench_branches")
		}
		fmt.Println("open", err)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func child(t *testing.T, work, path string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childWork+"="+work, childPath+"="+path)
	c.Stderr = os.Stderr
	return c
}

// place returns a path that a URI would misread, in a folder of its own.
func place(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "a ? b%20#.DB")
}

// only fails t if there is anything but the named files beside path.
func only(t *testing.T, path string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, "|") != strings.Join(names, "|") {
		t.Errorf("the folder holds %q, want %q", got, names)
	}
}

func seed(t testing.TB, path string, opts Options) Made {
	t.Helper()
	made, err := Seed(context.Background(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// with runs f on a connection to the database.
func with(t testing.TB, path string, f func(c *sqlconn.Conn) error) {
	t.Helper()
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f(c), c.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestSeed(t *testing.T) {
	path := place(t)
	var calls, last int64
	released := false
	made := seed(t, path, Options{
		Scale: 2,
		Progress: func(done, total int64) {
			if done <= last || total != 200_000 {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			calls, last = calls+1, done
		},
		Lock: func(p string) (func() error, error) {
			if p != path {
				t.Errorf("the lock is for %s", p)
			}
			return func() error { released = true; return nil }, nil
		},
		FreeBytes: func(string) (uint64, error) { return 1 << 30, nil },
	})
	if made.Path != path || made.Scale != 2 || made.Rows != 200_000 || last != 200_000 || calls < 100 || !released || made.Elapsed <= 0 {
		t.Errorf("made %+v, progress %d in %d calls, released %v", made, last, calls, released)
	}
	only(t, path, filepath.Base(path))
	foreseen(t, Options{Scale: 2}, made)
	with(t, path, func(c *sqlconn.Conn) error {
		for _, tt := range []struct{ query, want string }{
			{"PRAGMA integrity_check", "ok"}, {"PRAGMA journal_mode", "wal"}, {"PRAGMA page_size", "4096"},
			{"SELECT count(*) || ' ' || min(bid) || ' ' || max(bid) || ' ' || sum(bbalance) || ' ' || count(filler) FROM pgbench_branches", "2 1 2 0 0"},
			{"SELECT count(*) || ' ' || min(tid) || ' ' || max(tid) || ' ' || sum(tbalance) || ' ' || count(filler) FROM pgbench_tellers", "20 1 20 0 0"},
			{"SELECT group_concat(n) FROM (SELECT count(*) || ':' || bid n FROM pgbench_tellers GROUP BY bid)", "10:1,10:2"},
			{"SELECT count(*) || ' ' || min(aid) || ' ' || max(aid) || ' ' || sum(abalance) FROM pgbench_accounts", "200000 1 200000 0"},
			{"SELECT group_concat(n) FROM (SELECT min(aid) || '-' || max(aid) || ':' || bid n FROM pgbench_accounts GROUP BY bid)", "1-100000:1,100001-200000:2"},
			{"SELECT group_concat(DISTINCT length(filler) || typeof(filler) || trim(filler)) FROM pgbench_accounts", "84text"},
			{"SELECT count(*) FROM pgbench_history", "0"},
		} {
			if got, err := c.Text(tt.query); err != nil || got != tt.want {
				t.Errorf("%s: %q, %v; want %q", tt.query, got, err, tt.want)
			}
		}
		return nil
	})
	if info, err := Inspect(path); err != nil || info != (Info{Path: path, Scale: 2}) {
		t.Errorf("inspect: %+v, %v", info, err)
	}
	if _, err := dataset.Inspect(path); !errors.Is(err, dataset.ErrNotOurs) {
		t.Errorf("package dataset takes it for its own: %v", err)
	}
	if sums, err := Consistent(context.Background(), path); err != nil || sums != (Sums{}) {
		t.Errorf("fresh: %+v, %v", sums, err)
	}
	only(t, path, filepath.Base(path))
}

// foreseen fails t unless the forecast is a little more than what was made.
func foreseen(t *testing.T, opts Options, made Made) {
	t.Helper()
	if forecast, err := Forecast(opts); err != nil || forecast < made.Bytes || forecast > made.Bytes*104/100 {
		t.Errorf("forecast %d for %d bytes, %v", forecast, made.Bytes, err)
	}
}

// runner runs a script on a plain connection.
type runner struct{ c *sqlconn.Conn }

func (r runner) Exec(_ int, sql string, args []any, row *script.Row) error {
	return r.c.Each(sql, func(s sqliteh.Stmt) error { return nil }, args...)
}

func (r runner) Sleep(time.Duration) error { return nil }

// run runs n transactions of a built-in script.
func run(t *testing.T, path, name string, scale, n int) {
	t.Helper()
	s, err := script.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	env, err := s.NewEnv(map[string]any{"scale": scale})
	if err != nil {
		t.Fatal(err)
	}
	with(t, path, func(c *sqlconn.Conn) error {
		if err := c.Exec("BEGIN"); err != nil {
			return err
		}
		for i := range n {
			env.Reset(1, uint64(i))
			for part := script.Before; part <= script.After; part++ {
				if err := env.Run(part, runner{c}); err != nil {
					return err
				}
			}
		}
		return c.Exec("COMMIT")
	})
}

// The built-in scripts run as they are, and keep or break the sums as they should.
func TestBuiltins(t *testing.T) {
	path := place(t)
	opts := Options{Scale: 2, PageSize: 1024}
	foreseen(t, opts, seed(t, path, opts))
	run(t, path, "select-only", 2, 200)
	run(t, path, "tpcb-like", 2, 500)
	sums, err := Consistent(context.Background(), path)
	if err != nil || sums.History == 0 {
		t.Errorf("after tpcb-like: %+v, %v", sums, err)
	}
	with(t, path, func(c *sqlconn.Conn) error {
		rows, err := c.Integer("SELECT count(*) FROM pgbench_history WHERE mtime LIKE '20__-__-__ __:__:__' AND aid BETWEEN 1 AND 200000 AND bid BETWEEN 1 AND 2 AND tid BETWEEN 1 AND 20 AND delta BETWEEN -5000 AND 5000")
		if rows != 500 {
			t.Errorf("%d rows of history are as they should", rows)
		}
		return err
	})
	run(t, path, "simple-update", 2, 100)
	if _, err := Consistent(context.Background(), path); !errors.Is(err, ErrInconsistent) {
		t.Errorf("after simple-update: %v", err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Consistent(ended, path); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	text := func(t *testing.T, path string) {
		if err := os.WriteFile(path, bytes.Repeat([]byte("not a database\n"), 500), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		path string // relative to the folder; the file when empty
		opts Options
		want error
		says string
	}{
		{name: "there already", make: func(t *testing.T, path string) { seed(t, path, Options{}) }, want: ErrExists, says: "at scale 1"},
		{name: "somebody's database", make: func(t *testing.T, path string) {
			c, err := sqlconn.Open(nil, path, sqlconn.Create)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.Exec("CREATE TABLE pgbench_branches(x)"), c.Close()); err != nil {
				t.Fatal(err)
			}
		}, opts: Options{Overwrite: true}, want: dataset.ErrNotOurs, says: "choose another path"},
		{name: "an account data set", make: func(t *testing.T, path string) {
			_, err := dataset.Seed(context.Background(), path, accounts.Spec{Rows: 100, Balance: 1, Schema: accounts.SchemaRowid, PageSize: 4096}, dataset.Options{})
			if err != nil {
				t.Fatal(err)
			}
		}, opts: Options{Overwrite: true}, want: dataset.ErrNotOurs, says: "it holds an account data set"},
		{name: "another format", make: func(t *testing.T, path string) {
			seed(t, path, Options{})
			with(t, path, func(c *sqlconn.Conn) error { return c.Exec("PRAGMA user_version = 2") })
		}, opts: Options{Overwrite: true}, want: dataset.ErrFormat, says: "format 2"},
		{name: "text", make: text, opts: Options{Overwrite: true}, want: dataset.ErrNotDatabase},
		{name: "no folder", make: func(*testing.T, string) {}, path: "no/x.db", want: dataset.ErrNoFolder},
		{name: "a folder", make: func(*testing.T, string) {}, path: ".", want: dataset.ErrNotFile},
		{name: "an orphan", make: func(t *testing.T, path string) { text(t, path+"-wal") }, want: dataset.ErrOrphan},
		{name: "somebody's partial", make: func(t *testing.T, path string) { text(t, path+dataset.PartialSuffix) }, want: dataset.ErrNotOurs, says: "unfinished"},
		{name: "no room", make: func(*testing.T, string) {}, opts: Options{FreeBytes: func(string) (uint64, error) { return 1 << 20, nil }}, want: dataset.ErrNoSpace, says: "1.0 MiB are free"},
		{name: "a lock", make: func(*testing.T, string) {}, opts: Options{Lock: func(string) (func() error, error) { return nil, os.ErrDeadlineExceeded }}, want: os.ErrDeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := place(t)
			tt.make(t, path)
			before := snapshot(t, path)
			at := path
			if tt.path != "" {
				at = filepath.Join(filepath.Dir(path), tt.path)
			}
			_, err := Seed(context.Background(), at, tt.opts)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %v with %q", err, tt.want, tt.says)
			}
			if after := snapshot(t, path); after != before {
				t.Error("the folder has changed")
			}
		})
	}
	for _, opts := range []Options{{Scale: -1}, {Scale: MaxScale + 1}, {PageSize: 1000}, {PageSize: 256}, {PageSize: 1 << 17}} {
		if _, err := Seed(context.Background(), place(t), opts); err == nil {
			t.Errorf("%+v is accepted", opts)
		}
	}
}

// snapshot returns the contents of all files beside path.
func snapshot(t *testing.T, path string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d\n%s\n", name, len(content), content)
	}
	return b.String()
}

func TestOverwrite(t *testing.T) {
	path := place(t)
	seed(t, path, Options{Scale: 2})
	made := seed(t, path, Options{Scale: 1, Overwrite: true})
	if info, err := Inspect(path); err != nil || info.Scale != 1 || made.Scale != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	only(t, path, filepath.Base(path))

	// Not while another process has it open, which in WAL mode holds no lock that
	// writing would meet.
	end := opened(t, path)
	_, err := Seed(context.Background(), path, Options{Overwrite: true})
	if !errors.Is(err, dataset.ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
	end()
	seed(t, path, Options{Overwrite: true})
	only(t, path, filepath.Base(path))
}

// An interrupted seeding leaves what was there, and nothing else.
func TestInterrupted(t *testing.T) {
	path := place(t)
	for _, names := range [][]string{nil, {filepath.Base(path)}} {
		ctx, cancel := context.WithCancel(context.Background())
		_, err := Seed(ctx, path, Options{Scale: 3, Overwrite: true, Progress: func(done, _ int64) {
			if done > 50_000 {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		only(t, path, names...)
		if names == nil {
			seed(t, path, Options{})
		}
	}
	if info, err := Inspect(path); err != nil || info.Scale != 1 {
		t.Errorf("what was there: %+v, %v", info, err)
	}
}

// What a killed seeding leaves is no database of that name, and the next removes it.
func TestKilled(t *testing.T) {
	path := place(t)
	if err := child(t, "dies", path).Run(); err != nil {
		t.Fatal(err)
	}
	only(t, path, filepath.Base(path)+dataset.PartialSuffix)
	if _, err := Inspect(path); !errors.Is(err, dataset.ErrNotExist) {
		t.Errorf("after the kill: %v", err)
	}
	seed(t, path, Options{})
	only(t, path, filepath.Base(path))
	with(t, path, func(c *sqlconn.Conn) error {
		if got, err := c.Text("PRAGMA integrity_check"); got != "ok" {
			return fmt.Errorf("%s, %w", got, err)
		}
		return nil
	})
}

func BenchmarkSeed(b *testing.B) {
	dir := b.TempDir()
	rows := int64(0)
	for b.Loop() {
		rows += seed(b, filepath.Join(dir, "x.db"), Options{Scale: 10, Overwrite: true}).Rows
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
