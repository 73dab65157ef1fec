package doctor

import (
	"fmt"
	"strings"

	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/tps"
)

const (
	// busyShare of all CPUs used by others is noticed in a measurement.
	busyShare = 0.1
	// stealShare of the processor time given to other guests is noticed, too.
	stealShare = 0.01
	// swapNoise is what the kernel may swap without anybody being short of memory.
	swapNoise = 1 << 20
	// workingBytes is what a burst's goroutines and SQLite's caches may take beside
	// the file pages.
	workingBytes = 256 << 20
)

// judgeHost judges everything but the disk and SQLite.
func judgeHost(h hostFacts, env tps.Env, dataBytes int64) []Check {
	return []Check{
		judgeMemory(h.availableBytes, h.limits, dataBytes),
		judgeSwap(h.taken.swap),
		judgeCPUs(env, h.limits),
		judgeGovernor(h.governor),
		judgeLoad(h, env.CPUs),
		judgeTaken(h.taken.counters),
	}
}

// judgeMemory says whether the data set can be in the page cache, which decides
// what warm and cold mean.
func judgeMemory(available uint64, limits machine.Limits, dataBytes int64) Check {
	values := map[string]float64{"data_bytes": float64(dataBytes)}
	if available == 0 {
		return check("memory", OK, "this system does not tell how much memory is available", "", values)
	}
	values["available_bytes"] = float64(available)
	finding := fmt.Sprintf("%s available", size(int64(available)))
	if limits.MemoryBytes > 0 {
		values["cgroup_limit_bytes"] = float64(limits.MemoryBytes)
		finding += fmt.Sprintf(" (the cgroup's limit is %s, page cache included)", size(int64(limits.MemoryBytes)))
	}
	room := int64(available) - workingBytes
	switch {
	case room <= 0:
		return check("memory", Warn, finding+": hardly enough for the program itself",
			fmt.Sprintf("free some or raise the limit: a burst of 100,000 and the caches take about %s", size(workingBytes)), values)
	case dataBytes > room:
		return check("memory", Warn, fmt.Sprintf("%s: the data set of %s does not fit into the page cache, so uniform keys read from the disk for good", finding, size(dataBytes)),
			"say with --cache cold or warm which state is meant; hot keys (pareto, zipfian) may fit all the same", values)
	}
	return check("memory", OK, fmt.Sprintf("%s: the data set of %s fits into the page cache: warm runs never read the disk, --cache cold shows the first touch",
		finding, size(dataBytes)), "", values)
}

// judgeSwap looks at what was swapped while the disk was measured.
func judgeSwap(s machine.Swap) Check {
	values := map[string]float64{"total_bytes": float64(s.Total), "used_bytes": float64(s.Used), "swapped_bytes": float64(s.In + s.Out)}
	if s.Total == 0 {
		return check("swap", OK, "no swap", "", values)
	}
	finding := fmt.Sprintf("%s of %s used, %s swapped while measuring", size(int64(s.Used)), size(int64(s.Total)), size(int64(s.In+s.Out)))
	if s.In+s.Out > swapNoise {
		return check("swap", Warn, finding, "end what takes the memory: a page fault from the swap stops a goroutine, the writer's too", values)
	}
	return check("swap", OK, finding, "", values)
}

// judgeCPUs compares the CPUs with what the Go runtime and the control groups make
// of them.
func judgeCPUs(env tps.Env, limits machine.Limits) Check {
	values := map[string]float64{"cpus": float64(env.CPUs), "gomaxprocs": float64(env.GOMAXPROCS)}
	finding := fmt.Sprintf("%d, GOMAXPROCS=%d", env.CPUs, env.GOMAXPROCS)
	if env.CPU != "" {
		finding += ", " + env.CPU
	}
	if limits.CPUs > 0 {
		values["cgroup_limit_cpus"] = limits.CPUs
		finding += fmt.Sprintf(", a cgroup quota of %.4g CPUs", limits.CPUs)
	}
	switch {
	case limits.CPUs > 0 && limits.CPUs < float64(env.CPUs):
		return check("cpus", Warn, finding,
			"raise the quota: when it is used up everything stands still until its next period, often 100 ms, and p99 shows that", values)
	case env.CPUs == 1:
		return check("cpus", Warn, finding, "use two CPUs or more: with one the writer and all its callers take turns", values)
	case env.GOMAXPROCS > env.CPUs:
		return check("cpus", Warn, finding, "unset GOMAXPROCS unless that is what you measure: more threads than CPUs run at once, and figures cannot be compared with others'", values)
	case env.GOMAXPROCS == 1:
		return check("cpus", Warn, finding, "unset GOMAXPROCS unless that is what you measure: the other CPUs are not used", values)
	}
	return check("cpus", OK, finding, "", values)
}

// steady are governors that hold the highest frequency or reach it at once.
var steady = map[string]bool{"performance": true, "schedutil": true}

func judgeGovernor(governor string) Check {
	if governor == "" {
		return check("governor", OK, "this system shows no frequency governor, as most virtual machines do not: its host decides", "", nil)
	}
	for g := range strings.SplitSeq(governor, "+") {
		if !steady[g] {
			return check("governor", Warn, governor+": the CPUs may run slower at the beginning of a measurement than at its end",
				"set it to performance (cpupower frequency-set -g performance), or use --warmup", nil)
		}
	}
	return check("governor", OK, governor, "", nil)
}

// judgeLoad looks at what others did before anything was measured. The load
// average alone is no reason to warn: it still holds what has ended since.
func judgeLoad(h hostFacts, cpus int) Check {
	values := map[string]float64{}
	var parts []string
	if h.busyKnown {
		values["others_cpus"] = h.busyCPUs
		parts = append(parts, fmt.Sprintf("others use %.2f of %d CPUs", h.busyCPUs, cpus))
	}
	if h.loadKnown {
		values["load_average_1m"] = h.load
		parts = append(parts, fmt.Sprintf("load average %.2f", h.load))
	}
	if len(parts) == 0 {
		return check("load", OK, "this system does not tell how busy it is", "", values)
	}
	finding := strings.Join(parts, ", ")
	if h.busyKnown && h.busyCPUs > busyShare*float64(cpus) {
		return check("load", Warn, finding, "end what runs beside (top shows it) or wait for it: it takes what is to be measured", values)
	}
	return check("load", OK, finding, "", values)
}

// judgeTaken looks at what hypervisor and quota took while the disk was measured.
func judgeTaken(c machine.Counters) Check {
	values := map[string]float64{"steal_fraction": c.StealFraction(), "throttled_ns": float64(c.Throttled), "throttled_periods": float64(c.ThrottledPeriods)}
	finding := fmt.Sprintf("a hypervisor took %.1f %% of the processor time", 100*c.StealFraction())
	if c.ThrottledPeriods > 0 {
		return check("steal", Warn, fmt.Sprintf("%s, and the cgroup's quota stopped this program %d times for %s", finding, c.ThrottledPeriods, short(c.Throttled)),
			"raise the CPU quota, or expect its pauses in p99", values)
	}
	if c.StealFraction() > stealShare {
		return check("steal", Warn, finding, "measure several times and at another hour, or on a machine of your own: others' work is in the figures", values)
	}
	return check("steal", OK, finding+", a quota none", "", values)
}
