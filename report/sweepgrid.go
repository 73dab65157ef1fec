package report

import (
	"fmt"
	"strings"

	"github.com/tpssim/tpssim/trials"
)

// sweepGrid is the table of the cells, of one load or of all.
func sweepGrid(r *trials.SweepResult, load *string) *grid {
	g := &grid{columns: []column{{title: " "}, {name: "cell", title: "cell", right: true}, {name: "load"}}}
	if load == nil && len(r.Loads()) > 1 {
		g.columns[2].title = "load"
	}
	names := settingNames(r)
	for _, name := range names {
		title := name
		if _, constant := constantSetting(r, name); constant {
			title = ""
		}
		g.columns = append(g.columns, column{name: name, title: title, right: true})
	}
	g.columns = append(g.columns, column{name: "n", title: "n", right: true, wide: true})
	for _, prefix := range []string{"", "final_"} {
		if prefix != "" {
			g.columns = append(g.columns, column{name: "final_n"})
		}
		for _, f := range comparedFigures {
			title := f.title
			if prefix != "" {
				title = ""
			}
			base, unit := f.name, ""
			if of, ok := strings.CutSuffix(f.name, "_ns"); ok {
				base, unit = of, "_ns"
			}
			g.columns = append(g.columns, column{name: prefix + f.name, title: title, right: true},
				column{name: prefix + base + "_low" + unit}, column{name: prefix + base + "_high" + unit})
		}
		g.columns = append(g.columns, column{name: prefix + "held"})
	}
	g.columns = append(g.columns, column{name: "frontier"}, column{name: "same_as"}, column{name: "chosen"},
		column{name: "journal_mode"}, column{name: "synchronous"}, column{name: "durable"}, column{name: "durability_differs"},
		column{name: "proof"}, column{name: "interrupted"})
	for k := range r.Cells {
		if c := &r.Cells[k]; load == nil || c.LoadName == *load {
			g.add(sweepRow(r, c, names)...)
		}
	}
	return g
}

// sweepRow is the row of a cell.
func sweepRow(r *trials.SweepResult, c *trials.SweptCell, names []string) []cell {
	mark, shade := cell{}, plain
	if c.Frontier {
		mark, shade = cell{text: "*"}, bold
	}
	row := []cell{mark, {text: fmt.Sprint(c.Cell), value: c.Cell, color: shade}, words(c.LoadName)}
	for _, name := range names {
		value := cell{}
		for _, s := range c.Settings {
			if s.Name == name {
				value = words(s.Value)
			}
		}
		row = append(row, value)
	}
	row = append(row, cell{text: count(int64(c.TPS.N)), value: c.TPS.N})
	row = append(row, sweptCells(r, c, &c.SweepFigures, shade)...)
	if c.Final == nil {
		row = append(row, make([]cell, 2+3*len(comparedFigures))...)
	} else {
		row = append(append(row, cell{value: c.Final.TPS.N}), sweptCells(r, c, c.Final, plain)...)
	}
	var chosen []string
	for _, choice := range r.Choices {
		if choice.Cell == c.Cell {
			chosen = append(chosen, choice.Kind)
		}
	}
	same, promise := cell{}, ""
	if c.SameAs > 0 {
		same.value = c.SameAs
	}
	if c.TPS.N > 0 {
		promise, _ = durability(c.Effective, c.Env)
	}
	return append(row, cell{value: c.Frontier}, same, words(strings.Join(chosen, " ")),
		words(c.Effective.JournalMode), words(c.Effective.Synchronous), words(promise), cell{value: r.DurabilityDiffers},
		words(proofNote(r.Verify).text), cell{value: r.Interrupted})
}

// growthGrid is the table of how the cells of a load grew, nil when none was measured
// in parts.
func growthGrid(r *trials.SweepResult, load string) *grid {
	parts := 0
	for _, c := range r.Cells {
		if c.LoadName == load {
			parts = max(parts, len(c.Growth))
		}
	}
	if parts < 2 {
		return nil
	}
	g := &grid{columns: []column{{name: "cell", title: "cell", right: true}, {name: "what", title: "what"}}}
	for k := range r.Cells {
		c := &r.Cells[k]
		if c.LoadName != load || len(c.Growth) < parts {
			continue
		}
		row := []cell{{text: fmt.Sprint(c.Cell), value: c.Cell}, words(cellTitle(c))}
		for _, part := range c.Growth {
			if len(g.columns) < 2+parts {
				g.columns = append(g.columns, column{title: count(part.Rows), right: true})
			}
			row = append(row, cell{text: rate(part.TPS.Median), value: part.TPS.Median})
		}
		g.add(row...)
	}
	return g
}

// cellTitle is the arm of a cell, or else its settings.
func cellTitle(c *trials.SweptCell) string {
	var parts []string
	for _, s := range c.Settings {
		if s.Name == trials.ArmSetting {
			return s.Value
		}
		parts = append(parts, s.Name+"="+s.Value)
	}
	return strings.Join(parts, ",")
}

// sweptCells are the figures of a cell, and how often the objectives held.
func sweptCells(r *trials.SweepResult, c *trials.SweptCell, figures *trials.SweepFigures, shade string) (cells []cell) {
	arm := sweptArm(c, figures)
	for _, f := range comparedFigures {
		s := f.of(arm)
		if s.N == 0 {
			cells = append(cells, cell{text: "-"}, cell{}, cell{})
			continue
		}
		cells = append(cells, cell{text: f.show(s.Median), value: s.Median, color: shade}, cell{value: s.Low}, cell{value: s.High})
	}
	held := cell{}
	if len(r.SLO) > 0 {
		held.value = figures.Held
	}
	return append(cells, held)
}

// narrowed leaves out what is least missed until the table has room on a page.
func narrowed(g *grid) *grid {
	for _, title := range []string{"settled", "p50"} {
		wide := 0
		for k, c := range g.columns {
			if c.title != "" && !c.wide {
				wide += 2 + g.width(k)
			}
		}
		for k := range g.columns {
			if wide > columns && g.columns[k].title == title {
				g.columns[k].wide = true
			}
		}
	}
	return g
}

// finals is the table of the finalists' own rounds, as text.
func (p *page) finals(r *trials.SweepResult) {
	if g := finalGrid(r); len(g.rows) > 0 {
		fmt.Fprintf(p, "\n  measured again, interleaved:\n")
		p.grid(g)
	}
}

// finalGrid is the table of the finalists' own rounds.
func finalGrid(r *trials.SweepResult) *grid {
	g := &grid{columns: []column{{title: "cell", right: true}, {title: "rounds", right: true}, {title: "TPS", right: true}, {title: "low to high", right: true},
		{title: "p99", right: true}, {title: "low to high", right: true}}}
	if len(r.SLO) > 0 {
		g.columns = append(g.columns, column{title: "held", right: true})
	}
	for k := range r.Cells {
		c := &r.Cells[k]
		if c.Final == nil {
			continue
		}
		row := []cell{{text: fmt.Sprint(c.Cell)}, {text: fmt.Sprint(c.Final.TPS.N)}}
		arm := sweptArm(c, c.Final)
		for _, f := range []compared{comparedFigures[0], comparedFigures[3]} {
			s := f.of(arm)
			row = append(row, cell{text: f.show(s.Median)}, cell{text: f.narrow(s.Low) + " to " + f.narrow(s.High)})
		}
		if len(r.SLO) > 0 {
			row = append(row, cell{text: fmt.Sprint(c.Final.Held)})
		}
		g.add(row...)
	}
	return g
}
