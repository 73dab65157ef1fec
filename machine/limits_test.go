package machine

import (
	"runtime"
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  Limits
	}{
		{name: "no cgroups"},
		{name: "version 2 without limits", files: map[string]string{
			"proc/self/cgroup":           "0::/a\n",
			"sys/fs/cgroup/a/cpu.max":    "max 100000\n",
			"sys/fs/cgroup/a/memory.max": "max\n",
		}},
		{name: "version 2, the group above is tighter", want: Limits{CPUs: 1.5, MemoryBytes: 700}, files: map[string]string{
			"proc/self/cgroup":           "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max":  "400000 100000\n",
			"sys/fs/cgroup/a/cpu.max":    "150000 100000\n",
			"sys/fs/cgroup/a/memory.max": "700\n",
		}},
		{name: "version 1", want: Limits{CPUs: 0.5}, files: map[string]string{
			"proc/self/cgroup":                      "3:cpu,cpuacct:/a\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":  "25000\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "50000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":    "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":   "100000\n",
		}},
		{name: "not numbers", files: map[string]string{
			"proc/self/cgroup":        "0::/a\n",
			"sys/fs/cgroup/a/cpu.max": "many few\n",
			"sys/fs/cgroup/cpu.max":   "100000 0\n",
		}},
	} {
		if got := readLimits(tree(test.files)); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
	if l := ReadLimits(); l.MemoryBytes > 0 && l.MemoryBytes < uint64(Read(".").MemoryBytes) {
		t.Errorf("a limit of %d, but %d may be used", l.MemoryBytes, Read(".").MemoryBytes)
	}
}

func TestGovernor(t *testing.T) {
	const dir = "sys/devices/system/cpu/"
	for _, test := range []struct {
		files map[string]string
		want  string
	}{
		{nil, ""},
		{map[string]string{dir + "cpu0/cpufreq/scaling_governor": "\n"}, ""},
		{map[string]string{
			dir + "cpu0/cpufreq/scaling_governor":  "powersave\n",
			dir + "cpu1/cpufreq/scaling_governor":  "performance\n",
			dir + "cpu10/cpufreq/scaling_governor": "powersave\n",
			dir + "cpufreq/scaling_governor":       "none of a CPU\n",
		}, "performance+powersave"},
	} {
		if got := governor(tree(test.files)); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestBusy(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems may not tell")
	}
	before, ok := BusyTime()
	if !ok || before <= 0 {
		t.Fatal(before, ok)
	}
	// This very loop keeps a CPU busy, so the time must grow.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if now, _ := BusyTime(); now > before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the busy time does not grow")
		}
	}
	if one, ok := LoadAverage(); !ok || one < 0 {
		t.Errorf("load average %v, %v", one, ok)
	}
	if s := ReadSwap(); s.Used > s.Total {
		t.Errorf("%+v", s)
	}
}
