package main

import (
	"os"
	"strings"
	"testing"
)

// usages are command lines that make no sense, their words separated by blanks,
// and what is said about them.
var usages = []struct{ args, says string }{
	{"runn", `unknown command "runn" (tpssim --help lists them)`},
	{"run savpoint", `unknown scenario "savpoint": did you mean "savepoint"?`},
	{"run xyzzy", `unknown scenario "xyzzy" (tpssim scenarios lists them)`},
	{"run --scenario leger", `did you mean "ledger"?`},
	{"run mixed ledger", "run takes one scenario, not 2"},
	{"run mixed --scenario ledger", `"mixed" and --scenario ledger are two scenarios: name one`},
	{"run --burst", "unknown flag: --burst (tpssim run --help lists the flags)"},
	{"run -x", "unknown shorthand flag: 'x' in -x (tpssim run --help lists the flags)"},
	{"run -n", "-n needs a value"},
	{"run -n 0", "-n 0: it must be 1 or more"},
	{"run -n -5", "-n -5: it must be 1 or more"},
	{"run -n 1e30", `-n: "1e30" is too large`},
	{"run -n 1e400", `-n: "1e400" is not a count`},
	{"run -n 1.5", `-n: "1.5" is not a whole number`},
	{"run -n lots", `-n: "lots" is not a count such as 100000, 100k or 1e9`},
	{"run -n 1e12", "-n 1000000000000 is too many goroutines for one burst"},
	{"run -c 5", "-c needs an end: give -n or -d"},
	{"run -c 0 -n 5", "-c 0: it must be 1 or more"},
	{"run -c 1e9 -n 5", "-c 1000000000: it must be 268,435,456 or less"},
	{"run -R 100", "-R needs an end: give -d or -n"},
	{"run -R 0 -n 5", "-R 0: it must be 1 or more"},
	{"run -R 1e12 -n 5", "-R 1000000000000: it must be 1,000,000,000 or less"},
	{"run -R 100 -c 5 -d 1", "-c cannot be used with -R"},
	{"run -d 0", "-d 0s: it must be longer than 0"},
	{"run -d -3s", "-d -3s: it must be longer than 0"},
	{"run -d soon", `-d: "soon" is not a duration such as 30s, 1m30s or 500ms`},
	{"run -d 1e300", `-d: "1e300" is too long`},
	{"run -n 5 --warmup 1s", "--warmup needs -c, -d or -R"},
	{"run -n 5 --runs 0", "--runs 0: it must be 1 or more"},
	{"run -n 5 -c 2 --runs 3", "--runs repeats a burst"},
	{"run -n 5 --max-in-flight 3", "--max-in-flight needs -R"},
	{"run -n 5 --reads -1", "--reads -1: it must be 0 or more"},
	{"run -n 5 --queue 0", "--queue 0: it must be 1 or more"},
	{"run -n 5 --max-batch 1e10", "--max-batch 10000000000: it must be 2,147,483,647 or less"},
	{"run -n 5 --readers 1e6", "--readers 1000000: it must be 1,000 or less"},
	{"run -n 5 --prefetch 1001", "--prefetch 1001: it must be 1,000 or less"},
	{"run -n 5 --prefetch -1", "--prefetch -1: it must be 0 or more"},
	{"run direct --prefetch 8", "--prefetch has no meaning in the scenario direct"},
	{"run pool --prefetch 8", "--prefetch has no meaning in the scenario pool"},
	{"run optimistic --prefetch 8", "--prefetch has no meaning in the scenario optimistic"},
	{"run -b tpcb-like --prefetch 8", "--prefetch has no meaning in the scenario script"},
	{"knee pool --slo p99<1ms --prefetch 8", "--prefetch has no meaning in the scenario pool"},
	{"run --journal-mode delete --prefetch 8", "--prefetch needs --journal-mode wal"},
	{"run pool -n 5 --connections 1e6", "--connections 1000000: it must be 1,000 or less"},
	{"run direct -R 5 -d 1", "-R cannot be used here"},
	{"run direct -c 5 -d 1", "-c cannot be used here"},
	{"run direct -n 5 --reads 3", "--reads needs a scenario with a queue"},
	{"run --dist normal", `--dist: "normal" is none of pareto, zipfian, uniform, hotspot`},
	{"run --dist zipfian --theta 3", "zipfian with theta = 3: choose more than 0 and at most 2"},
	{"run --dist zipfian --theta NaN", `--theta: "NaN" is not a number`},
	{"run --dist hotspot --hot-accounts 2", "hotspot of a share 2 of the accounts: choose more than 0"},
	{"run --dist hotspot --hot-traffic 2", "hotspot with a share 2 of the traffic: choose 0 to 1"},
	{"run --layout heap", `--layout: "heap" is none of clustered, scattered`},
	{"run --pareto-r 0", "--pareto-r 0: it must be 1 or more"},
	{"run --fail-rate 2", "--fail-rate and --panic-rate must be 0 or more and at most 1 together"},
	{"run --fail-rate NaN", `--fail-rate: "NaN" is not a number`},
	{"run --fail-rate x", `--fail-rate: "x" is not a number such as 0.25`},
	{"run --panic-rate -1", "--fail-rate and --panic-rate must be"},
	{"run --think -1s", "--think must be 0 or more"},
	{"run --random-seed -1", `--random-seed: "-1" is not a whole number from 0 to`},
	{"run --sync on", `--sync: "on" is none of off, normal, full, extra`},
	{"run --journal-mode memory", `--journal-mode: "memory" is none of wal, delete, truncate, persist`},
	{"run --cache-size -5", `--cache-size: "-5" is not a size such as 4096, 64KiB or 1GB`},
	{"run --mmap-size 1e30", `--mmap-size: "1e30" is not a size`},
	{"run --pragma nonsense", `--pragma "nonsense" is not name=value`},
	{"run --pragma =", `--pragma "=" is not name=value`},
	{"run --pragma a=1;VACUUM", `--pragma "a=1;VACUUM" is not name=value`},
	{"run --checkpoint often", `checkpoint policy "often" is none of stall:10ms, pages:4000, bytes:64MiB, idle, off`},
	{"run --checkpoint-mode full", `--checkpoint-mode: "full" is none of passive, restart, truncate`},
	{"run --batch-window -1", "--batch-window must be 0 or more"},
	{"run --savepoints some", `--savepoints: "some" is none of each, none, on-failure`},
	{"run --cache hot", `--cache: "hot" is none of cold, warm, as-is`},
	{"run --format xml", `--format: "xml" is none of text, json`},
	{"run --theta 0.5", "--theta belongs to --dist zipfian, not to pareto"},
	{"run --dist uniform --pareto-r 5", "--pareto-r belongs to --dist pareto, not to uniform"},
	{"run --dist uniform --layout scattered", "--layout has no meaning with --dist uniform"},
	{"run --connections 3", "--connections has no meaning in the scenario savepoint"},
	{"run pool --max-batch 3", "--max-batch has no meaning in the scenario pool"},
	{"run unbatched --max-batch 3", "--max-batch has no meaning in the scenario unbatched"},
	{"run batch --savepoints each", "--savepoints has no meaning in the scenario batch"},
	{"run direct --batch-window 3", "--batch-window has no meaning in the scenario direct"},
	{"run --journal-mode delete --checkpoint idle", "--checkpoint needs --journal-mode wal"},
	{"run --journal-mode delete --pin-reader 3", "--pin-reader needs --journal-mode wal"},
	{"run --checkpoint off --checkpoint-mode restart", "--checkpoint-mode has no meaning with --checkpoint off"},
	{"run --histograms --format json", "--histograms draws in the text"},
	{"knee --slo p99<1ms --theta 0.5", "--theta belongs to --dist zipfian"},
	{"run --arrival poisson", "--arrival and --burst-size need -R"},
	{"run -R 5 -d 1 --arrival never", `--arrival: "never" is none of constant, poisson`},
	{"run -R 5 -d 1 --burst-size 0", "--burst-size 0: it must be 1 or more"},
	{"run --stage 10s", `--stage "10s" is neither 10s:5000 nor 30s:5000->20000: no colon`},
	{"run --stage 10s:many", `--stage "10s:many" is neither`},
	{"run --stage 0s:5", "--stage: each stage must be longer than 0"},
	{"run --stage 1s:5 -R 3", "--stage takes the place of -R and -d"},
	{"run -L 0", "-L 0s: it must be longer than 0"},
	{"run -P -1", "-P -1s: it must be longer than 0"},
	{"run --threshold p99", "p99"},
	{"run --threshold p42<3ms", "p42"},
	{"run --abort-on-fail", "--abort-on-fail needs a --threshold"},
	{"run --log-sample 0.5", "--log-sample needs --log"},
	{"run --log l.csv --log-sample 2", "--log-sample 2: it must be above 0 and at most 1"},
	{"run --max-tries 3", "--max-tries needs a scenario that tries again"},
	{"run optimistic --max-tries 0", "--max-tries 0: it must be 1 or more"},
	{"run optimistic --reads 2", "--reads has no meaning here"},
	{"run --pin-reader -1", "--pin-reader must be longer than 0"},
	{"run -D a=1", "--define needs a script: give -f or -b"},
	{"run --allow-foreign", "--allow-foreign needs a script: give -f or -b"},
	{"run -b nonsense", `no built-in script is called "nonsense": there are select-only, simple-update, tpcb-like`},
	{"run -b tpcb-like@x", `"x" is no weight`},
	{"run -b tpcb-like@0", "all weights are 0"},
	{"run -b tpcb-like --dist uniform", "--dist has no meaning with -f or -b"},
	{"run -b tpcb-like -D scale", `-D "scale" is not name=value`},
	{"run funds -b tpcb-like", `"funds" is a scenario, and -f or -b a script: name one of them`},
	{"run -f missing.sql", "-f missing.sql: there is no such file"},
	{"knee", "--slo is needed: say what must hold, as in --slo 'p99<50ms'"},
	{"knee --slo p99", "p99"},
	{"knee --slo p99<1ms --need 0", "--need 0: it must be 1 or more"},
	{"knee --slo p99<1ms --need 20 --start 5", "--need and --start are two first rates"},
	{"knee --slo p99<1ms --most 10 --start 20", "--start must be from 1 to 10 a second"},
	{"run -P 1ms", "-P 1ms: it must be 100ms or longer"},
	{"knee --slo p99<1ms --most 10 --need 20", "--need must be from 1 to 10 a second"},
	{"knee direct --slo p99<1ms", "direct has no callers that arrive at a rate"},
	{"knee a b --slo p99<1ms", `knee takes one scenario, not 2`},
	{"seed --scale 3", "--scale needs --schema tpcb"},
	{"seed --schema tpcb --scale 0", "--scale 0: it must be 1 or more"},
	{"seed --schema tpcb --rows 5", "--rows means nothing with --schema tpcb: use --scale"},
	{"run --schema tpcb", `--schema: "tpcb" is none of rowid, article`},
	{"run --rows 0", "0 rows: choose 1 to 9007199254740992"},
	{"seed --rows 0", "0 rows: choose 1 to 9007199254740992"},
	{"seed --rows 9007199254740993", "9007199254740993 rows: choose 1 to 9007199254740992"},
	{"seed --rows many", `--rows: "many" is not a count`},
	{"seed --balance -1", "balance"},
	{"seed --schema wide", `--schema: "wide" is none of rowid, article, tpcb`},
	{"seed --payload -1", `--payload: "-1" is not a size`},
	{"seed --payload 1GiB", "payload of 1073741824 bytes: choose 0 to 1048576"},
	{"seed --payload 1TiB", `--payload: "1TiB" is too large`},
	{"seed --indexes 99", "99 indexes: choose 0 to 8"},
	{"seed --indexes two", `--indexes: "two" is not a count`},
	{"seed --page-size 1000", "page size of 1000 bytes: choose a power of two, 512 to 65536"},
	{"seed more", `tpssim seed takes no arguments, only flags: "more"`},
	{"check it", `tpssim check takes no arguments, only flags: "it"`},
	{"scenarios all", `tpssim scenarios takes no arguments, only flags: "all"`},
	{"completion sh", `unknown shell "sh" (tpssim completion --help lists them)`},
	{"completion bash zsh", `tpssim completion bash takes no arguments, only flags: "zsh"`},
	{"version 2", `tpssim version takes no arguments, only flags: "2"`},
	{"version --quiet=maybe", `-q: "maybe" is neither true nor false`},
	{"version --config missing.toml", "--config missing.toml: open missing.toml: no such file"},
}

