package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/tps"
)

// judged fails the test unless a check has a status and says something; one that
// is not ok must say what to do, and one that is ok must not.
func judged(t *testing.T, name string, c Check, want Status, says string) {
	t.Helper()
	if c.Status != want || !strings.Contains(c.Finding, says) {
		t.Errorf("%s: %s %q, want %s with %q", name, c.Status, c.Finding, want, says)
	}
	if (c.Status == OK) != (c.Advice == "") {
		t.Errorf("%s: %s with the advice %q", name, c.Status, c.Advice)
	}
	if c.Name == "" || c.Values == nil || strings.Contains(c.Finding+c.Advice, "%!") || strings.Contains(c.Finding+c.Advice, "\n") {
		t.Errorf("%s: %+v", name, c)
	}
	for name, v := range c.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s: %s is %v, which JSON cannot hold", c.Name, name, v)
		}
	}
}

func TestJudgeFolder(t *testing.T) {
	for _, test := range []struct {
		name           string
		err, createErr error
		fstype         string
		want           Status
		says           string
	}{
		{name: "fine", fstype: "ext4", want: OK, says: "/data may be written to (ext4)"},
		{name: "unknown type", want: OK, says: "unknown type"},
		{name: "memory", fstype: "tmpfs", want: Warn, says: "lies in memory (tmpfs)"},
		{name: "network", fstype: "nfs4", want: Warn, says: "another machine"},
		{name: "layer", fstype: "overlay", want: Warn, says: "container"},
		{name: "missing", err: fs.ErrNotExist, want: Fail, says: "/data does not exist"},
		{name: "a file", err: errNotFolder, want: Fail, says: "no folder"},
		{name: "below a file", err: syscall.ENOTDIR, want: Fail, says: "no folder"},
		{name: "not mine", createErr: fmt.Errorf("create: %w", fs.ErrPermission), fstype: "ext4", want: Fail, says: "read-only"},
		{name: "read-only", createErr: syscall.EROFS, fstype: "tmpfs", want: Fail, says: "read-only"},
		{name: "full", createErr: syscall.ENOSPC, fstype: "ext4", want: Fail, says: "the disk is full"},
		{name: "broken", createErr: syscall.EIO, fstype: "ext4", want: Fail, says: "input/output error"},
	} {
		f := folderFacts{path: "/data", err: test.err}
		judged(t, test.name, judgeFolder(f, test.createErr, test.fstype), test.want, test.says)
	}
}

func TestJudgeSpace(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		name             string
		free, have, data int64
		want             Status
		says             string
	}{
		{"plenty", 30 * gib, 0, 15 * gib, OK, "30 GiB free; 15 GiB needed for the data set and 64 MiB"},
		{"there already", 2 * gib, 15 * gib, 15 * gib, OK, "2.0 GiB free; 64 MiB needed for the WAL"},
		{"to be made larger", 2 * gib, 14 * gib, 15 * gib, Warn, "1.0 GiB needed"},
		{"just not", gib + walRoom - 1, 0, gib, Fail, ""},
		{"just so", gib + walRoom, 0, gib, Warn, ""},
		{"nearly at ease", 2*gib + walRoom - 1, 0, gib, Warn, ""},
		{"at ease", 2*gib + walRoom, 0, gib, OK, ""},
		{"nothing", 0, 0, 0, Fail, "0 B free"},
		{"absurd", 30 * gib, 0, math.MaxInt64, Fail, "8.0 EiB needed"},
	} {
		judged(t, test.name, judgeSpace(folderFacts{freeBytes: test.free, haveBytes: test.have}, test.data), test.want, test.says)
	}
}

func lat(p50, p99 time.Duration) latency {
	return latency{count: 1000, p50: p50, p99: p99, max: 2 * p99, mean: p50}
}

