package report

import (
	"strings"

	"github.com/tpssim/tpssim/trials"
)

// compareGrid is the table of the arms. The interval of the figure that is compared
// stands behind it; CSV has all of them.
func compareGrid(r *trials.CompareResult) *grid {
	g := &grid{columns: []column{
		{name: "arm", title: "arm"}, {name: "settings"}, {name: "n", title: "n", right: true, wide: true},
	}}
	for _, f := range comparedFigures {
		base, unit := f.name, ""
		if of, ok := strings.CutSuffix(f.name, "_ns"); ok {
			base, unit = of, "_ns"
		}
		g.columns = append(g.columns, column{name: f.name, title: f.title, right: true},
			column{name: base + "_low" + unit}, column{name: base + "_high" + unit})
		if f.name == figureOf(r).name {
			g.columns = append(g.columns, column{title: "low to high", right: true})
		}
	}
	g.columns = append(g.columns,
		column{name: "figure"}, column{name: "of"}, column{name: "ratio", title: "ratio", right: true},
		column{title: "its low to high", right: true, wide: true}, column{name: "ratio_low"}, column{name: "ratio_high"},
		column{name: "p"}, column{name: "p_adjusted", title: "p", right: true, wide: true}, column{name: "noise", title: "~"},
		column{name: "journal_mode"}, column{name: "synchronous"}, column{name: "durable", title: "durable", wide: true},
		column{name: "durability_differs"}, column{name: "interleaved"}, column{name: "aa"}, column{name: "besides"},
		column{name: "proof"}, column{name: "interrupted"}, column{name: "warnings"})
	for k := range r.Arms {
		g.add(compareRow(r, &r.Arms[k])...)
	}
	return g
}

// compareRow is the row of an arm.
func compareRow(r *trials.CompareResult, a *trials.ComparedArm) []cell {
	row := []cell{words(a.Name), words(settingsOf(a)), {text: count(int64(a.TPS.N)), value: a.TPS.N}}
	for _, f := range comparedFigures {
		s := f.of(a)
		row = append(row, cell{text: f.show(s.Median), value: s.Median}, cell{value: s.Low}, cell{value: s.High})
		if f.name == figureOf(r).name {
			row = append(row, cell{text: f.narrow(s.Low) + " to " + f.narrow(s.High)})
		}
	}
	row = append(row, words(figureOf(r).name))
	row = append(row, pairCells(r, a.Name)...)
	promise, _ := durability(a.Effective, a.Env)
	proof := proofNote(r.Verify)
	return append(row, words(a.Effective.JournalMode), words(a.Effective.Synchronous), words(promise),
		cell{value: r.DurabilityDiffers}, cell{value: r.Interleaved}, cell{value: r.AA}, words(differing(r.Differences, false)),
		words(proof.text), cell{value: r.Interrupted}, words(strings.Join(compareDoubts(r), "; ")))
}

// pairCells are what an arm comes to: "of" to "noise". The first arm is the measure.
func pairCells(r *trials.CompareResult, name string) []cell {
	for _, p := range r.Pairs {
		if p.Name != name {
			continue
		}
		low, high, span, tilde := cell{}, cell{}, cell{}, ""
		if p.Low != 0 || p.High != 0 {
			low, high, span = cell{value: p.Low}, cell{value: p.High}, cell{text: ratio(p.Low) + " to " + ratio(p.High)}
		}
		if p.Noise {
			tilde = "~"
		}
		return []cell{words(p.Of), {text: ratio(p.Ratio), value: p.Ratio}, span, low, high,
			{value: p.P}, {text: strings.TrimPrefix(probability(p.Adjusted), "p="), value: p.Adjusted}, {text: tilde, value: p.Noise}}
	}
	return []cell{{}, {text: "1"}, {}, {}, {}, {}, {}, {}}
}
