package machine

import (
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// Usage is what this process takes. All but RSSBytes only grow. Fields that
// cannot be read are zero.
type Usage struct {
	RSSBytes int64         // memory of the machine that the process has now
	CPU      time.Duration // user and system time of all its threads together
	GCs      int64         // garbage collections that have ended
	GCPause  time.Duration // for how long they stopped the program, together
}

// ReadUsage reads the usage now. It stops nothing and costs some microseconds,
// so it may be called every second while something is measured.
func ReadUsage() Usage {
	var gc debug.GCStats // copied under the heap's lock, without stopping the world
	debug.ReadGCStats(&gc)
	return Usage{RSSBytes: residentBytes(), CPU: cpuTime(), GCs: gc.NumGC, GCPause: gc.PauseTotal}
}

// Sub returns what was added between earlier and u; RSSBytes, which is no
// counter, stays that of u.
func (u Usage) Sub(earlier Usage) Usage {
	u.CPU = max(0, u.CPU-earlier.CPU)
	u.GCs = max(0, u.GCs-earlier.GCs)
	u.GCPause = max(0, u.GCPause-earlier.GCPause)
	return u
}

// residentPages reads the second number of /proc/self/statm, the resident pages
// (proc_pid_statm(5)).
func residentPages(root fs.FS) (pages int64, ok bool) {
	fields := strings.Fields(readText(root, "proc/self/statm"))
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages, err == nil
}

// residentBytes returns the memory that the process has now.
func residentBytes() int64 {
	if pages, ok := residentPages(os.DirFS("/")); ok {
		return pages * int64(os.Getpagesize())
	}
	return processRSS()
}

// processRSS is residentBytes for systems without /proc.
func processRSS() int64 {
	info, err := thisProcess().MemoryInfo()
	if err != nil {
		return 0
	}
	return int64(info.RSS)
}

// thisProcess is process.NewProcess without its question whether there is such a
// process.
func thisProcess() *process.Process { return &process.Process{Pid: int32(os.Getpid())} }
