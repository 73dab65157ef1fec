package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tpssim/tpssim/tps"
)

var update = flag.Bool("update", false, "write what is rendered into testdata")

// latency is a summary with round numbers.
func latency(n int64, p50 time.Duration) tps.Latency {
	return tps.Latency{Count: n, Mean: p50 + p50/10, P50: p50, P90: 2 * p50, P99: 3 * p50, P999: 4 * p50, Max: 5 * p50}
}

// burst is a result of the load that people run first.
func burst() *tps.Result {
	const n = 100_000
	return &tps.Result{
		Schema:    tps.Schema,
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Argv:      []string{"run", "-n", "100000"},
		Scenario:  "savepoint",
		Engine:    "sqlite",
		Load: tps.Load{
			Mode: tps.Burst, Transactions: n, RandomSeed: 1, Dist: "pareto", Layout: "clustered", Rows: 1_000_000, Cache: "as-is",
		},
		Settings: tps.Settings{
			JournalMode: "wal", Synchronous: "full", PageSize: 4096, CacheSize: -65536, Checkpoint: "pages:4000",
			MaxBatch: 10_000, Queue: 1 << 20, Savepoints: "each", Readers: 2,
		},
		Runs: []tps.Round{
			{TPS: 210_000, Elapsed: 476 * time.Millisecond, Cold: true, Acknowledged: n},
			{TPS: 272_480, Elapsed: 367 * time.Millisecond, Acknowledged: n},
			{TPS: 250_000, Elapsed: 400 * time.Millisecond, Acknowledged: n},
			{TPS: 280_000, Elapsed: 357 * time.Millisecond, Acknowledged: n},
		},
		Acknowledged: n, Errors: map[string]int64{},
		Elapsed: 367 * time.Millisecond, Spawn: 61 * time.Millisecond,
		TPS: 272_480, TPSLow: 250_000, TPSHigh: 280_000, TPSSettled: 261_000,
		Latency: latency(n, 180*time.Millisecond), Service: latency(n, 179*time.Millisecond),
		Stages: tps.Stages{
			Lag: latency(n, 20*time.Millisecond), Queue: latency(n, 120*time.Millisecond), Turn: latency(n, 9*time.Millisecond),
			Execute: latency(n, 2*time.Microsecond), Hold: latency(n, 8900*time.Microsecond), Commit: latency(n, 3*time.Millisecond),
			Wake: latency(n, 999_600*time.Nanosecond),
		},
		Writer: tps.Writer{
			Batches: 12, BatchSize: tps.BatchSize{Mean: 8333.3, P50: 10_000, Max: 10_000}, BusyFraction: 0.962, Commits: 12,
			Checkpoints: 1, CheckpointTime: 9720 * time.Microsecond, WALBytes: 30 << 20, WALPendingBytes: 6 << 20,
		},
		Locality: tps.Locality{AccountsTouched: 61_804, LeafPagesTouched: 2200, LeafPages: 3181},
		Series:   []struct{}{},
		Verify:   tps.Verify{OK: true, AccountsChecked: 61_804, Conserved: true},
		Env: tps.Env{
			OS: "linux", Kernel: "6.1.0", Filesystem: "ext4", CPU: "AMD EPYC", CPUs: 2, GOMAXPROCS: 2, GOGC: 100,
			MemoryBytes: 24 << 30, DBBytes: 13_078_528, Go: "go1.26.0", SQLite: "3.46.1", Version: "v1.0.0", Commit: "0123abc",
		},
		Warnings:        []string{},
		BytesPerWaiting: 3500,
	}
}

