package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// The Go benchmark format (golang.org/design/14313-benchmark-format): lines "key: value"
// are the configuration of the benchmarks below them, and benchstat puts results whose
// configuration differs into tables of their own. So it has only what was chosen and
// what it promises, nothing that differs from one run to the next by itself, and the
// arms of a comparison share one. Lines with # in front are for people.

// setting writes a line of the configuration.
func (p *page) setting(key, value string) {
	fmt.Fprintf(p, "%s: %s\n", key, oneLine(value))
}

// remark writes a line that no program reads.
func (p *page) remark(n note) { fmt.Fprintf(p, "# %s: %s\n", n.label, oneLine(n.text)) }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// units writes what of each unit is better.
func (p *page) units(figures ...compared) {
	for _, f := range figures {
		fmt.Fprintf(p, "Unit %s better=%s\n", f.unit, f.better)
	}
}

// benchName is the name of a benchmark. The number of processors stands behind it as
// testing has it, so that the end of another part is not taken for it.
func benchName(procs int, parts ...string) string {
	for k, part := range parts {
		parts[k] = escaped(part)
	}
	return fmt.Sprintf("BenchmarkTpssim/%s-%d", strings.Join(parts, "/"), max(procs, 1))
}

// escaped replaces what would end a part of a name by its code, as in an address.
func escaped(part string) string {
	var text strings.Builder
	for _, r := range part {
		if r == '/' || r == '%' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			fmt.Fprintf(&text, "%%%02X", r)
			continue
		}
		text.WriteRune(r)
	}
	return text.String()
}

// benchValue shows a measurement in full.
func benchValue(v float64, unit string) string {
	return strconv.FormatFloat(v, 'f', -1, 64) + " " + unit
}

// proofSetting is what a proof came to, in few words.
func proofSetting(v tps.Verify) string {
	switch {
	case v.OK:
		return "ok"
	case v.Checked:
		return "FAILED"
	}
	return "not checked"
}

// compareBench renders a comparison in the benchmark format.
func compareBench(r *trials.CompareResult) Renderer {
	return func(w io.Writer) error {
		p := &page{}
		if len(r.Arms) > 0 {
			p.machineSettings(r.Arms[0].Env)
			p.setting("engine", r.Arms[0].Engine)
			p.setting("load", byArm(r.Arms, func(a *trials.ComparedArm) string { return offered(a.Load) }))
			promise := byArm(r.Arms, armDurability)
			if r.DurabilityDiffers {
				promise = "DIFFERS: " + promise
			}
			p.setting("durable", promise)
			interleaved := "yes"
			if !r.Interleaved {
				interleaved = "NO: the runs were made at other times"
			}
			p.setting("interleaved", interleaved)
			if besides := differing(r.Differences, false); besides != "" {
				p.setting("besides", besides)
			}
		}
		p.setting("proof", proofSetting(r.Verify))
		for _, verdict := range compareVerdicts(r) {
			p.remark(note{label: "verdict", text: verdict.text})
		}
		for _, n := range append([]note{proofNote(r.Verify)}, warningNotes(compareDoubts(r))...) {
			p.remark(n)
		}
		p.units(comparedFigures...)
		for round := 0; p.benchRound(r, round); round++ {
		}
		_, err := w.Write(p.Bytes())
		return err
	}
}

// benchRound writes a line for each arm that has such a round, and tells whether there
// was any. Values that a file does not have are left out.
func (p *page) benchRound(r *trials.CompareResult, round int) (found bool) {
	for k := range r.Arms {
		a := &r.Arms[k]
		var values []string
		for _, f := range comparedFigures {
			if s := f.of(a); round < len(s.Values) {
				values = append(values, benchValue(s.Values[round], f.unit))
			}
		}
		if len(values) > 0 {
			fmt.Fprintf(p, "%s 1 %s\n", benchName(a.Env.GOMAXPROCS, a.Scenario, "arm="+a.Name), strings.Join(values, " "))
			found = true
		}
	}
	return found
}

// machineSettings are those of testing, as far as they are known.
func (p *page) machineSettings(e tps.Env) {
	p.setting("goos", e.OS)
	p.setting("cpu", e.CPU)
	p.setting("filesystem", e.Filesystem)
	p.setting("go", e.Go)
	p.setting("sqlite", e.SQLite)
}

// runBench renders a run in the benchmark format.
func runBench(r *tps.Result) Renderer {
	return func(w io.Writer) error {
		p := &page{}
		s, l := r.Settings, r.Load
		p.machineSettings(r.Env)
		p.setting("engine", r.Engine)
		p.setting("load", offered(l))
		if l.Rows > 0 {
			p.setting("accounts", fmt.Sprintf("%d (%s), cache %s", l.Rows, choice(l), l.Cache))
		}
		p.setting("settings", fmt.Sprintf("journal_mode=%s synchronous=%s page_size=%d cache_size=%d mmap_size=%d checkpoint=%s max_batch=%d batch_window=%v savepoints=%s",
			s.JournalMode, s.Synchronous, s.PageSize, s.CacheSize, s.MmapSize, s.Checkpoint, s.MaxBatch, s.BatchWindow, s.Savepoints))
		promise, _ := durability(r.Settings, r.Env)
		p.setting("durable", promise)
		p.setting("proof", proofSetting(r.Verify))
		for _, n := range append([]note{proofNote(r.Verify)}, warningNotes(r.Warnings)...) {
			p.remark(n)
		}
		p.runLines(r)
		_, err := w.Write(p.Bytes())
		return err
	}
}

// runLines writes a line for each round that counts.
func (p *page) runLines(r *tps.Result) {
	speed, p50, p99 := comparedFigures[0], comparedFigures[2], comparedFigures[3]
	p.units(speed, p50, p99)
	name := benchName(r.Env.GOMAXPROCS, r.Scenario)
	rounds, told := counted(r), false
	for _, run := range rounds {
		line := fmt.Sprintf("%s 1 %s", name, benchValue(run.TPS, speed.unit))
		shown := len(rounds) == 1 || run.TPS == r.TPS && run.Elapsed == r.Elapsed
		if shown && !told && r.Latency.Count > 0 {
			told = true
			line += " " + benchValue(float64(r.Latency.P50), p50.unit) + " " + benchValue(float64(r.Latency.P99), p99.unit)
		}
		fmt.Fprintln(p, line)
	}
}
