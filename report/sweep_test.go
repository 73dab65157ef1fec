package report

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// madeSweep is a sweep of batch windows and batch sizes, in a burst and at a rate.
type madeSweep struct {
	syncs  []string // a further axis; empty: none
	loads  []string // "burst" or "rate"
	slo    string
	ends   int // after so many runs; 0: when all is done
	change func(r *tps.Result)
}

func (m madeSweep) result(t *testing.T) *trials.SweepResult {
	t.Helper()
	var cfg trials.SweepConfig
	for _, load := range m.loads {
		for _, sync := range append([]string{""}, m.syncs...)[min(1, len(m.syncs)):] {
			for w, window := range []string{"0", "1ms", "1ms"} {
				for b, batch := range []string{"100", "10000"} {
					settings := []trials.Setting{{Name: "batch-window", Value: window}, {Name: "max-batch", Value: batch}, {Name: "dist", Value: "uniform"}}
					if sync != "" {
						settings = append(settings, trials.Setting{Name: "sync", Value: sync})
					}
					cfg.Cells = append(cfg.Cells, trials.SweepCell{Load: load, Settings: settings, Run: m.run(load, sync, w, b)})
				}
			}
		}
	}
	if m.slo != "" {
		threshold, err := tps.ParseThreshold(m.slo)
		if err != nil {
			t.Fatal(err)
		}
		cfg.SLO = append(cfg.SLO, threshold)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Save = func(run trials.SweepRun) error {
		if m.ends--; m.ends == 0 {
			cancel()
		}
		return nil
	}
	r, err := trials.Sweep(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.StartedAt, r.RandomSeed, r.Argv = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), 1, []string{"sweep", "--preset", "batch-window"}
	return r
}

// run makes up the runs of a cell.
func (m madeSweep) run(load, sync string, window, batch int) func(context.Context, int) (*tps.Result, error) {
	return func(_ context.Context, round int) (*tps.Result, error) {
		r := burst()
		wobble := 1 + 0.01*float64((round*(2*window+batch+2))%5)
		r.TPS = (100_000 + 60_000*float64(batch) - 9000*float64(min(window, 1))) * wobble
		r.Latency.P50, r.Latency.P99 = time.Duration(4e13/r.TPS), time.Duration(9e13/r.TPS)
		r.Load.Dist = "uniform"
		if load == "rate" {
			r.Load.Mode, r.Load.Rate, r.Load.Transactions, r.Load.Duration, r.Load.Arrival = tps.OpenLoop, 5000, 0, 3*time.Second, tps.ConstantArrival
			r.TPS = 5000 - float64(200*window*(1-batch))
			r.Latency.P50, r.Latency.P99 = time.Millisecond+time.Duration(window)*time.Millisecond, time.Duration(wobble*float64(1+min(window, 1)+batch)*2e6)
		}
		r.TPSSettled = 0.96 * r.TPS
		r.Settings.BatchWindow, r.Settings.MaxBatch = time.Duration(min(window, 1))*time.Millisecond, 100+batch
		if sync != "" {
			r.Settings.Synchronous = sync
		}
		if m.change != nil {
			m.change(r)
		}
		return r, nil
	}
}

// sweeps are the cases that the golden files show.
func sweeps(t *testing.T) map[string]*trials.SweepResult {
	both := []string{"burst", "rate"}
	list := map[string]*trials.SweepResult{
		"usual":       madeSweep{loads: both}.result(t),
		"slo":         madeSweep{loads: both, slo: "p99<3ms"}.result(t),
		"durability":  madeSweep{loads: both[1:], syncs: []string{"normal", "full"}}.result(t),
		"interrupted": madeSweep{loads: both, ends: 5}.result(t),
		"again":       madeSweep{loads: both, ends: 40}.result(t),
		"failed": madeSweep{loads: both[:1], ends: 9, change: func(r *tps.Result) {
			r.Verify = tps.Verify{Checked: true, Detail: "account 7 holds 3, not 2"}
		}}.result(t),
	}
	if err := list["slo"].Sort("p99_ns"); err != nil {
		t.Fatal(err)
	}
	return list
}

func sweepAs(t *testing.T, format string, r *trials.SweepResult) string {
	t.Helper()
	render, err := SweepAs(format, r)
	if err != nil {
		t.Fatal(err)
	}
	return rendered(t, render)
}

func TestSweep(t *testing.T) {
	for name, r := range sweeps(t) {
		t.Run(name, func(t *testing.T) {
			plain, colored := rendered(t, Sweep(r, false)), rendered(t, Sweep(r, true))
			golden(t, "sweep-"+name, plain)
			if escape.ReplaceAllString(colored, "") != plain || colored == plain {
				t.Errorf("with colours it says something else:\n%s", colored)
			}
			for line := range strings.Lines(plain) {
				if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > columns {
					t.Errorf("%d columns: %s", width, line)
				}
			}
			markdown := sweepAs(t, markdownFormat, r)
			golden(t, "sweep-"+name+"-markdown", markdown)
			bench := sweepAs(t, benchFormat, r)
			if name == "usual" {
				golden(t, "sweep-usual-bench", bench)
				golden(t, "sweep-usual-csv", sweepAs(t, csvFormat, r))
			}
			for format, text := range map[string]string{"text": plain, "markdown": markdown, "bench": bench, "csv": sweepAs(t, csvFormat, r)} {
				if strings.Contains(text, "%!") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
					t.Errorf("%s:\n%s", format, text)
				}
				if r.DurabilityDiffers && !strings.Contains(text, "DIFFERS") && format != "csv" {
					t.Errorf("%s does not say that durability differs:\n%s", format, text)
				}
				if name == "failed" && !strings.Contains(text, "FAILED") {
					t.Errorf("%s does not say that the proof failed:\n%s", format, text)
				}
			}
			runs := 0
			for _, c := range r.Cells {
				runs += c.TPS.N
			}
			if got := len(benchmarks(t, bench)); got != runs {
				t.Errorf("%d benchmarks of %d runs", got, runs)
			}
		})
	}
	if _, err := SweepAs("html", &trials.SweepResult{}); err == nil {
		t.Error("html is rendered")
	}
}