func TestJudgeSync(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	for _, test := range []struct {
		name              string
		method            string
		own, other        latency
		fstype            string
		want              Status
		says              string
		commits, otherP50 float64
	}{
		{"an SSD", "fdatasync", lat(200*us, 400*us), lat(210*us, 400*us), "ext4", OK,
			"fdatasync: 4 KiB are durable after p50 200 µs, p99 400 µs (p50 600 µs where the file grows); O_DSYNC p50 210 µs: 5,000 COMMITs a second at FULL without batching", 5000, 210e3},
		{"as fast as can be", "fdatasync", lat(20*us, 30*us), lat(20*us, 30*us), "ext4", OK, "50,000 COMMITs", 50_000, 20e3},
		{"faster", "fdatasync", lat(20*us-1, 30*us), lat(20*us, 30*us), "ext4", Warn, "faster than nearly every disk", 50_002, 20e3},
		{"memory", "fdatasync", lat(2*us, 3*us), lat(2*us, 3*us), "tmpfs", Warn, "nothing to sync", 500_000, 2e3},
		{"a sync that does not wait", "fdatasync", lat(30*us, 40*us), lat(200*us, 300*us), "ext4", Warn, "both should take equally long", 33_333, 200e3},
		{"without a reference", "fsync", lat(200*us, 400*us), latency{}, "zfs", OK, "where the file grows): 5,000", 5000, 0},
		{"slow", "fdatasync", lat(11*ms, 12*ms), lat(11*ms, 12*ms), "ext4", Warn, "that is slow", 91, 11e6},
		{"slow at times", "fdatasync", lat(1*ms, 101*ms), lat(1*ms, 12*ms), "ext4", Warn, "that is slow", 1000, 1e6},
		{"a Mac", "F_FULLFSYNC", lat(4*ms, 9*ms), lat(30*us, 90*us), "apfs", OK, "F_FULLFSYNC: 4 KiB", 250, 30e3},
		{"a Mac whose disk does not flush", "F_FULLFSYNC", lat(30*us, 90*us), lat(29*us, 90*us), "apfs", Warn, "should take longer", 33_333, 29e3},
		{"no time at all", "fdatasync", latency{count: 1}, latency{}, "ext4", Warn, "faster", 1e9, 0},
	} {
		s := syncFacts{method: test.method, overwrite: test.own, growing: lat(3*test.own.p50, 3*test.own.p99), referenceMethod: "O_DSYNC", reference: test.other}
		c := judgeSync(s, test.fstype)
		judged(t, test.name, c, test.want, test.says)
		if got := c.Values["commits_per_second"]; math.Abs(got-test.commits) > 1 {
			t.Errorf("%s: %v COMMITs, want %v", test.name, got, test.commits)
		}
		if got := c.Values["reference_p50_ns"]; got != test.otherP50 {
			t.Errorf("%s: the reference took %v", test.name, got)
		}
	}
}

