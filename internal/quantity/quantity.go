// Package quantity reads the numbers that people type on a command line.
package quantity

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// countSuffixes are decimal: k for thousand, m for million, b or g for billion, t
// for trillion.
var countSuffixes = map[byte]int64{'k': 1e3, 'm': 1e6, 'b': 1e9, 'g': 1e9, 't': 1e12}

// Count reads a whole number: 100000, 100_000, 100k, 1.5m, 1e9 or 1b.
func Count(s string) (int64, error) {
	text := strings.ToLower(strings.ReplaceAll(s, "_", ""))
	factor := int64(1)
	if n := len(text); n > 1 {
		if f, ok := countSuffixes[text[n-1]]; ok {
			factor, text = f, text[:n-1]
		}
	}
	// A rational number is exact where a float would round; the length bounds
	// what an exponent can blow up to.
	mantissa, exponent, _ := strings.Cut(text, "e")
	if e, err := strconv.Atoi(exponent); exponent != "" && (err != nil || e > 30 || e < -30) || strings.ContainsAny(text, "/xp") || len(mantissa) > 40 {
		return 0, fmt.Errorf("%q is not a count such as 100000, 100k or 1e9", s)
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, fmt.Errorf("%q is not a count such as 100000, 100k or 1e9", s)
	}
	r.Mul(r, new(big.Rat).SetInt64(factor))
	if !r.IsInt() {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	if !r.Num().IsInt64() {
		return 0, fmt.Errorf("%q is too large; the limit is %s", s, humanize.Comma(math.MaxInt64))
	}
	return r.Num().Int64(), nil
}

// Size reads a number of bytes: 4096, 64KiB, 64MB.
func Size(s string) (int64, error) {
	n, err := humanize.ParseBytes(s)
	if err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size such as 4096, 64KiB or 1GB", s)
	}
	return int64(n), nil
}

// Duration reads a Go duration; a bare number counts units.
func Duration(s string, unit time.Duration) (time.Duration, error) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		d := n * float64(unit)
		if math.IsNaN(d) || math.Abs(d) > math.MaxInt64 {
			return 0, fmt.Errorf("%q is too long", s)
		}
		return time.Duration(d), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 30s, 1m30s or 500ms", s)
	}
	return d, nil
}
