package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// KneeCSV renders the steps of a search, a row each, below a row of names, which
// are those of the JSON.
func KneeCSV(r *trials.KneeResult) Renderer {
	return func(w io.Writer) error {
		out := csv.NewWriter(w)
		rows := [][]string{{"load", "rate", "phase", "verdict", "reason", "note", "tps", "p50_ns", "p99_ns", "p999_ns",
			"backlog", "kept", "checkpoints", "samples", "elapsed_ns"}}
		whole := func(n int64) string { return strconv.FormatInt(n, 10) }
		number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
		for _, l := range r.Loads {
			for _, s := range l.Steps {
				rows = append(rows, []string{l.Name, number(s.Rate), string(s.Phase), string(s.Verdict), s.Reason, s.Note,
					number(s.TPS), whole(int64(s.P50)), whole(int64(s.P99)), whole(int64(s.P999)),
					whole(s.Backlog), number(s.Kept), whole(s.Checkpoints), whole(s.Samples), whole(int64(s.Elapsed))})
			}
		}
		return out.WriteAll(rows)
	}
}

// KneeText renders what a search found for a person: the answer in the first
// line, then for each load the rate, the steps and the curve, then every doubt.
// Lines stay within 80 columns. With color the answer, the verdicts and the
// warnings stand out.
func KneeText(r *trials.KneeResult, color bool) Renderer {
	return func(w io.Writer) error {
		p := &page{color: color}
		text, shade := kneeAnswer(r)
		for _, line := range wrap(text, columns) {
			fmt.Fprintln(p, p.paint(shade, line))
		}
		for _, l := range r.Loads {
			p.knee(l, r.Need)
		}
		if r.Env.Go != "" { // a step was run
			p.WriteByte('\n')
			s, e := r.Settings, r.Env
			promise, shade := durability(s, e)
			p.text("durable", shade, "%s (journal_mode=%s, synchronous=%s)", promise, s.JournalMode, s.Synchronous)
			p.text("database", plain, "SQLite %s, %s, page_size=%d, cache_size=%d, checkpoint %s", e.SQLite, size(e.DBBytes), s.PageSize, s.CacheSize, s.Checkpoint)
			p.text("machine", plain, "%s, %s, %s memory, %s", e.CPU, plural(int64(e.CPUs), "CPU"), size(e.MemoryBytes), e.Filesystem)
		}
		p.outcome(&tps.Result{Verify: r.Verify, Warnings: r.Warnings})
		_, err := w.Write(p.Bytes())
		return err
	}
}

// kneeAnswer is the first line: the answer in words, and the colour for it.
func kneeAnswer(r *trials.KneeResult) (text, color string) {
	slo := strings.Join(r.SLO, " and ")
	need := perSecond(r.Need)
	switch r.Answer {
	case trials.NoQuestion:
		return kneeFound(r, slo), bold
	case trials.Yes:
		text = fmt.Sprintf("YES: %s hold %s here%s", need, slo, spare(r))
		if at := slowestAtNeed(r); at != nil {
			text += "; p99 there " + short(at.Latency.P99)
		}
		return text + beyond(r) + contradicted(r), green
	case trials.No:
		text = fmt.Sprintf("NO: %s do not hold %s here", need, slo)
		switch {
		case r.SustainableTPS > 0:
			text += fmt.Sprintf(": %s%s do%s", atLeast(r.AtLeast), exact(r.SustainableTPS), under(r))
		case !r.AtLeast:
			text += fmt.Sprintf(": not even %s does%s", perSecond(lowestFailed(r)), under(r))
		}
		if at := slowestAtNeed(r); at != nil && at.Latency.Count > 0 {
			text += fmt.Sprintf("; p99 at %s was %s", exact(r.Need), short(at.Latency.P99))
		}
		if r.Interrupted {
			text += "; the search was interrupted"
		}
		return text + contradicted(r), red
	}
	text = fmt.Sprintf("UNKNOWN: whether %s hold %s here: ", need, slo)
	switch {
	case r.Verify.Checked && !r.Verify.OK:
		return text + "the proof FAILED, so that nothing measured counts", red
	case r.Interrupted:
		text += "the search was interrupted"
	case kneeUnfinished(r):
		text += "the search ended before it was settled"
	default:
		text += "this machine could not offer so many evenly"
	}
	if r.SustainableTPS > 0 {
		text += fmt.Sprintf("; at least %s hold it", exact(r.SustainableTPS))
	}
	return text, yellow
}

