package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func plainNumber(v float64) string { return fmt.Sprintf("%.6g", v) }

func TestChart(t *testing.T) {
	c := chart{above: "size  a b", below: "speed", x: plainNumber, y: plainNumber, points: []point{
		{1, 10, 'a'}, {10, 100, 'a'}, {100, 1000, 'a'}, {1, 1000, 'b'}, {100, 1000, 'b'}, {1, 10, 'a'},
	}}
	want := []string{
		"size  a b",
		"1000 ┤b                    *",
		" 500 ┤",
		" 200 ┤",
		" 100 ┤           a",
		"  50 ┤",
		"  20 ┤",
		"  10 ┤a",
		"     └┬──┬───┬───┬──────┬───",
		"      1  2   5  10     50",
		"                       speed",
	}
	if got := c.draw(28, 7); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestChartWithoutPoints(t *testing.T) {
	if lines := (&chart{}).draw(70, 10); lines != nil {
		t.Errorf("%q", lines)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct{ v, below, above float64 }{
		{1, 1, 1}, {1.01, 1, 2}, {1.99, 1, 2}, {2, 2, 2}, {4.9, 2, 5}, {5, 5, 5}, {7, 5, 10}, {10, 10, 10},
		{1000, 1000, 1000}, {999, 500, 1000}, {0.3, 0.2, 0.5}, {1e9, 1e9, 1e9}, {3e8, 2e8, 5e8},
	} {
		if below, above := tickBelow(c.v), tickAbove(c.v); math.Abs(below/c.below-1) > 1e-9 || math.Abs(above/c.above-1) > 1e-9 {
			t.Errorf("%g lies between %g and %g, want %g and %g", c.v, below, above, c.below, c.above)
		}
	}
}

// Whatever is drawn, every point is in the chart, in the order of its values.
func TestChartShowsEveryPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Custom(func(t *rapid.T) float64 { return math.Exp(rapid.Float64Range(0, 23).Draw(t, "log")) })
		c := chart{above: "y", below: "x", x: plainNumber, y: plainNumber}
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			c.points = append(c.points, point{value.Draw(t, "x"), value.Draw(t, "y"), rapid.SampledFrom([]rune("ox")).Draw(t, "mark")})
		}
		width, rows := rapid.IntRange(40, 100).Draw(t, "width"), rapid.IntRange(5, 20).Draw(t, "rows")
		lines := c.draw(width, rows)
		if len(lines) != rows+4 {
			t.Fatalf("%d lines for %d rows", len(lines), rows)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > width {
				t.Fatalf("%q is longer than %d", line, width)
			}
		}
		highest, lowest := c.points[0], c.points[0]
		for _, p := range c.points {
			if p.y > highest.y {
				highest = p
			}
			if p.y < lowest.y {
				lowest = p
			}
		}
		marked := func(line string) bool { return strings.ContainsAny(line[strings.IndexAny(line, "│┤"):], "ox*") }
		first, last := -1, -1
		for k, line := range lines[1 : 1+rows] {
			if marked(line) {
				last = k
				if first < 0 {
					first = k
				}
			}
		}
		ys := newAxis([]float64{lowest.y, highest.y}, rows)
		if first != rows-1-ys.at(highest.y) || last != rows-1-ys.at(lowest.y) {
			t.Fatalf("rows %d to %d of\n%s", first, last, strings.Join(lines, "\n"))
		}
		if !strings.ContainsAny(lines[1+rows], "┬") || !strings.ContainsAny(lines[2+rows], "123456789") {
			t.Fatalf("no labels below\n%s", strings.Join(lines, "\n"))
		}
	})
}
