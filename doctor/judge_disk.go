package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
)

const (
	// plausibleSync is less than a sync takes on nearly every disk. What is faster
	// was answered by a cache, be it one that survives a power cut.
	plausibleSync = 20 * time.Microsecond
	// A sync slower than this, or that often, is what a latency is made of.
	slowSync    = 10 * time.Millisecond
	slowSyncP99 = 100 * time.Millisecond
	// referenceFactor is how much slower the reference may be than a sync that does
	// the same (Linux), and fullFactor how much faster it must be than one that does
	// more (macOS).
	referenceFactor = 5
	fullFactor      = 1.5
	fullSyncMethod  = "F_FULLFSYNC"
	// plausibleRead is less than any disk takes for a random page.
	plausibleRead = 5 * time.Microsecond
	slowRate      = 100 << 20 // bytes a second, in sequence
	slowIOPS      = 2000      // one at a time
	smallFile     = 64 << 20  // a disk's own cache may hold it
	// walRoom is what the -wal may grow to before readers are waited for: the most
	// of the default policy, 4,000 pages of 4 KiB, four times.
	walRoom = 64 << 20
	// spareRoom is what a long reader or a scenario that inserts may fill.
	spareRoom = 1 << 30
	// pagesPerTransfer is how many pages a transfer between two accounts reads when
	// they lie far apart.
	pagesPerTransfer = 2
)

