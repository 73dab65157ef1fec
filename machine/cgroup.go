package machine

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// cgroups are the control groups this process is in, as paths below their
// hierarchies' roots. A missing hierarchy has an empty path.
type cgroups struct {
	root    fs.FS
	unified string // version 2
	memory  string // version 1
	cpu     string // version 1
}

// Where the hierarchies are mounted. With both versions in use ("hybrid"),
// version 2 sits in a folder of its own.
const (
	cgroupMount        = "sys/fs/cgroup"
	cgroupHybridMount  = "sys/fs/cgroup/unified"
	cgroupMemoryMount  = "sys/fs/cgroup/memory"
	cgroupCPUMount     = "sys/fs/cgroup/cpu"
	cgroupCPUAcctMount = "sys/fs/cgroup/cpu,cpuacct"
)

// readCgroups parses /proc/self/cgroup, whose lines are
// "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers.
func readCgroups(root fs.FS) cgroups {
	cg := cgroups{root: root}
	for line := range strings.Lines(readText(root, "proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[0] == "0" && parts[1] == "" {
			cg.unified = parts[2]
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			switch controller {
			case "memory":
				cg.memory = parts[2]
			case "cpu":
				cg.cpu = parts[2]
			}
		}
	}
	return cg
}

// lineage lists the folders of a group and of all groups above it, the
// group's own first. Inside a container the path may be the host's and not be
// visible; the folder of the mount itself is then the container's group, and
// it is always the last of the list.
func lineage(mount, group string) []string {
	if group == "" {
		return nil
	}
	var dirs []string
	for group = path.Clean("/" + group); group != "/"; group = path.Dir(group) {
		dirs = append(dirs, mount+group)
	}
	return append(dirs, mount)
}

func (cg cgroups) unifiedDirs() []string {
	return append(lineage(cgroupMount, cg.unified), lineage(cgroupHybridMount, cg.unified)...)
}

func (cg cgroups) cpuDirs() []string {
	dirs := cg.unifiedDirs()
	dirs = append(dirs, lineage(cgroupCPUMount, cg.cpu)...)
	return append(dirs, lineage(cgroupCPUAcctMount, cg.cpu)...)
}

// memoryLimit returns the smallest memory limit of the process's groups in
// bytes, and ok false when there is none.
func (cg cgroups) memoryLimit() (limit uint64, ok bool) {
	for _, g := range cg.memoryGroups() {
		if !ok || g.limit < limit {
			limit, ok = g.limit, true
		}
	}
	return limit, ok
}

// memoryRoom returns the least memory that any limited group still has in
// bytes, and ok false when no group has a limit. Cached file pages that are
// not in use count as room: the kernel takes them back before it refuses.
func (cg cgroups) memoryRoom() (room uint64, ok bool) {
	for _, g := range cg.memoryGroups() {
		free := grown(g.limit, grown(g.used, g.reclaimable))
		if !ok || free < room {
			room, ok = free, true
		}
	}
	return room, ok
}

type memoryGroup struct{ limit, used, reclaimable uint64 }

// memoryGroups returns the process's groups that have a memory limit.
func (cg cgroups) memoryGroups() []memoryGroup {
	var groups []memoryGroup
	for _, dir := range cg.unifiedDirs() {
		if limit, ok := cg.number(dir + "/memory.max"); ok {
			used, _ := cg.number(dir + "/memory.current")
			stat := readPairs(cg.root, dir+"/memory.stat")
			groups = append(groups, memoryGroup{limit, used, stat["inactive_file"]})
		}
	}
	for _, dir := range lineage(cgroupMemoryMount, cg.memory) {
		if limit, ok := cg.number(dir + "/memory.limit_in_bytes"); ok && limit < unlimitedV1 {
			used, _ := cg.number(dir + "/memory.usage_in_bytes")
			stat := readPairs(cg.root, dir+"/memory.stat")
			groups = append(groups, memoryGroup{limit, used, stat["total_inactive_file"]})
		}
	}
	return groups
}

// unlimitedV1 is below the number that version 1 prints for "no limit", the
// largest int64 rounded down to a page of any size in use.
const unlimitedV1 = 1 << 62

// number reads a file that holds one number; "max", which is no limit, and a
// file that is not there give ok false.
func (cg cgroups) number(name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(readText(cg.root, name)), 10, 64)
	return n, err == nil
}
