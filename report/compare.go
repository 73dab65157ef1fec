package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// Compare renders a comparison for a person: in the first lines what each arm comes to
// against the first one, or that the difference is likely noise; then what makes the
// arms unlike besides what was to be compared; the arms; what the figures rest on; and
// every doubt. Lines stay within 80 columns, but for words that are longer themselves.
// With color the verdicts and the doubts stand out.
func Compare(r *trials.CompareResult, color bool) Renderer {
	return func(w io.Writer) error {
		p := &page{color: color}
		for _, verdict := range compareVerdicts(r) {
			for _, line := range wrap(verdict.text, columns) {
				fmt.Fprintln(p, p.paint(verdict.color, line))
			}
		}
		p.section(compareHead(r))
		if len(r.Arms) > 0 {
			p.WriteByte('\n')
			p.grid(compareGrid(r))
			p.section(compareBasis(r))
		}
		p.outcome(&tps.Result{Verify: r.Verify, Warnings: compareDoubts(r)})
		_, err := w.Write(p.Bytes())
		return err
	}
}

// note is a labelled text of a report, whatever the format.
type note struct{ label, text, color string }

// section writes notes below an empty line.
func (p *page) section(notes []note) {
	if len(notes) > 0 {
		p.WriteByte('\n')
	}
	for _, n := range notes {
		p.text(n.label, n.color, "%s", n.text)
	}
}

// compared is a figure that arms have, and how it is shown.
type compared struct {
	name   string // as [trials.Figure] has it
	title  string // of its column
	label  string // in a sentence
	unit   string // in the benchmark format
	better string // there: what of it is better
	of     func(*trials.ComparedArm) *trials.Summary
	show   func(float64) string
	narrow func(float64) string // bounds of an interval
}

// comparedFigures are all of them.
var comparedFigures = []compared{
	{"tps", "TPS", "TPS", "tx/s", "higher", func(a *trials.ComparedArm) *trials.Summary { return &a.TPS }, rate, compactRate},
	{"tps_settled", "settled", "settled TPS", "settled-tx/s", "higher", func(a *trials.ComparedArm) *trials.Summary { return &a.TPSSettled }, rate, compactRate},
	{"p50_ns", "p50", "p50", "p50-ns", "lower", func(a *trials.ComparedArm) *trials.Summary { return &a.P50 }, shortNanoseconds, shortNanoseconds},
	{"p99_ns", "p99", "p99", "p99-ns", "lower", func(a *trials.ComparedArm) *trials.Summary { return &a.P99 }, shortNanoseconds, shortNanoseconds},
}

func compactRate(v float64) string {
	if v < 99.95 {
		return rate(v)
	}
	return compact(int64(math.Round(v)))
}

func shortNanoseconds(v float64) string { return short(nanoseconds(v)) }

// figureOf is the figure that a comparison is about.
func figureOf(r *trials.CompareResult) compared {
	for _, f := range comparedFigures {
		if f.name == r.Figure {
			return f
		}
	}
	return comparedFigures[0]
}

// armOf returns an arm by its name, nil when there is none.
func armOf(r *trials.CompareResult, name string) *trials.ComparedArm {
	for k := range r.Arms {
		if r.Arms[k].Name == name {
			return &r.Arms[k]
		}
	}
	return nil
}

// compareVerdicts are the first lines: a sentence for each pair.
func compareVerdicts(r *trials.CompareResult) (verdicts []note) {
	if r.Verify.Checked && !r.Verify.OK {
		return []note{{text: "The proof FAILED: nothing that was measured counts", color: red}}
	}
	if len(r.Arms) == 0 {
		text := "Nothing is known of what the arms differ by: no round was finished"
		if r.Interrupted {
			text += ", as it was interrupted"
		}
		return append(verdicts, note{text: text, color: yellow})
	}
	for _, pair := range r.Pairs {
		of, on := armOf(r, pair.Of), armOf(r, pair.Name)
		if of == nil || on == nil { // only in a file that somebody changed
			continue
		}
		verdicts = append(verdicts, verdict(r, pair, on, of))
	}
	return verdicts
}

