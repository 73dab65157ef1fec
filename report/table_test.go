package report

import (
	"encoding/csv"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// someGrid has each kind of column and of cell.
func someGrid(first string) *grid {
	g := &grid{columns: []column{
		{name: "arm", title: "arm"}, {name: "tps", title: "TPS", right: true}, {title: "low to high", right: true},
		{name: "p99_ns"}, {name: "noise", title: "~"}, {name: "n", title: "n", right: true, wide: true},
	}}
	g.add(words(first), cell{text: "44,096", value: 44_096.25}, cell{text: "43k to 45k"}, cell{value: 12300 * time.Microsecond}, cell{value: false}, cell{text: "6", value: 6})
	g.add(words("b|<c>"), cell{text: "9", value: 9e12, color: red}, cell{}, cell{value: int64(7)}, cell{text: "~", value: true}, cell{})
	return g
}

func onPage(color bool, write func(*page)) string {
	p := &page{color: color}
	write(p)
	return p.String()
}

func TestGridText(t *testing.T) {
	for name, want := range map[string]string{
		"a": `
  arm       TPS  low to high  ~
  a      44,096   43k to 45k
  b|<c>       9               ~
`,
		"one that is so long that it takes more than one of the lines": `
  arm                                                        TPS  low to high  ~
  one that is so long that it takes more than one of the  44,096   43k to 45k
  lines
  b|<c>                                                        9               ~
`,
		strings.Repeat("ä", 60): `
  arm                                                        TPS  low to high  ~
  ` + strings.Repeat("ä", 54) + `  44,096   43k to 45k
  ` + strings.Repeat("ä", 6) + `
  b|<c>                                                        9               ~
`,
	} {
		g := someGrid(name)
		plain, colored := onPage(false, func(p *page) { p.grid(g) }), onPage(true, func(p *page) { p.grid(g) })
		if plain != want[1:] {
			t.Errorf("got\n%swant%s", plain, want)
		}
		fits(t, plain)
		if escape.ReplaceAllString(colored, "") != plain || strings.Count(colored, "\x1b[1;31m9\x1b[0m") != 1 {
			t.Errorf("in colour\n%s", colored)
		}
	}
}

func TestGridMarkdown(t *testing.T) {
	want := `| arm | TPS | low to high | ~ | n |
|:--- | ---:| ---:|:--- | ---:|
| a | 44,096 | 43k to 45k |  | 6 |
| b\|<c> | 9 |  | ~ |  |
`
	if got := onPage(true, someGrid("a").markdown); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestGridCSV(t *testing.T) {
	want := [][]string{
		{"arm", "tps", "p99_ns", "noise", "n"},
		{"-1, \"a\"\tb", "44096.25", "12300000", "false", "6"},
		{"b|<c>", "9000000000000", "7", "true", ""},
	}
	rows, err := csv.NewReader(strings.NewReader(rendered(t, someGrid("-1, \"a\"\tb").csv()))).ReadAll()
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("%v: %q, want %q", err, rows, want)
	}
	broken := errors.New("broken")
	if err := someGrid("a").csv()(brokenWriter{broken}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestGridTurned(t *testing.T) {
	want := `| figure | one | two |
|:--- | ---:| ---:|
| arm | a | b\|<c> |
| TPS | 44,096 | 9 |
| low to high | 43k to 45k |  |
| ~ |  | ~ |
| n | 6 |  |
`
	if got := onPage(false, someGrid("a").turned("figure", "one", "two").markdown); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A table without a row still says what its columns are.
func TestEmptyGrid(t *testing.T) {
	g := &grid{columns: []column{{name: "a", title: "A"}, {name: "b", title: "B", right: true}}}
	if text := onPage(false, func(p *page) { p.grid(g) }); text != "  A  B\n" {
		t.Errorf("%q", text)
	}
	if text := onPage(false, g.markdown); text != "| A | B |\n|:--- | ---:|\n" {
		t.Errorf("%q", text)
	}
	if text := rendered(t, g.csv()); text != "a,b\n" {
		t.Errorf("%q", text)
	}
}
