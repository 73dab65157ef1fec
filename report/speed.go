package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// speed says how fast it was and what became of the transactions.
func (p *page) speed(r *tps.Result) {
	verb := "lasted"
	if r.Load.Mode == tps.Burst && !r.Interrupted && r.Stopped == "" {
		verb = "drained in"
	}
	cut := ""
	if r.Interrupted {
		cut = p.paint(yellow, "  interrupted: this is what was done until then")
	}
	p.line(verb, "%s%s", p.paint(bold, seconds(r.Elapsed)), cut)
	if r.Stopped != "" {
		p.text("stopped", yellow, "before its end: %s", r.Stopped)
	}
	label := "TPS"
	if unit(r.Load) == "row" {
		label = "rows/s"
	}
	p.line(label, "%s%s", p.paint(bold, rate(r.TPS)), spread(r))
	if r.Verify.Checked && !r.Verify.OK {
		p.line("", "%s", p.paint(red, "worth nothing: the proof FAILED, see below"))
	}
	p.think(r.Load)
	if r.Writer.WALPendingBytes > 0 {
		p.line("", "%s when the WAL is checkpointed too (%s were pending)", rate(r.TPSSettled), size(r.Writer.WALPendingBytes))
	}
	p.fates(r)
	if s := r.Steady; s.Samples >= steadySamples && len(r.Load.Stages) == 0 {
		p.line("steady", "%s ± %s %s over %d samples", rate(s.Mean), rate(s.StdDev), label, s.Samples)
	}
	p.tries(r)
	p.schedule(r.Schedule)
	if r.Reads.Acknowledged > 0 {
		p.line("reads", "%s a second, p50 %s, p99 %s", rate(r.Reads.TPS), short(r.Reads.Latency.P50), short(r.Reads.Latency.P99))
	}
	promise, color := durability(r.Settings, r.Env)
	p.text("durable", color, "%s (journal_mode=%s, synchronous=%s)", promise, r.Settings.JournalMode, r.Settings.Synchronous)
}

// steadySamples are the fewest whose deviation says anything.
const steadySamples = 3

// think says what thinking inside the transactions costs, or that it does not.
func (p *page) think(l tps.Load) {
	switch {
	case l.ThinkBound > 0:
		p.line("", "%s", p.paint(yellow, fmt.Sprintf("at most %s with --think %s, which holds the writer", rate(l.ThinkBound), length(l.Think))))
	case l.Think > 0:
		p.line("", "while each thinks for %s, the writer serves others", length(l.Think))
	}
}

// fates counts the transactions by what became of them.
func (p *page) fates(r *tps.Result) {
	if r.Acknowledged == 0 && r.Failed > 0 {
		p.line("", "%s", p.paint(red, "nothing was acknowledged"))
	} else {
		p.line("", "%s acknowledged", count(r.Acknowledged))
	}
	if limit := r.Load.LatencyLimit; limit > 0 {
		late, color := "none", plain
		if r.Late > 0 {
			late, color = count(r.Late), yellow
		}
		p.line("", "%s", p.paint(color, fmt.Sprintf("%s later than %s", late, length(limit))))
	}
	if r.Failed > 0 {
		p.text("", yellow, "%s failed%s", count(r.Failed), classes(r.Errors))
	}
	for _, class := range slices.Sorted(maps.Keys(r.ErrorExamples)) {
		p.text("", plain, "%s: %s", class, clipped(r.ErrorExamples[class]))
	}
	if r.Dropped > 0 {
		p.line("", "%s", p.paint(yellow, count(r.Dropped)+" dropped: due, but never started"))
	}
	if r.Skipped > 0 {
		p.line("", "%s", p.paint(yellow, fmt.Sprintf("%s skipped: %s had passed before their turn came", count(r.Skipped), length(r.Load.LatencyLimit))))
	}
}

// classGaveUp is the class of the failures of those that lost in every try.
const classGaveUp = "gave up"

// tries says how often transactions had to be tried.
func (p *page) tries(r *tps.Result) {
	if r.Retries == 0 && r.Load.MaxTries == 0 {
		return
	}
	text := ""
	if t := r.Tries; t.Max > 0 {
		text = fmt.Sprintf("mean %.2f, p99 %s, max %s", t.Mean, count(t.P99), count(t.Max))
		if n := r.Load.MaxTries; n > 0 {
			text += fmt.Sprintf(" of %s allowed", count(int64(n)))
		}
		text += "; "
	}
	p.text("tries", plain, "%s%s; %s gave up", text, retried(r.Retries), count(r.Errors[classGaveUp]))
}

func retried(n int64) string {
	if n == 1 {
		return "1 retry"
	}
	return count(n) + " retries"
}

// schedule says how an open loop kept to its arrivals; k is nil for other loads.
func (p *page) schedule(k *tps.Kept) {
	if k == nil {
		return
	}
	kept, color := "", plain
	if k.GeneratorBound {
		kept, color = "NOT KEPT: ", red
	}
	p.text("schedule", color, "%s%s in %s", kept, plural(k.Arrivals, "arrival"), seconds(k.Length))
	p.text("", color, "started late by p99 %s, max %s, the last by %s", short(k.LateP99), short(k.LateMax), short(k.Behind))
	if k.GeneratorBound {
		p.text("", color, "this machine could not offer the load, so that the latencies are the generator's and not the database's")
	}
	p.line("backlog", "%s unfinished when the last was due, %s at most", count(k.Backlog), count(k.BacklogMax))
}

// durability says what an acknowledgement is worth when the power fails, and the
// colour to say it in.
func durability(s tps.Settings, e tps.Env) (promise, color string) {
	p := trials.PromiseOf(s, e)
	if p.Kept == "yes" {
		return p.String(), plain
	}
	return p.String(), yellow
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

// maxExample is how much of an error is shown.
const maxExample = 300

// clipped returns an error's text on one line, and not more than a few of the page's.
func clipped(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxExample {
		text = string(runes[:maxExample]) + " …"
	}
	return text
}
