package report

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/tpssim/tpssim/tps"
)

func (p *page) latency(r *tps.Result) {
	if r.Latency.Count == 0 {
		return
	}
	p.WriteByte('\n')
	p.line("latency", "%s", percentiles(r.Latency))
	switch r.Load.Mode {
	case tps.Burst:
		p.line("", "a place in the queue, as all came at once; at a steady rate it is:")
		p.command(suggestion(r))
	case tps.ClosedLoop:
		p.line("", "service time only, as a stall stops the clients too; at a rate:")
		p.command(suggestion(r))
	case tps.Direct:
		p.line("", "the time of the batch that it is in; nobody waits here")
	default:
		p.line("service", "%s", percentiles(r.Service))
		p.line("", "latency counts from the intended start, service from the real one")
	}
}

// percentiles are as wide whatever they are, so that two lines of them line up.
func percentiles(l tps.Latency) string {
	wide := func(d time.Duration) string { return fmt.Sprintf("%-*s", timeColumns, short(d)) }
	return fmt.Sprintf("p50 %s  p90 %s  p99 %s  p99.9 %s  max %s", wide(l.P50), wide(l.P90), wide(l.P99), wide(l.P999), short(l.Max))
}

// stages shows where the time of a transaction went.
func (p *page) stages(r *tps.Result) {
	if r.Latency.Count == 0 || r.Load.Mode == tps.Direct {
		return
	}
	p.WriteByte('\n')
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  stage\tmean\tp50\tp99\tp99.9\tmax")
	row := func(name string, l *tps.Latency, what string) {
		if l != nil {
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, short(l.Mean), short(l.P50), short(l.P99), short(l.P999), short(l.Max), what)
		}
	}
	s := r.Stages
	// What they say takes at most the 21 columns that are left.
	turn, hold, commit := "batch-mates before it", "batch-mates after it", "COMMIT with its sync"
	if r.Settings.MaxBatch == 1 { // it has none
		turn, hold = "BEGIN and its lock", "until COMMIT"
	}
	if sync := r.Settings.Synchronous; sync == "off" || sync == "normal" && r.Settings.JournalMode == "wal" {
		commit = "COMMIT without a sync"
	}
	execute := "its own statements"
	if r.Load.ThinkBound > 0 { // it thinks between them
		execute = "statements, thinking"
	}
	row("lag", &s.Lag, "until it is queued")
	row("queue", &s.Queue, "until a batch begins")
	row("checkpoint", s.Checkpoint, "writer checkpointing")
	row("turn", &s.Turn, turn)
	row("execute", &s.Execute, execute)
	row("hold", &s.Hold, hold)
	row("commit", &s.Commit, commit)
	row("wake", &s.Wake, "until its caller runs")
	row("reads", s.Reads, "reads that it awaits")
	row("think", s.Think, "the writer goes on")
	row("retry", s.Retry, "attempts that lost")
	t.Flush()
	p.line("", "means add up to the latency's mean, %s; percentiles do not", short(r.Latency.Mean))
}

// timeColumns is how wide a duration is at most.
const timeColumns = len("99.9 ms")

// statements shows the times of each statement.
func (p *page) statements(r *tps.Result) {
	if len(r.Statements) == 0 {
		return
	}
	counts := len("count")
	for _, s := range r.Statements {
		counts = max(counts, len(count(s.Latency.Count)))
	}
	// The name has what the counts, four times and two blanks before each leave.
	width := columns - 2 - (2 + counts) - 4*(2+timeColumns)
	p.WriteByte('\n')
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  statement\tcount\tmean\tp50\tp99\tmax")
	for _, s := range r.Statements {
		l := s.Latency
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", clip(s.Name, width), count(l.Count), short(l.Mean), short(l.P50), short(l.P99), short(l.Max))
	}
	t.Flush()
}

// runGrowth is the table of the parts in which a table was filled, nil when there are
// not several.
func runGrowth(r *tps.Result) *grid {
	if len(r.Growth) < 2 {
		return nil
	}
	g := &grid{}
	for _, title := range []string{"up to rows", "rows/s", "batch p50", "p95", "p99", "database", "WAL", "program"} {
		g.columns = append(g.columns, column{title: title, right: true})
	}
	for _, part := range r.Growth {
		memory := "-"
		if part.RSSBytes > 0 {
			memory = size(part.RSSBytes)
		}
		g.add(words(count(part.Rows)), words(rate(part.TPS)), words(short(part.Batch.P50)), words(short(part.Batch.P95)), words(short(part.Batch.P99)),
			words(size(part.DBBytes)), words(size(part.WALBytes)), words(memory))
	}
	return g
}

// clip makes one line of at most width characters of a text.
func clip(text string, width int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:width-1]), " ") + "…"
}
