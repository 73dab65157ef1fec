package trials

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/tpssim/tpssim/tps"
)

// conclude draws the result from the runs that are done.
func (c *SweepConfig) conclude(done []SweepRun) *SweepResult {
	r := &SweepResult{
		Schema: SweepResultSchema, Argv: []string{}, Base: []Setting{}, Rounds: c.rounds(), SLO: []string{},
		Cells: c.swept(done), Choices: []SweepChoice{}, Warnings: []string{},
	}
	for _, t := range c.SLO {
		r.SLO = append(r.SLO, t.String())
	}
	for k, run := range done {
		addProof(&r.Verify, run.Result.Verify, k == 0)
		r.Env = run.Result.Env
	}
	r.Noise = noiseOf(r.Cells)
	r.doubt(c, done)
	if grid := c.rounds() * len(c.Cells); len(done) >= grid && len(c.finalists(done[:grid])) > 0 {
		r.FinalRounds = FinalRounds
	}
	if len(c.Plan(done)) == 0 && !(r.Verify.Checked && !r.Verify.OK) {
		for _, load := range r.Loads() {
			r.Choices = append(r.Choices, c.choose(load, r.Cells)...)
		}
	}
	return r
}

// swept summarises the cells, in the order of their numbers.
func (c *SweepConfig) swept(done []SweepRun) []SweptCell {
	grid, final := make([][]*tps.Result, len(c.Cells)), make([][]*tps.Result, len(c.Cells))
	for _, run := range done {
		into := grid
		if run.Phase == FinalPhase {
			into = final
		}
		into[run.Cell-1] = append(into[run.Cell-1], run.Result)
	}
	cells := make([]SweptCell, len(c.Cells))
	for k, of := range c.Cells {
		cell := &cells[k]
		cell.Cell, cell.LoadName, cell.Settings = k+1, of.Load, append([]Setting{}, of.Settings...)
		cell.SweepFigures = c.figures(grid[k])
		cell.Load = tps.Load{Stages: []tps.Stage{}, Scripts: []string{}}
		if len(grid[k]) > 0 {
			first := grid[k][0]
			cell.Scenario, cell.Load, cell.Effective, cell.Env = first.Scenario, first.Load, first.Settings, first.Env
			cell.Load.Stages, cell.Load.Scripts = append([]tps.Stage{}, first.Load.Stages...), append([]string{}, first.Load.Scripts...)
		}
		cell.Growth = growthOf(grid[k])
		if len(final[k]) > 0 {
			f := c.figures(final[k])
			cell.Final = &f
		}
	}
	for k := range cells {
		for _, before := range cells[:k] {
			if cells[k].SameAs == 0 && sameCell(before, cells[k]) {
				cells[k].SameAs = before.Cell
			}
		}
	}
	for _, load := range loadsOf(cells) {
		for _, k := range frontier(cells, measuredOf(cells, load)) {
			cells[k].Frontier = true
		}
	}
	return cells
}

// growthOf summarises the parts that all runs of a cell have in common.
func growthOf(runs []*tps.Result) []SweptGrowth {
	list := []SweptGrowth{}
	if len(runs) == 0 {
		return list
	}
	for k, part := range runs[0].Growth {
		var speed, p99 []float64
		for _, run := range runs {
			if k < len(run.Growth) && run.Growth[k].Rows == part.Rows {
				speed, p99 = append(speed, run.Growth[k].TPS), append(p99, float64(run.Growth[k].Batch.P99))
			}
		}
		list = append(list, SweptGrowth{part.Rows, Summarize(speed), Summarize(p99)})
	}
	return list
}

