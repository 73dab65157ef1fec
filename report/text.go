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
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/tpssim/tpssim/tps"
)

// Text renders a result for a person who has ten seconds: speed and what it
// rests on first, then what it is made of, then every doubt. Lines stay within
// 80 columns, but for words that are longer themselves and for the command that
// a reader may want to copy. With color the verdict and the warnings stand out.
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

func (p *page) head(r *tps.Result) {
	l := r.Load
	transactions := plural(l.Transactions, "transaction")
	var load string
	switch l.Mode {
	case tps.Burst:
		load = "a burst of " + count(l.Transactions)
	case tps.OpenLoop:
		load = fmt.Sprintf("%s arrivals a second", rate(l.Rate))
	case tps.ClosedLoop:
		load = plural(int64(l.Concurrency), "client")
	default:
		load = "one goroutine, no queue"
	}
	if l.Mode != tps.Burst && l.Transactions > 0 {
		load += ", " + transactions
	}
	if l.Duration > 0 {
		load += fmt.Sprintf(", %v", l.Duration)
	}
	text := fmt.Sprintf("%s: %s over %s (%s)", r.Scenario, load, plural(l.Rows, "account"), choice(l))
	for _, line := range wrap(text, columns) {
		fmt.Fprintln(p, line)
	}
	p.WriteByte('\n')
}

// choice says which accounts a load touches, and what is not usual about them.
func choice(l tps.Load) string {
	text := l.Dist
	if l.DistParameters != "" {
		text += " " + l.DistParameters
	}
	if l.Dist != "uniform" { // where no account is hot, the layout says nothing
		text += ", " + l.Layout
	}
	if l.Schema == "article" {
		text += ", the article's schema"
	}
	if l.PayloadBytes > 0 {
		text += ", " + size(int64(l.PayloadBytes)) + " of payload"
	}
	switch {
	case l.Indexes == 1:
		text += ", 1 index"
	case l.Indexes > 1:
		text += fmt.Sprintf(", %d indexes", l.Indexes)
	}
	return text
}

func (p *page) speed(r *tps.Result) {
	verb := "lasted"
	if r.Load.Mode == tps.Burst && !r.Interrupted {
		verb = "drained in"
	}
	cut := ""
	if r.Interrupted {
		cut = p.paint(yellow, "  interrupted: this is what was done until then")
	}
	p.line(verb, "%s%s", p.paint(bold, seconds(r.Elapsed)), cut)
	p.line("TPS", "%s%s", p.paint(bold, rate(r.TPS)), spread(r))
	if !r.Verify.OK {
		p.line("", "%s", p.paint(red, "worth nothing: the proof FAILED, see below"))
	}
	if r.Writer.WALPendingBytes > 0 {
		p.line("", "%s when the WAL is checkpointed too (%s were pending)", rate(r.TPSSettled), size(r.Writer.WALPendingBytes))
	}
	p.line("", "%s acknowledged", count(r.Acknowledged))
	if r.Failed > 0 {
		p.text("", yellow, "%s failed%s", count(r.Failed), classes(r.Errors))
	}
	if r.Dropped > 0 {
		p.line("", "%s", p.paint(yellow, count(r.Dropped)+" dropped: due, but never started"))
	}
	if r.Reads.Acknowledged > 0 {
		p.line("reads", "%s a second, p50 %s, p99 %s", rate(r.Reads.TPS), short(r.Reads.Latency.P50), short(r.Reads.Latency.P99))
	}
	promise, color := durability(r)
	p.text("durable", color, "%s (journal_mode=%s, synchronous=%s)", promise, r.Settings.JournalMode, r.Settings.Synchronous)
}

// durability says what an acknowledgement is worth when the power fails, and the
// colour to say it in. See "PRAGMA synchronous" and "PRAGMA journal_mode" in
// SQLite's documentation.
func durability(r *tps.Result) (promise, color string) {
	s := r.Settings
	switch {
	case r.Env.Filesystem == "tmpfs" || r.Env.Filesystem == "ramfs":
		return "NO: the database lies in memory", yellow
	case s.Synchronous == "off":
		return "NO: a crash of the machine may lose or corrupt data", yellow
	case s.JournalMode == "off" || s.JournalMode == "memory":
		return "NO: a crash, of the program too, may corrupt the database", yellow
	case s.Synchronous == "normal" && s.JournalMode == "wal":
		return "partly: a crash of the machine may lose the last commits", yellow
	case s.Synchronous == "normal":
		return "mostly: a crash of the machine may, rarely, corrupt the database", yellow
	case s.Synchronous == "full" && s.JournalMode == "delete":
		// A COMMIT deletes the journal there, and only extra syncs the folder after it.
		return "mostly: a crash of the machine may undo the last commit", yellow
	}
	return "yes: each COMMIT is synced before it is acknowledged", plain
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
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func (p *page) latency(r *tps.Result) {
	if r.Latency.Count == 0 {
		return
	}
	p.WriteByte('\n')
	p.line("latency", "%s", percentiles(r.Latency))
	switch r.Load.Mode {
	case tps.Burst:
		p.line("", "a place in the queue, as all came at once; at a steady rate it is:")
		p.line("", "%s", suggestion(r))
	case tps.ClosedLoop:
		p.line("", "service time only, as a stall stops the clients too; at a rate:")
		p.line("", "%s", suggestion(r))
	case tps.Direct:
		p.line("", "the time of the batch that a transaction is in; nobody waits here")
	default:
		p.line("service", "%s", percentiles(r.Service))
		p.line("", "latency counts from the intended start, service from the real one")
	}
}

func percentiles(l tps.Latency) string {
	return fmt.Sprintf("p50 %s  p90 %s  p99 %s  p99.9 %s  max %s", short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max))
}

