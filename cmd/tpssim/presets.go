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
	arms        []string // as --arm has them
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
		params:  []string{"batch-window=0,100us,1ms,5ms", "max-batch=100,1000,10000,10000"},
		loads:   []string{burstLoad, rateLoad},
		explanation: "A window makes each batch wait for more to come. In a burst all are there already, so that it only costs; " +
			"at a rate it trades latency for fewer COMMITs, which matters where a sync is slow.",
	}, {
		name:    "chunk-size",
		summary: "transactions to a COMMIT, without a queue: where larger pays no more",
		params:  []string{"scenario=direct", "max-batch=1000,5000,10000,25000,50000,10000"},
		loads:   []string{"d=2s,warmup=500ms"},
		explanation: "One goroutine that waits for nobody commits every so many transfers. Speed levels off while p99, " +
			"which is the length of a batch, goes on to grow: the frontier is where to choose.",
	}, {
		name:    "page-size",
		summary: "pages from 512 bytes to 64 KiB, each in a data set of its own",
		params:  []string{"page-size=512,1024,2048,4096,8192,16384,32768,65536,4096"},
		loads:   []string{burstLoad},
		explanation: "A transfer changes two rows and the WAL gets their whole pages: small ones write less, large ones " +
			"make the tree lower. The data sets stay beside --db for the next time.",
	}, {
		name:    "cache-size",
		summary: "SQLite's page cache from 1 MiB on, on hot keys and on uniform ones",
		params:  []string{"dist=pareto,uniform", "cache-size=1MiB,4MiB,16MiB,64MiB,256MiB,64MiB"},
		loads:   []string{burstLoad},
		explanation: "Hot keys need little of it. With uniform ones a page that is not in SQLite's cache is read from the operating " +
			"system's, or from the disk when the table is larger than memory (--cache cold shows the latter).",
	}, {
		name:    "mmap-size",
		summary: "reading the file as memory, with three awaited reads to each transfer",
		params:  []string{"scenario=mixed", "dist=uniform", "mmap-size=0,16MiB,64MiB,256MiB,1GiB,0"},
		loads:   []string{burstLoad},
		explanation: "Pages that are mapped are read without a system call and without a copy. What is beyond the file's size " +
			"changes nothing.",
	}, {
		name:    "checkpoint",
		summary: "when the WAL goes into the database: what it costs in speed and in p99",
		params:  []string{"checkpoint=pages:1000,pages:4000,pages:16000,stall:10ms,idle,off,stall:10ms"},
		loads:   []string{burstLoad, rateLoad},
		explanation: "A checkpoint holds the writer: rare ones make speed and long stalls, frequent ones the opposite. " +
			"The settled figure counts the checkpoint that is still owed.",
	}, {
		name:    "key-layout",
		summary: "hot accounts side by side or scattered: how much of the speed is cache",
		params:  []string{"layout=clustered,scattered", "cache-size=2MiB,64MiB,64MiB"},
		loads:   []string{burstLoad},
		explanation: "The same accounts are as hot in both; scattered, each lies on a page of its own. " +
			"The larger the data set (--db), the larger the difference.",
	}, {
		name:    "pragma-matrix",
		summary: "journal_mode and synchronous: single inserts, one transaction, reads",
		arms: []string{
			"name=rollback+FULL,journal-mode=delete,sync=full", "name=rollback+NORMAL,journal-mode=delete,sync=normal",
			"name=WAL+FULL,journal-mode=wal,sync=full", "name=WAL+NORMAL,journal-mode=wal,sync=normal",
			"name=WAL+OFF,journal-mode=wal,sync=off", "name=WAL+FULL again,journal-mode=wal,sync=full",
		},
		loads: []string{
			"scenario=insert,max-batch=1,n=5k", "scenario=insert,max-batch=50k,n=50k",
			"scenario=points,rows=50k,n=50k", "scenario=scan,rows=50k,n=20",
		},
		explanation: "On a fresh file each time. Compare WAL+FULL with rollback+FULL for what the journal does, and with " +
			"WAL+NORMAL for what the sync does: rollback+FULL against WAL+NORMAL mixes the two.",
	}, {
		name:    "orm-bench",
		summary: "eleven configurations of an ORM's benchmark, without the ORM, to 10M rows",
		arms: []string{
			"name=baseline,max-batch=5000,sync=normal,cache-size=4096KiB,mmap-size=0",
			"name=optimized,max-batch=10000,sync=normal,cache-size=64000KiB,mmap-size=256MiB",
			"name=aggressive,max-batch=25000,sync=off,cache-size=256000KiB,mmap-size=256MiB",
			"name=chunk_1000,max-batch=1000,sync=normal,cache-size=64000KiB,mmap-size=256MiB",
			"name=chunk_5000,max-batch=5000,sync=normal,cache-size=64000KiB,mmap-size=256MiB",
			"name=chunk_10000,max-batch=10000,sync=normal,cache-size=64000KiB,mmap-size=256MiB",
			"name=chunk_25000,max-batch=25000,sync=normal,cache-size=64000KiB,mmap-size=256MiB",
			"name=chunk_50000,max-batch=50000,sync=normal,cache-size=64000KiB,mmap-size=256MiB",
			"name=pool_3,max-batch=10000,sync=normal,cache-size=64000KiB,mmap-size=256MiB",
			"name=pool_5,max-batch=10000,sync=normal,cache-size=64000KiB,mmap-size=256MiB",
			"name=pool_8,max-batch=10000,sync=normal,cache-size=64000KiB,mmap-size=256MiB",
		},
		loads: []string{`scenario=insert,n=10m,growth="3m,5m,10m"`},
		explanation: "Who inserts on one connection has no use for a pool: the three that differ in its size, optimized and " +
			"chunk_10000 are the same, and show the noise. p99 is that of a transaction of so many rows.",
	}, {
		name:    "key-type",
		summary: "integers, UUIDs and random bytes as keys, with and without a rowid",
		arms: []string{
			"name=integer,keys=integer", "name=integer again,keys=integer",
			"name=uuid7,keys=uuid7", "name=uuid7 without rowid,keys=uuid7,without-rowid=true",
			"name=uuid4,keys=uuid4", "name=uuid4 without rowid,keys=uuid4,without-rowid=true",
			"name=random20,keys=random20", "name=random20 without rowid,keys=random20,without-rowid=true",
			"name=random20 sorted,keys=random20,sorted=true",
		},
		loads: []string{`scenario=insert,n=3m,max-batch=1m,growth="1m,2m,3m"`},
		explanation: "Random keys go to pages all over the tree: once it is larger than the cache each is read and written for " +
			"one row. UUID7 and integers only append. --load with n=10m shows it more.",
	}, {
		name:    "storage",
		summary: "this disk against a file system in memory (Linux)",
		arms:    []string{"name=disk", "name=memory,db=/dev/shm/tpssim.db", "name=disk again"},
		loads:   []string{burstLoad, rateLoad, "scenario=insert,max-batch=1,n=5k"},
		explanation: "What is left of the difference when a sync costs nothing is not the disk's. /dev/shm/tpssim.db takes " +
			"memory until it is removed, and holds what --db holds.",
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

// listColumns is the room that the list of presets has beside their names.
const listColumns = 70

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
		for _, arm := range p.arms {
			flags = append(flags, "--arm '"+arm+"'")
		}
		for _, load := range p.loads {
			flags = append(flags, "--load "+load)
		}
		for _, words := range [][]string{strings.Fields(p.explanation), folded(flags)} {
			line := ""
			for _, word := range words {
				if line != "" && len(line)+len(word) > listColumns {
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

// folded breaks what is longer than a line at a comma.
func folded(words []string) (short []string) {
	for _, word := range words {
		for len(word) > listColumns {
			cut := strings.LastIndex(word[:listColumns], ",") + 1
			short, word = append(short, word[:cut]), word[cut:]
		}
		short = append(short, word)
	}
	return short
}