// figures summarises the runs of a cell.
func (c *SweepConfig) figures(runs []*tps.Result) SweepFigures {
	of := func(figure func(*tps.Result) float64) Summary {
		values := make([]float64, len(runs))
		for k, run := range runs {
			values[k] = figure(run)
		}
		return Summarize(values)
	}
	f := SweepFigures{
		TPS:        of(func(r *tps.Result) float64 { return r.TPS }),
		TPSSettled: of(func(r *tps.Result) float64 { return r.TPSSettled }),
		P50:        of(func(r *tps.Result) float64 { return float64(r.Latency.P50) }),
		P99:        of(func(r *tps.Result) float64 { return float64(r.Latency.P99) }),
	}
	for _, run := range runs {
		if len(c.SLO) > 0 && !slices.ContainsFunc(c.SLO, func(t tps.Threshold) bool { return !t.Check(run).OK }) {
			f.Held++
		}
	}
	return f
}

// holds tells whether the objectives held more often than not.
func (f *SweepFigures) holds() bool { return 2*f.Held > f.TPS.N }

// readBack are the flags whose whole effect stands in a result's Settings and Load.
// Cells that differ in another flag are not the same, whatever was read back.
var readBack = []string{
	"sync", "journal-mode", "page-size", "cache-size", "mmap-size", "checkpoint", "max-batch", "max-batch-time", "batch-window", "queue",
	"savepoints", "readers", "prefetch", "rows", "dist", "layout", "reads", "think", "max-tries", "cache", "pin-reader",
	"payload", "keys", "without-rowid", "sorted", ArmSetting,
	"transactions", "duration", "concurrency", "rate", "arrival", "burst-size", "stage", "max-in-flight", "warmup", "latency-limit",
}

// sameCell tells whether two cells are the same thing twice.
func sameCell(a, b SweptCell) bool {
	if a.LoadName != b.LoadName || a.TPS.N == 0 || b.TPS.N == 0 || a.Scenario != b.Scenario || a.Effective != b.Effective {
		return false
	}
	for _, s := range slices.Concat(a.Settings, b.Settings) {
		if settingOf(a, s.Name) != settingOf(b, s.Name) && !slices.Contains(readBack, s.Name) {
			return false
		}
	}
	return reflect.DeepEqual(a.Load, b.Load)
}

// noiseOf is the largest ratio between cells that are the same, of each load that has
// such.
func noiseOf(cells []SweptCell) []SweepNoise {
	list := []SweepNoise{}
	for _, load := range loadsOf(cells) {
		n := SweepNoise{Load: load, Cells: []int{}, TPS: 1, P99: 1}
		for _, first := range cells {
			group := slices.DeleteFunc(slices.Clone(cells), func(c SweptCell) bool { return c.Cell != first.Cell && c.SameAs != first.Cell })
			if first.LoadName != load || len(group) == 1 {
				continue
			}
			for _, c := range group {
				n.Cells = append(n.Cells, c.Cell)
			}
			n.TPS = max(n.TPS, spread(group, func(c SweptCell) float64 { return c.TPS.Median }))
			n.P99 = max(n.P99, spread(group, func(c SweptCell) float64 { return c.P99.Median }))
		}
		if len(n.Cells) > 0 {
			slices.Sort(n.Cells)
			list = append(list, n)
		}
	}
	return list
}

// spread is the largest of some values over the smallest; 1 when that is 0.
func spread(cells []SweptCell, of func(SweptCell) float64) float64 {
	low, high := math.Inf(1), 0.0
	for _, c := range cells {
		low, high = min(low, of(c)), max(high, of(c))
	}
	if low <= 0 {
		return 1
	}
	return high / low
}

// keptUp is the share of a rate from which on a cell has kept up with it: above it
// lies how the arrivals of the last second happened to fall.
const keptUp = 0.99

// speed is the TPS by which cells are told apart. At a rate no cell can be faster than
// that, so that all that kept up are equally fast.
func speed(c SweptCell, f *SweepFigures) float64 {
	if c.Load.Mode == tps.OpenLoop && c.Load.Rate > 0 {
		return min(f.TPS.Median, keptUp*c.Load.Rate)
	}
	return f.TPS.Median
}

