package tpcb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

var accountSpec = accounts.Spec{Rows: 1000, Balance: 1, Schema: accounts.SchemaRowid, PageSize: 4096}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// foreign returns the content of somebody's database.
func foreign(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "foreign.db")
	c, err := sqlconn.Open(nil, path, sqlconn.Create)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Exec("CREATE TABLE precious(x)"), c.Close()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// A COMMIT without a journal writes the first page with the new number of pages, and
// then the others. Killed between them it leaves a file that SQLite calls corrupt: it
// is known for ours all the same, by both kinds of seeding.
func TestKilledInACommit(t *testing.T) {
	whole := place(t)
	seed(t, whole, Options{})
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{50, 512, 4096, len(content) / 2} {
		path := place(t)
		write(t, path+dataset.PartialSuffix, string(content[:size]))
		seed(t, path, Options{})
		only(t, path, filepath.Base(path))

		path = place(t)
		write(t, path+dataset.PartialSuffix, string(content[:size]))
		write(t, path+dataset.PartialSuffix+"-wal", "frames")
		if _, err := dataset.Seed(context.Background(), path, accountSpec, dataset.Options{}); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		only(t, path, filepath.Base(path))
	}
	path := place(t)
	if _, err := dataset.Seed(context.Background(), path+dataset.PartialSuffix, accountSpec, dataset.Options{}); err != nil {
		t.Fatal(err)
	}
	seed(t, path, Options{})
	only(t, path, filepath.Base(path))
}

// Killed from outside at random moments.
func TestKilledAtAnyMoment(t *testing.T) {
	started := time.Now()
	seed(t, place(t), Options{})
	whole := time.Since(started)
	for range 6 {
		path := place(t)
		c := child(t, "seeds", path)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.Float64() * 1.5 * float64(whole)))
		if err := c.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		c.Wait() // killed or not, both is well
		if info, err := Inspect(path); err == nil && info.Scale != 1 || err != nil && !errors.Is(err, dataset.ErrNotExist) {
			t.Errorf("after the kill: %+v, %v", info, err)
		}
		seed(t, path, Options{Overwrite: true})
		only(t, path, filepath.Base(path))
	}
}

// While the tables are made somebody makes a database of their name, or opens the one
// that is to be replaced.
func TestSomebodyIsFaster(t *testing.T) {
	for _, tt := range []struct {
		name  string
		begin func(t *testing.T, path string)
		then  func(t *testing.T, path string) (end func())
		want  error
	}{
		{name: "a database", then: func(t *testing.T, path string) func() { write(t, path, foreign(t)); return nil }, want: dataset.ErrTaken},
		{name: "a -wal", then: func(t *testing.T, path string) func() { write(t, path+"-wal", "frames"); return nil }, want: dataset.ErrOrphan},
		{name: "a -journal", then: func(t *testing.T, path string) func() { write(t, path+"-journal", "pages"); return nil }, want: dataset.ErrOrphan},
		{name: "in an empty file", begin: func(t *testing.T, path string) { write(t, path, "") },
			then: func(t *testing.T, path string) func() { write(t, path, foreign(t)); return nil }, want: dataset.ErrNotOurs},
		{name: "in place of the tables", begin: func(t *testing.T, path string) { seed(t, path, Options{}) },
			then: func(t *testing.T, path string) func() { write(t, path, foreign(t)); return nil }, want: dataset.ErrNotOurs},
		{name: "opens them", begin: func(t *testing.T, path string) { seed(t, path, Options{}) }, then: opened, want: dataset.ErrLocked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := place(t)
			if tt.begin != nil {
				tt.begin(t, path)
			}
			var end func()
			before := ""
			_, err := Seed(context.Background(), path, Options{Overwrite: true, Progress: func(done, total int64) {
				if done < total {
					return
				}
				end = tt.then(t, path)
				partial := path + dataset.PartialSuffix
				hidden := filepath.Join(t.TempDir(), "hidden")
				if err := os.Rename(partial, hidden); err != nil {
					t.Error(err)
				}
				before = snapshot(t, path)
				if err := os.Rename(hidden, partial); err != nil {
					t.Error(err)
				}
			}})
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if after := snapshot(t, path); after != before {
				t.Error("the folder has changed")
			}
			if end != nil {
				end()
			}
		})
	}
}

// opened has another process open the database and do nothing with it.
func opened(t *testing.T, path string) (end func()) {
	c := child(t, "reads", path)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("open <nil>"))
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "open <nil>" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// Inspect touches nothing but these tables, and tells what is wrong with them.
func TestInspect(t *testing.T) {
	// living is a database with a -wal, which is copied to path while it is open.
	living := func(id int64, mode string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			origin := place(t)
			write(t, origin, "")
			with(t, origin, func(c *sqlconn.Conn) error {
				for _, statement := range []string{fmt.Sprintf("PRAGMA application_id = %d", id), "PRAGMA journal_mode = " + mode,
					"CREATE TABLE precious(x)", "PRAGMA cache_size = 1", "BEGIN", "INSERT INTO precious VALUES(randomblob(99999))", "COMMIT",
					"BEGIN", "UPDATE precious SET x = randomblob(99999)"} {
					if err := c.Exec(statement); err != nil {
						return err
					}
				}
				for _, suffix := range []string{"", "-wal", "-journal"} {
					if content, err := os.ReadFile(origin + suffix); err == nil {
						write(t, path+suffix, string(content))
					}
				}
				return nil
			})
		}
	}
	for _, tt := range []struct {
		name      string
		make      func(t *testing.T, path string)
		want      error
		unchanged bool
	}{
		{"somebody's -wal", living(7, "wal"), dataset.ErrNotOurs, true},
		{"somebody's hot -journal", living(7, "delete"), dataset.ErrNotOurs, true},
		{"an account data set's -wal", living(dataset.ApplicationID, "wal"), dataset.ErrNotOurs, true},
		{"our number only", living(ApplicationID, "wal"), dataset.ErrFormat, false},
		{"another format", func(t *testing.T, path string) {
			seed(t, path, Options{})
			with(t, path, func(c *sqlconn.Conn) error { return c.Exec("PRAGMA user_version = 2") })
		}, dataset.ErrFormat, true},
		{"another format with other tables", func(t *testing.T, path string) {
			seed(t, path, Options{})
			with(t, path, func(c *sqlconn.Conn) error {
				return errors.Join(c.Exec("PRAGMA user_version = 0"), c.Exec("DROP TABLE pgbench_branches"))
			})
		}, dataset.ErrFormat, true},
		{"a table is missing", func(t *testing.T, path string) {
			seed(t, path, Options{})
			with(t, path, func(c *sqlconn.Conn) error { return c.Exec("DROP TABLE pgbench_history") })
		}, dataset.ErrCorrupt, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := place(t)
			tt.make(t, path)
			before := snapshot(t, path)
			if _, err := Inspect(path); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if after := snapshot(t, path); tt.unchanged && after != before {
				t.Error("the folder has changed")
			} else if !tt.unchanged {
				only(t, path, filepath.Base(path))
			}
		})
	}
}
