package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// Ceiling renders for a person how much of a C loop's speed a burst reaches: the
// ratio in the first line, then each arm, then what the differences between them
// mean, what they rest on, and every doubt. Lines stay within 80 columns. With
// color the ratio, the verdicts and the warnings stand out.
func Ceiling(r *trials.CeilingResult, color bool) Renderer {
	return func(w io.Writer) error {
		p := &page{color: color}
		text, shade := ceilingAnswer(r)
		for _, line := range wrap(text, columns) {
			fmt.Fprintln(p, p.paint(shade, line))
		}
		if len(r.Arms) > 0 {
			p.WriteByte('\n')
			p.ceilingArms(r)
			p.WriteByte('\n')
			p.ceilingCosts(r)
			p.ceilingBasis(r)
		}
		p.outcome(&tps.Result{Verify: r.Verify, Warnings: r.Warnings})
		_, err := w.Write(p.Bytes())
		return err
	}
}

// ceilingAnswer is the first line, and the colour for it.
func ceilingAnswer(r *trials.CeilingResult) (text, color string) {
	burst, top := r.Arm(trials.BurstArm), r.Arm(r.Ceiling)
	switch {
	case r.Verify.Checked && !r.Verify.OK:
		return "The proof FAILED: nothing that was measured counts", red
	case burst == nil || top == nil:
		text = "Nothing is known of how much of a C loop's speed the burst reaches: no round was finished"
		if r.Interrupted {
			text += ", as it was interrupted"
		}
		return text, yellow
	}
	text = fmt.Sprintf("The burst reaches %s (%s to %s) of a C loop at its fastest batch (%s): %s of %s transactions a second",
		ratio(r.Ratio), ratio(r.RatioLow), ratio(r.RatioHigh), count(int64(top.Batch)), rate(burst.TPS), rate(top.TPS))
	if r.Interrupted {
		text += "; interrupted after " + plural(int64(r.Rounds), "round")
	}
	return text, bold
}

// ratio shows a ratio, or a bound of one.
func ratio(v float64) string { return fmt.Sprintf("%.2f", v) }

// ceilingName names an arm by what it is and its batch, in few columns.
func ceilingName(a trials.CeilingArm) string {
	switch a.Name {
	case trials.BurstArm:
		return a.Name
	case trials.DirectArm:
		return a.Name + " " + count(int64(a.Batch))
	}
	return "c-loop " + count(int64(a.Batch))
}

// ceilingArms is the table of the arms.
func (p *page) ceilingArms(r *trials.CeilingResult) {
	wide := len("arm")
	for _, a := range r.Arms {
		wide = max(wide, len(ceilingName(a)))
	}
	fmt.Fprintf(p, "  %-*s  %9s  %-14s  %9s  %5s  %s\n", wide, "arm", "TPS", "low to high", "settled", "ratio", "low to high")
	for _, a := range r.Arms {
		span := fmt.Sprintf("%5s to %s", compact(int64(math.Round(a.Low))), compact(int64(math.Round(a.High))))
		line := fmt.Sprintf("  %-*s  %9s  %-14s  %9s  ", wide, ceilingName(a), rate(a.TPS), span, rate(a.TPSSettled))
		if of := r.Of(a.Name, r.Ceiling); of != nil {
			line += fmt.Sprintf("%5s  %s to %s%s", ratio(of.Ratio), ratio(of.Low), ratio(of.High), tilde(of))
		} else {
			line += p.paint(bold, "ceiling")
		}
		fmt.Fprintln(p, line)
	}
}

// tilde marks what is likely noise.
func tilde(r *trials.CeilingRatio) string {
	if r.Noise {
		return " ~"
	}
	return ""
}

// ceilingCosts says what the differences between the arms mean.
func (p *page) ceilingCosts(r *trials.CeilingResult) {
	top, same := r.Arm(r.Ceiling), r.Arm(trials.LoopAsBurst)
	if of := r.Of(trials.BurstArm, trials.LoopAsBurst); of != nil {
		p.text("queueing", plain, "%s: the burst against a C loop at the burst's own batch, %s transactions", cost(of), count(int64(same.Batch)))
	}
	if of := r.Of(trials.LoopAsBurst, r.Ceiling); of != nil {
		p.text("batch size", plain, "%s: a C loop at that batch against one at %s", cost(of), count(int64(top.Batch)))
	}
	if of := r.Of(trials.DirectArm, r.LoopOf(trials.DirectArm)); of != nil {
		p.text("Go", plain, "%s: direct, one goroutine that waits for nobody, against a C loop with the same batch", cost(of))
	}
	for _, of := range r.Ratios {
		if of.Noise {
			p.text("~", plain, "likely noise, or too few rounds to tell: by the U test such a difference comes up in more than %g of 100 cases where there is none", 100*trials.Alpha)
			return
		}
	}
}

// cost says in words what is lost from one arm to the other.
func cost(r *trials.CeilingRatio) string {
	share := func(v float64) string { return fmt.Sprintf("%.0f", math.Round(100*v)+0) } // + 0: no -0
	verb, mid, low, high := "costs", 1-r.Ratio, 1-r.High, 1-r.Low
	if r.Ratio > 1 {
		verb, mid, low, high = "gains", r.Ratio-1, r.Low-1, r.High-1
	}
	text := fmt.Sprintf("%s %s %% (%s to %s %%)", verb, share(mid), share(low), share(high))
	if r.Noise {
		text += fmt.Sprintf(" ~ (p = %.2g)", r.P)
	}
	return text
}

// ceilingBasis says what the figures rest on.
func (p *page) ceilingBasis(r *trials.CeilingResult) {
	p.WriteByte('\n')
	l, s, e := r.Load, r.Settings, r.Env
	p.text("rounds", plain, "%s, interleaved: medians, and intervals that hold them with %.3g %% confidence; ratios within each round", plural(int64(r.Rounds), "round"), 100*r.Confidence)
	load := fmt.Sprintf("%s in each arm and round", plural(r.Transactions, "transaction"))
	if l.Rows > 0 {
		load += fmt.Sprintf(", %s keys of %s, %s, cache %s, --random-seed %d", strings.TrimSpace(l.Dist+" "+l.DistParameters), plural(l.Rows, "account"), l.Layout, l.Cache, l.RandomSeed)
	}
	p.text("load", plain, "%s", load)
	promise, shade := durability(s, e)
	p.text("durable", shade, "%s (journal_mode=%s, synchronous=%s)", promise, s.JournalMode, s.Synchronous)
	p.text("database", plain, "SQLite %s, %s, page_size=%d, cache_size=%d, checkpoint %s", e.SQLite, size(e.DBBytes), s.PageSize, s.CacheSize, s.Checkpoint)
	p.text("machine", plain, "%s, %s, %s memory, %s, %s, GOMAXPROCS=%d, GOGC=%d", e.CPU, plural(int64(e.CPUs), "CPU"), size(e.MemoryBytes), e.Filesystem, e.Go, e.GOMAXPROCS, e.GOGC)
}