// results are the cases that the golden files show.
func results() map[string]*tps.Result {
	closed := burst()
	closed.Argv = []string{"run", "--db", "my data.db", "--dist=uniform", "-c8", "-d", "10s", "--warmup", "1s"}
	closed.Load = tps.Load{Mode: tps.ClosedLoop, Concurrency: 8, Duration: 10 * time.Second, Rows: 20_000, Dist: "uniform", Layout: "clustered", RandomSeed: 7, Cache: "warm"}
	closed.Runs, closed.Elapsed, closed.TPS, closed.Acknowledged = closed.Runs[1:2], 10*time.Second, 6212, 62_120
	closed.Writer.Batches, closed.Writer.BatchSize = 8900, tps.BatchSize{Mean: 6.98, P50: 8, Max: 8}
	closed.Writer.Checkpoints, closed.Writer.CheckpointTime = 0, 0
	closed.Locality = tps.Locality{AccountsTouched: 20_000, LeafPagesTouched: 60, LeafPages: 60}
	closed.BytesPerWaiting = 0

	open := burst()
	open.Load.Mode, open.Load.Rate, open.Load.Arrival = tps.OpenLoop, 3000, "constant"
	open.Load.Transactions, open.Load.Duration = 0, 30*time.Second
	open.Elapsed, open.TPS, open.Acknowledged, open.Dropped = 30*time.Second, 2999.8, 89_994, 6
	open.Runs = open.Runs[1:2]
	open.Latency, open.Service = latency(89_994, 800*time.Microsecond), latency(89_994, 600*time.Microsecond)
	open.Settings.Synchronous, open.Settings.BatchWindow = "normal", 2*time.Millisecond
	open.Warnings = []string{"6 arrivals were due but never started: too many were unfinished, or the rate is beyond the generator"}

	direct := burst()
	direct.Scenario, direct.Load.Mode, direct.Load.Dist, direct.Load.Layout = "direct", tps.Direct, "zipfian", "scattered"
	direct.Settings.Synchronous, direct.Settings.JournalMode = "off", "delete"
	direct.Writer.WALBytes, direct.Writer.WALPendingBytes = 0, 0

	mixed := burst()
	mixed.Scenario, mixed.Load.ReadsPerTx = "mixed", 3
	mixed.Load.Dist, mixed.Load.DistParameters = "zipfian", "theta=0.99"
	mixed.Load.Schema, mixed.Load.PayloadBytes, mixed.Load.Indexes = "article", 200, 2
	mixed.Argv = []string{"run", "mixed", "-n", "100k"}
	mixed.Failed, mixed.Errors = 30, map[string]int64{"application": 9, "busy": 9, "the disk is full": 10, "batch failed at commit": 2}
	mixed.Reads = tps.Reads{Acknowledged: 300_000, TPS: 817_000, Latency: latency(300_000, 40*time.Microsecond)}
	reads := latency(100_000, 150*time.Microsecond)
	mixed.Stages.Reads = &reads
	mixed.Env.CPU, mixed.Env.CPUs, mixed.Env.Filesystem = "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz with a very long name", 1, "tmpfs"
	mixed.Settings.MmapSize = 1 << 30

	interrupted := burst()
	interrupted.Interrupted = true
	interrupted.Runs = []tps.Round{{TPS: 0.5, Elapsed: 2 * time.Second, Cold: true, Acknowledged: 1, Interrupted: true}}
	interrupted.TPS, interrupted.Elapsed, interrupted.Acknowledged = 0.5, 2*time.Second, 1
	interrupted.Verify.AccountsChecked, interrupted.Locality.AccountsTouched, interrupted.Locality.LeafPagesTouched = 1, 1, 1
	interrupted.Failed, interrupted.Errors = 99_999, map[string]int64{tps.ClassCancelled: 99_999}

	nothing := burst()
	nothing.Interrupted, nothing.Acknowledged, nothing.TPS, nothing.TPSSettled = true, 0, 0, 0
	nothing.Runs, nothing.Latency, nothing.Stages, nothing.Writer, nothing.Locality = nil, tps.Latency{}, tps.Stages{}, tps.Writer{}, tps.Locality{}

	failed := burst()
	failed.Verify = tps.Verify{AccountsChecked: 61_804, Detail: "account 17 holds 1000000005 instead of 1000000000; account 18 holds 999999990 instead of 999999995; and 3 more"}
	failed.Warnings = []string{
		"generator-bound: the writer was idle 55 % of the time; more callers would get more out of it",
		"the whole data set was in memory: a larger one would have to read from the disk",
	}
	return map[string]*tps.Result{
		"burst": burst(), "closed": closed, "open": open, "direct": direct, "mixed": mixed,
		"interrupted": interrupted, "nothing": nothing, "failed": failed,
	}
}

func rendered(t *testing.T, r Renderer) string {
	t.Helper()
	var out bytes.Buffer
	if err := r(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// golden compares with a file, which -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it); got:\n%s", path, got)
	}
}