func (p *page) stages(r *tps.Result) {
	if r.Latency.Count == 0 || r.Load.Mode == tps.Direct {
		return
	}
	p.WriteByte('\n')
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  stage\tmean\tp50\tp99\tmax")
	row := func(name string, l tps.Latency, what string) {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", name, short(l.Mean), short(l.P50), short(l.P99), short(l.Max), what)
	}
	s := r.Stages
	row("lag", s.Lag, "until it is in the queue")
	row("queue", s.Queue, "until its batch begins")
	turn, hold, commit := "batch-mates before it", "batch-mates after it", "COMMIT with its sync"
	if r.Settings.MaxBatch == 1 { // it has none
		turn, hold = "BEGIN, with the wait for its lock", "until COMMIT"
	}
	if sync := r.Settings.Synchronous; sync == "off" || sync == "normal" && r.Settings.JournalMode == "wal" {
		commit = "COMMIT, without a sync"
	}
	row("turn", s.Turn, turn)
	row("execute", s.Execute, "its own statements")
	row("hold", s.Hold, hold)
	row("commit", s.Commit, commit)
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
	if w.Batches > 0 && r.Load.Mode != tps.Direct {
		window := ""
		if s.BatchWindow > 0 {
			window = fmt.Sprintf(", window %v", s.BatchWindow)
		}
		p.text("batches", plain, "%s of %s transactions in the mean, p50 %s, max %s; savepoints %s%s; writer busy %.0f %% of the time",
			count(w.Batches), mean(w.BatchSize.Mean), count(w.BatchSize.P50), count(w.BatchSize.Max), s.Savepoints, window, 100*w.BusyFraction)
	}
	if w.WALBytes > 0 {
		checkpoints := "no checkpoint meanwhile"
		if w.Checkpoints > 0 {
			checkpoints = fmt.Sprintf("%s took %s", plural(w.Checkpoints, "checkpoint"), short(w.CheckpointTime))
		}
		p.text("WAL", plain, "%s written, %s (%s)", size(w.WALBytes), checkpoints, s.Checkpoint)
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
	p.line("repeat with", "--random-seed %d --cache %s", r.Load.RandomSeed, r.Load.Cache)
}

func (p *page) outcome(r *tps.Result) {
	p.WriteByte('\n')
	v := r.Verify
	if v.OK {
		p.line("proof", "%s: %s what was acknowledged, and nothing else", p.paint(green, "ok"), holds(v.AccountsChecked))
		if v.Detail != "" {
			p.text("", plain, "%s", v.Detail)
		}
	} else {
		p.text("proof", red, "FAILED: %s", v.Detail)
	}
	for _, warning := range r.Warnings {
		p.text("warning", yellow, "%s", warning)
	}
}

func holds(accounts int64) string {
	if accounts == 1 {
		return "1 account holds"
	}
	return count(accounts) + " accounts hold"
}

// wrap breaks text into lines of at most width, at spaces.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
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
	if v < 99.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return humanize.Comma(int64(math.Round(v)))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// mean shows a mean of whole numbers; a small one with its fraction.
func mean(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return humanize.Comma(int64(math.Round(v)))
}

// percent shows a share with two digits, and never all where it is not all.
func percent(part, whole int64) string {
	v := 100 * float64(part) / float64(whole)
	switch {
	case part < whole && v >= 99:
		return "over 99 %"
	case v >= 10 || v == 0:
		return fmt.Sprintf("%.0f %%", v)
	}
	return fmt.Sprintf("%.2g %%", v)
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// short shows a duration with three digits.
func short(d time.Duration) string {
	// Rounded first, so that 999.9 µs become 1.00 ms and not 1000 µs.
	digit := time.Duration(1)
	for d/digit >= 1000 {
		digit *= 10
	}
	d = (d + digit/2) / digit * digit
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
	decimals := 2
	switch {
	case v >= 100 || name == "ns":
		decimals = 0
	case v >= 10:
		decimals = 1
	}
	return fmt.Sprintf("%.*f %s", decimals, v, name)
}
