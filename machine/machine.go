// Package machine reads what a measurement ran on, and what disturbed it: the
// processor, memory, kernel and file system; CPU time taken by a hypervisor or
// by a cgroup quota; and which part of a file is in the kernel's page cache.
//
// Everything that describes the machine is best effort: what a system does not
// tell is left empty or zero, and is never guessed. It knows no databases; the
// version of the one that is measured is for the caller to add.
package machine

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/tpssim/tpssim/tps"
)

// Read describes the machine, the Go runtime as it is set now, this program's
// build, and the file at path with the file system that it lies on. When there
// is no such file, its size is 0 and the file system is that of the nearest
// folder that exists. It leaves SQLite's version empty.
//
// MemoryBytes is what this process may use: the machine's memory or the
// smallest limit of its cgroups, whichever is less.
func Read(path string) tps.Env {
	env := tps.Env{
		OS:          runtime.GOOS,
		Filesystem:  filesystem(path),
		CPUs:        runtime.NumCPU(),
		GOMAXPROCS:  runtime.GOMAXPROCS(0),
		GOGC:        gogc(),
		MemoryBytes: int64(memoryLimit()),
		Go:          runtime.Version(),
	}
	env.Kernel, _ = host.KernelVersion()
	if infos, err := cpu.Info(); err == nil && len(infos) > 0 {
		env.CPU = strings.TrimSpace(infos[0].ModelName)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		env.DBBytes = info.Size()
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		env.Version, env.Commit = buildVersion(build)
	}
	return env
}

// RSS returns how much physical memory this process has, in bytes; 0 where the system
// does not tell.
func RSS() int64 {
	p, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return 0
	}
	info, err := p.MemoryInfo()
	if err != nil {
		return 0
	}
	return int64(info.RSS)
}

// FreeBytes returns how many bytes a process without special rights can still
// write to the file system of path. The path need not exist: the nearest
// folder above it that does is asked.
func FreeBytes(path string) (uint64, error) {
	usage, err := disk.Usage(nearest(path))
	if err != nil {
		return 0, fmt.Errorf("machine: free space of %s: %w", path, err)
	}
	return usage.Free, nil
}

// AvailableMemory returns how many bytes this process can still take without
// swapping or meeting a cgroup's limit, cached file pages counted as free. It
// is 0 where the system does not tell.
func AvailableMemory() uint64 {
	var available uint64
	if vm, err := mem.VirtualMemory(); err == nil {
		available = vm.Available
	}
	if room, ok := readCgroups(os.DirFS("/")).memoryRoom(); ok && available > 0 {
		available = min(available, room)
	}
	return available
}

// memoryLimit returns the memory of the machine or of the tightest cgroup,
// whichever is less, in bytes; 0 where unknown.
func memoryLimit() uint64 {
	var total uint64
	if vm, err := mem.VirtualMemory(); err == nil {
		total = vm.Total
	}
	if limit, ok := readCgroups(os.DirFS("/")).memoryLimit(); ok && (total == 0 || limit < total) {
		total = limit
	}
	return total
}

// gogc returns the garbage collector's percentage as it is in force, -1 for
// off. The metric is read because debug.SetGCPercent only tells by setting,
// which starts a collection.
func gogc() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	percent := sample[0].Value.Uint64()
	if percent > math.MaxInt32 {
		return -1
	}
	return int(percent)
}

// buildVersion returns the main module's version and the commit it was built
// from, "+dirty" appended when files had been changed.
func buildVersion(build *debug.BuildInfo) (version, commit string) {
	dirty := ""
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	if commit != "" {
		commit += dirty
	}
	return build.Main.Version, commit
}

// filesystem returns the type of the file system that path lies on, as in
// "ext4", or "" where it cannot be told. The mount table is preferred to the
// number that statfs gives, which is the same for ext2, ext3 and ext4.
func filesystem(path string) string {
	at := nearest(path)
	if resolved, err := filepath.EvalSymlinks(at); err == nil {
		at = resolved
	}
	fstype := ""
	if parts, err := disk.Partitions(true); err == nil {
		best := -1
		for _, p := range parts {
			// Not less: of two mounts on one folder the later hides the other.
			if within(at, p.Mountpoint) && len(p.Mountpoint) >= best {
				best, fstype = len(p.Mountpoint), p.Fstype
			}
		}
	}
	if fstype == "" {
		if usage, err := disk.Usage(at); err == nil {
			fstype = usage.Fstype
		}
	}
	return fstype
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
	return ok && (rest == "" || rest[0] == filepath.Separator)
}

// nearest returns path as an absolute path, or the closest folder above it
// that exists.
func nearest(path string) string {
	at, err := filepath.Abs(path)
	if err != nil {
		return "."
	}
	for {
		if _, err := os.Stat(at); err == nil || filepath.Dir(at) == at {
			return at
		}
		at = filepath.Dir(at)
	}
}
