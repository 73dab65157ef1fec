package script

import (
	"fmt"
	"io"
	"strings"
)

// Limits of a script. They are far above what a workload needs and keep a wrong
// file, such as a database, from being read as one.
const (
	maxBytes  = 1 << 20
	maxSteps  = 10_000
	maxParams = 32_766 // in one statement: SQLite's own limit, https://www.sqlite.org/limits.html
)

// Parse reads a script of at most 1 MiB. name is what errors call it, a file's path
// or whatever tells the user which one; they are of type [*Error] where they have a
// line.
func Parse(name string, r io.Reader) (*Script, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("script: %s: %w", name, err)
	}
	if len(content) > maxBytes {
		return nil, fmt.Errorf("script: %s: it is larger than 1 MiB: name a script", name)
	}
	p := &parser{
		script: &Script{Name: name, slots: map[string]int{}},
		text:   strings.TrimPrefix(string(content), "\ufeff"),
		line:   1,
	}
	if at := strings.IndexByte(p.text, 0); at >= 0 {
		p.line += strings.Count(p.text[:at], "\n")
		return nil, p.errorf("a NUL byte: name a text file")
	}
	if err := p.parse(); err != nil {
		return nil, err
	}
	return p.script, nil
}

// parser reads one script.
type parser struct {
	script *Script
	text   string
	pos    int // in text
	line   int // of pos

	// The lines of the transaction's bounds, 0 if they have not come yet, and how
	// many steps came before them.
	begin, end          int
	beginStep, endStep  int
	statements          int
	firstStmt, lastStmt int  // steps
	afterSQL            bool // the last command was a statement that \gset may follow
}

// errorf is an error at the line that the parser has reached.
func (p *parser) errorf(format string, args ...any) error { return p.errorAt(p.line, format, args...) }

func (p *parser) errorAt(line int, format string, args ...any) error {
	return &Error{p.script.Name, line, fmt.Errorf(format, args...)}
}

// parse reads all commands: a statement ends at a semicolon, at a meta command or
// at the end.
func (p *parser) parse() error {
	for p.pos < len(p.text) {
		stmt, err := p.scanStatement()
		if err != nil {
			return err
		}
		if err := p.addStatement(stmt); err != nil {
			return err
		}
		if p.pos < len(p.text) && p.text[p.pos] == '\\' {
			if err := p.metaCommand(); err != nil {
				return err
			}
		}
	}
	return p.finish()
}

// add appends a step.
func (p *parser) add(step Step) error {
	if len(p.script.Steps) == maxSteps {
		return p.errorAt(step.Line, "more than %d commands", maxSteps)
	}
	p.script.Steps = append(p.script.Steps, step)
	return nil
}

// slot returns the place of a variable.
func (p *parser) slot(name string) int {
	slot, ok := p.script.slots[name]
	if !ok {
		slot = len(p.script.names)
		p.script.slots[name] = slot
		p.script.names = append(p.script.names, name)
	}
	return slot
}

// refused are statements that a transaction of the writer does not take, by their
// first word.
var refused = map[string]string{
	"ROLLBACK":  "a script cannot undo its transaction",
	"ABORT":     "a script cannot undo its transaction",
	"SAVEPOINT": "the transaction has one of its own",
	"RELEASE":   "the transaction has a savepoint of its own",
	"PRAGMA":    "set it for the whole run with --pragma",
	"ATTACH":    "a script uses one database",
	"DETACH":    "a script uses one database",
	"VACUUM":    "it cannot run inside of a transaction",
}

// addStatement takes a statement in: as a step, as a bound of the transaction, or
// not at all.
func (p *parser) addStatement(stmt *statement) error {
	if stmt.empty() {
		return nil
	}
	p.afterSQL = false
	first, second := stmt.word(0), stmt.word(1)
	switch {
	case first == "BEGIN", first == "START" && second == "TRANSACTION":
		return p.addBegin(stmt)
	case first == "END", first == "COMMIT":
		return p.addEnd(stmt)
	case first == "CREATE" && (second == "TRIGGER" || stmt.word(2) == "TRIGGER"):
		return p.errorAt(stmt.line, "CREATE TRIGGER is not supported: make triggers before the run")
	}
	if why, ok := refused[first]; ok {
		return p.errorAt(stmt.line, "%s is not supported: %s", first, why)
	}
	if p.end > 0 {
		return p.second(stmt)
	}
	if len(stmt.params) > maxParams {
		return p.errorAt(stmt.line, "a statement with %d variables, at most %d are possible", len(stmt.params), maxParams)
	}
	if p.statements == 0 {
		p.firstStmt = len(p.script.Steps)
	}
	p.lastStmt = len(p.script.Steps)
	p.statements++
	p.afterSQL = true
	return p.add(Step{Kind: SQL, Line: stmt.line, Text: stmt.text.String() + ";", SQL: stmt.sql.String(), params: stmt.params})
}

// second refuses what follows the end of the transaction.
func (p *parser) second(stmt *statement) error {
	return p.errorAt(stmt.line, "%s after the transaction ended on line %d: a script is one transaction: put the rest into a file of its own and name both with -f", stmt.words[0], p.end)
}

func (p *parser) addBegin(stmt *statement) error {
	switch {
	case p.end > 0:
		return p.second(stmt)
	case p.begin > 0:
		return p.errorAt(stmt.line, "%s inside of the transaction that began on line %d: leave it out", stmt.words[0], p.begin)
	case p.statements > 0:
		return p.errorAt(stmt.line, "%s after a statement: a script is one transaction: begin with it, or put the statements before it into a file of their own and name both with -f", stmt.words[0])
	}
	p.begin, p.beginStep = stmt.line, len(p.script.Steps)
	return nil
}

func (p *parser) addEnd(stmt *statement) error {
	switch {
	case p.end > 0:
		return p.second(stmt)
	case p.begin == 0:
		return p.errorAt(stmt.line, "%s without BEGIN: put BEGIN; before the first statement, or leave both out", stmt.words[0])
	}
	p.end, p.endStep = stmt.line, len(p.script.Steps)
	return nil
}

// finish checks the script as a whole and divides it into its parts.
func (p *parser) finish() error {
	s := p.script
	switch {
	case p.begin > 0 && p.end == 0:
		return p.errorAt(p.begin, "BEGIN without END: put END; behind the last statement, or leave both out")
	case p.statements == 0:
		return p.errorf("no SQL statement: a script needs at least one")
	}
	s.First, s.End = p.firstStmt, p.lastStmt+1
	if p.begin > 0 {
		s.First, s.End = p.beginStep, p.endStep
	}
	for s.Steps[s.First].Kind == Set {
		s.First++
	}
	for _, step := range s.Steps[s.End:] {
		if step.Kind == Set {
			return p.errorAt(step.Line, "\\set: no statement can use it behind the last one: put it further up or leave it out")
		}
	}
	for i := s.First; i < s.End; i++ {
		s.mutates = s.mutates || s.Steps[i].Kind == Set || s.Steps[i].gset
	}
	return nil
}