var escape = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestText(t *testing.T) {
	for name, res := range results() {
		t.Run(name, func(t *testing.T) {
			plain, colored := rendered(t, Text(res, false)), rendered(t, Text(res, true))
			golden(t, name, plain)
			if strings.Contains(plain, "\x1b") {
				t.Error("there are colours that nobody asked for")
			}
			if !strings.Contains(colored, "\x1b[") || escape.ReplaceAllString(colored, "") != plain {
				t.Error("colours change more than the colour")
			}
			for line := range strings.Lines(plain) {
				line = strings.TrimSuffix(line, "\n")
				command := strings.HasPrefix(strings.TrimSpace(line), "tpssim run ")
				if n := utf8.RuneCountInString(line); n > columns && !command {
					t.Errorf("%d columns: %q", n, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("blanks at the end: %q", line)
				}
			}
		})
	}
}

func TestTextInColor(t *testing.T) {
	golden(t, "failed-color", rendered(t, Text(results()["failed"], true)))
}

func TestJSON(t *testing.T) {
	res := results()["mixed"]
	object, line := rendered(t, JSON(res)), rendered(t, JSONLine(res))
	golden(t, "mixed-json", object)
	golden(t, "mixed-jsonline", line)
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
		t.Error("JSONLine is not one line")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(object)); err != nil || compact.String()+"\n" != line {
		t.Errorf("the two renderings differ, %v", err)
	}
	var back tps.Result
	if err := json.Unmarshal([]byte(line), &back); err != nil {
		t.Fatal(err)
	}
	if again := rendered(t, JSONLine(&back)); again != line {
		t.Errorf("read back it is %s", again)
	}
}

// Everything that others script against, as the design lists it. Names in ns are
// whole numbers.
var names = []string{
	"schema", "started_at", "argv", "scenario", "engine",
	"load.mode", "load.transactions", "load.duration_ns", "load.concurrency", "load.arrival", "load.rate", "load.random_seed",
	"load.dist", "load.dist_parameters", "load.layout", "load.rows", "load.schema", "load.payload_bytes", "load.indexes",
	"load.reads_per_tx", "load.think_ns", "load.cache",
	"settings.journal_mode", "settings.synchronous", "settings.page_size", "settings.cache_size", "settings.mmap_size", "settings.checkpoint",
	"settings.max_batch", "settings.batch_window_ns", "settings.queue", "settings.savepoints", "settings.readers",
	"runs.tps", "runs.elapsed_ns", "runs.cold",
	"acknowledged", "failed", "dropped", "late", "retries", "errors", "interrupted",
	"elapsed_ns", "spawn_ns", "tps", "tps_low", "tps_high", "tps_settled",
	"reads.acknowledged", "reads.tps", "reads.latency.count",
	"latency.count", "latency.mean_ns", "latency.p50_ns", "latency.p90_ns", "latency.p99_ns", "latency.p999_ns", "latency.max_ns",
	"service.count", "service.mean_ns", "service.p50_ns", "service.p90_ns", "service.p99_ns", "service.p999_ns", "service.max_ns",
	"stages.lag.mean_ns", "stages.queue.mean_ns", "stages.turn.mean_ns", "stages.execute.mean_ns", "stages.hold.mean_ns",
	"stages.commit.mean_ns", "stages.wake.mean_ns",
	"writer.batches", "writer.batch_size.mean", "writer.batch_size.p50", "writer.batch_size.max", "writer.busy_fraction",
	"writer.commits", "writer.rolled_back", "writer.checkpoints", "writer.checkpoint_ns", "writer.wal_bytes", "writer.wal_pending_bytes",
	"locality.accounts_touched", "locality.leaf_pages_touched", "locality.leaf_pages",
	"series", "verify.ok", "verify.accounts_checked", "verify.conserved", "verify.detail",
	"env.os", "env.kernel", "env.filesystem", "env.cpu", "env.cpus", "env.gomaxprocs", "env.gogc", "env.memory_bytes", "env.db_bytes",
	"env.go", "env.sqlite", "env.version", "env.commit",
	"warnings",
}

func TestJSONNames(t *testing.T) {
	dec := json.NewDecoder(strings.NewReader(rendered(t, JSON(burst()))))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		t.Fatal(err)
	}
	whole := regexp.MustCompile(`^-?[0-9]+$`)
	for _, name := range names {
		var value any = object
		for part := range strings.SplitSeq(name, ".") {
			if list, ok := value.([]any); ok {
				value = list[0]
			}
			fields, ok := value.(map[string]any)
			if !ok {
				t.Fatalf("%s: there is no object above %s", name, part)
			}
			if value, ok = fields[part]; !ok {
				t.Errorf("%s is missing", name)
			}
		}
		if value == nil {
			t.Errorf("%s is null", name)
		}
		if number, _ := value.(json.Number); strings.HasSuffix(name, "_ns") && !whole.MatchString(number.String()) {
			t.Errorf("%s is %v, not a whole number", name, value)
		}
	}
}

type brokenWriter struct{ error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.error }

func TestWriterErrors(t *testing.T) {
	broken := errors.New("broken")
	for name, r := range map[string]Renderer{"text": Text(burst(), false), "json": JSON(burst()), "line": JSONLine(burst())} {
		if err := r(brokenWriter{broken}); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
