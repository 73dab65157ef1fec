package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/internal/quantity"
)

// value is a flag whose text is read by a function.
type value[T any] struct {
	dest  *T
	parse func(string) (T, error)
	show  func(T) string
	kind  string
}

func (v value[T]) String() string {
	if v.dest == nil {
		return ""
	}
	return v.show(*v.dest)
}

func (v value[T]) Type() string { return v.kind }

func (v value[T]) Set(s string) error {
	parsed, err := v.parse(s)
	if err == nil {
		*v.dest = parsed
	}
	return err
}

// countVar adds a flag for a whole number such as 100k or 1e9.
func countVar(flags *pflag.FlagSet, dest *int64, name, short string, def int64, usage string) {
	*dest = def
	show := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	flags.VarP(value[int64]{dest, quantity.Count, show, "count"}, name, short, usage)
}

// sizeVar adds a flag for a number of bytes such as 64MiB.
func sizeVar(flags *pflag.FlagSet, dest *int64, name string, def int64, usage string) {
	*dest = def
	show := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strings.ReplaceAll(humanize.IBytes(uint64(n)), " ", "")
	}
	flags.Var(value[int64]{dest, quantity.Size, show, "size"}, name, usage)
}

// durationVar adds a flag for a duration; a bare number counts units.
func durationVar(flags *pflag.FlagSet, dest *time.Duration, name, short string, def, unit time.Duration, usage string) {
	*dest = def
	show := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	parse := func(s string) (time.Duration, error) { return quantity.Duration(s, unit) }
	flags.VarP(value[time.Duration]{dest, parse, show, "duration"}, name, short, usage)
}

// seedVar adds a flag for any number that starts a random sequence.
func seedVar(flags *pflag.FlagSet, dest *uint64, name string, def uint64, usage string) {
	*dest = def
	parse := func(s string) (uint64, error) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number from 0 to %d", s, uint64(math.MaxUint64))
		}
		return n, nil
	}
	flags.Var(value[uint64]{dest, parse, func(n uint64) string { return strconv.FormatUint(n, 10) }, "number"}, name, usage)
}

// numberVar adds a flag for a number with a fraction.
func numberVar(flags *pflag.FlagSet, dest *float64, name string, def float64, usage string) {
	*dest = def
	parse := func(s string) (float64, error) {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return 0, fmt.Errorf("%q is not a number such as 0.25", s)
		}
		return n, nil
	}
	show := func(n float64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatFloat(n, 'g', -1, 64)
	}
	flags.Var(value[float64]{dest, parse, show, "number"}, name, usage)
}

// intVar adds a flag for a small whole number, read as parse says.
func intVar(flags *pflag.FlagSet, dest *int, name string, def int, parse func(string) (int64, error), kind, usage string) {
	*dest = def
	parseInt := func(s string) (int, error) {
		n, err := parse(s)
		if err == nil && int64(int32(n)) != n {
			err = fmt.Errorf("%q is too large", s)
		}
		return int(n), err
	}
	show := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	flags.Var(value[int]{dest, parseInt, show, kind}, name, usage)
}

// choiceVar adds a flag that takes one of a few words.
func choiceVar(flags *pflag.FlagSet, dest *string, name, def, usage string, choices ...string) {
	*dest = def
	parse := func(s string) (string, error) {
		for _, c := range choices {
			if s == c {
				return s, nil
			}
		}
		return "", fmt.Errorf("%q is none of %s", s, strings.Join(choices, ", "))
	}
	flags.Var(value[string]{dest, parse, func(s string) string { return s }, "word"}, name, usage)
}
