package machine

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Limits are what the control groups of this process allow it at most. A field
// is 0 when no group sets that limit.
type Limits struct {
	// CPUs is the quota of processor time over its period, so that 1.5 is one and
	// a half CPUs. A process that has used its quota up stands still until the
	// next period begins, usually within 100 ms.
	CPUs float64
	// MemoryBytes is the smallest memory limit.
	MemoryBytes uint64
}

// ReadLimits reads the limits of this process's groups and of all groups above
// them, of which the smallest counts.
func ReadLimits() Limits { return readLimits(os.DirFS("/")) }

func readLimits(root fs.FS) Limits {
	cg := readCgroups(root)
	var l Limits
	l.MemoryBytes, _ = cg.memoryLimit()
	for _, dir := range cg.cpuDirs() {
		if quota := cg.cpuQuota(dir); quota > 0 && (l.CPUs == 0 || quota < l.CPUs) {
			l.CPUs = quota
		}
	}
	return l
}

// cpuQuota returns the quota that the group in dir sets, in CPUs, 0 for none:
// "cpu.max" holds quota and period in version 2, two files hold them in version
// 1, and "max" or -1 means no quota.
func (cg cgroups) cpuQuota(dir string) float64 {
	fields := strings.Fields(readText(cg.root, dir+"/cpu.max"))
	if len(fields) == 0 {
		fields = strings.Fields(readText(cg.root, dir+"/cpu.cfs_quota_us") + " " + readText(cg.root, dir+"/cpu.cfs_period_us"))
	}
	if len(fields) != 2 {
		return 0
	}
	quota, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || quota <= 0 {
		return 0
	}
	period, err := strconv.ParseFloat(fields[1], 64)
	if err != nil || period <= 0 {
		return 0
	}
	return quota / period
}