// verdict says in a sentence what an arm comes to against another one.
func verdict(r *trials.CompareResult, pair trials.Pair, on, of *trials.ComparedArm) note {
	f := figureOf(r)
	span := ""
	if pair.Low != 0 || pair.High != 0 {
		span = fmt.Sprintf(" (%s to %s)", ratio(pair.Low), ratio(pair.High))
	}
	known := f.of(on).Median
	text := fmt.Sprintf("%s reaches %s%s of %s in %s: %s against %s; %s",
		pair.Name, ratio(pair.Ratio), span, pair.Of, f.label, f.show(known), f.show(f.of(of).Median), chance(r, pair))
	if f.better == "lower" {
		text = fmt.Sprintf("%s takes %s%s times the %s of %s: %s against %s; %s",
			pair.Name, ratio(pair.Ratio), span, f.label, pair.Of, f.show(known), f.show(f.of(of).Median), chance(r, pair))
	}
	switch {
	case r.AA:
		return noiseFloor(text, pair)
	case pair.Noise:
		verdict := "likely noise"
		if tooFew(on.TPS.N, of.TPS.N, len(r.Pairs)) {
			verdict = "too few to tell it from noise"
		}
		return note{text: "~ " + verdict + ": " + text}
	}
	return note{text: text, color: bold}
}

// noiseFloor says what two arms that are the same differ by.
func noiseFloor(text string, pair trials.Pair) note {
	far := math.Abs(pair.Ratio - 1)
	for _, bound := range []float64{pair.Low, pair.High} {
		if bound != 0 {
			far = max(far, math.Abs(bound-1))
		}
	}
	text = fmt.Sprintf("The noise floor here: %s. They are the same: what differs by less than %.2g %% in so many rounds may be nothing", text, 100*far)
	if !pair.Noise {
		return note{text: text + ". And they were told apart: see the warnings", color: yellow}
	}
	return note{text: text, color: bold}
}

// chance is the p-value of a pair, corrected where there are several.
func chance(r *trials.CompareResult, pair trials.Pair) string {
	text := probability(pair.Adjusted)
	if len(r.Pairs) > 1 {
		text += fmt.Sprintf(" (corrected for %d pairs)", len(r.Pairs))
	}
	return text
}

// probability shows a p-value with two digits, and as one word.
func probability(p float64) string {
	if p < 0.0005 {
		return "p<0.0005"
	}
	return fmt.Sprintf("p=%.2g", p)
}

// tooFew tells whether so many values on each side cannot be told apart whatever they
// are: even when all of the one are above all of the other, which chance brings in 2 of
// C(n+m, n) cases, times the number of pairs in the worst case of Holm's correction.
func tooFew(n, m, pairs int) bool {
	orders := 1.0
	for k := 1; k <= m; k++ {
		orders *= float64(n+k) / float64(k)
	}
	return 2*float64(pairs)/orders > trials.Alpha
}

// compareHead is what makes the arms unlike, besides what is compared.
func compareHead(r *trials.CompareResult) (notes []note) {
	if r.DurabilityDiffers {
		notes = append(notes, note{"durable", "DIFFERS: " + byArm(r.Arms, armDurability), red})
	}
	if !r.Interleaved && len(r.Arms) > 0 {
		notes = append(notes, note{"interleaved", "NO: the runs were made at other times, and what the machine did then is a part of each difference", yellow})
	}
	if r.Interrupted && len(r.Arms) > 0 {
		notes = append(notes, note{"interrupted", fmt.Sprintf("after %d of %s", r.Rounds, plural(int64(r.RoundsPlanned), "round")), yellow})
	}
	if text := differing(r.Differences, true); text != "" {
		notes = append(notes, note{"under test", text, plain})
	}
	if text := differing(r.Differences, false); text != "" {
		label := "besides"
		if !r.Interleaved {
			label = "differ in"
		}
		notes = append(notes, note{label, text, yellow})
	}
	return notes
}

// differing lists the differences that were asked for, or those that were not.
func differing(list []trials.Difference, asked bool) string {
	var parts []string
	for _, d := range list {
		if d.Asked == asked {
			parts = append(parts, fmt.Sprintf("%s (%s)", d.Name, strings.Join(d.Values, ", ")))
		}
	}
	return strings.Join(parts, "; ")
}

// byArm says something of each arm, once when it is the same of all.
func byArm(arms []trials.ComparedArm, say func(*trials.ComparedArm) string) string {
	var texts []string
	names := map[string][]string{}
	for k := range arms {
		text := say(&arms[k])
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], arms[k].Name)
	}
	if len(texts) == 1 {
		return texts[0]
	}
	for k, text := range texts {
		texts[k] = strings.Join(names[text], ", ") + ": " + text
	}
	return strings.Join(texts, "; ")
}

// armDurability is what an arm's acknowledgements are worth, and by which settings.
func armDurability(a *trials.ComparedArm) string {
	promise, _ := durability(a.Effective, a.Env)
	return fmt.Sprintf("%s (journal_mode=%s, synchronous=%s)", promise, a.Effective.JournalMode, a.Effective.Synchronous)
}

// settingsOf are the settings of an arm as somebody typed them.
func settingsOf(a *trials.ComparedArm) string {
	parts := make([]string, len(a.Settings))
	for k, s := range a.Settings {
		parts[k] = s.Name + "=" + s.Value
	}
	return strings.Join(parts, ",")
}

