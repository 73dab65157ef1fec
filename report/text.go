package report

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/tpssim/tpssim/tps"
)

// TextOptions say how a result is shown as text.
type TextOptions struct {
	Color      bool // the verdicts and the warnings stand out
	Histograms bool // latencies and batch sizes are drawn as bars
}

// Text renders a result for a person who has ten seconds: speed and what it
// rests on first, then what it is made of, then every doubt. Lines stay within
// 80 columns, but for words that are longer themselves. Of a run that was
// interrupted before it measured anything it says only that, and what the proof
// says.
func Text(r *tps.Result, o TextOptions) Renderer {
	return func(w io.Writer) error {
		p := &page{color: o.Color}
		p.head(r)
		if r.Interrupted && len(r.Runs) == 0 {
			fmt.Fprintf(p, "  %s\n\n", p.paint(yellow, "interrupted in the warm-up or before: nothing was measured"))
			p.proof(r)
			_, err := w.Write(p.Bytes())
			return err
		}
		p.speed(r)
		p.latency(r)
		p.stages(r)
		p.statements(r)
		if g := runGrowth(r); g != nil {
			p.WriteByte('\n')
			p.grid(g)
		}
		if o.Histograms {
			p.histograms(r)
		}
		p.database(r)
		p.outcome(r)
		_, err := w.Write(p.Bytes())
		return err
	}
}

// page collects the lines of a report.
type page struct {
	bytes.Buffer
	color bool
}

const (
	columns     = 80
	labelColumn = 12 // behind two blanks
	textColumns = columns - labelColumn - 2
)

// line writes one line of a labelled section.
func (p *page) line(label, format string, args ...any) {
	fmt.Fprintf(p, "  %-*s%s\n", labelColumn, label, fmt.Sprintf(format, args...))
}

// text writes as many lines as the text needs, in a colour or in none.
func (p *page) text(label, color, format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), textColumns) {
		p.line(label, "%s", p.paint(color, line))
		label = ""
	}
}

// command writes a command that a reader may want to copy.
func (p *page) command(words []string) {
	for _, line := range commandLines(textColumns, words...) {
		p.line("", "%s", line)
	}
}

// The colours of a terminal, by their SGR codes.
const (
	plain  = ""
	bold   = "1"
	red    = "1;31"
	green  = "32"
	yellow = "33"
)

