package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// linked is what a caller would find out.
var linked = SQLite{Version: "3.46.1", Options: []string{"THREADSAFE=2"}}

// quick is a configuration whose measurements are as short as may be.
func quick(path string) Config {
	return Config{Path: path, DataBytes: 1 << 20, Duration: MinDuration, SQLite: linked}
}

// empty fails the test when anything is in dir.
func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// named returns the check of a name, and fails the test when it is not there.
func named(t *testing.T, r Report, name string) Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %s in %+v", name, r.Checks)
	return Check{}
}

func names(r Report) string {
	var all []string
	for _, c := range r.Checks {
		all = append(all, c.Name)
	}
	return strings.Join(all, " ")
}

const allNames = "folder space sync sequential random_read random_write memory swap cpus governor load steal sqlite wal_reset database"

func TestRun(t *testing.T) {
	dir := t.TempDir()
	var stages []string
	c := quick(filepath.Join(dir, "some.db"))
	c.Database = &Database{JournalMode: "wal", PageBytes: 4096}
	c.Stage = func(name string) { stages = append(stages, name) }
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	empty(t, dir)
	if got := names(r); got != allNames {
		t.Errorf("checks %q, want %q", got, allNames)
	}
	for _, c := range r.Checks {
		judged(t, c.Name, c, c.Status, "")
	}
	for name, values := range map[string][]string{
		"sync":         {"p50_ns", "p99_ns", "count", "growing_p50_ns", "commits_per_second"},
		"sequential":   {"write_bytes_per_second", "read_bytes_per_second", "file_bytes"},
		"random_read":  {"depth_1_iops", "depth_32_iops", "p50_ns", "cold_transfers_per_second"},
		"random_write": {"depth_1_iops", "depth_32_iops", "p50_ns"},
		"space":        {"free_bytes"},
		"cpus":         {"cpus", "gomaxprocs"},
	} {
		for _, value := range values {
			if v := named(t, r, name).Values[value]; v <= 0 {
				t.Errorf("%s: %s is %v", name, value, v)
			}
		}
	}
	if r.Schema != Schema || r.StartedAt.IsZero() || r.Elapsed <= 0 || r.Interrupted || r.DataBytes != c.DataBytes ||
		filepath.Base(r.Path) != "some.db" || r.Env.SQLite != "3.46.1" {
		t.Errorf("%+v", r)
	}
	want := "how busy the machine is, sync, sequential write, sequential read, random read, random write"
	if got := strings.Join(stages, ", "); got != want {
		t.Errorf("stages %q", got)
	}
	documented(t, r)
	if r.Count(OK)+r.Count(Warn)+r.Count(Fail) != len(r.Checks) {
		t.Errorf("statuses %+v", r.Checks)
	}
}

// documented fails the test when docs/json.md lacks a field, a check or a value.
func documented(t *testing.T, r Report) {
	t.Helper()
	text, err := os.ReadFile("../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The doctor\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var all []string
	for _, kind := range []reflect.Type{reflect.TypeFor[Report](), reflect.TypeFor[Check]()} {
		for k := range kind.NumField() {
			all = append(all, kind.Field(k).Tag.Get("json"))
		}
	}
	for _, name := range all {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/json.md does not describe %s", name)
		}
	}
	for _, c := range r.Checks {
		_, row, _ := strings.Cut(section, "\n| `"+c.Name+"` |")
		row, _, _ = strings.Cut(row, "\n")
		if row == "" {
			t.Errorf("docs/json.md does not describe the check %s", c.Name)
		}
		for name := range c.Values {
			if !strings.Contains(row, "`"+name+"`") {
				t.Errorf("docs/json.md does not describe %s of %s", name, c.Name)
			}
		}
	}
}

// A database that is there is not touched, and one behind a link is measured where
// it is.
func TestRunBesideADatabase(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "some.db")
	if err := os.WriteFile(path, make([]byte, 5000), 0o400); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(elsewhere, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	c := quick(link)
	c.DataBytes = 5000
	c.Database = &Database{JournalMode: "wal", PageBytes: 4096}
	r, err := Run(t.Context(), c)
	if err != nil || filepath.Base(r.Path) != "some.db" || r.Env.DBBytes != 5000 {
		t.Fatalf("%+v, %v", r, err)
	}
	if needed := named(t, r, "space").Values["needed_bytes"]; needed != 0 {
		t.Errorf("%v bytes are needed for what is there", needed)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	r, err := Run(t.Context(), quick(filepath.Join(t.TempDir(), "missing", "some.db")))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	r.StartedAt = r.StartedAt.Round(0).In(back.StartedAt.Location()) // JSON has no monotonic clock
	if !reflect.DeepEqual(r, back) {
		t.Errorf("%+v became %+v", r, back)
	}
	if strings.Contains(string(text), "null") {
		t.Errorf("a list or map is null: %s", text)
	}
}

// Where nothing can be written one line says why, and everything else is examined
// all the same.
func TestRunWhereNothingCanBe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		filepath.Join(dir, "not", "there", "some.db"): "does not exist",
		filepath.Join(file, "some.db"):                "is no folder",
	} {
		r, err := Run(t.Context(), quick(path))
		if err != nil {
			t.Fatal(err)
		}
		judged(t, path, named(t, r, "folder"), Fail, says)
		if got, want := names(r), "folder memory swap cpus governor load steal sqlite wal_reset database"; got != want {
			t.Errorf("%s: checks %q, want %q", path, got, want)
		}
		if r.Count(Fail) != 1 {
			t.Errorf("%s: %+v", path, r.Checks)
		}
	}
}