// compareBasis says what the figures rest on.
func compareBasis(r *trials.CompareResult) (notes []note) {
	add := func(label, format string, args ...any) {
		notes = append(notes, note{label, fmt.Sprintf(format, args...), plain})
	}
	if slices.ContainsFunc(r.Pairs, func(p trials.Pair) bool { return p.Noise }) {
		add("~", "likely noise, or too few to tell: by the U test such a difference comes up in more than %g of 100 cases where there is none", 100*trials.Alpha)
	}
	if slices.ContainsFunc(r.Arms, func(a trials.ComparedArm) bool { return len(a.Settings) > 0 && settingsOf(&a) != a.Name }) {
		add("arms", "%s", byArm(r.Arms, func(a *trials.ComparedArm) string {
			if len(a.Settings) == 0 {
				return "the flags as they are"
			}
			return settingsOf(a)
		}))
	}
	add("rests on", "%s", restsOn(r))
	add("load", "%s", byArm(r.Arms, armLoad))
	if first := r.Arms[0]; !r.DurabilityDiffers {
		_, shade := durability(first.Effective, first.Env)
		notes = append(notes, note{"durable", byArm(r.Arms, armDurability), shade})
	}
	// What differs between the arms is in the head.
	add("database", "%s", common(r.Arms,
		func(a *trials.ComparedArm) string { return "SQLite " + a.Env.SQLite },
		func(a *trials.ComparedArm) string { return fmt.Sprintf("page_size=%d", a.Effective.PageSize) },
		func(a *trials.ComparedArm) string { return fmt.Sprintf("cache_size=%d", a.Effective.CacheSize) },
		func(a *trials.ComparedArm) string { return "checkpoint " + a.Effective.Checkpoint },
		func(a *trials.ComparedArm) string {
			return "batches of at most " + count(int64(a.Effective.MaxBatch))
		}))
	add("machine", "%s", common(r.Arms,
		func(a *trials.ComparedArm) string { return a.Env.CPU },
		func(a *trials.ComparedArm) string { return plural(int64(a.Env.CPUs), "CPU") },
		func(a *trials.ComparedArm) string { return size(a.Env.MemoryBytes) + " memory" },
		func(a *trials.ComparedArm) string { return a.Env.Filesystem },
		func(a *trials.ComparedArm) string { return a.Env.Go },
		func(a *trials.ComparedArm) string { return fmt.Sprintf("GOMAXPROCS=%d", a.Env.GOMAXPROCS) },
		func(a *trials.ComparedArm) string { return fmt.Sprintf("GOGC=%d", a.Env.GOGC) }))
	return notes
}

// common is what can be said of every arm in the same words.
func common(arms []trials.ComparedArm, says ...func(*trials.ComparedArm) string) string {
	var parts []string
	for _, say := range says {
		text := say(&arms[0])
		if !slices.ContainsFunc(arms[1:], func(a trials.ComparedArm) bool { return say(&a) != text }) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// restsOn says how often the arms were measured, and what the figures are.
func restsOn(r *trials.CompareResult) string {
	confidence := 1.0
	for k := range r.Arms {
		confidence = min(confidence, figureOf(r).of(&r.Arms[k]).Confidence)
	}
	medians := fmt.Sprintf("medians, and intervals that hold them with %.3g %% confidence", 100*confidence)
	if confidence == 0 {
		medians = "medians without an interval"
	}
	if r.Interleaved {
		return fmt.Sprintf("%s, interleaved: %s; ratios within each round", plural(int64(r.Rounds), "round"), medians)
	}
	return fmt.Sprintf("%s: %s; ratios of the medians, which have no interval",
		byArm(r.Arms, func(a *trials.ComparedArm) string { return plural(int64(a.TPS.N), "run") }), medians)
}

// armLoad describes the load of an arm.
func armLoad(a *trials.ComparedArm) string {
	l := a.Load
	text := a.Scenario + ": " + offered(l)
	if l.Rows > 0 {
		text += over(l) + cached(l)
	}
	if len(l.Scripts) > 0 {
		text += ", " + strings.Join(l.Scripts, ", ")
	}
	return text + fmt.Sprintf(", random seed %d in the last one", l.RandomSeed)
}

// compareDoubts are the warnings that the head has not said already.
func compareDoubts(r *trials.CompareResult) (doubts []string) {
	for _, warning := range r.Warnings {
		if !strings.HasPrefix(warning, "durability differs: ") && !strings.HasPrefix(warning, "besides ") {
			doubts = append(doubts, warning)
		}
	}
	return doubts
}
