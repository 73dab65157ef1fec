package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/tpssim/tpssim/tps"
)

// loadFlags are the flags of a run that a suggested load replaces.
var loadFlags = map[string]bool{
	"-n": true, "--transactions": true,
	"-c": true, "--concurrency": true,
	"-d": true, "--duration": true,
	"-R": true, "--rate": true, "--stage": true,
	"--arrival": true, "--burst-size": true, "--max-in-flight": true,
	"--runs": true, "--warmup": true,
}

// suggestion is the command that measures latency at half the rate of r, with
// all else that its command line asked for.
func suggestion(r *tps.Result) string {
	words := []string{"tpssim"}
	if len(r.Argv) == 0 {
		words = append(words, "run", r.Scenario)
	}
	for i := 0; i < len(r.Argv); i++ {
		word := r.Argv[i]
		name, _, joined := strings.Cut(word, "=")
		if short := len(word) > 2 && word[0] == '-' && word[1] != '-'; short && loadFlags[word[:2]] {
			continue // -n5
		}
		if !loadFlags[name] {
			words = append(words, word)
			continue
		}
		if !joined {
			i++ // its value
		}
	}
	return Command(append(words, "-R", fmt.Sprint(roundRate(r.TPS/2)), "-d", "30s")...)
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
