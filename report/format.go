package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// wrap breaks text into lines of at most width, at spaces.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func count(n int64) string { return humanize.Comma(n) }

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// rate shows transactions a second: whole ones, but a slow one with its fraction.
func rate(v float64) string {
	if v < 99.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return humanize.Comma(int64(math.Round(v)))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// mean shows a mean of whole numbers; a small one with its fraction.
func mean(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return humanize.Comma(int64(math.Round(v)))
}

// percent shows a share with two digits, and never all where it is not all.
func percent(part, whole int64) string {
	v := 100 * float64(part) / float64(whole)
	switch {
	case part < whole && v >= 99:
		return "over 99 %"
	case v >= 10 || v == 0:
		return fmt.Sprintf("%.0f %%", v)
	}
	return fmt.Sprintf("%.2g %%", v)
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// short shows a duration with three digits.
func short(d time.Duration) string {
	// Rounded first, so that 999.9 µs become 1.00 ms and not 1000 µs.
	digit := time.Duration(1)
	for d/digit >= 1000 {
		digit *= 10
	}
	d = (d + digit/2) / digit * digit
	unit, name := time.Nanosecond, "ns"
	switch {
	case d >= time.Second:
		unit, name = time.Second, "s"
	case d >= time.Millisecond:
		unit, name = time.Millisecond, "ms"
	case d >= time.Microsecond:
		unit, name = time.Microsecond, "µs"
	}
	v := float64(d) / float64(unit)
	decimals := 2
	switch {
	case v >= 100 || name == "ns":
		decimals = 0
	case v >= 10:
		decimals = 1
	}
	return fmt.Sprintf("%.*f %s", decimals, v, name)
}

// length shows a length of time that somebody chose, with as few digits as it
// needs.
func length(d time.Duration) string {
	digits := func(unit time.Duration, name string) string {
		return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64) + " " + name
	}
	switch {
	case d >= 2*time.Minute:
		text := d.String()
		if short, ok := strings.CutSuffix(text, "m0s"); ok {
			text = short + "m"
		}
		if short, ok := strings.CutSuffix(text, "h0m"); ok {
			text = short + "h"
		}
		return text
	case d >= time.Second:
		return digits(time.Second, "s")
	case d >= time.Millisecond:
		return digits(time.Millisecond, "ms")
	}
	return digits(time.Microsecond, "µs")
}

// compact shows a count in at most five characters.
func compact(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	v, unit := float64(n), 0
	// 999.5 would be shown as 1000.
	for ; v >= 999.5 && unit < len(compactUnits)-1; unit++ {
		v /= 1000
	}
	decimals := 2
	switch {
	case v >= 99.95:
		decimals = 0
	case v >= 9.995:
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64) + compactUnits[unit]
}

// compactUnits are powers of 1000, with the letters that the command reads.
var compactUnits = [...]string{"", "k", "m", "b", "t", "P", "E"}
