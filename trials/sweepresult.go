package trials

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// SweepResult is what [Sweep] found, in the order and with the names of the JSON
// object that tpssim prints. No list is ever null. Argv, Preset, RandomSeed and Base
// belong to the caller, see [SweepHead.Describe].
type SweepResult struct {
	Schema     string    `json:"schema"`
	StartedAt  time.Time `json:"started_at"`
	Argv       []string  `json:"argv"`
	Preset     string    `json:"preset"` // "": none
	RandomSeed uint64    `json:"random_seed"`
	Base       []Setting `json:"base"` // flags that are the same for all cells

	Rounds      int      `json:"rounds"`       // over the grid, as planned
	FinalRounds int      `json:"final_rounds"` // of the finalists, as planned; 0 when it did not come to that
	SLO         []string `json:"slo"`

	Cells []SweptCell `json:"cells"`
	// Noise is what identical cells differ by, for each load that has a cell twice.
	Noise []SweepNoise `json:"noise"`
	// Choices are what is recommended for each load, from the finalists' own rounds.
	// None before these are over.
	Choices []SweepChoice `json:"choices"`
	// DurabilityDiffers tells that not all cells promise the same after a power loss.
	DurabilityDiffers bool `json:"durability_differs"`

	Env         tps.Env    `json:"env"`    // of the last run
	Verify      tps.Verify `json:"verify"` // over all runs
	Interrupted bool       `json:"interrupted"`
	Warnings    []string   `json:"warnings"`
}

// SweepFigures summarise the runs of one cell.
type SweepFigures struct {
	TPS        Summary `json:"tps"`
	TPSSettled Summary `json:"tps_settled"`
	P50        Summary `json:"p50_ns"`
	P99        Summary `json:"p99_ns"`
	// Held is in how many of the runs every objective held; 0 without any.
	Held int `json:"held"`
}

// SweptCell is one cell over its rounds in the grid.
type SweptCell struct {
	Cell     int       `json:"cell"` // its number, from 1
	LoadName string    `json:"load_name"`
	Settings []Setting `json:"settings"`
	SweepFigures
	// Frontier tells that no other cell of the same load is at least as good in both
	// TPS and p99, and better in one of them, by the medians. At a rate, TPS says only
	// whether a cell kept up with it.
	Frontier bool `json:"frontier"`
	// SameAs is the first cell that is the same as this one in all that was read back;
	// 0: there is none before this one.
	SameAs int `json:"same_as"`
	// Final are the rounds in which the finalists were measured again; nil for the
	// other cells.
	Final *SweepFigures `json:"final,omitempty"`

	// Growth are the parts in which the cell's table was filled, over the rounds of the
	// grid; empty for other scenarios.
	Growth []SweptGrowth `json:"growth"`

	// Scenario to Env are those of the first run, as read back.
	Scenario  string       `json:"scenario"`
	Load      tps.Load     `json:"load"`
	Effective tps.Settings `json:"effective"`
	Env       tps.Env      `json:"env"`
}

// SweptGrowth is one part of a growth; see [tps.Growth].
type SweptGrowth struct {
	Rows int64   `json:"rows"` // at its end
	TPS  Summary `json:"tps"`  // rows a second, of this part
	P99  Summary `json:"p99_ns"`
}

// SweepNoise is the noise floor: the largest ratio between the medians of two cells
// that do not differ.
type SweepNoise struct {
	Load  string  `json:"load"`
	Cells []int   `json:"cells"` // those that are the same as another one
	TPS   float64 `json:"tps_ratio"`
	P99   float64 `json:"p99_ratio"`
}

// The kinds of a [SweepChoice].
const (
	MostTPS   = "most_tps"   // the fastest, of those that hold the objectives if there are any
	LowestP99 = "lowest_p99" // the other end of the frontier
	BestOf    = "best"       // the fastest, and nobody has a lower p99
	NoneHolds = "none"       // no cell holds the objectives
)

