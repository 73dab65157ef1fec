package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/tpssim/tpssim/tps"
)

// Text renders a result for a person: speed first, then what it rests on, then
// every doubt. Lines stay within 80 columns where the content allows it. With
// color the verdict and the warnings stand out.
func Text(r *tps.Result, color bool) Renderer {
	return func(w io.Writer) error {
		p := &page{color: color}
		p.head(r)
		p.speed(r)
		p.latency(r)
		p.stages(r)
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

// line writes one line of a labelled section.
func (p *page) line(label, format string, args ...any) {
	fmt.Fprintf(p, "  %-11s %s\n", label, fmt.Sprintf(format, args...))
}

// The colours of a terminal, by their SGR codes.
const (
	bold   = "1"
	red    = "1;31"
	green  = "32"
	yellow = "33"
)

func (p *page) paint(code, s string) string {
	if !p.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *page) head(r *tps.Result) {
	l := r.Load
	var load string
	switch l.Mode {
	case tps.Burst:
		load = fmt.Sprintf("a burst of %s", count(l.Transactions))
	case tps.OpenLoop:
		load = fmt.Sprintf("%s arrivals a second", count(int64(l.Rate)))
	case tps.ClosedLoop:
		load = fmt.Sprintf("%s clients", count(int64(l.Concurrency)))
	default:
		load = "one goroutine, no queue"
	}
	if l.Mode != tps.Burst && l.Transactions > 0 {
		load += fmt.Sprintf(", %s transactions", count(l.Transactions))
	}
	if l.Duration > 0 {
		load += fmt.Sprintf(", %v", l.Duration)
	}
	fmt.Fprintf(p, "%s: %s over %s accounts, %s %s\n\n", r.Scenario, load, count(l.Rows), l.Dist, l.Layout)
}

func (p *page) speed(r *tps.Result) {
	verb := "lasted"
	if r.Load.Mode == tps.Burst {
		verb = "drained in"
	}
	cut := ""
	if r.Interrupted {
		cut = p.paint(yellow, "  (interrupted)")
	}
	p.line(verb, "%s%s", p.paint(bold, seconds(r.Elapsed)), cut)
	p.line("TPS", "%s%s", p.paint(bold, rate(r.TPS)), spread(r))
	p.line("", "%s with the WAL checkpointed (%s were pending)", rate(r.TPSSettled), size(r.Writer.WALPendingBytes))
	if r.Reads.Acknowledged > 0 {
		p.line("reads", "%s/s, p50 %s, p99 %s", rate(r.Reads.TPS), short(r.Reads.Latency.P50), short(r.Reads.Latency.P99))
	}
	failed := ""
	if r.Failed > 0 {
		failed = ", " + p.paint(yellow, fmt.Sprintf("%s failed", count(r.Failed))) + classes(r.Errors)
	}
	if r.Dropped > 0 {
		failed += ", " + p.paint(yellow, fmt.Sprintf("%s dropped", count(r.Dropped)))
	}
	p.line("", "%s acknowledged%s", count(r.Acknowledged), failed)
}

// spread describes the runs that a repeated burst's median stands for.
func spread(r *tps.Result) string {
	counted, cold := 0, 0.0
	for _, run := range r.Runs {
		if run.Cold {
			cold = run.TPS
		} else if !run.Interrupted {
			counted++
		}
	}
	switch {
	case counted > 1:
		return fmt.Sprintf("  median of %d runs, %s to %s; cold %s", counted, rate(r.TPSLow), rate(r.TPSHigh), rate(cold))
	case counted == 0 && cold > 0:
		return "  one run, cold"
	}
	return ""
}

// classes lists the classes of failures, most frequent first.
func classes(errs map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(errs), func(a, b string) int {
		return cmp.Or(cmp.Compare(errs[b], errs[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s %s", name, count(errs[name]))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func (p *page) latency(r *tps.Result) {
	p.WriteByte('\n')
	l := r.Latency
	p.line("latency", "p50 %s   p90 %s   p99 %s   p99.9 %s   max %s", short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max))
	switch r.Load.Mode {
	case tps.Burst:
		p.line("", "a place in the queue, as all came at once. Latency at a rate:")
		p.line("", "tpssim run %s -R %d -d 30s", r.Scenario, roundRate(r.TPS/2))
	case tps.ClosedLoop, tps.Direct:
		p.line("", "service time only: a stall stops the clients too. Latency at a rate:")
		p.line("", "tpssim run -R %d -d 30s", roundRate(r.TPS/2))
	default:
		s := r.Service
		p.line("service", "p50 %s   p90 %s   p99 %s   p99.9 %s   max %s", short(s.P50), short(s.P90), short(s.P99), short(s.P999), short(s.Max))
		p.line("", "latency counts from the intended start, service from the real one")
	}
}

// roundRate rounds a rate to two digits, for a suggestion.
func roundRate(tps float64) int64 {
	if tps < 1 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(tps))-1)
	return int64(max(math.Round(tps/unit)*unit, 1))
}

func (p *page) stages(r *tps.Result) {
	if r.Latency.Count == 0 || r.Load.Mode == tps.Direct {
		return
	}
	p.WriteByte('\n')
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  stage\tmean\tp50\tp99\tmax\t")
	row := func(name string, l tps.Latency, what string) {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", name, short(l.Mean), short(l.P50), short(l.P99), short(l.Max), what)
	}
	s := r.Stages
	row("lag", s.Lag, "until it is in the queue")
	row("queue", s.Queue, "until its batch begins")
	row("turn", s.Turn, "batch-mates before it")
	row("execute", s.Execute, "its own statements")
	row("hold", s.Hold, "batch-mates after it")
	row("commit", s.Commit, "COMMIT with its sync")
	row("wake", s.Wake, "until its caller runs")
	if s.Reads != nil {
		row("reads", *s.Reads, "reads that it awaits")
	}
	t.Flush()
	p.line("", "means add up to the latency's mean, %s; percentiles do not", short(r.Latency.Mean))
}

func (p *page) database(r *tps.Result) {
	p.WriteByte('\n')
	s, w, e := r.Settings, r.Writer, r.Env
	p.line("database", "SQLite %s, journal_mode=%s, synchronous=%s%s", e.SQLite, s.JournalMode, s.Synchronous, syncNote(r))
	p.line("", "page_size %d, cache_size %d, mmap_size %d, checkpoint %s", s.PageSize, s.CacheSize, s.MmapSize, s.Checkpoint)
	if w.Batches > 0 && r.Load.Mode != tps.Direct {
		p.line("batches", "%s, mean %.0f, p50 %s, max %s; savepoints %s, window %v", count(w.Batches), w.BatchSize.Mean, count(w.BatchSize.P50), count(w.BatchSize.Max), s.Savepoints, s.BatchWindow)
		p.line("", "writer busy %.0f %% of the time", 100*w.BusyFraction)
	}
	p.line("WAL", "%s written; %d checkpoints took %s", size(w.WALBytes), w.Checkpoints, short(w.CheckpointTime))
	loc := r.Locality
	if loc.LeafPages > 0 {
		share := 100 * float64(loc.LeafPagesTouched) / float64(loc.LeafPages)
		p.line("touched", "%s accounts on %s of %s leaf pages (%.2g %%)", count(loc.AccountsTouched), count(loc.LeafPagesTouched), count(loc.LeafPages), share)
	}
	if r.BytesPerWaiting > 0 {
		p.line("memory", "%s for each waiting transaction", size(r.BytesPerWaiting))
	}
	p.line("machine", "%s, %d CPUs, %s memory, %s", e.CPU, e.CPUs, size(e.MemoryBytes), e.Filesystem)
	p.line("", "%s, GOMAXPROCS %d, GOGC %d, random seed %d, cache %s", e.Go, e.GOMAXPROCS, e.GOGC, r.Load.RandomSeed, r.Load.Cache)
}

// syncNote says what the sync setting promises, where that needs saying.
func syncNote(r *tps.Result) string {
	switch r.Settings.Synchronous {
	case "off":
		return " (NOT durable: a crash of the machine may lose or corrupt data)"
	case "normal":
		return " (a crash of the machine may lose the last commits)"
	}
	return ""
}

func (p *page) outcome(r *tps.Result) {
	p.WriteByte('\n')
	v := r.Verify
	if v.OK {
		p.line("proof", "%s: %s accounts hold exactly what was acknowledged", p.paint(green, "ok"), count(v.AccountsChecked))
		if v.Detail != "" {
			p.line("", "%s", v.Detail)
		}
	} else {
		p.line("proof", "%s: %s", p.paint(red, "FAILED"), v.Detail)
	}
	for _, warning := range r.Warnings {
		for i, text := range wrap(warning, 66) {
			label := ""
			if i == 0 {
				label = "warning"
			}
			p.line(label, "%s", p.paint(yellow, text))
		}
	}
}

// wrap breaks text into lines of at most width, at spaces.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func count(n int64) string { return humanize.Comma(n) }

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// rate shows transactions a second: whole ones, but a slow one with its fraction.
func rate(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return humanize.Comma(int64(math.Round(v)))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// short shows a duration with three digits.
func short(d time.Duration) string {
	unit, name := time.Nanosecond, "ns"
	switch {
	case d >= time.Second:
		unit, name = time.Second, "s"
	case d >= time.Millisecond:
		unit, name = time.Millisecond, "ms"
	case d >= time.Microsecond:
		unit, name = time.Microsecond, "µs"
	}
	v := float64(d) / float64(unit)
	digits := 2
	switch {
	case v >= 100 || name == "ns":
		digits = 0
	case v >= 10:
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, v, name)
}
