package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// Sweep renders a sweep for a person: what is recommended in the first lines, then a
// table for each load with the frontier marked, the finalists measured again, how much
// of it is noise, and every doubt. The cells are in the order of the result, see
// [trials.SweepResult.Sort]. Lines stay within 80 columns where the settings leave
// room. With color the recommendation, the frontier and the doubts stand out.
func Sweep(r *trials.SweepResult, color bool) Renderer {
	return func(w io.Writer) error {
		p := &page{color: color}
		for _, n := range sweepAnswers(r) {
			for _, line := range wrap(n.text, columns) {
				fmt.Fprintln(p, p.paint(n.color, line))
			}
		}
		p.section(sweepHead(r))
		for _, load := range r.Loads() {
			p.WriteByte('\n')
			if load != "" {
				fmt.Fprintf(p, "  at %s:\n", load)
			}
			p.grid(narrowed(sweepGrid(r, &load)))
			if g := growthGrid(r, load); g != nil {
				fmt.Fprintf(p, "\n  rows/s of each part, up to so many rows:\n")
				p.grid(g)
			}
		}
		p.finals(r)
		p.section(sweepBasis(r))
		p.outcome(&tps.Result{Verify: r.Verify, Warnings: r.Warnings})
		_, err := w.Write(p.Bytes())
		return err
	}
}

// SweepAs renders a sweep as "csv" (a row a cell), "markdown", or "bench": the Go
// benchmark format with a line for each run over the grid. Any other format is an error.
func SweepAs(format string, r *trials.SweepResult) (Renderer, error) {
	switch format {
	case csvFormat:
		return sweepGrid(r, nil).csv(), nil
	case markdownFormat:
		return sweepMarkdown(r), nil
	case benchFormat:
		return sweepBench(r), nil
	}
	return nil, noFormat(format)
}

// sweptArm is a cell with some of its figures as an arm, so that both are shown alike.
func sweptArm(c *trials.SweptCell, f *trials.SweepFigures) *trials.ComparedArm {
	return &trials.ComparedArm{
		Name: cellName(c.Cell), Settings: c.Settings, Scenario: c.Scenario, Load: c.Load, Effective: c.Effective, Env: c.Env,
		TPS: f.TPS, TPSSettled: f.TPSSettled, P50: f.P50, P99: f.P99,
	}
}

func cellName(number int) string { return fmt.Sprintf("cell %d", number) }

// sweepAnswers are the first lines: what is recommended, or why nothing is.
func sweepAnswers(r *trials.SweepResult) (answers []note) {
	if r.Verify.Checked && !r.Verify.OK {
		return []note{{text: "The proof FAILED: nothing that was measured counts", color: red}}
	}
	for _, c := range r.Choices {
		answers = append(answers, sweepAnswer(r, c))
	}
	if len(answers) > 0 {
		return answers
	}
	text := "Nothing is recommended: there was nothing to choose from"
	if r.Interrupted || slices.ContainsFunc(r.Cells, func(c trials.SweptCell) bool { return c.TPS.N < r.Rounds }) {
		text = "Nothing is recommended yet: not all was measured"
	}
	if r.Interrupted {
		text += ", as it was interrupted"
	}
	return []note{{text: text, color: yellow}}
}

// sweepAnswer says one recommendation in words.
func sweepAnswer(r *trials.SweepResult, choice trials.SweepChoice) note {
	load := ""
	if choice.Load != "" {
		load = "At " + choice.Load + ": "
	}
	slo := strings.Join(r.SLO, " and ")
	c := r.Cell(choice.Cell)
	if choice.Kind == trials.NoneHolds || c == nil || c.Final == nil {
		text := load + "no cell holds " + slo + " in more than half of its rounds"
		if k := slices.IndexFunc(r.Cells, func(c trials.SweptCell) bool { return c.LoadName == choice.Load }); k >= 0 && r.Cells[k].Load.Mode == tps.Burst {
			text += " (in a burst a latency is a place in the queue)"
		}
		return note{text: text, color: yellow}
	}
	name := cellName(c.Cell)
	if len(c.Settings) > 0 {
		name += " (" + settingsOf(sweptArm(c, c.Final)) + ")"
	}
	atRate := c.Load.Mode == tps.OpenLoop
	verb := map[string]string{trials.MostTPS: "is the fastest", trials.LowestP99: "has the lowest p99", trials.BestOf: "is the fastest and has the lowest p99"}[choice.Kind]
	switch {
	case len(r.SLO) > 0:
		verb = "is the fastest of those that hold " + slo
		if atRate && choice.Figure == "p99_ns" {
			verb = "has the lowest p99 of those that keep up and hold " + slo
		}
	case atRate && choice.Kind == trials.BestOf:
		verb = "keeps up with the lowest p99"
	}
	text := fmt.Sprintf("%s%s %s: %s TPS, p99 %s", load, name, verb, rate(c.Final.TPS.Median), shortNanoseconds(c.Final.P99.Median))
	if len(r.SLO) > 0 {
		text += fmt.Sprintf(", held in %d of %s", c.Final.Held, plural(int64(c.Final.TPS.N), "round"))
	}
	if r.DurabilityDiffers {
		promise, _ := durability(c.Effective, c.Env)
		text += "; durable " + promise
	}
	if len(choice.Alike) > 0 {
		text += "; ~ not to be told apart from it: " + cellNumbers(choice.Alike)
	}
	return note{text: text, color: bold}
}