func TestJudgeThroughput(t *testing.T) {
	const mib = 1 << 20
	direct := disk{direct: true, fileBytes: 1 << 30}
	judged(t, "fast", judgeSequential(sequentialFacts{1500 * mib, 1700 * mib}, direct), OK, "write 1.5 GiB/s, read 1.7 GiB/s in blocks of 1 MiB, one at a time (around the page cache)")
	judged(t, "slow", judgeSequential(sequentialFacts{50 * mib, 1700 * mib}, direct), Warn, "write 50 MiB/s")
	if c := judgeSequential(sequentialFacts{50 * mib, 1700 * mib}, direct); !strings.Contains(c.Advice, "(13.9 GB) to take 4m0s") {
		t.Errorf("advice %q", c.Advice)
	}
	judged(t, "cached", judgeSequential(sequentialFacts{1500 * mib, 1700 * mib}, disk{fileBytes: 1 << 30}), OK, "reading may not have met the disk")
	judged(t, "small", judgeSequential(sequentialFacts{1500 * mib, 1700 * mib}, disk{dropped: true, fileBytes: mib}), OK, "dropped before reading); the file had only 1.0 MiB")
	judged(t, "nothing", judgeSequential(sequentialFacts{}, direct), Warn, "write 0 B/s")

	r := randomFacts{iops: 10_000, deepIOPS: 95_000.6, one: lat(90*time.Microsecond, 200*time.Microsecond)}
	judged(t, "fast", judgeRandomRead(r, direct, "ext4"), OK,
		"10,000 IOPS one at a time (p50 90 µs, p99 200 µs), 95,001 IOPS by 32: cold accounts, far apart, bound one writer to 5,000 transfers a second")
	judged(t, "fast", judgeRandomWrite(r, direct), OK, "95,001 IOPS by 32")
	judged(t, "cached", judgeRandomWrite(r, disk{}), OK, "each with a sync")
	slow := randomFacts{iops: 100, deepIOPS: 150, one: lat(10*time.Millisecond, 20*time.Millisecond)}
	judged(t, "slow", judgeRandomRead(slow, direct, "ext4"), Warn, "to 50 transfers")
	judged(t, "slow", judgeRandomWrite(slow, direct), Warn, "100 IOPS")
	judged(t, "slow through the cache", judgeRandomWrite(slow, disk{}), OK, "each with a sync")
	memory := randomFacts{iops: 900_000, deepIOPS: 1e6, one: lat(time.Microsecond, time.Microsecond)}
	judged(t, "page cache", judgeRandomRead(memory, disk{dropped: true}, "ext4"), Warn, "that was the page cache")
	judged(t, "memory", judgeRandomRead(memory, disk{dropped: true}, "tmpfs"), OK, "")
}

func TestJudgeDisk(t *testing.T) {
	sync := &syncFacts{method: "fdatasync", overwrite: lat(200*time.Microsecond, time.Millisecond)}
	names := func(checks []Check) string {
		var all []string
		for _, c := range checks {
			all = append(all, c.Name+"="+string(c.Status))
		}
		return strings.Join(all, " ")
	}
	for _, test := range []struct {
		d          disk
		want, says string
	}{
		{d: disk{}, want: ""},
		{d: disk{createErr: syscall.EROFS}, want: ""},
		{d: disk{sync: sync, room: 1 << 30}, want: "sync=ok"}, // interrupted
		{d: disk{sync: sync, room: 0}, want: "sync=ok disk=fail", says: "a tenth of what is free is less than 1.0 MiB"},
		{d: disk{err: fmt.Errorf("write: %w", syscall.ENOSPC)}, want: "disk=fail", says: "the disk is full"},
		{d: disk{sync: sync, room: 1 << 30, err: syscall.EDQUOT}, want: "sync=ok disk=fail", says: "the disk is full"},
		{d: disk{sync: sync, room: 1 << 30, err: fmt.Errorf("%w: at 0", errWrongData)}, want: "sync=ok disk=fail", says: "other data"},
		{d: disk{err: errors.New("smoke")}, want: "disk=fail", says: "smoke"},
		{d: disk{sync: sync, room: 1 << 30, fileBytes: 1 << 30, direct: true, sequential: &sequentialFacts{1 << 30, 1 << 30},
			read: &randomFacts{iops: 1e4, deepIOPS: 1e5}, write: &randomFacts{iops: 1e4, deepIOPS: 1e5}},
			want: "sync=ok sequential=ok random_read=ok random_write=ok"},
	} {
		checks := judgeDisk(test.d, "ext4")
		if got := names(checks); got != test.want {
			t.Errorf("%+v: %q, want %q", test.d, got, test.want)
		}
		for _, c := range checks {
			says := ""
			if c.Name == "disk" {
				says = test.says
			}
			judged(t, test.want, c, c.Status, says)
		}
	}
}

