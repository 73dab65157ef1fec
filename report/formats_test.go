package report

import (
	"encoding/csv"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/tpssim/tpssim/tps"
)

func runAs(t *testing.T, format string, r *tps.Result) string {
	t.Helper()
	render, err := RunAs(format, r)
	if err != nil {
		t.Fatal(err)
	}
	return rendered(t, render)
}

func TestRunAs(t *testing.T) {
	for name, r := range results() {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{csvFormat, markdownFormat, benchFormat} {
				text := runAs(t, format, r)
				if slices.Contains([]string{"burst", "open", "failed", "nothing"}, name) {
					golden(t, "run-"+name+"-"+format, text)
				}
				if strings.Contains(text, "\x1b") {
					t.Errorf("%s has colours:\n%s", format, text)
				}
			}
			rows, err := csv.NewReader(strings.NewReader(runAs(t, csvFormat, r))).ReadAll()
			if err != nil || len(rows) != 2 {
				t.Fatalf("%d rows of CSV, %v", len(rows), err)
			}
			for column, want := range map[string]string{
				"tps": strconv.FormatFloat(r.TPS, 'f', -1, 64), "p99_ns": strconv.FormatInt(int64(r.Latency.P99), 10),
				"synchronous": r.Settings.Synchronous, "acknowledged": strconv.FormatInt(r.Acknowledged, 10), "interrupted": strconv.FormatBool(r.Interrupted),
			} {
				if k := slices.Index(rows[0], column); k < 0 || rows[1][k] != want {
					t.Errorf("column %s of %v is not %s", column, rows, want)
				}
			}
			for k, name := range rows[0] {
				if slices.Contains(rows[0][:k], name) {
					t.Errorf("two columns are called %s", name)
				}
			}
		})
	}
	if _, err := RunAs("text", burst()); err == nil || err.Error() != `report: there is no format "text": use csv, markdown or bench` {
		t.Errorf("an unknown format: %v", err)
	}
	broken := errors.New("broken")
	for _, format := range []string{csvFormat, markdownFormat, benchFormat} {
		if render, err := RunAs(format, burst()); err != nil || !errors.Is(render(brokenWriter{broken}), broken) {
			t.Errorf("%s: the writer's error is lost (%v)", format, err)
		}
	}
}

// benchmark is a line of the benchmark format, with the configuration that it is under.
type benchmark struct {
	name   string
	config map[string]string
	values map[string]float64 // as they were written
}

// benchmarks reads the format with what benchstat reads it with; nothing may be in it
// that it does not understand.
func benchmarks(t *testing.T, text string) (list []benchmark) {
	t.Helper()
	in := benchfmt.NewReader(strings.NewReader(text), "test")
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Errorf("%v in\n%s", rec, text)
		case *benchfmt.Result:
			b := benchmark{name: rec.Name.String(), config: map[string]string{}, values: map[string]float64{}}
			for _, c := range rec.Config {
				b.config[c.Key] = string(c.Value)
			}
			for _, v := range rec.Values {
				if v.OrigUnit != "" {
					v.Value, v.Unit = v.OrigValue, v.OrigUnit
				}
				b.values[v.Unit] = v.Value
			}
			list = append(list, b)
		}
	}
	if in.Err() != nil {
		t.Error(in.Err())
	}
	for unit, better := range map[string]string{"tx/s": "higher", "p99-ns": "lower"} {
		tidy := strings.ReplaceAll(unit, "ns", "sec")
		if m := in.Units().Get(tidy, "better"); m == nil || m.Value != better {
			t.Errorf("nothing says that %s is better %s", unit, better)
		}
	}
	return list
}

func TestRunBench(t *testing.T) {
	r := burst()
	list := benchmarks(t, runAs(t, benchFormat, r))
	var speeds []float64
	known := 0
	for _, b := range list {
		if b.name != "Tpssim/savepoint-2" {
			t.Errorf("it is called %s", b.name)
		}
		for key, want := range map[string]string{"goos": "linux", "proof": "ok", "load": "a burst of 100,000", "engine": "sqlite"} {
			if b.config[key] != want {
				t.Errorf("%s is %q, want %q", key, b.config[key], want)
			}
		}
		if !strings.Contains(b.config["settings"], "synchronous=full") || b.config["durable"] == "" {
			t.Errorf("it does not say what it promises: %v", b.config)
		}
		speeds = append(speeds, b.values["tx/s"])
		if p99, ok := b.values["p99-ns"]; ok {
			known++
			if p99 != float64(r.Latency.P99) || b.values["tx/s"] != r.TPS {
				t.Errorf("the percentiles are of another round: %v", b.values)
			}
		}
	}
	if want := []float64{272_480, 250_000, 280_000}; !slices.Equal(speeds, want) || known != 1 {
		t.Errorf("rounds of %v TPS, %d of them with percentiles, want %v and 1", speeds, known, want)
	}

	cold := burst()
	cold.Runs = cold.Runs[:1]
	if list := benchmarks(t, runAs(t, benchFormat, cold)); len(list) != 1 || list[0].values["tx/s"] != 210_000 {
		t.Errorf("one cold round is %v", list)
	}
	for name, r := range results() {
		if got, want := len(benchmarks(t, runAs(t, benchFormat, r))), len(counted(r)); got != want {
			t.Errorf("%s: %d lines, want %d", name, got, want)
		}
	}
}

func TestCompareBench(t *testing.T) {
	for name, r := range comparisons(t) {
		list := benchmarks(t, rendered(t, as(t, benchFormat, r)))
		want := 0
		for k := range r.Arms {
			want += r.Arms[k].TPS.N
		}
		if len(list) != want {
			t.Errorf("%s: %d lines, want %d", name, len(list), want)
		}
		seen := map[string]int{}
		for _, b := range list {
			for k := range r.Arms {
				arm := &r.Arms[k]
				if b.name != "Tpssim/savepoint/arm="+escaped(arm.Name)+"-2" {
					continue
				}
				round := seen[arm.Name]
				seen[arm.Name]++
				if b.values["tx/s"] != arm.TPS.Values[round] || b.values["settled-tx/s"] != arm.TPSSettled.Values[round] ||
					b.values["p50-ns"] != arm.P50.Values[round] || b.values["p99-ns"] != arm.P99.Values[round] {
					t.Errorf("%s: round %d of %s is %v", name, round+1, arm.Name, b.values)
				}
			}
			// benchstat compares only what has one configuration.
			if len(b.config) != len(list[0].config) || b.config["durable"] != list[0].config["durable"] {
				t.Errorf("%s: the arms have configurations of their own", name)
			}
		}
		if len(seen) != len(r.Arms) {
			t.Errorf("%s: %d of %d arms have lines", name, len(seen), len(r.Arms))
		}
	}
}

func TestBenchName(t *testing.T) {
	for want, part := range map[string]string{
		"Tpssim/arm=a-8-2":                   "arm=a-8",
		"Tpssim/arm=a%20b%2Fc%25%0Ad-2":      "arm=a b/c%\nd",
		"Tpssim/arm=ü≤%A0-2":                 "arm=ü≤\u00a0",
		"Tpssim/arm=sync=full,max-batch=1-2": "arm=sync=full,max-batch=1",
	} {
		text := "Unit tx/s better=higher\nUnit p99-ns better=lower\n" + benchName(2, part) + " 1 5 tx/s\n"
		list := benchmarks(t, text)
		if len(list) != 1 || list[0].name != want {
			t.Errorf("%q is %v, want %s", part, list, want)
		}
	}
	if got := benchName(0, "a"); got != "BenchmarkTpssim/a-1" {
		t.Errorf("of no processors: %s", got)
	}
}