// Whenever ctx ends, what was found until then is told, nothing is said to have
// failed for that, and nothing is left.
func TestCancelled(t *testing.T) {
	after := []string{"before all", "how busy the machine is", "sync", "sequential write", "sequential read", "random read", "random write"}
	checks := 0
	for i, stage := range after {
		t.Run(stage, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if stage == after[0] {
				cancel()
			}
			c := quick(filepath.Join(dir, "some.db"))
			c.Duration = MaxDuration // it would take minutes
			if i > 2 {
				c.Duration = MinDuration // to come so far
			}
			c.Stage = func(name string) {
				if name == stage {
					cancel()
				}
			}
			r, err := Run(ctx, c)
			if !errors.Is(err, context.Canceled) || !r.Interrupted {
				t.Errorf("interrupted %v, %v", r.Interrupted, err)
			}
			if r.Count(Fail) > 0 || len(r.Checks) < checks || len(r.Checks) >= len(strings.Fields(allNames)) {
				t.Errorf("checks %+v", r.Checks)
			}
			checks = len(r.Checks)
			empty(t, dir)
		})
	}
}

// While the file is large it has no name.
func TestNoLargeFileHasAName(t *testing.T) {
	if !removesOpenFiles {
		t.Skip("this system keeps the names of open files")
	}
	dir := t.TempDir()
	c := quick(filepath.Join(dir, "some.db"))
	seen := false
	c.Stage = func(name string) {
		if strings.HasPrefix(name, "sequential") || strings.HasPrefix(name, "random") {
			seen = true
			empty(t, dir)
		}
	}
	if _, err := Run(t.Context(), c); err != nil || !seen {
		t.Error(seen, err)
	}
}

func TestConfigRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"path":      {Duration: time.Second},
		"bytes":     {Path: "x", DataBytes: -1},
		"too short": {Path: "x", Duration: MinDuration - 1},
		"too long":  {Path: "x", Duration: MaxDuration + 1},
	} {
		if r, err := Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), "doctor: ") || len(r.Checks) > 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// A disk that returns what was not written there is found out.
func TestWrongData(t *testing.T) {
	f, err := openTestFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}()
	p := probe{ctx: t.Context(), file: f, duration: MinDuration}
	size, s, err := p.sequential(4*blockBytes, func() {})
	if err != nil || size < blockBytes || s.writeRate <= 0 || s.readRate <= 0 {
		t.Fatal(size, s, err)
	}
	if _, err := p.random(p.readPage, size); err != nil {
		t.Fatal(err)
	}
	// Two pages change places.
	buf := newBlock(pageBytes)
	stamp(buf, 0)
	if _, err := f.best().WriteAt(buf, pageBytes); err != nil {
		t.Fatal(err)
	}
	block := newBlock(blockBytes)
	if err := p.readStamped(block, 0); !errors.Is(err, errWrongData) || !strings.Contains(err.Error(), "at 4096 stands what belongs to 0") {
		t.Errorf("%v", err)
	}
	if err := p.writePage(buf, pageBytes); err != nil {
		t.Fatal(err)
	}
	if err := p.readStamped(block, 0); err != nil {
		t.Errorf("written again: %v", err)
	}
}

// Through the page cache the same is measured, more slowly.
func TestWithoutDirectIO(t *testing.T) {
	f, err := openTestFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if f.direct != nil {
		if err := f.direct.Close(); err != nil {
			t.Fatal(err)
		}
		f.direct = nil
	}
	p := probe{ctx: t.Context(), file: f, duration: MinDuration}
	size, s, err := p.sequential(40*blockBytes, func() {})
	if err != nil || s.writeRate <= 0 || s.readRate <= 0 {
		t.Fatal(size, s, err)
	}
	read, err := p.random(p.readPage, size)
	if err != nil || read.iops <= 0 || read.deepIOPS <= 0 {
		t.Fatal(read, err)
	}
	if read.one.count > size/pageBytes/2 {
		t.Errorf("%d pages of %d were read: some twice", read.one.count, size/pageBytes)
	}
	if write, err := p.random(p.writePage, size); err != nil || write.iops <= 0 || write.deepIOPS <= 0 {
		t.Error(write, err)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.plain.Name()); err == nil {
		t.Error("the file is left")
	}
}

func TestAligned(t *testing.T) {
	for range 100 {
		buf := aligned(pageBytes)
		if len(buf) != pageBytes || cap(buf) != pageBytes || addressOf(buf)%pageBytes != 0 {
			t.Fatalf("%d bytes at %#x", len(buf), addressOf(buf))
		}
	}
}
