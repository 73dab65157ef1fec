package main

import (
	"fmt"
	"strings"
)

// preset is a sweep that has a name.
type preset struct {
	name        string
	summary     string   // one line: what it shows
	params      []string // as --param has them; one value alone is the same for all cells
	loads       []string // as --load has them
	explanation string   // how its result is read
}

// The loads of presets: all at once, and at a rate that a small machine bears.
const (
	burstLoad = "n=100k"
	rateLoad  = "R=5000,d=3s,warmup=500ms"
)

// presets are all of them, in the order in which they are listed.
var presets = []preset{
	{
		name:    "batch-window",
		summary: "does waiting for more transactions pay, and how large may a batch be",
		params:  []string{"batch-window=0,100us,1ms,5ms", "max-batch=100,1000,10000"},
		loads:   []string{burstLoad, rateLoad},
		explanation: "A window makes each batch wait for more to come. In a burst all are there already, so that it only costs; " +
			"at a rate it trades latency for fewer COMMITs, which matters where a sync is slow.",
	}, {
		name:    "chunk-size",
		summary: "transactions to a COMMIT, without a queue: where larger pays no more",
		params:  []string{"scenario=direct", "max-batch=1000,5000,10000,25000,50000"},
		loads:   []string{"d=2s,warmup=500ms"},
		explanation: "One goroutine that waits for nobody commits every so many transfers. Speed levels off while p99, " +
			"which is the length of a batch, goes on to grow: the frontier is where to choose.",
	}, {
		name:    "page-size",
		summary: "pages from 512 bytes to 64 KiB, each in a data set of its own",
		params:  []string{"page-size=512,1024,2048,4096,8192,16384,32768,65536"},
		loads:   []string{burstLoad},
		explanation: "A transfer changes two rows and the WAL gets their whole pages: small ones write less, large ones " +
			"make the tree lower. The data sets stay beside --db for the next time.",
	}, {
		name:    "cache-size",
		summary: "SQLite's page cache from 1 MiB on, on hot keys and on uniform ones",
		params:  []string{"dist=pareto,uniform", "cache-size=1MiB,4MiB,16MiB,64MiB,256MiB"},
		loads:   []string{burstLoad},
		explanation: "Hot keys need little of it. With uniform ones a page that is not in SQLite's cache is read from the operating " +
			"system's, or from the disk when the table is larger than memory (--cache cold shows the latter).",
	}, {
		name:    "mmap-size",
		summary: "reading the file as memory, with three awaited reads to each transfer",
		params:  []string{"scenario=mixed", "dist=uniform", "mmap-size=0,16MiB,64MiB,256MiB,1GiB"},
		loads:   []string{burstLoad},
		explanation: "Pages that are mapped are read without a system call and without a copy. What is beyond the file's size " +
			"changes nothing: such cells are there to show the noise.",
	}, {
		name:    "checkpoint",
		summary: "when the WAL goes into the database: what it costs in speed and in p99",
		params:  []string{"checkpoint=pages:1000,pages:4000,pages:16000,stall:10ms,idle,off"},
		loads:   []string{burstLoad, rateLoad},
		explanation: "A checkpoint holds the writer: rare ones make speed and long stalls, frequent ones the opposite. " +
			"The settled figure counts the checkpoint that is still owed.",
	}, {
		name:    "key-layout",
		summary: "hot accounts side by side or scattered: how much of the speed is cache",
		params:  []string{"layout=clustered,scattered", "cache-size=2MiB,64MiB"},
		loads:   []string{burstLoad},
		explanation: "The same accounts are as hot in both; scattered, each lies on a page of its own. " +
			"The larger the data set (--db), the larger the difference.",
	},
}

// findPreset finds a preset by its name.
func findPreset(name string) (preset, error) {
	var names []string
	for _, p := range presets {
		if p.name == name {
			return p, nil
		}
		names = append(names, p.name)
	}
	return preset{}, usagef("there is no preset %q: use one of %s", name, strings.Join(names, ", "))
}

// presetList describes the presets for --help: what each shows, what it runs, and how
// its result is read.
func presetList() string {
	var b strings.Builder
	for _, p := range presets {
		fmt.Fprintf(&b, "  %-14s%s\n", p.name, p.summary)
		var flags []string
		for _, param := range p.params {
			flags = append(flags, "--param "+param)
		}
		for _, load := range p.loads {
			flags = append(flags, "--load "+load)
		}
		for _, words := range [][]string{strings.Fields(p.explanation), flags} {
			line := ""
			for _, word := range words {
				if line != "" && len(line)+len(word) > 70 {
					fmt.Fprintf(&b, "  %14s%s\n", "", line[1:])
					line = ""
				}
				line += " " + word
			}
			fmt.Fprintf(&b, "  %14s%s\n", "", line[1:])
		}
	}
	return b.String()
}
