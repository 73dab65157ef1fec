package script

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// keywords of expressions. They are read in any case.
var keywords = map[string]bool{
	"AND": true, "OR": true, "NOT": true, "IS": true, "ISNULL": true, "NOTNULL": true,
	"NULL": true, "TRUE": true, "FALSE": true,
	"CASE": true, "WHEN": true, "THEN": true, "ELSE": true, "END": true,
}

// tokenize divides an expression: variables keep their colon, keywords are written
// in capitals.
func tokenize(text string) (tokens []string, err error) {
	for text = strings.TrimLeft(text, " \t\n\r\f\v"); text != ""; text = strings.TrimLeft(text, " \t\n\r\f\v") {
		n := tokenLen(text)
		if n == 0 {
			return nil, fmt.Errorf("unexpected %q", text[:1])
		}
		token := text[:n]
		if upper := strings.ToUpper(token); keywords[upper] {
			token = upper
		}
		tokens, text = append(tokens, token), text[n:]
	}
	return tokens, nil
}

// tokenLen returns the length of the token that text begins with, 0 if it is none.
func tokenLen(text string) int {
	c := text[0]
	switch {
	case c == ':':
		if name := nameAt(text, 1); name != "" {
			return 1 + len(name)
		}
		return 0
	case nameStart(c):
		return len(nameAt(text, 0))
	case digit(c) || c == '.':
		return numberLen(text)
	}
	if len(text) > 1 {
		switch text[:2] {
		case "<>", "!=", "<=", ">=", "<<", ">>":
			return 2
		}
	}
	if strings.IndexByte("+-*/%=<>|#&~(),", c) >= 0 {
		return 1
	}
	return 0
}

// numberLen returns the length of the number that text begins with: digits with at
// most one point and an exponent.
func numberLen(text string) int {
	digits := func(n int) int {
		for n < len(text) && digit(text[n]) {
			n++
		}
		return n
	}
	n := digits(0)
	if n < len(text) && text[n] == '.' {
		n = digits(n + 1)
		if n == 1 {
			return 0 // nothing but a point
		}
	}
	if n < len(text) && (text[n] == 'e' || text[n] == 'E') {
		exponent := n + 1
		if exponent < len(text) && (text[exponent] == '+' || text[exponent] == '-') {
			exponent++
		}
		if end := digits(exponent); end > exponent {
			n = end
		}
	}
	return n
}

// parseNumber returns the value of a number without a sign.
func parseNumber(token string) (value, error) {
	if strings.ContainsAny(token, ".eE") {
		f, err := strconv.ParseFloat(token, 64)
		if err != nil || math.IsInf(f, 0) {
			return value{}, fmt.Errorf("%s is too large for a double", token)
		}
		return doubleValue(f), nil
	}
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil {
		return value{}, fmt.Errorf("%s is too large for an integer", token)
	}
	return intValue(n), nil
}