// kneeFound is the first line when no rate was asked for.
func kneeFound(r *trials.KneeResult, slo string) string {
	cut := contradicted(r)
	switch {
	case r.Verify.Checked && !r.Verify.OK:
		return "The proof FAILED: nothing that was measured counts"
	case r.Interrupted:
		cut += "; the search was interrupted"
	case kneeUnfinished(r):
		cut += "; the search ended before it was settled"
	}
	switch {
	case r.SustainableTPS > 0:
		if r.AtLeast {
			return fmt.Sprintf("At least %s hold %s here%s%s", perSecond(r.SustainableTPS), slo, under(r), cut)
		}
		return fmt.Sprintf("%s hold %s here%s%s", perSecond(r.SustainableTPS), slo, under(r), cut)
	case r.AtLeast || len(r.Loads) == 0:
		return "Nothing is known of what holds " + slo + " here" + cut
	}
	return fmt.Sprintf("Not even %s holds %s here%s%s", perSecond(lowestFailed(r)), slo, under(r), cut)
}

// lowestFailed returns the lowest rate that did not hold, 0 if there is none.
func lowestFailed(r *trials.KneeResult) (lowest float64) {
	for _, l := range r.Loads {
		if l.FailedTPS > 0 && (lowest == 0 || l.FailedTPS < lowest) {
			lowest = l.FailedTPS
		}
	}
	return lowest
}

// kneeUnfinished tells that a search ended early, for whatever reason.
func kneeUnfinished(r *trials.KneeResult) bool {
	for _, l := range r.Loads {
		if l.State == trials.Unfinished {
			return true
		}
	}
	return len(r.Loads) == 0
}

func atLeast(yes bool) string {
	if yes {
		return "at least "
	}
	return ""
}

func perSecond(v float64) string {
	if v == 1 {
		return "1 transaction a second"
	}
	return exact(v) + " transactions a second"
}

// exact shows a rate with all its digits, which are few, so that it can be run
// again.
func exact(v float64) string { return humanize.Commaf(v) }

// spareFrom is the headroom from which there is something to spare.
const spareFrom = 1.05

// spare says how often the rate that is needed fits into the one that holds, where
// that is known.
func spare(r *trials.KneeResult) string {
	switch {
	case r.Headroom >= spareFrom:
		return fmt.Sprintf(", with %s%s times to spare", atLeast(r.AtLeast), mean(r.Headroom))
	case r.AtLeast:
		return ""
	}
	return ", with nothing to spare"
}

// beyond says why it is not known whether there is something to spare.
func beyond(r *trials.KneeResult) string {
	if !r.AtLeast || r.Headroom >= spareFrom {
		return ""
	}
	for _, l := range r.Loads {
		if l.SustainableTPS == r.SustainableTPS && l.UnofferedTPS > 0 {
			return fmt.Sprintf("; this machine could not offer %s evenly", exact(l.UnofferedTPS))
		}
	}
	if r.SustainableTPS > r.Need {
		return fmt.Sprintf("; nothing above %s was tried", exact(r.SustainableTPS))
	}
	return "; nothing above was tried"
}

// contradicted says that the load that decides came to no clear end.
func contradicted(r *trials.KneeResult) string {
	for _, l := range r.Loads {
		if l.State == trials.Unsettled && l.SustainableTPS == r.SustainableTPS {
			return "; the verdicts contradict each other"
		}
	}
	return ""
}

// under names the load that decides when there are several.
func under(r *trials.KneeResult) string {
	for _, l := range r.Loads {
		if len(r.Loads) > 1 && l.SustainableTPS == r.SustainableTPS && l.AtLeast == r.AtLeast {
			return " under the load " + l.Name
		}
	}
	return ""
}

// slowestAtNeed returns what was measured at the rate that is needed, under the
// load where it was slowest; nil when nothing was.
func slowestAtNeed(r *trials.KneeResult) (at *trials.Measured) {
	for _, l := range r.Loads {
		if l.AtNeed != nil && (at == nil || l.AtNeed.Latency.P99 > at.Latency.P99) {
			at = l.AtNeed
		}
	}
	return at
}

// knee shows the search under one load.
func (p *page) knee(l trials.LoadKnee, need float64) {
	p.WriteByte('\n')
	for _, line := range wrap(l.Name, columns) {
		fmt.Fprintln(p, p.paint(bold, line))
	}
	p.text("holds", plain, "%s", kneeLine(l))
	if line := kneeVotes(l); line != "" {
		p.text("verdicts", plain, "%s", line)
	}
	if l.Candidate != nil {
		p.line("there", "%s", percentiles(l.Candidate.Latency))
	}
	if l.AtNeed != nil && l.AtNeed.Latency.Count > 0 && (l.Candidate == nil || l.Candidate.Rate != need) {
		p.line("as needed", "%s", percentiles(l.AtNeed.Latency))
	}
	if len(l.Steps) == 0 {
		return
	}
	p.kneeSteps(l.Steps)
	if lines := kneeChart(l.Steps); len(lines) > 0 {
		p.WriteByte('\n')
		for _, line := range lines {
			fmt.Fprintln(p, strings.TrimRight("  "+line, " "))
		}
	}
}

