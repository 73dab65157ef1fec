package machine

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/fstest"
	"time"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.db")
	if err := os.WriteFile(path, make([]byte, 12345), 0o644); err != nil {
		t.Fatal(err)
	}
	env := Read(path)
	if env.OS != runtime.GOOS || env.Go != runtime.Version() || env.CPUs < 1 || env.DBBytes != 12345 || env.SQLite != "" {
		t.Errorf("%+v", env)
	}
	if runtime.GOOS == "linux" && (env.Kernel == "" || env.Filesystem == "" || env.MemoryBytes <= 0) {
		t.Errorf("linux tells these: %+v", env)
	}
	missing := Read(filepath.Join(filepath.Dir(path), "not", "there.db"))
	if missing.DBBytes != 0 || missing.Filesystem != env.Filesystem {
		t.Errorf("missing file: %+v", missing)
	}
	if folder := Read(filepath.Dir(path)); folder.DBBytes != 0 {
		t.Errorf("a folder has %d bytes", folder.DBBytes)
	}
}

func TestRuntimeSettingsAreTheEffectiveOnes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	defer debug.SetGCPercent(debug.SetGCPercent(57))
	if env := Read("."); env.GOMAXPROCS != 3 || env.GOGC != 57 {
		t.Errorf("GOMAXPROCS %d, GOGC %d", env.GOMAXPROCS, env.GOGC)
	}
	debug.SetGCPercent(-1)
	if env := Read("."); env.GOGC != -1 {
		t.Errorf("GOGC %d with collection off", env.GOGC)
	}
}

func TestBuildVersion(t *testing.T) {
	build := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "abc"}},
	}
	if version, commit := buildVersion(build); version != "v1.2.3" || commit != "abc+dirty" {
		t.Errorf("%q %q", version, commit)
	}
	build.Settings = build.Settings[:1]
	if _, commit := buildVersion(build); commit != "" {
		t.Errorf("commit %q without a revision", commit)
	}
}

func TestFreeBytes(t *testing.T) {
	dir := t.TempDir()
	here, err := FreeBytes(dir)
	if err != nil || here == 0 {
		t.Fatal(here, err)
	}
	// Other programs write meanwhile, so the two need not be equal.
	below, err := FreeBytes(filepath.Join(dir, "not", "there.db"))
	if err != nil || below < here/2 || below > here*2 {
		t.Errorf("%d in the folder, %d below it, %v", here, below, err)
	}
}

func TestAvailableMemory(t *testing.T) {
	if got := AvailableMemory(); runtime.GOOS == "linux" && (got == 0 || got > memoryLimit()) {
		t.Errorf("%d available of %d", got, memoryLimit())
	}
}

func TestWithin(t *testing.T) {
	for _, test := range []struct {
		path, dir string
		want      bool
	}{
		{"/a/b", "/", true},
		{"/a/b", "/a", true},
		{"/a", "/a", true},
		{"/ab", "/a", false},
		{"/a", "/a/b", false},
	} {
		if got := within(filepath.FromSlash(test.path), filepath.FromSlash(test.dir)); got != test.want {
			t.Errorf("within(%q, %q) = %v", test.path, test.dir, got)
		}
	}
}

// tree is a file system of small files.
func tree(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, content := range files {
		fs[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fs
}

func TestCgroupMemory(t *testing.T) {
	const unlimited = "9223372036854771712\n"
	for _, test := range []struct {
		name        string
		files       map[string]string
		limit, room uint64
		none        bool
	}{
		{name: "no cgroups", none: true},
		{name: "version 2 without a limit", none: true, files: map[string]string{
			"proc/self/cgroup":           "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "max\n",
		}},
		{name: "version 2, the group above is tighter", limit: 700, room: 150, files: map[string]string{
			"proc/self/cgroup":                 "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max":     "1000\n",
			"sys/fs/cgroup/a/b/memory.current": "500\n",
			"sys/fs/cgroup/a/memory.max":       "700\n",
			"sys/fs/cgroup/a/memory.current":   "600\n",
			"sys/fs/cgroup/a/memory.stat":      "anon 5\ninactive_file 50\n",
		}},
		{name: "version 1 in a container that does not see its path", limit: 900, room: 0, files: map[string]string{
			"proc/self/cgroup":                             "4:cpu,memory:/docker/xyz\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "900\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":   "950\n",
			"sys/fs/cgroup/memory/memory.stat":             "total_inactive_file 20\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1\n",
		}},
		{name: "version 1 without a limit", none: true, files: map[string]string{
			"proc/self/cgroup": "4:memory:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": unlimited,
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   unlimited,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cg := readCgroups(tree(test.files))
			limit, limited := cg.memoryLimit()
			room, roomy := cg.memoryRoom()
			if limit != test.limit || room != test.room || limited == test.none || roomy == test.none {
				t.Errorf("limit %d %v, room %d %v; want %d, %d", limit, limited, room, roomy, test.limit, test.room)
			}
		})
	}
}

func TestCounters(t *testing.T) {
	const stat = "cpu  10 20 30 40 50 60 70 80 9 1\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
	two := readCounters(tree(map[string]string{
		"proc/stat":                "cpu  10 20 30 40 50 60 70 80 9 1\n",
		"proc/self/cgroup":         "0::/a\n",
		"sys/fs/cgroup/a/cpu.stat": "usage_usec 5\nnr_throttled 3\nthrottled_usec 2000\n",
		"sys/fs/cgroup/cpu.stat":   "nr_throttled 1\nthrottled_usec 1000\n",
	}))
	want := Counters{StealTicks: 80, CPUTicks: 360, ThrottledPeriods: 3, Throttled: 2 * time.Millisecond}
	if two != want {
		t.Errorf("version 2: %+v, want %+v", two, want)
	}
	one := readCounters(tree(map[string]string{
		"proc/stat":                    stat,
		"proc/self/cgroup":             "1:cpu,cpuacct:/a\n",
		"sys/fs/cgroup/cpu/a/cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 2000000\n",
	}))
	if one != want {
		t.Errorf("version 1: %+v, want %+v", one, want)
	}
	for _, bad := range []string{"", "cpu 1 2\n", "cpu a b c d e f g h\n", "intr 1 2 3 4 5 6 7 8\n"} {
		if got := readCounters(tree(map[string]string{"proc/stat": bad})); got != (Counters{}) {
			t.Errorf("%q gives %+v", bad, got)
		}
	}
}

func TestCountersSub(t *testing.T) {
	a := Counters{StealTicks: 5, CPUTicks: 100, ThrottledPeriods: 2, Throttled: time.Second}
	b := Counters{StealTicks: 15, CPUTicks: 140, ThrottledPeriods: 6, Throttled: 3 * time.Second}
	diff := b.Sub(a)
	if want := (Counters{StealTicks: 10, CPUTicks: 40, ThrottledPeriods: 4, Throttled: 2 * time.Second}); diff != want {
		t.Errorf("%+v", diff)
	}
	if f := diff.StealFraction(); f != 0.25 {
		t.Errorf("steal %v", f)
	}
	if back := a.Sub(b); back != (Counters{}) || back.StealFraction() != 0 {
		t.Errorf("counters that fell: %+v", back)
	}
	if now := ReadCounters(); runtime.GOOS == "linux" && now.CPUTicks == 0 {
		t.Errorf("%+v", now)
	}
}
