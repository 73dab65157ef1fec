package script

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// kind is the type of a value. The zero value is a variable that is not set.
type kind uint8

const (
	kindUnset kind = iota
	kindNull
	kindBool
	kindInt
	kindDouble
	kindOther // text or bytes, as they were given or a statement returned them
)

var kindNames = [...]string{"nothing", "NULL", "a boolean", "an integer", "a double", "text"}

// value is a value of the language.
type value struct {
	kind  kind
	i     int64   // of kindInt, and 0 or 1 of kindBool
	f     float64 // of kindDouble
	boxed any     // as a statement takes it, once it was needed; of kindOther always
}

func intValue(i int64) value      { return value{kind: kindInt, i: i} }
func doubleValue(f float64) value { return value{kind: kindDouble, f: f} }

func boolValue(b bool) value {
	if b {
		return value{kind: kindBool, i: 1}
	}
	return value{kind: kindBool}
}

// box returns the value as a statement takes it. Boxing allocates: it is done once
// for each value, however many statements use it.
func (v *value) box() any {
	if v.boxed == nil {
		switch v.kind {
		case kindBool, kindInt:
			v.boxed = v.i
		case kindDouble:
			v.boxed = v.f
		}
	}
	return v.boxed
}

// valueOf is the value of a caller's or a database's own: text stays text.
func valueOf(x any) (value, error) {
	switch v := x.(type) {
	case nil:
		return value{kind: kindNull}, nil
	case bool:
		return boolValue(v), nil
	case int:
		return intValue(int64(v)), nil
	case int64:
		return value{kind: kindInt, i: v, boxed: x}, nil
	case float64:
		return value{kind: kindDouble, f: v, boxed: x}, nil
	case string, []byte:
		return value{kind: kindOther, boxed: x}, nil
	}
	return value{}, fmt.Errorf("a %T is no value of a variable", x)
}

// definedAs is the value of a variable that is defined as text: a number only if it
// prints as that text, so that a statement always gets what was written.
func definedAs(text string) value {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(i, 10) == text {
		return intValue(i)
	}
	// What has neither point nor exponent is a large integer or the name of a number.
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, ".e") && strconv.FormatFloat(f, 'g', -1, 64) == text {
		return doubleValue(f)
	}
	return value{kind: kindOther, boxed: text}
}

var (
	errNoNumber = errors.New("text that is no number: an expression needs one")
	errTooLarge = errors.New("an integer outside of the integers' range")
)

// readText is what text means to an expression, as pgbench has it: its manual is
// silent on this, so the order and the words are those of its program.
func readText(text string) (value, error) {
	word := strings.ToLower(text)
	number := strings.TrimLeft(text, " \t\n\v\f\r")
	switch {
	case word == "":
		return value{}, errNoNumber
	case word == "null":
		return value{kind: kindNull}, nil
	case word == "on", strings.HasPrefix("true", word), strings.HasPrefix("yes", word):
		return boolValue(true), nil
	case word == "off", word == "of", strings.HasPrefix("false", word), strings.HasPrefix("no", word):
		return boolValue(false), nil
	case strings.Trim(number, "0123456789+-.eE") != "":
		return value{}, errNoNumber // Go and C read more as numbers: names, hexadecimals
	}
	i, err := strconv.ParseInt(number, 10, 64)
	if err == nil {
		return intValue(i), nil
	}
	if errors.Is(err, strconv.ErrRange) {
		return value{}, errTooLarge
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return value{}, errNoNumber
	}
	return doubleValue(f), nil
}

// number returns the value that a variable has in an expression: what its text means
// if it is text.
func (v *value) number(name string) (value, error) {
	switch v.kind {
	case kindUnset:
		return value{}, undefined(name)
	case kindOther:
		meaning, err := value{}, errNoNumber
		if text, ok := v.boxed.(string); ok {
			meaning, err = readText(text)
		}
		if err != nil {
			return value{}, fmt.Errorf("the variable %s holds %w", name, err)
		}
		return meaning, nil
	}
	return value{kind: v.kind, i: v.i, f: v.f}, nil
}

var errDoubleToInt = errors.New("a double is outside of the integers' range")

// toInt returns v as an integer; a double is rounded, halves to even.
func (v value) toInt() (int64, error) {
	switch v.kind {
	case kindInt:
		return v.i, nil
	case kindDouble:
		// 2^63 is the first double that is too large; a NaN fails both.
		if f := math.RoundToEven(v.f); f >= -0x1p63 && f < 0x1p63 {
			return int64(f), nil
		}
		return 0, errDoubleToInt
	}
	return 0, fmt.Errorf("%s where an integer should be", kindNames[v.kind])
}

func (v value) toDouble() (float64, error) {
	switch v.kind {
	case kindInt:
		return float64(v.i), nil
	case kindDouble:
		return v.f, nil
	}
	return 0, fmt.Errorf("%s where a number should be", kindNames[v.kind])
}

// truth tells whether v counts as true: a number that is not 0 does, NULL does not.
func (v value) truth() bool {
	if v.kind == kindDouble {
		return v.f != 0
	}
	return (v.kind == kindBool || v.kind == kindInt) && v.i != 0
}
