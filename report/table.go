package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// grid is a table before it is text, Markdown or CSV: what a cell shows to people
// and what it is worth to a program stand side by side, so that no format can say
// anything else than another.
type grid struct {
	columns []column
	rows    [][]cell // each as long as columns
}

// column is what the cells of a column have in common.
type column struct {
	name  string // for programs: the column is in CSV; empty: it is not
	title string // for people: it is in text and Markdown; empty: it is not
	right bool   // to the right, as numbers are
	wide  bool   // no room for it in 80 columns: it is in Markdown, and not in text
}

// cell is one value in two forms. The zero cell is empty in both.
type cell struct {
	text  string
	value any    // string, bool, int, int64, float64 or time.Duration; nil: empty
	color string // of the text, on a terminal
}

// words is a cell that programs get as people do.
func words(s string) cell { return cell{text: s, value: s} }

// add appends a row.
func (g *grid) add(cells ...cell) { g.rows = append(g.rows, cells) }

// raw shows a value in full: durations in nanoseconds, numbers without an exponent.
func (c cell) raw() string {
	switch v := c.value.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Duration:
		return strconv.FormatInt(int64(v), 10)
	default:
		return fmt.Sprint(v)
	}
}

// csv renders the columns that have a name, below a row of the names. It is written
// by the standard library: go-pretty turns tabs and ends of lines within a value into
// blanks.
func (g *grid) csv() Renderer {
	return func(w io.Writer) error {
		out := csv.NewWriter(w)
		record := func(of func(k int) string) {
			var fields []string
			for k, c := range g.columns {
				if c.name != "" {
					fields = append(fields, of(k))
				}
			}
			out.Write(fields) // an error stays in out
		}
		record(func(k int) string { return g.columns[k].name })
		for _, row := range g.rows {
			record(func(k int) string { return row[k].raw() })
		}
		out.Flush()
		return out.Error()
	}
}

// turned returns the table with a row for each column that has a title: a column of
// these titles, and one for each row.
func (g *grid) turned(title string, rows ...string) *grid {
	t := &grid{columns: []column{{title: title}}}
	for _, row := range rows {
		t.columns = append(t.columns, column{title: row, right: true})
	}
	for k, c := range g.columns {
		if c.title == "" {
			continue
		}
		line := []cell{words(c.title)}
		for _, row := range g.rows {
			line = append(line, row[k])
		}
		t.add(line...)
	}
	return t
}

// markdown writes the columns that have a title as a table of Markdown.
func (g *grid) markdown(p *page) {
	in := func(c column) bool { return c.title != "" }
	g.line(p, in, "| ", " | ", " |\n", func(k int) string { return g.columns[k].title })
	g.line(p, in, "|", "|", "|\n", func(k int) string {
		if g.columns[k].right {
			return " ---:"
		}
		return ":--- "
	})
	for _, row := range g.rows {
		g.line(p, in, "| ", " | ", " |\n", func(k int) string { return strings.ReplaceAll(row[k].text, "|", "\\|") })
	}
}

// grid writes the columns that have a title and are not wide, two blanks before and
// between them. Where they do not fit into the page, the widest that is not of
// numbers is broken into lines, at least narrowest wide.
func (p *page) grid(g *grid) {
	const narrowest = 8
	in := func(c column) bool { return c.title != "" && !c.wide }
	room, broken := columns, -1
	widths := make([]int, len(g.columns))
	for k, c := range g.columns {
		if in(c) {
			widths[k] = g.width(k)
			room -= 2 + widths[k]
			if !c.right && (broken < 0 || widths[k] > widths[broken]) {
				broken = k
			}
		}
	}
	if broken >= 0 && room < 0 {
		widths[broken] = max(narrowest, widths[broken]+room)
	}
	row := func(cells func(k int) cell) {
		parts := []string{""}
		if broken >= 0 {
			parts = broke(cells(broken).text, widths[broken])
		}
		for n, part := range parts {
			g.line(p, in, "  ", "  ", "\n", func(k int) string {
				c := cells(k)
				if k == broken {
					c.text = part
				} else if n > 0 {
					c = cell{}
				}
				blanks := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(c.text))
				if g.columns[k].right {
					return blanks + p.paint(c.color, c.text)
				}
				return p.paint(c.color, c.text) + blanks
			})
		}
	}
	row(func(k int) cell { return cell{text: g.columns[k].title} })
	for _, cells := range g.rows {
		row(func(k int) cell { return cells[k] })
	}
}

func (g *grid) line(p *page, in func(column) bool, before, between, after string, of func(k int) string) {
	var cells []string
	for k, c := range g.columns {
		if in(c) {
			cells = append(cells, of(k))
		}
	}
	text := before + strings.Join(cells, between) + after
	if after == "\n" {
		text = strings.TrimRight(text, " \n") + after
	}
	fmt.Fprint(p, text)
}

// broke breaks text into lines, at blanks where there are any.
func broke(text string, width int) (lines []string) {
	for _, line := range wrap(text, width) {
		for runes := []rune(line); len(runes) > width; runes = []rune(line) {
			lines, line = append(lines, string(runes[:width])), string(runes[width:])
		}
		lines = append(lines, line)
	}
	return lines
}

// width is how many columns of a page a column of the table needs.
func (g *grid) width(k int) int {
	width := utf8.RuneCountInString(g.columns[k].title)
	for _, row := range g.rows {
		width = max(width, utf8.RuneCountInString(row[k].text))
	}
	return width
}
