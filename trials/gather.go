package trials

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tpssim/tpssim/tps"
)

// gather lists the warnings of the runs, each once, with the arms that it came from
// and in how many of their runs. rounds hold a result of each arm, or nil where an arm
// has none. Warnings that differ in figures only are one: the first stands for them.
func gather(rounds [][]*tps.Result, arms []string) (lines []string) {
	type found struct {
		text string
		arms []string
		runs int
	}
	var all []*found
	byKind, runs := map[string]*found{}, map[string]int{}
	for _, round := range rounds {
		for k, res := range round {
			if res == nil {
				continue
			}
			runs[arms[k]]++
			counted := map[*found]bool{}
			for _, text := range res.Warnings {
				f := byKind[kind(text)]
				if f == nil {
					f = &found{text: text}
					byKind[kind(text)] = f
					all = append(all, f)
				}
				if !counted[f] {
					counted[f] = true
					f.runs++
				}
				if !slices.Contains(f.arms, arms[k]) {
					f.arms = append(f.arms, arms[k])
				}
			}
		}
	}
	for _, f := range all {
		from := strings.Join(f.arms, "; ")
		if len(f.arms) == len(arms) {
			from = "all arms"
		}
		of := 0
		for _, name := range f.arms {
			of += runs[name]
		}
		lines = append(lines, fmt.Sprintf("%s: %s (in %d of %d runs)", from, f.text, f.runs, of))
	}
	return lines
}

// kind is a warning without the words that have a figure in them.
func kind(warning string) string {
	words := slices.DeleteFunc(strings.Fields(warning), func(word string) bool {
		return strings.ContainsFunc(word, unicode.IsDigit)
	})
	return strings.Join(words, " ")
}

// fewRounds says that intervals of so many rounds reach less than [Confidence].
func fewRounds(rounds int, reached float64) string {
	return fmt.Sprintf("%d rounds are few: the intervals are the lowest and the highest round and hold the median in %.3g %% of all cases; it takes %d for %g %%",
		rounds, 100*reached, DefaultRounds, 100*Confidence)
}
