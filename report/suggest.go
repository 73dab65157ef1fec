package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/tpssim/tpssim/tps"
)

// leftOut are the flags of a run that a suggestion does without: those of the
// load, which it replaces, and those that judge, disturb or record the one run that
// they were given for.
var leftOut = map[string]bool{
	"n": true, "transactions": true,
	"c": true, "concurrency": true,
	"d": true, "duration": true,
	"R": true, "rate": true, "stage": true,
	"arrival": true, "burst-size": true, "max-in-flight": true,
	"runs": true, "warmup": true,
	"pin-reader": true,
	"threshold":  true, "abort-on-fail": true,
	"P": true, "progress": true, "q": true, "quiet": true,
	"r": true, "statements": true, "histograms": true, "format": true,
	"o": true, "output": true, "series": true, "log": true, "log-sample": true,
	"cpuprofile": true, "trace": true,
}

// switches are the flags of a run that take no value, unless it is joined with =.
// Those of one letter are all left out.
var switches = map[string]bool{
	"q": true, "quiet": true, "no-color": true,
	"r": true, "statements": true, "histograms": true,
	"abort-on-fail": true, "allow-foreign": true,
}

// suggestion is the command that measures latency at half the rate of r, with
// all else that its command line asked for, word by word.
func suggestion(r *tps.Result) []string {
	args := r.Argv
	if len(args) == 0 {
		args = []string{"run", r.Scenario}
	}
	words := []string{"tpssim"}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		keeps, takes := true, false // this flag; the next word as its value
		switch {
		case word == "--": // flags are to follow here
			words, args = append(words, args...), nil
			continue
		case strings.HasPrefix(word, "--"):
			name, _, joined := strings.Cut(word[2:], "=")
			keeps, takes = !leftOut[name], !joined && !switches[name]
		case len(word) > 1 && word[0] == '-':
			group := withoutSwitches(word[1:])
			keeps, takes = group != "" && !leftOut[group[:1]], len(group) == 1
			word = "-" + group
		}
		if keeps {
			words = append(words, word)
		}
		if takes && len(args) > 0 {
			if keeps {
				words = append(words, args[0])
			}
			args = args[1:]
		}
	}
	return append(words, "-R", fmt.Sprint(roundRate(r.TPS/2)), "-d", "30s")
}

// withoutSwitches returns what follows the switches at the beginning of a group of
// one-letter flags: in -rn5 that is n5. Nothing can follow a flag that takes a value.
func withoutSwitches(group string) string {
	for group != "" && switches[group[:1]] && !strings.HasPrefix(group[1:], "=") {
		group = group[1:]
	}
	return group
}

// commandLines is Command on as many lines as it takes to stay within width, which a
// shell joins again. Only words that are longer themselves do not.
func commandLines(width int, words ...string) (lines []string) {
	const joint, indent = ` \`, "  "
	line := ""
	for k, word := range words {
		word = Command(word)
		room := width
		if k < len(words)-1 {
			room -= len(joint)
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line+" "+word) <= room:
			line += " " + word
		default:
			lines = append(lines, line+joint)
			line = indent + word
		}
	}
	return append(lines, line)
}

// Command joins words to a line that can be pasted into a POSIX shell.
func Command(words ...string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%"
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if word == "" || strings.Trim(word, safe) != "" {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// roundRate rounds a rate to two digits and to a whole number, at least 1.
func roundRate(tps float64) int64 {
	if tps < 1 {
		return 1
	}
	unit := max(math.Pow(10, math.Floor(math.Log10(tps))-1), 1)
	return int64(math.Round(tps/unit) * unit)
}