// measuredOf are the cells of a load with a run, by their index.
func measuredOf(cells []SweptCell, load string) (list []int) {
	for k, c := range cells {
		if c.LoadName == load && c.TPS.N > 0 {
			list = append(list, k)
		}
	}
	return list
}

// frontier are those of some cells that no other one of them beats on both TPS and p99,
// the fastest first.
func frontier(cells []SweptCell, of []int) (list []int) {
	beats := func(a, b SweptCell) bool {
		fast, beside := cmp.Compare(speed(a, &a.SweepFigures), speed(b, &b.SweepFigures)), cmp.Compare(b.P99.Median, a.P99.Median)
		return fast >= 0 && beside >= 0 && fast+beside > 0
	}
	for _, k := range of {
		if !slices.ContainsFunc(of, func(n int) bool { return beats(cells[n], cells[k]) }) {
			list = append(list, k)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int {
		return byMerit(cells[a], cells[b], &cells[a].SweepFigures, &cells[b].SweepFigures)
	})
	return list
}

// byMerit sorts the faster of two cells first, and of two that are as fast the one with
// the lower p99.
func byMerit(a, b SweptCell, fa, fb *SweepFigures) int {
	return cmp.Or(cmp.Compare(speed(b, fb), speed(a, fa)), cmp.Compare(fa.P99.Median, fb.P99.Median), a.Cell-b.Cell)
}

// finalists are the cells that are measured again, by their index, in the order of
// their numbers: of each load those of the frontier, or of the frontier among the cells
// that hold the objectives, where there are any. A single one has the runner-up
// beside it. None are there where no cell holds, and without objectives where only one
// cell is: there is nothing to choose.
func (c *SweepConfig) finalists(grid []SweepRun) (list []int) {
	cells := c.swept(grid)
	for _, load := range loadsOf(cells) {
		pool := measuredOf(cells, load)
		if len(c.SLO) > 0 {
			pool = slices.DeleteFunc(pool, func(k int) bool { return !cells[k].holds() })
		}
		pool = slices.DeleteFunc(pool, func(k int) bool { // the first stands for all that are the same
			return cells[k].SameAs > 0 && slices.Contains(pool, cells[k].SameAs-1)
		})
		chosen := frontier(cells, pool)
		if len(chosen) > MaxFinalists && len(c.SLO) > 0 {
			chosen = chosen[:MaxFinalists]
		}
		chosen = evenly(chosen, MaxFinalists)
		if len(chosen) == 1 {
			rest := slices.DeleteFunc(pool, func(k int) bool { return k == chosen[0] })
			if next := frontier(cells, rest); len(next) > 0 {
				chosen = append(chosen, next[0])
			}
		}
		if len(chosen) > 1 || len(c.SLO) > 0 {
			list = append(list, chosen...)
		}
	}
	slices.Sort(list)
	return list
}

// evenly takes at most n of a list, its ends among them.
func evenly(list []int, n int) []int {
	if len(list) <= n {
		return list
	}
	taken := make([]int, n)
	for k := range taken {
		taken[k] = list[(k*(len(list)-1)+(n-1)/2)/(n-1)]
	}
	return taken
}

// choose says what is recommended for a load when all is measured.
func (c *SweepConfig) choose(load string, cells []SweptCell) []SweepChoice {
	var finals []SweptCell
	for _, cell := range cells {
		if cell.LoadName == load && cell.Final != nil {
			finals = append(finals, cell)
		}
	}
	eligible := slices.Clone(finals)
	if len(c.SLO) > 0 {
		eligible = slices.DeleteFunc(eligible, func(cell SweptCell) bool { return !cell.Final.holds() })
		if len(eligible) == 0 {
			return []SweepChoice{{Load: load, Kind: NoneHolds, Alike: []int{}}}
		}
	}
	if len(eligible) == 0 {
		return nil
	}
	slices.SortFunc(eligible, func(a, b SweptCell) int { return byMerit(a, b, a.Final, b.Final) })
	fastest := eligible[0]
	lowest := slices.MinFunc(eligible, func(a, b SweptCell) int { return cmp.Compare(a.Final.P99.Median, b.Final.P99.Median) })
	switch {
	case len(c.SLO) > 0:
		return []SweepChoice{chosen(MostTPS, fastest, eligible, byTPS(fastest, eligible))}
	case fastest.Final.P99.Median == lowest.Final.P99.Median:
		return []SweepChoice{chosen(BestOf, fastest, eligible, byTPS(fastest, eligible))}
	}
	return []SweepChoice{chosen(MostTPS, fastest, eligible, byTPS(fastest, eligible)), chosen(LowestP99, lowest, eligible, "p99_ns")}
}

// byTPS names the figure in which the fastest was chosen: where another one is as fast,
// which is so at a rate, it was its p99.
func byTPS(fastest SweptCell, of []SweptCell) string {
	for _, c := range of {
		if c.Cell != fastest.Cell && speed(c, c.Final) == speed(fastest, fastest.Final) {
			return "p99_ns"
		}
	}
	return "tps"
}

// chosen is a choice with those that cannot be told apart from it.
func chosen(kind string, best SweptCell, of []SweptCell, figure string) SweepChoice {
	choice := SweepChoice{Load: best.LoadName, Kind: kind, Cell: best.Cell, Alike: []int{}, Figure: figure}
	values := func(c SweptCell) []float64 {
		if figure == "tps" {
			return c.Final.TPS.Values
		}
		return c.Final.P99.Values
	}
	var others []int
	var p []float64
	for _, c := range of {
		// Who fell behind a rate is not the same for having as low a p99.
		if c.Cell != best.Cell && (figure == "tps" || speed(c, c.Final) >= speed(best, best.Final)) {
			others, p = append(others, c.Cell), append(p, CompareValues(values(c), values(best)).P)
		}
	}
	for k, adjusted := range Holm(p) {
		if adjusted > Alpha {
			choice.Alike = append(choice.Alike, others[k])
		}
	}
	slices.Sort(choice.Alike)
	return choice
}

// doubt adds what leaves the result in doubt.
func (r *SweepResult) doubt(c *SweepConfig, done []SweepRun) {
	promises := map[string]bool{}
	machines := map[tps.Env]bool{}
	runs := make([][]*tps.Result, len(c.Cells))
	for _, run := range done {
		promises[PromiseOf(run.Result.Settings, run.Result.Env).Text] = true
		env := run.Result.Env
		env.DBBytes, env.Filesystem = 0, "" // each data set has its own
		machines[env] = true
		runs[run.Cell-1] = append(runs[run.Cell-1], run.Result)
	}
	r.DurabilityDiffers = len(promises) > 1
	if all := c.rounds() * len(c.Cells); len(done) < all {
		r.warn("%d of the %d runs over the grid were made: nothing is recommended yet", len(done), all)
	} else if left := len(c.Plan(done)); left > 0 {
		r.warn("%d runs of the finalists are missing: nothing is recommended yet", left)
	}
	if len(machines) > 1 {
		r.warn("not all runs were made on the same machine and by the same build: what that changes is in the differences")
	}
	r.Warnings = append(r.Warnings, gather(runs, cellsText)...)
}

func (r *SweepResult) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// cellsText names cells by their index, of many the first.
func cellsText(cells []int) string {
	const most = 8
	var names []string
	for _, k := range cells[:min(len(cells), most)] {
		names = append(names, fmt.Sprint(k+1))
	}
	text := strings.Join(names, ", ")
	if len(cells) > most {
		text += fmt.Sprintf(" and %d more", len(cells)-most)
	}
	if len(cells) == 1 {
		return "cell " + text
	}
	return "cells " + text
}
