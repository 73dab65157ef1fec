package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
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
	fmt.Fprintln(p, g.shown(func(c column) bool { return c.title != "" }, nil).RenderMarkdown())
}

// grid writes the columns that have a title and are not wide, two blanks before and
// between them. Where they do not fit into the page, the widest that is not of
// numbers is broken into lines, at least narrowest wide.
func (p *page) grid(g *grid) {
	const narrowest = 8
	in := func(c column) bool { return c.title != "" && !c.wide }
	room, widest, broken := columns, 0, -1
	for k, c := range g.columns {
		if !in(c) {
			continue
		}
		width := g.width(k)
		room -= 2 + width
		if !c.right && width > widest {
			widest, broken = width, k
		}
	}
	t := g.shown(in, p.paint)
	if broken >= 0 && room < 0 {
		number := 1 // of the column, among those that are shown
		for _, c := range g.columns[:broken] {
			if in(c) {
				number++
			}
		}
		g.align(t, in, table.ColumnConfig{Number: number, WidthMax: max(narrowest, widest+room), WidthMaxEnforcer: text.WrapSoft})
	}
	for line := range strings.Lines(t.Render() + "\n") {
		fmt.Fprintln(p, strings.TrimRight("  "+line, " \n"))
	}
}

// width is how many columns of a page a column of the table needs.
func (g *grid) width(k int) int {
	width := utf8.RuneCountInString(g.columns[k].title)
	for _, row := range g.rows {
		width = max(width, utf8.RuneCountInString(row[k].text))
	}
	return width
}

// shown makes a table of the columns that are in, each text by paint if that is not
// nil.
func (g *grid) shown(in func(column) bool, paint func(color, text string) string) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.Style{
		Box:     table.BoxStyle{PaddingRight: "  "},
		Format:  table.FormatOptions{Header: text.FormatDefault, Row: text.FormatDefault},
		Options: table.OptionsNoBordersAndSeparators,
	})
	line := func(of func(k int) string) (row table.Row) {
		for k, c := range g.columns {
			if in(c) {
				row = append(row, of(k))
			}
		}
		return row
	}
	t.AppendHeader(line(func(k int) string { return g.columns[k].title }))
	for _, cells := range g.rows {
		t.AppendRow(line(func(k int) string {
			if paint == nil {
				return cells[k].text
			}
			return paint(cells[k].color, cells[k].text)
		}))
	}
	g.align(t, in)
	return t
}

// align says how the columns that are in stand, and what else is to hold for some.
func (g *grid) align(t table.Writer, in func(column) bool, also ...table.ColumnConfig) {
	var configs []table.ColumnConfig
	for _, c := range g.columns {
		if !in(c) {
			continue
		}
		// By default what looks like a number goes to the right.
		config := table.ColumnConfig{Number: len(configs) + 1, Align: text.AlignLeft, AlignHeader: text.AlignLeft}
		if c.right {
			config.Align, config.AlignHeader = text.AlignRight, text.AlignRight
		}
		for _, a := range also {
			if a.Number == config.Number {
				config.WidthMax, config.WidthMaxEnforcer = a.WidthMax, a.WidthMaxEnforcer
			}
		}
		configs = append(configs, config)
	}
	t.SetColumnConfigs(configs)
}
