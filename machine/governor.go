package machine

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Governor returns what decides on the frequency of the CPUs, as in
// "performance" or "schedutil"; several, sorted and joined with "+", when the
// CPUs differ. It is "" where the system has none to show, which is usual in a
// virtual machine: its host decides there.
func Governor() string { return governor(os.DirFS("/")) }

func governor(root fs.FS) string {
	// A pattern that is well formed gives no error.
	files, _ := fs.Glob(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	var found []string
	for _, name := range files {
		if g := strings.TrimSpace(readText(root, name)); g != "" {
			found = append(found, g)
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), "+")
}
