package machine

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// Counters are what the surroundings took from this process: time that a
// hypervisor gave to other guests, and time for which a cgroup quota stopped
// it. They only grow; the difference of two readings tells whether something
// measured between them was disturbed. Fields that cannot be read are zero.
type Counters struct {
	// StealTicks is the steal time of all CPUs together, in clock ticks
	// (1/100 s on Linux), from the first line of /proc/stat.
	StealTicks uint64
	// CPUTicks is all time of all CPUs together, idle and steal included, in
	// the same ticks: what StealTicks is a share of.
	CPUTicks uint64
	// ThrottledPeriods counts the scheduling periods in which the quota of
	// this process's cgroup, or of one above it, ran out (nr_throttled).
	ThrottledPeriods uint64
	// Throttled is the time for which the cgroup's tasks were held back. The
	// kernel adds it up over CPUs, so it can exceed the wall time.
	Throttled time.Duration
}

// ReadCounters reads the counters now. It costs a few small reads under /proc
// and /sys, and returns zeroes on systems without them.
func ReadCounters() Counters { return readCounters(os.DirFS("/")) }

// Sub returns what was added between earlier and c. Where a counter is
// smaller than before, as after a move to another cgroup, the difference is
// zero.
func (c Counters) Sub(earlier Counters) Counters {
	return Counters{
		StealTicks:       grown(c.StealTicks, earlier.StealTicks),
		CPUTicks:         grown(c.CPUTicks, earlier.CPUTicks),
		ThrottledPeriods: grown(c.ThrottledPeriods, earlier.ThrottledPeriods),
		Throttled:        max(0, c.Throttled-earlier.Throttled),
	}
}

// StealFraction is the share of all CPU time that was stolen, from 0 to 1; it
// is 0 when no time was counted.
func (c Counters) StealFraction() float64 {
	if c.CPUTicks == 0 {
		return 0
	}
	return float64(c.StealTicks) / float64(c.CPUTicks)
}

func grown(now, earlier uint64) uint64 {
	if now < earlier {
		return 0
	}
	return now - earlier
}

func readCounters(root fs.FS) Counters {
	var c Counters
	c.StealTicks, c.CPUTicks = readSteal(root)
	cg := readCgroups(root)
	for _, dir := range cg.cpuDirs() {
		stat := readPairs(root, dir+"/cpu.stat")
		c.ThrottledPeriods = max(c.ThrottledPeriods, stat["nr_throttled"])
		usec := time.Duration(stat["throttled_usec"]) * time.Microsecond // version 2
		nsec := time.Duration(stat["throttled_time"])                    // version 1
		c.Throttled = max(c.Throttled, usec, nsec)
	}
	return c
}

// readSteal parses "cpu  user nice system idle iowait irq softirq steal guest
// guest_nice". The guest times are already inside user and nice, so only the
// first eight are added.
func readSteal(root fs.FS) (steal, total uint64) {
	line, _, _ := strings.Cut(readText(root, "proc/stat"), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0
	}
	for _, f := range fields[1:9] {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return 0, 0
		}
		total += n
		steal = n
	}
	return steal, total
}

// readPairs reads a file of "name number" lines; lines of another shape are
// skipped, and a file that cannot be read gives an empty map.
func readPairs(root fs.FS, name string) map[string]uint64 {
	pairs := make(map[string]uint64)
	for line := range strings.Lines(readText(root, name)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
			pairs[key] = n
		}
	}
	return pairs
}

// readText returns a file's content, or "" when it cannot be read: everything
// read through it is optional.
func readText(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(b)
}
