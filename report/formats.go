package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// The formats that results have besides text and JSON.
const (
	csvFormat      = "csv"
	markdownFormat = "markdown"
	benchFormat    = "bench"
)

// CompareAs renders a comparison as "csv" (a row an arm, the names mostly those of the
// JSON), "markdown", or "bench": the Go benchmark format with a line for each arm and
// round, which benchstat -col /arm compares by itself. Any other format is an error.
//
// What makes a comparison doubtful is in each of them: durability that differs, runs
// that were not interleaved, differences that nobody asked for, a failed proof.
func CompareAs(format string, r *trials.CompareResult) (Renderer, error) {
	switch format {
	case csvFormat:
		return compareGrid(r).csv(), nil
	case markdownFormat:
		return compareMarkdown(r), nil
	case benchFormat:
		return compareBench(r), nil
	}
	return nil, noFormat(format)
}

// RunAs renders a run as "csv" (one row, below one of names), "markdown", or "bench":
// the Go benchmark format with a line for each round that counts, which benchstat
// reads. The percentiles are those of one round, and so on its line only: the others
// did not keep theirs. Any other format is an error.
func RunAs(format string, r *tps.Result) (Renderer, error) {
	switch format {
	case csvFormat:
		return runGrid(r).csv(), nil
	case markdownFormat:
		return runMarkdown(r), nil
	case benchFormat:
		return runBench(r), nil
	}
	return nil, noFormat(format)
}

func noFormat(format string) error {
	return fmt.Errorf("report: there is no format %q: use %s, %s or %s", format, csvFormat, markdownFormat, benchFormat)
}

// proofNote is what a proof says.
func proofNote(v tps.Verify) note {
	switch {
	case v.OK:
		return note{"proof", "ok: " + holds(v) + " what was acknowledged, and nothing else", plain}
	case v.Checked:
		return note{"proof", "FAILED: " + v.Detail, red}
	case v.Detail != "":
		return note{"proof", "not checked: " + v.Detail, plain}
	}
	return note{"proof", "not checked", plain}
}

// literal makes text stand in Markdown as it is.
var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "`", "\\`", "<", "&lt;")

// bullets writes notes as a list of Markdown.
func (p *page) bullets(notes []note) {
	for _, n := range notes {
		fmt.Fprintf(p, "- **%s**: %s\n", literal.Replace(n.label), literal.Replace(n.text))
	}
}

func warningNotes(warnings []string) (notes []note) {
	for _, warning := range warnings {
		notes = append(notes, note{"warning", warning, plain})
	}
	return notes
}

// compareMarkdown renders a comparison as Markdown, with what its text has.
func compareMarkdown(r *trials.CompareResult) Renderer {
	return func(w io.Writer) error {
		p := &page{}
		for _, verdict := range compareVerdicts(r) {
			text := literal.Replace(verdict.text)
			if verdict.color != plain {
				text = "**" + text + "**"
			}
			fmt.Fprintf(p, "%s\n\n", text)
		}
		p.bullets(compareHead(r))
		if len(r.Arms) > 0 {
			p.WriteByte('\n')
			compareGrid(r).markdown(p)
			p.WriteByte('\n')
			p.bullets(compareBasis(r))
		}
		p.bullets([]note{proofNote(r.Verify)})
		p.bullets(warningNotes(compareDoubts(r)))
		_, err := w.Write(p.Bytes())
		return err
	}
}

// runMarkdown renders a run as Markdown.
func runMarkdown(r *tps.Result) Renderer {
	return func(w io.Writer) error {
		p := &page{}
		fmt.Fprintf(p, "**%s**\n\n", literal.Replace(headline(r)))
		if len(r.Runs) > 0 {
			runGrid(r).turned("figure", "value").markdown(p)
			p.WriteByte('\n')
		}
		if g := runGrowth(r); g != nil {
			g.markdown(p)
			p.WriteByte('\n')
		}
		p.bullets(runNotes(r))
		_, err := w.Write(p.Bytes())
		return err
	}
}

// headline is what the first lines of the text say of a run.
func headline(r *tps.Result) string {
	p := &page{}
	p.head(r)
	return strings.Join(strings.Fields(p.String()), " ")
}

// runNotes say what a run rests on, and what makes it doubtful.
func runNotes(r *tps.Result) []note {
	s, e := r.Settings, r.Env
	var notes []note
	if r.Interrupted {
		text := "this is what was done until then"
		if len(r.Runs) == 0 {
			text = "in the warm-up or before: nothing was measured"
		}
		notes = append(notes, note{"interrupted", text, yellow})
	}
	promise, shade := durability(r.Settings, r.Env)
	notes = append(notes, note{"durable", fmt.Sprintf("%s (journal_mode=%s, synchronous=%s)", promise, s.JournalMode, s.Synchronous), shade})
	if text := latencyMeaning(r.Load.Mode); text != "" && r.Latency.Count > 0 {
		notes = append(notes, note{"latency", text, plain})
	}
	if r.Failed > 0 {
		notes = append(notes, note{"failed", count(r.Failed) + classes(r.Errors), yellow})
	}
	notes = append(notes,
		note{"database", fmt.Sprintf("SQLite %s, %s, page_size=%d, cache_size=%d, checkpoint %s, batches of at most %s", e.SQLite, size(e.DBBytes), s.PageSize, s.CacheSize, s.Checkpoint, count(int64(s.MaxBatch))), plain},
		note{"machine", fmt.Sprintf("%s, %s, %s memory, %s, %s, GOMAXPROCS=%d, GOGC=%d", e.CPU, plural(int64(e.CPUs), "CPU"), size(e.MemoryBytes), e.Filesystem, e.Go, e.GOMAXPROCS, e.GOGC), plain},
		proofNote(r.Verify))
	for _, o := range r.Thresholds {
		text, color := "ok: "+o.Threshold, plain
		if !o.OK {
			text, color = "CROSSED: "+o.Threshold, red
		}
		measured := "no samples"
		if o.Samples > 0 {
			measured = "measured " + measuredValue(o)
		}
		notes = append(notes, note{"threshold", text + ", " + measured, color})
	}
	return append(notes, warningNotes(r.Warnings)...)
}