// The file systems that are more than a place on a disk, by their types.
var (
	inMemory  = []string{"tmpfs", "ramfs", "devtmpfs"}
	onNetwork = []string{"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs"}
	inLayers  = []string{"overlay", "overlayfs", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs"}
)

// judgeFolder says whether a database can be in the folder; createErr is why no
// file could be made there.
func judgeFolder(f folderFacts, createErr error, fstype string) Check {
	err := f.err
	if err == nil {
		err = createErr
	}
	kind := fstype
	if kind == "" {
		kind = "a file system of unknown type"
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return check("folder", Fail, f.path+" does not exist", "make it first, or name a database elsewhere with --db", nil)
	case errors.Is(err, errNotFolder), errors.Is(err, syscall.ENOTDIR):
		return check("folder", Fail, f.path+" is no folder", "name a database elsewhere with --db", nil)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return check("folder", Fail, f.path+" is read-only", "choose a folder that you may write to with --db, or run as somebody who may", nil)
	case isFull(err):
		return check("folder", Fail, "no file can be made in "+f.path+": the disk is full", "make room there, or name a database elsewhere with --db", nil)
	case err != nil:
		return check("folder", Fail, fmt.Sprintf("%s cannot be used: %v", f.path, err), "name a database elsewhere with --db", nil)
	case slices.Contains(inMemory, fstype):
		return check("folder", Warn, fmt.Sprintf("%s lies in memory (%s): nothing there survives a crash of the machine", f.path, kind),
			"measure on the disk that the database will be on: its syncs are what a COMMIT waits for", nil)
	case slices.Contains(onNetwork, fstype):
		return check("folder", Warn, fmt.Sprintf("%s lies on another machine (%s): a WAL database must not be shared so, and the network is in every sync", f.path, kind),
			"put the database on a local disk", nil)
	case slices.Contains(inLayers, fstype):
		return check("folder", Warn, fmt.Sprintf("%s is a container's own layer (%s): the first write to an old file copies all of it", f.path, kind),
			"put the database on a volume that is mounted into the container", nil)
	}
	return check("folder", OK, fmt.Sprintf("%s may be written to (%s)", f.path, kind), "", nil)
}

// judgeSpace compares what is free with what the data set needs yet.
func judgeSpace(f folderFacts, dataBytes int64) Check {
	need := max(dataBytes-f.haveBytes, 0)
	values := map[string]float64{"free_bytes": float64(f.freeBytes), "needed_bytes": float64(need), "wal_bytes": walRoom}
	finding := fmt.Sprintf("%s free; %s needed for the data set and %s for its WAL", size(f.freeBytes), size(need), size(walRoom))
	if need == 0 {
		finding = fmt.Sprintf("%s free; %s needed for the WAL", size(f.freeBytes), size(walRoom))
	}
	// Subtracted rather than added, as a forecast may be as large as a number can be.
	left := f.freeBytes - need - walRoom
	switch {
	case left < 0:
		return check("space", Fail, finding, "make room, choose another folder with --db, or fewer --rows", values)
	case left < spareRoom:
		return check("space", Warn, finding, "make room: while a reader keeps a snapshot the WAL grows without end, and the scenario ledger adds rows", values)
	}
	return check("space", OK, finding, "", values)
}

// judgeDisk judges each measurement that was reached, and what ended them early.
func judgeDisk(d disk, fstype string) (checks []Check) {
	if d.sync != nil {
		checks = append(checks, judgeSync(*d.sync, fstype))
	}
	if d.sequential != nil {
		checks = append(checks, judgeSequential(*d.sequential, d))
	}
	if d.read != nil {
		checks = append(checks, judgeRandomRead(*d.read, d, fstype))
	}
	if d.write != nil {
		checks = append(checks, judgeRandomWrite(*d.write, d))
	}
	switch {
	case d.createErr != nil:
	case isFull(d.err):
		checks = append(checks, check("disk", Fail, "the disk is full: no room for a test file", "make room, then examine it again", nil))
	case errors.Is(d.err, errWrongData):
		checks = append(checks, check("disk", Fail, d.err.Error(), "trust this disk with nothing; see what the system's log says of it", nil))
	case d.err != nil:
		checks = append(checks, check("disk", Fail, fmt.Sprintf("the disk cannot be measured: %v", d.err), "see what the system's log says of it", nil))
	case d.sync != nil && d.room < blockBytes:
		checks = append(checks, check("disk", Fail, fmt.Sprintf("no room for a test file: a tenth of what is free is less than %s", size(blockBytes)),
			"make room, then examine it again", nil))
	}
	return checks
}

// isFull tells whether an error says that there is no room, or no more room for
// this user.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// judgeSync says what a COMMIT at FULL costs here and whether it can be true. In a
// WAL database a COMMIT at synchronous=FULL is one write and one sync; see "PRAGMA
// synchronous" in SQLite's documentation.
func judgeSync(s syncFacts, fstype string) Check {
	o := s.overwrite
	commits := 1 / max(o.mean, 1).Seconds()
	values := map[string]float64{
		"p50_ns": float64(o.p50), "p99_ns": float64(o.p99), "max_ns": float64(o.max), "count": float64(o.count),
		"growing_p50_ns": float64(s.growing.p50), "growing_p99_ns": float64(s.growing.p99),
		"commits_per_second": commits,
	}
	finding := fmt.Sprintf("%s: 4 KiB are durable after p50 %s, p99 %s (p50 %s where the file grows)", s.method, short(o.p50), short(o.p99), short(s.growing.p50))
	if s.reference.count > 0 {
		values["reference_p50_ns"] = float64(s.reference.p50)
		finding += fmt.Sprintf("; %s p50 %s", s.referenceMethod, short(s.reference.p50))
	}
	finding += fmt.Sprintf(": %s COMMITs a second at FULL without batching", whole(commits))
	ratio := float64(s.reference.p50) / float64(max(o.p50, 1))
	const distrust = "see whether the disk's cache survives a power cut and what the file system or the hypervisor does with a flush; until then take no COMMIT here for durable"
	switch {
	case slices.Contains(inMemory, fstype):
		return check("sync", Warn, finding+"; but the folder lies in memory and there is nothing to sync",
			"measure on a disk, or with --sync off, which says what it is", values)
	case o.p50 < plausibleSync:
		return check("sync", Warn, finding+"; that is faster than nearly every disk", distrust, values)
	case s.method == fullSyncMethod && s.reference.count > 0 && ratio*fullFactor > 1:
		return check("sync", Warn, finding+"; a sync down to the disk should take longer than one to its cache", distrust, values)
	case s.method != fullSyncMethod && ratio > referenceFactor:
		return check("sync", Warn, finding+"; both should take equally long", distrust, values)
	case o.p50 > slowSync || o.p99 > slowSyncP99:
		return check("sync", Warn, finding+"; that is slow",
			"expect it in every latency: batching keeps the throughput up, only another disk makes a COMMIT faster", values)
	}
	return check("sync", OK, finding, "", values)
}

// how says how the page cache was kept out, or that it was not.
func (d disk) how() string {
	switch {
	case d.direct:
		return "around the page cache"
	case d.dropped:
		return "direct I/O is refused here: synced after writing, cached pages dropped before reading"
	}
	return "direct I/O is refused here and the page cache cannot be dropped: reading may not have met the disk"
}

// judgeSequential says how fast seeding, checkpoints and scans can be.
func judgeSequential(s sequentialFacts, d disk) Check {
	values := map[string]float64{
		"write_bytes_per_second": s.writeRate, "read_bytes_per_second": s.readRate,
		"file_bytes": float64(d.fileBytes), "direct": truth(d.direct),
	}
	finding := fmt.Sprintf("write %s/s, read %s/s in blocks of 1 MiB, one at a time (%s)", size(int64(s.writeRate)), size(int64(s.readRate)), d.how())
	if d.fileBytes < smallFile {
		finding += fmt.Sprintf("; the file had only %s, which a disk's own cache may hold", size(d.fileBytes))
	}
	if min(s.writeRate, s.readRate) < slowRate {
		return check("sequential", Warn, finding, fmt.Sprintf("expect seeding a billion accounts (13.9 GB) to take %s, and checkpoints to be felt",
			(time.Duration(13.9e9/max(s.writeRate, 1)*float64(time.Second))).Round(time.Minute)), values)
	}
	return check("sequential", OK, finding, "", values)
}

// judgeRandomRead says how fast accounts are that are not in memory.
func judgeRandomRead(r randomFacts, d disk, fstype string) Check {
	bound := r.iops / pagesPerTransfer
	values := randomValues(r)
	values["cold_transfers_per_second"] = bound
	finding := fmt.Sprintf("%s IOPS one at a time (p50 %s, p99 %s), %s IOPS by %d: cold accounts, far apart, bound one writer to %s transfers a second",
		whole(r.iops), short(r.one.p50), short(r.one.p99), whole(r.deepIOPS), depth, whole(bound))
	switch {
	case !d.direct && !slices.Contains(inMemory, fstype) && r.one.p50 < plausibleRead:
		return check("random_read", Warn, finding+"; that was the page cache and not the disk",
			"take these figures for memory's: measure on a file system with direct I/O (ext4, XFS)", values)
	case r.iops < slowIOPS:
		return check("random_read", Warn, finding,
			"use --cache warm with a data set that fits into memory, or expect this bound with uniform keys", values)
	}
	return check("random_read", OK, finding, "", values)
}

// judgeRandomWrite says what a checkpoint meets, which writes pages all over the
// database.
func judgeRandomWrite(r randomFacts, d disk) Check {
	finding := fmt.Sprintf("%s IOPS one at a time (p50 %s, p99 %s), %s IOPS by %d", whole(r.iops), short(r.one.p50), short(r.one.p99), whole(r.deepIOPS), depth)
	if !d.direct {
		finding += ", each with a sync of its own"
	}
	if r.deepIOPS < slowIOPS && d.direct {
		return check("random_write", Warn, finding, "expect checkpoints to hold the writer up: --checkpoint with more pages makes them rarer", randomValues(r))
	}
	return check("random_write", OK, finding, "", randomValues(r))
}

func randomValues(r randomFacts) map[string]float64 {
	return map[string]float64{"depth_1_iops": r.iops, "depth_32_iops": r.deepIOPS, "p50_ns": float64(r.one.p50), "p99_ns": float64(r.one.p99)}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// whole shows a rate without a fraction.
func whole(v float64) string { return humanize.Comma(int64(v + 0.5)) }

// short shows a duration with about three digits.
func short(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d.Nanoseconds())
	case d < time.Millisecond:
		return digits(d, time.Microsecond) + " µs"
	case d < time.Second:
		return digits(d, time.Millisecond) + " ms"
	}
	return digits(d, time.Second) + " s"
}

func digits(d, unit time.Duration) string {
	v := float64(d) / float64(unit)
	if v < 10 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
