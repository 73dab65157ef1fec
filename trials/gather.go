package trials

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tpssim/tpssim/tps"
)

// gather lists the warnings of the runs of some arms, each once, with the arms that it
// came from, as name says their numbers, and in how many of their runs. Warnings that
// differ in figures only are one: the first stands for them.
func gather(arms [][]*tps.Result, name func(arms []int) string) (lines []string) {
	type found struct {
		text string
		arms []int
		runs int
	}
	var all []*found
	byKind := map[string]*found{}
	for k, runs := range arms {
		for _, run := range runs {
			counted := map[*found]bool{}
			for _, text := range run.Warnings {
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
				if !slices.Contains(f.arms, k) {
					f.arms = append(f.arms, k)
				}
			}
		}
	}
	for _, f := range all {
		of := 0
		for _, k := range f.arms {
			of += len(arms[k])
		}
		lines = append(lines, fmt.Sprintf("%s: %s (in %d of %d runs)", name(f.arms), f.text, f.runs, of))
	}
	return lines
}

// named names arms that have names of their own.
func named(names []string) func(arms []int) string {
	return func(arms []int) string {
		if len(arms) == len(names) {
			return "all arms"
		}
		list := make([]string, len(arms))
		for k, n := range arms {
			list[k] = names[n]
		}
		return strings.Join(list, "; ")
	}
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
