// Package script reads workloads in the script language of PostgreSQL's pgbench
// and runs them, as far as the language means something here: SQL statements, \set
// with its expressions, \sleep and \gset. It is pure: it knows no database and no
// clock; an [Executor] has both. The language is described at
// https://www.postgresql.org/docs/current/pgbench.html.
//
// # One script, one transaction
//
// A script is one transaction, and whoever runs it supplies BEGIN and COMMIT. A
// BEGIN or START TRANSACTION before the first statement and an END or COMMIT after
// the last say where that transaction begins and ends and are left out; without
// them it reaches from the first statement to the last. What stands before it
// (drawing random numbers, sleeping) and after it (sleeping) runs outside of it, see
// [Part]. More transactions in one script are refused: they are more scripts.
//
// # What is different from pgbench
//
//   - A variable in a statement becomes a bound parameter, always, so it stands
//     where a value may stand. It is none inside of literals, quoted names and
//     comments. Outside of them a colon is a variable's: a cast with :: and an
//     escaped \: are refused, for SQLite has neither.
//   - A variable that is defined as text (-D) is bound as that text, unless it is
//     written just as an integer or a double prints. Expressions read text as
//     pgbench does, see [Script.NewEnv].
//   - There is no client_id, and no default for it: a burst and a rate have no
//     clients. The caller defines default_seed, random_seed and scale, or they are
//     not defined.
//   - Each transaction has variables of its own and its own random numbers, which
//     follow from the seed and the transaction's number alone: nothing is carried
//     from one transaction to the next, and a run can be repeated in any order.
//   - $$..$$ literals are rewritten to '..'; comments are left out; \; ends a
//     statement like a semicolon.
//   - \set behind the transaction is refused: no statement can use it.
//   - \gset takes the first row where pgbench insists on exactly one.
//   - AND, OR and NOT take numbers for truth values, as pgbench's manual says and
//     its program does not.
//
// Everything else of pgbench is refused with the line on which it stands: \if and
// its kin, \aset, \shell, \setshell, pipelines, debug() and permute(), and
// statements that a transaction of the writer does not take.
package script

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is what a step does.
type Kind int

const (
	Set   Kind = iota + 1 // computes a variable
	SQL                   // runs a statement
	Sleep                 // waits: think time
)

// Step is one command of a script.
type Step struct {
	Kind Kind
	Line int    // where it begins, from 1
	Text string // as it was written, on one line and without comments
	SQL  string // the statement with ?1, ?2, … for its variables

	params []int         // the slots of the variables: that of ?1 first
	target int           // slot that Set changes
	expr   *node         // what Set computes, or how many units Sleep waits
	unit   time.Duration // of Sleep
	gset   bool          // the first row goes into variables …
	prefix string        // … whose names begin so
}

// Script is a parsed script. It does not change: any number of goroutines may run
// it, each with an [Env] of its own.
type Script struct {
	Name  string // as errors and reports call it
	Steps []Step
	// Steps[First:End] are the transaction; see [Part].
	First, End int

	slots    map[string]int // every variable that is mentioned
	names    []string       // by slot
	zipfians int            // calls of random_zipfian
	mutates  bool           // the transaction changes variables
}

// Part is a part of a script, in the order in which they run.
type Part int

const (
	// Before is what stands before the transaction, and variables that are
	// computed at its beginning, so that this need not hold the writer up.
	Before Part = iota
	// Inside is the transaction. It may run more than once, each time from what
	// Before left.
	Inside
	// After is what stands behind the transaction: nothing but \sleep. It is to run
	// only after a COMMIT that succeeded, and how long it sleeps is known by then, so
	// that only the Executor's Sleep can fail: because the run ends, which leaves the
	// transaction committed.
	After
)

// steps returns the range of the steps of a part.
func (s *Script) steps(part Part) (first, end int) {
	switch part {
	case Before:
		return 0, s.First
	case Inside:
		return s.First, s.End
	}
	return s.End, len(s.Steps)
}

// Row is the first row of a statement's result: int64, float64, string, []byte or
// nil. Its slices belong to the Env and are used again; the values are kept.
type Row struct {
	Columns []string
	Values  []any
}

// Executor does what a script asks for.
type Executor interface {
	// Exec runs sql, the statement of Steps[step], to its end with args bound to
	// ?1, ?2 and so on: int64, float64, string, []byte or nil. A row that is not
	// nil receives the names of the columns and the first row, or no values if
	// there is none. It must keep neither args nor row.
	Exec(step int, sql string, args []any, row *Row) error
	// Sleep waits for d, which is above 0.
	Sleep(d time.Duration) error
}

// Error is an error at a line of a script, from [Parse] or from running it. It
// wraps what went wrong, which may be the Executor's own error.
type Error struct {
	Name string // of the script
	Line int    // from 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %v", e.Name, e.Line, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Undefined returns an error for the first use of a variable that nothing has set
// by then: neither \set nor \gset further up nor one of known, the names that the
// caller will define. Which columns a \gset brings shows only when it runs, so
// behind it every name is taken for known that begins with its prefix.
func (s *Script) Undefined(known ...string) error {
	set := make(map[string]bool, len(known))
	for _, name := range known {
		set[name] = true
	}
	var prefixes []string
	defined := func(name string) bool {
		return set[name] || slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}
	for i := range s.Steps {
		step := &s.Steps[i]
		for _, slot := range append(step.expr.variables(nil), step.params...) {
			if name := s.names[slot]; !defined(name) {
				return &Error{s.Name, step.Line, undefined(name)}
			}
		}
		if step.Kind == Set {
			set[s.names[step.target]] = true
		}
		if step.gset {
			prefixes = append(prefixes, step.prefix)
		}
	}
	return nil
}

func undefined(name string) error {
	return fmt.Errorf("the variable %s is not defined: set it with \\set or \\gset further up, or with -D %s=VALUE", name, name)
}