// kneeLine says how the search under a load ended.
func kneeLine(l trials.LoadKnee) string {
	held := exact(l.SustainableTPS) + " a second"
	switch l.State {
	case trials.Found:
		return fmt.Sprintf("%s; %s do not", held, exact(l.FailedTPS))
	case trials.Unsettled:
		if l.SustainableTPS == 0 {
			return "not known: the verdicts contradict each other, and nothing held more often than not"
		}
		return held + ", more or less: the verdicts contradict each other"
	case trials.BelowMinimum:
		return fmt.Sprintf("nothing, not even %s", perSecond(l.FailedTPS))
	case trials.AtLeast:
		switch {
		case l.SustainableTPS == 0:
			return fmt.Sprintf("not known: this machine could not offer even %s evenly", perSecond(l.UnofferedTPS))
		case l.UnofferedTPS > 0:
			return fmt.Sprintf("at least %s; this machine could not offer %s evenly", held, exact(l.UnofferedTPS))
		}
		return fmt.Sprintf("at least %s, the most that was tried", held)
	}
	text := "not settled"
	if l.SustainableTPS > 0 {
		text += fmt.Sprintf(": at least %s", held)
	}
	if l.FailedTPS > 0 {
		text += fmt.Sprintf("; %s do not", exact(l.FailedTPS))
	}
	return text
}

// kneeVotes says how often the answer held, and the rate above it that bounds it,
// when there is more to say than that each was measured once.
func kneeVotes(l trials.LoadKnee) string {
	var parts []string
	most := 0
	for _, rate := range []float64{l.SustainableTPS, max(l.FailedTPS, l.UnofferedTPS)} {
		held, steps := 0, 0
		for _, s := range l.Steps {
			if s.Rate == rate {
				steps++
				if s.Verdict == trials.Pass {
					held++
				}
			}
		}
		if steps > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d of %d", exact(rate), held, steps))
			most = max(most, steps)
		}
	}
	if most < 2 {
		return ""
	}
	parts[0] += " held"
	return strings.Join(parts, "; ")
}

// kneeVerdicts are the verdicts in a table, and their colours.
var kneeVerdicts = map[trials.Decision]struct{ text, color string }{
	trials.Pass:           {"holds", green},
	trials.Fail:           {"fails", red},
	trials.GeneratorBound: {"not offered", yellow},
}

// kneeSteps is the table of the steps. The reasons take the room that is left,
// on as many lines as they need.
func (p *page) kneeSteps(steps []trials.Step) {
	wide := len("a second")
	for _, s := range steps {
		wide = max(wide, len(exact(s.Rate)))
	}
	p.WriteByte('\n')
	head := fmt.Sprintf("  %*s  %-11s  %7s  %7s", wide, "a second", "verdict", "p50", "p99")
	room := columns - utf8.RuneCountInString(head) - 2
	fmt.Fprintln(p, head)
	for _, s := range steps {
		p50, p99 := "-", "-"
		if s.P99 > 0 {
			p50, p99 = short(s.P50), short(s.P99)
		}
		reason := s.Reason
		if s.Note != "" {
			if reason != "" {
				reason += "; "
			}
			reason += s.Note + " only"
		}
		verdict := kneeVerdicts[s.Verdict]
		cells := fmt.Sprintf("  %*s  %s  %7s  %7s", wide, exact(s.Rate), p.paint(verdict.color, fmt.Sprintf("%-11s", verdict.text)), p50, p99)
		for _, line := range wrap(reason, room) {
			fmt.Fprintln(p, strings.TrimRight(cells+"  "+line, " "))
			cells = strings.Repeat(" ", columns-2-room)
		}
	}
}

// kneeChart draws the latencies of the steps against their rates. A step that
// acknowledged nothing has none; a single rate makes no curve.
func kneeChart(steps []trials.Step) []string {
	c := chart{
		above: "latency   o p50   x p99   " + string(sharedMark) + " both",
		below: "transactions a second",
		x:     func(v float64) string { return count(int64(math.Round(v))) },
		y:     func(v float64) string { return length(time.Duration(math.Round(v))) },
	}
	for _, s := range steps {
		if s.P50 > 0 && s.P99 > 0 {
			c.points = append(c.points, point{s.Rate, float64(s.P50), 'o'}, point{s.Rate, float64(s.P99), 'x'})
		}
	}
	if !slices.ContainsFunc(c.points, func(p point) bool { return p.x != c.points[0].x }) {
		return nil
	}
	return c.draw(columns-4, kneeChartRows)
}

// kneeChartRows is the height of the curve: a few rows to a power of ten.
const kneeChartRows = 12