// A command line that makes no sense is refused in one line, with exit code 2,
// before anything is made.
func TestUsage(t *testing.T) {
	for _, test := range usages {
		t.Run(strings.ReplaceAll(test.args, "/", " "), func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			code, stdout, stderr := invoke(t, strings.Fields(test.args)...)
			if code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			if wrong := complaint(stdout, stderr); wrong != "" {
				t.Error(wrong)
			}
			if !strings.Contains(stderr, test.says) {
				t.Errorf("%q does not say %q", stderr, test.says)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("made %v, error %v", entries, err)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	for _, test := range []struct{ err, want string }{
		{"dataset: x.db: it is gone", "x.db: it is gone"},
		{"scenarios: engine: writer: closed", "closed"},
		{"tps: settle: sqlite: locked", "settle: locked"},
		{"x.db: full (tps: settle: busy)", "x.db: full (settle: busy)"},
		{"uniform over 3 accounts: too few", "uniform over 3 accounts: too few"},
		{"two\nlines\tof text", "two lines of text"},
		{"", ""},
	} {
		if got := message(&codeError{1, stringError(test.err)}); got != test.want {
			t.Errorf("%q became %q, want %q", test.err, got, test.want)
		}
	}
}

type stringError string

func (e stringError) Error() string { return string(e) }