// SweepChoice is what is recommended for one load.
type SweepChoice struct {
	Load string `json:"load"`
	Kind string `json:"kind"`
	Cell int    `json:"cell"` // 0: none
	// Alike are finalists that cannot be told apart from it in Figure by their rounds:
	// by the U test, corrected for their number (see [Holm]).
	Alike  []int  `json:"alike"`
	Figure string `json:"figure"` // the name of a [Figure]; "" without a cell
}

// Cell returns a cell by its number, nil when there is none.
func (r *SweepResult) Cell(number int) *SweptCell {
	for k := range r.Cells {
		if r.Cells[k].Cell == number {
			return &r.Cells[k]
		}
	}
	return nil
}

// Loads are the names of the loads, in the order of the cells' numbers.
func (r *SweepResult) Loads() []string {
	cells := slices.Clone(r.Cells)
	slices.SortFunc(cells, func(a, b SweptCell) int { return a.Cell - b.Cell })
	return loadsOf(cells)
}

func loadsOf(cells []SweptCell) (names []string) {
	for _, c := range cells {
		if !slices.Contains(names, c.LoadName) {
			names = append(names, c.LoadName)
		}
	}
	return names
}

// Sort sorts the cells by a column: "cell", one of [Figures] (the best first, those
// without a run last), "load", or the name of a setting, whose values keep the order
// in which they were given. An unknown column is an error that names those that
// there are.
func (r *SweepResult) Sort(column string) error {
	slices.SortFunc(r.Cells, func(a, b SweptCell) int { return a.Cell - b.Cell })
	order, err := sweepOrder(r.Cells, column)
	if err != nil {
		return err
	}
	slices.SortStableFunc(r.Cells, order)
	return nil
}

// CheckColumn tells whether [SweepResult.Sort] will know a column.
func (c *SweepConfig) CheckColumn(column string) error {
	cells := make([]SweptCell, len(c.Cells))
	for k, cell := range c.Cells {
		cells[k].Settings = cell.Settings
	}
	_, err := sweepOrder(cells, column)
	return err
}

// sweepOrder returns how cells in the order of their numbers are sorted by a column.
func sweepOrder(cells []SweptCell, column string) (func(a, b SweptCell) int, error) {
	figures := map[string]func(*SweepFigures) Summary{
		"tps":         func(f *SweepFigures) Summary { return f.TPS },
		"tps_settled": func(f *SweepFigures) Summary { return f.TPSSettled },
		"p50_ns":      func(f *SweepFigures) Summary { return f.P50 },
		"p99_ns":      func(f *SweepFigures) Summary { return f.P99 },
	}
	columns := []string{"cell", "load"}
	for _, f := range Figures {
		columns = append(columns, f.Name)
		if f.Name == column {
			return func(a, b SweptCell) int {
				x, y := figures[f.Name](&a.SweepFigures), figures[f.Name](&b.SweepFigures)
				if x.N == 0 || y.N == 0 {
					return min(y.N, 1) - min(x.N, 1)
				}
				if f.Lower {
					return cmp.Compare(x.Median, y.Median)
				}
				return cmp.Compare(y.Median, x.Median)
			}, nil
		}
	}
	switch column {
	case "cell":
		return func(a, b SweptCell) int { return a.Cell - b.Cell }, nil
	case "load":
		loads := loadsOf(cells)
		return func(a, b SweptCell) int {
			return slices.Index(loads, a.LoadName) - slices.Index(loads, b.LoadName)
		}, nil
	}
	var values []string
	for _, c := range cells {
		for _, s := range c.Settings {
			if !slices.Contains(columns, s.Name) {
				columns = append(columns, s.Name)
			}
		}
		values = append(values, settingOf(c, column))
	}
	if slices.Contains(columns, column) {
		return func(a, b SweptCell) int {
			return slices.Index(values, settingOf(a, column)) - slices.Index(values, settingOf(b, column))
		}, nil
	}
	return nil, fmt.Errorf("there is no column %q: use one of %s", column, strings.Join(columns, ", "))
}

// settingOf is the value of a cell's setting, "" when it has none of that name.
func settingOf(c SweptCell, name string) string {
	for _, s := range c.Settings {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}
