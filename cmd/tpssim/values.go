package main

import (
	"fmt"
	"strconv"
	"time"

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
	show := func(n int64) string { return strconv.FormatInt(n, 10) }
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

// choiceVar adds a flag that takes one of a few words.
func choiceVar(flags *pflag.FlagSet, dest *string, name, def, usage string, choices ...string) {
	*dest = def
	parse := func(s string) (string, error) {
		for _, c := range choices {
			if s == c {
				return s, nil
			}
		}
		return "", fmt.Errorf("it is none of %v", choices)
	}
	flags.Var(value[string]{dest, parse, func(s string) string { return s }, "word"}, name, usage)
}
