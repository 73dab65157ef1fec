package report

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// chart is a diagram of characters. Both axes are logarithmic, so that a curve
// that bends over several magnitudes can be seen whole; values must be above 0.
type chart struct {
	above  string               // stands above the vertical axis: what it shows, and the legend
	below  string               // stands below the horizontal one
	x, y   func(float64) string // the labels of the axes
	points []point
}

// point is drawn as its mark, or as sharedMark where another mark is already.
type point struct {
	x, y float64
	mark rune
}

const sharedMark = '*'

// draw returns the lines of the chart, none longer than width; rows is the height
// of the plot. Without points there is nothing to draw.
func (c *chart) draw(width, rows int) []string {
	if len(c.points) == 0 {
		return nil
	}
	var xs, ys []float64
	for _, p := range c.points {
		xs, ys = append(xs, p.x), append(ys, p.y)
	}
	vertical := newAxis(ys, rows)
	labels := make([]string, rows) // of the rows, from below
	margin := 0
	for _, tick := range vertical.ticks() {
		labels[vertical.at(tick)] = c.y(tick)
		margin = max(margin, utf8.RuneCountInString(c.y(tick)))
	}
	horizontal := newAxis(xs, width-margin-2)
	grid := make([][]rune, rows)
	for row := range grid {
		grid[row] = []rune(strings.Repeat(" ", horizontal.cells))
	}
	for _, p := range c.points {
		cell := &grid[vertical.at(p.y)][horizontal.at(p.x)]
		if *cell != ' ' && *cell != p.mark {
			*cell = sharedMark
		} else {
			*cell = p.mark
		}
	}
	lines := []string{c.above}
	for row, cells := range slices.Backward(grid) {
		edge := " │"
		if labels[row] != "" {
			edge = " ┤"
		}
		lines = append(lines, padLeft(labels[row], margin)+edge+string(cells))
	}
	line, names := horizontal.render(c.x)
	blank := strings.Repeat(" ", margin+1)
	lines = append(lines, blank+"└"+line, blank+" "+names, padLeft(c.below, width))
	for k := range lines {
		lines[k] = strings.TrimRight(lines[k], " ")
	}
	return lines
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

// axis maps the values from low to high, which both have a tick, to cells.
type axis struct {
	low, high float64
	cells     int
}

// newAxis returns the axis that shows all values.
func newAxis(values []float64, cells int) axis {
	low, high := slices.Min(values), slices.Max(values)
	a := axis{low: tickBelow(low), high: tickAbove(high), cells: cells}
	if a.high < a.low*2 { // a single value, which is a tick itself
		a.high = a.low * 2
	}
	return a
}

// tickBelow returns the largest of …, 1, 2, 5, 10, 20, 50, … that is not above v.
func tickBelow(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{5, 2} {
		if digit*power <= v*(1+1e-9) {
			return digit * power
		}
	}
	return power
}

// tickAbove returns the smallest of them that is not below v.
func tickAbove(v float64) float64 {
	power := math.Pow(10, math.Ceil(math.Log10(v)))
	for _, part := range []float64{5, 2} {
		if power/part >= v*(1-1e-9) {
			return power / part
		}
	}
	return power
}

// at returns the cell of a value.
func (a axis) at(v float64) int {
	share := math.Log(v/a.low) / math.Log(a.high/a.low)
	return min(max(int(math.Round(share*float64(a.cells-1))), 0), a.cells-1)
}

// ticks returns the values to be labelled: the powers of ten, and where they are
// few also what lies between.
func (a axis) ticks() (ticks []float64) {
	digits := []float64{1, 2, 5}
	if a.high/a.low > 1e3 {
		digits = digits[:1]
	}
	for power := math.Pow(10, math.Floor(math.Log10(a.low))); power <= a.high; power *= 10 {
		for _, digit := range digits {
			if v := digit * power; v >= a.low*(1-1e-9) && v <= a.high*(1+1e-9) {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}

// render returns a horizontal axis and the labels below it. A label that would
// run into the one before is left out, with its tick.
func (a axis) render(label func(float64) string) (line, names string) {
	cells := []rune(strings.Repeat("─", a.cells))
	row := []rune(strings.Repeat(" ", a.cells))
	free := 0
	for _, tick := range a.ticks() {
		name := []rune(label(tick))
		at := a.at(tick)
		from := min(max(at-len(name)/2, 0), a.cells-len(name))
		if from < free {
			continue
		}
		cells[at] = '┬'
		copy(row[from:], name)
		free = from + len(name) + 2
	}
	return string(cells), string(row)
}
