package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// unsupported are pgbench's other meta commands, and what to do instead.
var unsupported = map[string]string{
	"if":            "use CASE in a \\set, or two scripts with weights: -f a.sql@3 -f b.sql@1",
	"elif":          "use CASE in a \\set, or two scripts with weights: -f a.sql@3 -f b.sql@1",
	"else":          "use CASE in a \\set, or two scripts with weights: -f a.sql@3 -f b.sql@1",
	"endif":         "use CASE in a \\set, or two scripts with weights: -f a.sql@3 -f b.sql@1",
	"aset":          "end each query whose row is needed with \\gset",
	"setrandom":     "write \\set name random(low, high)",
	"shell":         "a script runs no programs",
	"setshell":      "a script runs no programs: give the value with -D name=value",
	"startpipeline": "there is no network whose round trips it would save: leave it out",
	"syncpipeline":  "there is no network whose round trips it would save: leave it out",
	"endpipeline":   "there is no network whose round trips it would save: leave it out",
}

// metaCommand reads a meta command: from its backslash to the end of the line, or
// further where a line ends in a backslash.
func (p *parser) metaCommand() error {
	line := p.line
	body := strings.TrimSpace(p.restOfLine())
	afterSQL := p.afterSQL
	p.afterSQL = false
	name, args := body, ""
	if at := strings.IndexFunc(body, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) }); at >= 0 {
		name, args = body[:at], strings.TrimSpace(body[at:])
	}
	var err error
	switch command := strings.ToLower(name); command {
	case "set":
		err = p.set(line, args)
	case "sleep":
		err = p.sleep(line, args)
	case "gset":
		err = p.gset(afterSQL, args)
	default:
		if why, ok := unsupported[command]; ok {
			return p.errorAt(line, "\\%s is not supported: %s", command, why)
		}
		return p.errorAt(line, "\\%s is not known: the commands are \\set, \\sleep and \\gset", name)
	}
	if err != nil {
		return p.errorAt(line, "\\%s: %w", strings.ToLower(name), err)
	}
	return nil
}

// restOfLine reads what follows a backslash up to the end of the line. A backslash
// at the end of a line joins the next one to it.
func (p *parser) restOfLine() string {
	p.advance(1)
	var b strings.Builder
	for {
		rest := p.text[p.pos:]
		n := strings.IndexByte(rest, '\n')
		if n < 0 {
			n = len(rest) - 1
		}
		part := strings.TrimRight(p.advance(n+1), "\r\n")
		joined, more := strings.CutSuffix(part, `\`)
		b.WriteString(joined)
		if !more || p.pos == len(p.text) {
			return b.String()
		}
		b.WriteByte(' ')
	}
}

// oneLine writes a command's text with single spaces.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// set reads the arguments of \set.
func (p *parser) set(line int, args string) error {
	name := nameAt(args, 0)
	expression := strings.TrimSpace(args[len(name):])
	switch {
	case name == "" || len(name) < len(args) && !isSpace(args[len(name)]):
		return fmt.Errorf("%q does not begin with the name of a variable: use letters, digits and _, a letter first", args)
	case expression == "":
		return fmt.Errorf("%s gets no value: write an expression behind it", name)
	}
	expr, err := p.expression(expression)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return p.add(Step{Kind: Set, Line: line, Text: `\set ` + oneLine(args), target: p.slot(name), expr: expr})
}

// sleep reads the arguments of \sleep: a whole number or a variable, and a unit,
// which may follow a number without space.
func (p *parser) sleep(line int, args string) error {
	const advice = "write a whole number or a variable, then us, ms or s"
	var amount *node
	rest := args
	if name := nameAt(args, 1); strings.HasPrefix(args, ":") && name != "" {
		rest = args[1+len(name):]
		if rest != "" && !isSpace(rest[0]) {
			return fmt.Errorf("%q: %s", args, advice)
		}
		amount = &node{op: opVariable, slot: p.slot(name)}
	} else {
		rest = strings.TrimLeft(args, "0123456789")
		n, err := strconv.ParseInt(args[:len(args)-len(rest)], 10, 64)
		if err != nil {
			return fmt.Errorf("%q: %s", args, advice)
		}
		amount = &node{op: opConstant, constant: intValue(n)}
	}
	units := map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "": time.Second}
	unit, ok := units[strings.ToLower(strings.TrimSpace(rest))]
	if !ok {
		return fmt.Errorf("%q: %s", args, advice)
	}
	if _, err := sleepTime(amount.constant.i, unit); err != nil {
		return err
	}
	return p.add(Step{Kind: Sleep, Line: line, Text: `\sleep ` + oneLine(args), expr: amount, unit: unit})
}

// maxSleep is longer than anybody waits and far from an overflow.
const maxSleep = 365 * 24 * time.Hour

// sleepTime returns n units, 0 if n is negative.
func sleepTime(n int64, unit time.Duration) (time.Duration, error) {
	if n > int64(maxSleep/unit) {
		return 0, fmt.Errorf("%d times %v is more than a year", n, unit)
	}
	return time.Duration(max(n, 0)) * unit, nil
}

// gset reads the argument of \gset and gives it to the statement before it.
func (p *parser) gset(afterSQL bool, prefix string) error {
	if !afterSQL {
		return fmt.Errorf("it does not follow a statement: put it behind the query whose row it is to keep")
	}
	if prefix != "" && nameAt(prefix, 0) != prefix {
		return fmt.Errorf("the prefix %q is no name: use letters, digits and _, a letter first", prefix)
	}
	step := &p.script.Steps[len(p.script.Steps)-1]
	step.gset, step.prefix = true, prefix
	step.Text = strings.TrimSuffix(step.Text, ";") + strings.TrimRight(` \gset `+prefix, " ")
	return nil
}
