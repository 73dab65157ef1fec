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
	"unicode/utf8"

	"github.com/tpssim/tpssim/tps"
)

var update = flag.Bool("update", false, "write what is rendered into testdata")

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
			// Histograms are only in the results that shall show them.
			plain := rendered(t, Text(res, TextOptions{Histograms: true}))
			colored := rendered(t, Text(res, TextOptions{Histograms: true, Color: true}))
			golden(t, name, plain)
			if strings.Contains(plain, "\x1b") {
				t.Error("there are colours that nobody asked for")
			}
			if !strings.Contains(colored, "\x1b[") || escape.ReplaceAllString(colored, "") != plain {
				t.Error("colours change more than the colour")
			}
			fits(t, plain)
		})
	}
}

// fits checks that no line of a text is wider than the page or ends in blanks.
func fits(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > columns {
			t.Errorf("%d columns: %q", n, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("blanks at the end: %q", line)
		}
	}
}

func TestTextInColor(t *testing.T) {
	golden(t, "failed-color", rendered(t, Text(results()["failed"], TextOptions{Color: true})))
	golden(t, "lost-color", rendered(t, Text(results()["lost"], TextOptions{Color: true})))
}

func TestJSON(t *testing.T) {
	res := everything()
	object, line := rendered(t, JSON(res)), rendered(t, JSONLine(res))
	golden(t, "everything-json", object)
	golden(t, "everything-jsonline", line)
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
	"load.burst_size", "load.stages", "load.max_in_flight", "load.warmup_ns", "load.latency_limit_ns",
	"load.think_bound_tps", "load.max_tries", "load.pin_reader_ns", "load.scripts",
	"load.dist", "load.dist_parameters", "load.layout", "load.rows", "load.schema", "load.payload_bytes", "load.indexes",
	"load.reads_per_tx", "load.think_ns", "load.cache",
	"settings.journal_mode", "settings.synchronous", "settings.page_size", "settings.cache_size", "settings.mmap_size", "settings.checkpoint",
	"settings.max_batch", "settings.batch_window_ns", "settings.queue", "settings.savepoints", "settings.readers",
	"runs.tps", "runs.elapsed_ns", "runs.cold",
	"acknowledged", "failed", "dropped", "skipped", "late", "retries", "errors", "interrupted", "stopped",
	"tries.mean", "tries.p50", "tries.p99", "tries.max",
	"schedule.arrivals", "schedule.length_ns", "schedule.behind_ns", "schedule.late_p99_ns", "schedule.late_max_ns", "schedule.backlog", "schedule.backlog_max",
	"schedule.generator_bound",
	"elapsed_ns", "spawn_ns", "tps", "tps_low", "tps_high", "tps_settled",
	"reads.acknowledged", "reads.tps", "reads.latency.count",
	"latency.count", "latency.mean_ns", "latency.p50_ns", "latency.p90_ns", "latency.p95_ns", "latency.p99_ns", "latency.p999_ns", "latency.max_ns",
	"service.count", "service.mean_ns", "service.p50_ns", "service.p90_ns", "service.p95_ns", "service.p99_ns", "service.p999_ns", "service.max_ns",
	"stages.lag.mean_ns", "stages.queue.mean_ns", "stages.turn.mean_ns", "stages.execute.mean_ns", "stages.hold.mean_ns",
	"stages.commit.mean_ns", "stages.wake.mean_ns", "stages.checkpoint.mean_ns", "stages.reads.mean_ns", "stages.think.mean_ns", "stages.retry.mean_ns",
	"latency_histogram.upto", "latency_histogram.count", "statements.name", "statements.latency.mean_ns",
	"writer.wal_blocked_ns", "writer.wal_file_max_bytes", "writer.batch_sizes.upto",
	"series.at_ns", "series.tps", "series.p99_ns", "series.queued", "series.wal_file_bytes", "series.rss_bytes", "series.cpu_ns", "series.gc_pause_ns",
	"steady.samples", "steady.tps_mean", "steady.tps_stddev",
	"thresholds.threshold", "thresholds.value", "thresholds.samples", "thresholds.ok",
	"writer.batches", "writer.batch_size.mean", "writer.batch_size.p50", "writer.batch_size.max", "writer.busy_fraction",
	"writer.commits", "writer.rolled_back", "writer.checkpoints", "writer.checkpoint_ns", "writer.wal_bytes", "writer.wal_pending_bytes",
	"locality.accounts_touched", "locality.leaf_pages_touched", "locality.leaf_pages",
	"verify.checked", "verify.ok", "verify.accounts_checked", "verify.conserved", "verify.detail",
	"env.os", "env.kernel", "env.filesystem", "env.cpu", "env.cpus", "env.gomaxprocs", "env.gogc", "env.memory_bytes", "env.db_bytes",
	"env.go", "env.sqlite", "env.version", "env.commit",
	"warnings",
}

func TestJSONNames(t *testing.T) {
	dec := json.NewDecoder(strings.NewReader(rendered(t, JSON(everything()))))
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
	for name, r := range map[string]Renderer{"text": Text(burst(), TextOptions{}), "series": SeriesCSV(burst()), "json": JSON(burst()), "line": JSONLine(burst())} {
		if err := r(brokenWriter{broken}); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