func TestJudgeMemory(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		name      string
		available uint64
		limit     uint64
		data      int64
		want      Status
		says      string
	}{
		{"fits", 8 * gib, 0, gib, OK, "8.0 GiB available: the data set of 1.0 GiB fits"},
		{"in a container", gib, 2 * gib, gib / 2, OK, "limit is 2.0 GiB"},
		{"just not", gib, 0, gib - workingBytes + 1, Warn, "does not fit"},
		{"just so", gib, 0, gib - workingBytes, OK, "fits"},
		{"far too large", 8 * gib, 0, math.MaxInt64, Warn, "does not fit"},
		{"hardly any", workingBytes, 0, 0, Warn, "hardly enough"},
		{"unknown", 0, 0, gib, OK, "does not tell"},
	} {
		judged(t, test.name, judgeMemory(test.available, machine.Limits{MemoryBytes: test.limit}, test.data), test.want, test.says)
	}
}

func TestJudgeCPUs(t *testing.T) {
	for _, test := range []struct {
		cpus, procs int
		quota       float64
		want        Status
		says        string
	}{
		{8, 8, 0, OK, "8, GOMAXPROCS=8, a chip"},
		{8, 8, 8, OK, "a cgroup quota of 8 CPUs"},
		{8, 2, 1.5, Warn, "a cgroup quota of 1.5 CPUs"},
		{1, 1, 0, Warn, "1, GOMAXPROCS=1"},
		{2, 4, 0, Warn, "2, GOMAXPROCS=4"},
		{2, 1, 0, Warn, ""},
		{8, 4, 0, OK, ""},
	} {
		env := tps.Env{CPU: "a chip", CPUs: test.cpus, GOMAXPROCS: test.procs}
		judged(t, fmt.Sprint(test), judgeCPUs(env, machine.Limits{CPUs: test.quota}), test.want, test.says)
	}
}

func TestJudgeWhoElse(t *testing.T) {
	judged(t, "none", judgeGovernor(""), OK, "no frequency governor")
	judged(t, "performance", judgeGovernor("performance"), OK, "performance")
	judged(t, "two", judgeGovernor("performance+schedutil"), OK, "")
	judged(t, "powersave", judgeGovernor("performance+powersave"), Warn, "performance+powersave: the CPUs")

	judged(t, "idle", judgeLoad(hostFacts{busyKnown: true, busyCPUs: 0.2, loadKnown: true, load: 7}, 2), OK, "others use 0.20 of 2 CPUs, load average 7.00")
	judged(t, "busy", judgeLoad(hostFacts{busyKnown: true, busyCPUs: 0.21}, 2), Warn, "others use 0.21 of 2 CPUs")
	judged(t, "unknown", judgeLoad(hostFacts{}, 2), OK, "does not tell")

	judged(t, "no swap", judgeSwap(machine.Swap{}), OK, "no swap")
	judged(t, "unused", judgeSwap(machine.Swap{Total: 1 << 30, Used: 1 << 29, In: 1 << 20}), OK, "512 MiB of 1.0 GiB used, 1.0 MiB swapped")
	judged(t, "swapping", judgeSwap(machine.Swap{Total: 1 << 30, In: 1 << 20, Out: 1}), Warn, "")

	judged(t, "alone", judgeTaken(machine.Counters{StealTicks: 1, CPUTicks: 100}), OK, "took 1.0 %")
	judged(t, "stolen", judgeTaken(machine.Counters{StealTicks: 2, CPUTicks: 100}), Warn, "took 2.0 %")
	judged(t, "throttled", judgeTaken(machine.Counters{CPUTicks: 100, ThrottledPeriods: 3, Throttled: 200 * time.Millisecond}), Warn, "stopped this program 3 times for 200 ms")
	judged(t, "nothing known", judgeTaken(machine.Counters{}), OK, "took 0.0 %")
}