// cellNumbers names cells, of many the first.
func cellNumbers(cells []int) string {
	const most = 8
	var names []string
	for _, n := range cells {
		names = append(names, fmt.Sprint(n))
	}
	switch {
	case len(names) == 1:
		return "cell " + names[0]
	case len(names) > most:
		return fmt.Sprintf("cells %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "cells " + english.WordSeries(names, "and")
}

// sweepHead is what makes the cells unlike besides what is swept.
func sweepHead(r *trials.SweepResult) (notes []note) {
	if !r.DurabilityDiffers {
		return nil
	}
	return []note{{"durable", "DIFFERS: " + sweptDurability(r), red}}
}

// sweptDurability is what the cells' acknowledgements are worth.
func sweptDurability(r *trials.SweepResult) string {
	var promises []string
	cells := map[string][]int{}
	for _, c := range r.Cells {
		if c.TPS.N > 0 {
			promise := armDurability(sweptArm(&c, &c.SweepFigures))
			if cells[promise] == nil {
				promises = append(promises, promise)
			}
			cells[promise] = append(cells[promise], c.Cell)
		}
	}
	if len(promises) == 1 {
		return promises[0]
	}
	for k, promise := range promises {
		slices.Sort(cells[promise])
		promises[k] = cellNumbers(cells[promise]) + ": " + promise
	}
	return strings.Join(promises, "; ")
}

// measuredArms are the cells with a run.
func measuredArms(r *trials.SweepResult) (arms []trials.ComparedArm) {
	for k := range r.Cells {
		if c := &r.Cells[k]; c.TPS.N > 0 {
			arm := sweptArm(c, &c.SweepFigures)
			arm.Name = fmt.Sprint(c.Cell)
			arms = append(arms, *arm)
		}
	}
	return arms
}

// settingNames are the flags that are swept, in their order.
func settingNames(r *trials.SweepResult) (names []string) {
	for _, c := range r.Cells {
		for _, s := range c.Settings {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// constantSetting tells whether all cells have the same value of a setting, and which.
func constantSetting(r *trials.SweepResult, name string) (value string, constant bool) {
	for k, c := range r.Cells {
		of := trials.Setting{Name: name}
		for _, s := range c.Settings {
			if s.Name == name {
				of = s
			}
		}
		if k > 0 && of.Value != value {
			return "", false
		}
		value = of.Value
	}
	return value, true
}

// sweepBasis says what the figures rest on.
func sweepBasis(r *trials.SweepResult) (notes []note) {
	add := func(label, format string, args ...any) {
		notes = append(notes, note{label, fmt.Sprintf(format, args...), plain})
	}
	arms := measuredArms(r)
	if len(arms) == 0 {
		return nil
	}
	if slices.ContainsFunc(r.Cells, func(c trials.SweptCell) bool { return c.Load.Mode == tps.OpenLoop }) {
		add("*", "the frontier: no other cell beats these on both TPS and p99; at a rate, whether they keep up and p99")
	} else {
		add("*", "the frontier: no other cell beats these on both TPS and p99")
	}
	var common []string
	for _, name := range settingNames(r) {
		if value, constant := constantSetting(r, name); constant {
			common = append(common, name+"="+value)
		}
	}
	if len(common) > 0 {
		add("all cells", "%s", strings.Join(common, ", "))
	}
	for _, n := range r.Noise {
		add("noise", "%s are the same as another one, and yet differ by up to %s times in TPS and %s times in p99: less than that between others may be nothing",
			cellNumbers(n.Cells), ratio(n.TPS), ratio(n.P99))
	}
	if len(r.Noise) == 0 {
		add("noise", "unknown: no cell is there twice; a value given twice, as --param sync=full,full, shows it")
	}
	add("rounds", "%s over all cells, interleaved: medians%s", plural(int64(r.Rounds), "round"), again(r))
	for _, load := range r.Loads() {
		var texts []string
		first := 0
		for _, c := range r.Cells {
			if c.LoadName != load || c.TPS.N == 0 {
				continue
			}
			text := fmt.Sprintf("%s: %s%s%s", c.Scenario, offered(c.Load), over(c.Load), cached(c.Load))
			if meaning := latencyMeaning(c.Load.Mode); meaning != "" {
				text += "; its latency is " + meaning
			}
			if len(texts) == 0 {
				first = c.Cell
			}
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
		switch {
		case len(texts) == 1:
			add("load", "%s", texts[0])
		case len(texts) > 1:
			add("load", "cell %d: %s; of the others what their settings say", first, texts[0])
		}
	}
	if !r.DurabilityDiffers {
		_, shade := durability(arms[0].Effective, r.Env)
		notes = append(notes, note{"durable", sweptDurability(r), shade})
	}
	e := r.Env
	add("machine", "%s, %s, %s memory, %s, SQLite %s, %s, GOMAXPROCS=%d, GOGC=%d",
		e.CPU, plural(int64(e.CPUs), "CPU"), size(e.MemoryBytes), sweptFilesystems(r), e.SQLite, e.Go, e.GOMAXPROCS, e.GOGC)
	add("repeat with", "--random-seed %d", r.RandomSeed)
	return notes
}

// sweptFilesystems are those that the cells' databases lie on.
func sweptFilesystems(r *trials.SweepResult) string {
	var names []string
	for _, arm := range measuredArms(r) {
		if !slices.Contains(names, arm.Env.Filesystem) {
			names = append(names, arm.Env.Filesystem)
		}
	}
	return strings.Join(names, " and ")
}

// again says why some cells were measured again.
func again(r *trials.SweepResult) string {
	if r.FinalRounds == 0 {
		return ""
	}
	return fmt.Sprintf("; then %d of the finalists only, as the best of many is partly the luckiest", r.FinalRounds)
}

// sweepMarkdown renders a sweep as Markdown, with what its text has.
func sweepMarkdown(r *trials.SweepResult) Renderer {
	return func(w io.Writer) error {
		p := &page{}
		for _, n := range sweepAnswers(r) {
			fmt.Fprintf(p, "**%s**\n\n", literal.Replace(n.text))
		}
		p.bullets(sweepHead(r))
		p.WriteByte('\n')
		sweepGrid(r, nil).markdown(p)
		if g := finalGrid(r); len(g.rows) > 0 {
			p.WriteString("\nMeasured again, interleaved:\n\n")
			g.markdown(p)
		}
		p.WriteByte('\n')
		p.bullets(sweepBasis(r))
		p.bullets([]note{proofNote(r.Verify)})
		p.bullets(warningNotes(r.Warnings))
		_, err := w.Write(p.Bytes())
		return err
	}
}

// sweepBench renders a sweep in the benchmark format.
func sweepBench(r *trials.SweepResult) Renderer {
	return func(w io.Writer) error {
		p := &page{}
		arms := measuredArms(r)
		p.machineSettings(r.Env)
		if len(arms) > 0 {
			promise := sweptDurability(r)
			if r.DurabilityDiffers {
				promise = "DIFFERS: " + promise
			}
			p.setting("durable", promise)
		}
		p.setting("proof", proofSetting(r.Verify))
		for _, n := range append(sweepAnswers(r), warningNotes(r.Warnings)...) {
			if n.label == "" {
				n.label = "answer"
			}
			p.remark(n)
		}
		p.units(comparedFigures...)
		for k := range r.Cells {
			p.benchCell(r, &r.Cells[k])
		}
		_, err := w.Write(p.Bytes())
		return err
	}
}

// benchCell writes a line for each run of a cell over the grid.
func (p *page) benchCell(r *trials.SweepResult, c *trials.SweptCell) {
	parts := []string{c.Scenario, fmt.Sprintf("cell=%d", c.Cell)}
	if c.LoadName != "" {
		parts = append(parts, "load="+c.LoadName)
	}
	for _, s := range c.Settings {
		parts = append(parts, s.Name+"="+s.Value)
	}
	name, arm := benchName(r.Env.GOMAXPROCS, parts...), sweptArm(c, &c.SweepFigures)
	for round := range c.TPS.N {
		var values []string
		for _, f := range comparedFigures {
			if s := f.of(arm); round < len(s.Values) {
				values = append(values, benchValue(s.Values[round], f.unit))
			}
		}
		fmt.Fprintf(p, "%s 1 %s\n", name, strings.Join(values, " "))
	}
}