// latencyMeaning says what a latency is that was not measured at a rate.
func latencyMeaning(mode tps.Mode) string {
	switch mode {
	case tps.Burst:
		return "a place in the queue, as all came at once"
	case tps.ClosedLoop:
		return "service time only, as a stall stops the clients too"
	case tps.Direct:
		return "the time of the batch that it is in; nobody waits here"
	}
	return ""
}

// runGrid is a run as a row; the columns with a title are those for people.
func runGrid(r *tps.Result) *grid {
	g, row := &grid{}, []cell{}
	add := func(name, title string, c cell) {
		g.columns, row = append(g.columns, column{name: name, title: title, right: true}), append(row, c)
	}
	hidden := func(name string, value any) { add(name, "", cell{value: value}) }
	l, s, b := r.Load, r.Settings, r.Writer
	hidden("started_at", r.StartedAt.UTC().Format("2006-01-02T15:04:05.999999999Z"))
	hidden("scenario", r.Scenario)
	hidden("engine", r.Engine)
	hidden("mode", string(l.Mode))
	hidden("transactions", l.Transactions)
	hidden("duration_ns", l.Duration)
	hidden("concurrency", l.Concurrency)
	hidden("rate", l.Rate)
	hidden("arrival", string(l.Arrival))
	hidden("rows", l.Rows)
	hidden("dist", strings.TrimSpace(l.Dist+" "+l.DistParameters))
	hidden("layout", l.Layout)
	hidden("cache", l.Cache)
	hidden("random_seed", int64(l.RandomSeed))
	hidden("journal_mode", s.JournalMode)
	hidden("synchronous", s.Synchronous)
	hidden("page_size", s.PageSize)
	hidden("cache_size", s.CacheSize)
	hidden("mmap_size", s.MmapSize)
	hidden("checkpoint", s.Checkpoint)
	hidden("max_batch", s.MaxBatch)
	hidden("batch_window_ns", s.BatchWindow)
	hidden("savepoints", s.Savepoints)
	hidden("readers", s.Readers)
	hidden("runs", len(counted(r)))
	add("elapsed_ns", "time", cell{text: short(r.Elapsed), value: r.Elapsed})
	add("tps", "TPS", cell{text: rate(r.TPS), value: r.TPS})
	hidden("tps_low", r.TPSLow)
	hidden("tps_high", r.TPSHigh)
	if n := len(counted(r)); n > 1 {
		add("", "low to high", cell{text: fmt.Sprintf("%s to %s (%s)", rate(r.TPSLow), rate(r.TPSHigh), plural(int64(n), "run"))})
	}
	add("tps_settled", "TPS until the WAL is checkpointed", cell{text: rate(r.TPSSettled), value: r.TPSSettled})
	for _, n := range []struct {
		name  string
		value int64
	}{{"acknowledged", r.Acknowledged}, {"failed", r.Failed}, {"dropped", r.Dropped}, {"skipped", r.Skipped}, {"late", r.Late}, {"retries", r.Retries}} {
		title := n.name
		if n.value == 0 && n.name != "acknowledged" {
			title = ""
		}
		add(n.name, title, cell{text: count(n.value), value: n.value})
	}
	latencyColumns(r, add)
	hidden("batches", b.Batches)
	add("batch_mean", "transactions a batch", cell{text: mean(b.BatchSize.Mean), value: b.BatchSize.Mean})
	hidden("checkpoints", b.Checkpoints)
	hidden("checkpoint_time_ns", b.CheckpointTime)
	hidden("wal_bytes", b.WALBytes)
	promise, _ := durability(r.Settings, r.Env)
	hidden("durable", promise)
	hidden("proof", proofNote(r.Verify).text)
	hidden("interrupted", r.Interrupted)
	hidden("warnings", strings.Join(r.Warnings, "; "))
	g.add(row...)
	return g
}

// latencyColumns are the percentiles of a run.
func latencyColumns(r *tps.Result, add func(name, title string, c cell)) {
	t := r.Latency
	add("mean_ns", "", cell{text: known(t.Mean), value: t.Mean})
	add("p50_ns", "p50", cell{text: known(t.P50), value: t.P50})
	add("p90_ns", "p90", cell{text: known(t.P90), value: t.P90})
	add("p95_ns", "", cell{value: t.P95})
	add("p99_ns", "p99", cell{text: known(t.P99), value: t.P99})
	add("p999_ns", "p99.9", cell{text: known(t.P999), value: t.P999})
	add("max_ns", "max", cell{text: known(t.Max), value: t.Max})
	add("service_p50_ns", "", cell{value: r.Service.P50})
	add("service_p99_ns", "", cell{value: r.Service.P99})
}

// counted are the rounds of a run that its figures rest on: whole ones that were not
// cold, or else all, when there is none such.
func counted(r *tps.Result) []tps.Round {
	whole := slices.DeleteFunc(slices.Clone(r.Runs), func(run tps.Round) bool { return run.Cold || run.Interrupted })
	if len(whole) == 0 {
		return r.Runs
	}
	return whole
}