func TestTakenSub(t *testing.T) {
	before := taken{swap: machine.Swap{In: 5, Out: 9}}
	after := taken{swap: machine.Swap{Total: 7, Used: 3, In: 6, Out: 8}}
	if got, want := after.sub(before).swap, (machine.Swap{Total: 7, Used: 3, In: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestJudgeSQLite(t *testing.T) {
	judged(t, "as it is", judgeSQLite(SQLite{"3.46.1", []string{"COMPILER=gcc", "DEFAULT_WAL_SYNCHRONOUS=1", "THREADSAFE=2"}}), OK,
		"3.46.1, THREADSAFE=2 (a connection is for one goroutine at a time), DEFAULT_WAL_SYNCHRONOUS=1 (")
	judged(t, "no mutexes", judgeSQLite(SQLite{"3.46.1", []string{"THREADSAFE=0"}}), Fail, "THREADSAFE=0")
	judged(t, "for finding errors", judgeSQLite(SQLite{"3.46.1", []string{"DEBUG", "THREADSAFE=2"}}), Warn, ", DEBUG")
	judged(t, "unknown", judgeSQLite(SQLite{}), Fail, "")

	for version, says := range map[string]string{
		"3.6.23": "does not have", "3.7.0": "immune", "3.46.1": "immune", "3.51.2": "immune",
		"3.51.3": "does not have", "3.52": "does not have", "4.0.0": "does not have", "3.7": "immune",
	} {
		judged(t, version, judgeWALReset(version), OK, says)
	}
	for _, version := range []string{"", "3", "3.x.1", "latest"} {
		judged(t, version, judgeWALReset(version), Warn, "cannot be compared")
	}
}

func TestJudgeDatabase(t *testing.T) {
	judged(t, "none", judgeDatabase(nil, folderFacts{}), OK, "there is none yet")
	for _, test := range []struct {
		d    Database
		want Status
		says string
	}{
		{Database{JournalMode: "wal", PageBytes: 4096}, OK, "journal_mode=wal, page_size=4096, nothing beside it, not locked"},
		{Database{JournalMode: "delete", PageBytes: 8192}, OK, "journal_mode=delete, page_size=8192; a run sets"},
		{Database{JournalMode: "wal", PageBytes: 4096, WALBytes: 1 << 20}, Warn, "a -wal of 1.0 MiB lies beside it"},
		{Database{PageBytes: 8192}, OK, "page_size=8192, the rest not read, as that needs a file beside it"},
		{Database{JournalBytes: 1 << 20}, Warn, "not read; a -journal of 1.0 MiB"},
		{Database{JournalMode: "wal", WALBytes: 5, InUse: true}, Fail, "another tpssim"},
		{Database{Locked: true}, Fail, "not read; another process has it locked"},
		{Database{JournalMode: "wal", Problem: "it is truncated"}, Fail, "it is truncated"},
	} {
		judged(t, fmt.Sprintf("%+v", test.d), judgeDatabase(&test.d, folderFacts{}), test.want, test.says)
	}
	readOnly := folderFacts{path: "/data", database: "/data/ro.db", writeErr: syscall.EACCES}
	const says = "/data/ro.db may not be written to: permission denied"
	for d, says := range map[*Database]string{
		nil:                                   says, // an empty file
		{JournalMode: "wal", PageBytes: 4096}: "journal_mode=wal, page_size=4096; " + says,
		{JournalMode: "wal", PageBytes: 4096, WALBytes: 5}: says,
		{JournalMode: "wal", PageBytes: 4096, InUse: true}: says,
		{Problem: "it is not a SQLite database"}:           "it is not a SQLite database",
	} {
		judged(t, fmt.Sprintf("read-only %+v", d), judgeDatabase(d, readOnly), Fail, says)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1000: "1.0 µs", 12_340: "12 µs", 181_400: "181 µs", 1_260_000: "1.3 ms", 45 * time.Millisecond: "45 ms", 2500 * time.Millisecond: "2.5 s",
	} {
		if got := short(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}