func (p *page) paint(code, s string) string {
	if !p.color || code == plain {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *page) database(r *tps.Result) {
	p.WriteByte('\n')
	s, w, e := r.Settings, r.Writer, r.Env
	if w.Batches > 0 && r.Load.Mode != tps.Direct {
		window := ""
		if s.BatchWindow > 0 {
			window = fmt.Sprintf(", window %v", s.BatchWindow)
		}
		p.text("batches", plain, "%s of %s transactions in the mean, p50 %s, max %s; savepoints %s%s; writer busy %.0f %% of the time",
			count(w.Batches), mean(w.BatchSize.Mean), count(w.BatchSize.P50), count(w.BatchSize.Max), s.Savepoints, window, 100*w.BusyFraction)
	}
	if s.Prefetch > 0 {
		p.text("prefetch", plain, "%s at a time: %s read ahead, %s of them from the disk",
			count(int64(s.Prefetch)), count(w.Touched), count(w.TouchMisses))
	}
	p.wal(r)
	if pinned := r.Load.PinReader; pinned > 0 {
		held := length(pinned)
		if r.Elapsed < pinned { // it is measured, not chosen
			held = short(r.Elapsed)
		}
		p.line("reader", "a snapshot was held open for %s from the start", held)
	}
	if loc := r.Locality; loc.LeafPages > 0 {
		p.text("touched", plain, "%s on %s of %s leaf pages of the table (%s)",
			plural(loc.AccountsTouched, "account"), count(loc.LeafPagesTouched), count(loc.LeafPages), percent(loc.LeafPagesTouched, loc.LeafPages))
	}
	if r.BytesPerWaiting > 0 {
		p.line("memory", "%s for each waiting transaction", size(r.BytesPerWaiting))
	}
	mmap := ""
	if s.MmapSize > 0 {
		mmap = fmt.Sprintf(", mmap_size=%d", s.MmapSize)
	}
	p.text("database", plain, "SQLite %s, %s, page_size=%d, cache_size=%d%s", e.SQLite, size(e.DBBytes), s.PageSize, s.CacheSize, mmap)
	p.text("machine", plain, "%s, %s, %s memory, %s", e.CPU, plural(int64(e.CPUs), "CPU"), size(e.MemoryBytes), e.Filesystem)
	p.line("", "%s, GOMAXPROCS=%d, GOGC=%d", e.Go, e.GOMAXPROCS, e.GOGC)
	again := fmt.Sprintf("--random-seed %d", r.Load.RandomSeed)
	if r.Load.Cache != "" {
		again += " --cache " + r.Load.Cache
	}
	p.line("repeat with", "%s", again)
}

// wal says what was written to the write-ahead log, and what kept it from being
// emptied.
func (p *page) wal(r *tps.Result) {
	w, label := r.Writer, "WAL"
	if w.WALBytes > 0 {
		checkpoints := "no checkpoint meanwhile"
		if w.Checkpoints > 0 {
			checkpoints = fmt.Sprintf("%s took %s", plural(w.Checkpoints, "checkpoint"), short(w.CheckpointTime))
		}
		p.text(label, plain, "%s written, %s (%s)", size(w.WALBytes), checkpoints, r.Settings.Checkpoint)
		label = ""
	}
	if w.WALBlocked > 0 {
		who := "a reader held a snapshot"
		if r.Load.PinReader > 0 {
			who = "the reader of --pin-reader held a snapshot"
		}
		p.text(label, yellow, "the WAL could not be emptied for %s: %s; its file grew to %s", short(w.WALBlocked), who, size(w.WALFileMax))
	}
}

// outcome says what the proof, the thresholds and the warnings say.
func (p *page) outcome(r *tps.Result) {
	p.WriteByte('\n')
	p.proof(r)
	for _, threshold := range r.Thresholds {
		p.threshold(threshold)
	}
	for _, warning := range r.Warnings {
		p.text("warning", yellow, "%s", warning)
	}
}

func (p *page) proof(r *tps.Result) {
	v := r.Verify
	switch {
	case v.OK:
		p.line("proof", "%s: %s what was acknowledged, and nothing else", p.paint(green, "ok"), holds(v))
		if v.Detail != "" {
			p.text("", plain, "%s", v.Detail)
		}
	case v.Checked:
		p.text("proof", red, "FAILED: %s", v.Detail)
	case len(r.Load.Scripts) > 0:
		p.text("proof", plain, "not checked: nothing is known of what these scripts should leave behind")
	case v.Detail != "":
		p.text("proof", plain, "not checked: %s", v.Detail)
	default:
		p.line("proof", "not checked")
	}
}

// threshold says whether a threshold was met, and by what.
func (p *page) threshold(o tps.Outcome) {
	measured := "no samples"
	if o.Samples > 0 {
		measured = measuredValue(o)
	}
	if o.OK {
		p.line("threshold", "%s: %s, measured %s", p.paint(green, "ok"), o.Threshold, measured)
		return
	}
	if o.Samples > 0 {
		measured = "measured " + measured
	}
	p.line("threshold", "%s", p.paint(red, "CROSSED: "+o.Threshold+", "+measured))
}

// measuredValue shows a threshold's value in its unit.
func measuredValue(o tps.Outcome) string {
	t, err := tps.ParseThreshold(o.Threshold)
	switch {
	case err == nil && t.IsTime():
		d := time.Duration(o.Value)
		limit, err := time.ParseDuration(o.Threshold[strings.LastIndexAny(o.Threshold, "<>=")+1:])
		if err == nil && d != limit && short(d) == short(limit) { // all digits are needed
			return d.String()
		}
		return short(d)
	case strings.HasPrefix(o.Threshold, "error_rate"):
		return strconv.FormatFloat(100*o.Value, 'g', 3, 64) + " %"
	}
	if o.Value == math.Trunc(o.Value) {
		return count(int64(o.Value))
	}
	return humanize.CommafWithDigits(o.Value, 2) // cut off, not rounded to what it did not reach
}

// holds says what a proof looked at.
func holds(v tps.Verify) string {
	n, what := v.AccountsChecked, "account"
	if v.RowsChecked > 0 {
		n, what = v.RowsChecked, "row"
	}
	if n == 1 {
		return "1 " + what + " holds"
	}
	return plural(n, what) + " hold"
}