// A row a cell, each value as the result has it.
func TestSweepCSV(t *testing.T) {
	r := sweeps(t)["slo"]
	rows, err := csv.NewReader(strings.NewReader(sweepAs(t, csvFormat, r))).ReadAll()
	if err != nil || len(rows) != 1+len(r.Cells) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	at := func(row int, name string) string { return rows[row+1][slices.Index(rows[0], name)] }
	for k, c := range r.Cells {
		final := ""
		if c.Final != nil {
			final = fmt.Sprint(c.Final.TPS.N)
		}
		for name, want := range map[string]string{
			"cell": fmt.Sprint(c.Cell), "load": c.LoadName, "batch-window": c.Settings[0].Value, "dist": "uniform", "n": fmt.Sprint(c.TPS.N),
			"p99_ns": fmt.Sprint(int64(c.P99.Median)), "held": fmt.Sprint(c.Held), "frontier": fmt.Sprint(c.Frontier), "final_n": final,
		} {
			if got := at(k, name); got != want {
				t.Errorf("cell %d: %s is %q, not %q", c.Cell, name, got, want)
			}
		}
	}
}

func TestSweepJSON(t *testing.T) {
	text := rendered(t, JSON(sweeps(t)["usual"]))
	golden(t, "sweep-json", text)
	var back trials.SweepResult
	if err := json.Unmarshal([]byte(text), &back); err != nil || rendered(t, Sweep(&back, false)) != rendered(t, Sweep(sweeps(t)["usual"], false)) {
		t.Errorf("read back it is another result: %v", err)
	}
}

// Wide settings leave out the columns that are missed least.
func TestSweepNarrow(t *testing.T) {
	r := madeSweep{loads: []string{"burst"}}.result(t)
	for k := range r.Cells {
		r.Cells[k].Settings = append(r.Cells[k].Settings, trials.Setting{Name: "a-flag-with-a-rather-long-name", Value: fmt.Sprint(k)})
	}
	text := rendered(t, Sweep(r, false))
	head := text[strings.Index(text, "cell  batch-window"):]
	head = head[:strings.Index(head, "\n")]
	if strings.Contains(head, "settled") || !strings.Contains(head, "p99") {
		t.Error(head)
	}
}
