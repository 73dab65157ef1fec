package script

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Env is what one transaction of a script has for its own: variables and random
// numbers. It is for one goroutine at a time and may be used for one transaction
// after another.
type Env struct {
	script   *Script
	preset   []value // by slot: what the caller defined
	values   []value // by slot: now
	pcg      rand.PCG
	rng      *rand.Rand // on pcg
	zipfians []zipfian  // by call
	args     []any
	row      Row
	columns  []columns // by step: where \gset puts its columns

	// What Before left: each run of Inside begins with it.
	marked    []value
	markedPCG rand.PCG
}

// columns remembers which columns a statement returned and which slots they go to,
// -1 for one that the script does not mention.
type columns struct {
	names []string
	slots []int
}

// NewEnv returns an Env in which vars are defined: int, int64, float64, bool, string
// or nil. A string that reads as a number or a truth value counts as one, as with
// pgbench's -D. Names that the script does not mention are ignored. Reset comes
// before the first Run.
func (s *Script) NewEnv(vars map[string]any) (*Env, error) {
	e := &Env{
		script:   s,
		preset:   make([]value, len(s.names)),
		values:   make([]value, len(s.names)),
		marked:   make([]value, len(s.names)),
		zipfians: make([]zipfian, s.zipfians),
		columns:  make([]columns, len(s.Steps)),
	}
	e.rng = rand.New(&e.pcg)
	for name, v := range vars {
		slot, mentioned := s.slots[name]
		if !mentioned {
			continue
		}
		if text, ok := v.(string); ok {
			e.preset[slot] = parseValue(text)
			continue
		}
		var err error
		if e.preset[slot], err = valueOf(v); err != nil {
			return nil, fmt.Errorf("script: the variable %s: %w", name, err)
		}
	}
	for i := range e.preset {
		e.preset[i].box()
	}
	return e, nil
}

// Define defines a variable, from the next Reset on. A name that the script does not
// mention is ignored.
func (e *Env) Define(name string, v int64) {
	if slot, ok := e.script.slots[name]; ok {
		e.preset[slot] = intValue(v)
	}
}

// Reset begins transaction i of a run with a seed: the variables are what the caller
// defined, and the random numbers are those that belong to the seed and i.
func (e *Env) Reset(seed, i uint64) {
	copy(e.values, e.preset)
	e.pcg.Seed(mix64(seed^transactionStream), mix64(i+transactionStream))
	e.mark()
}

func (e *Env) mark() {
	if e.script.mutates {
		copy(e.marked, e.values)
		e.markedPCG = e.pcg
	}
}

// Run runs a part of the script. An error stops it and is an [*Error] with the line
// of the command, wrapping the Executor's error if it is one.
func (e *Env) Run(part Part, ex Executor) error {
	if part == Inside && e.script.mutates {
		copy(e.values, e.marked)
		e.pcg = e.markedPCG
	}
	first, end := e.script.steps(part)
	for i := first; i < end; i++ {
		if err := e.run(i, ex); err != nil {
			return &Error{e.script.Name, e.script.Steps[i].Line, err}
		}
	}
	if part == Before {
		e.mark()
	}
	return nil
}

// run runs one step.
func (e *Env) run(i int, ex Executor) error {
	step := &e.script.Steps[i]
	switch step.Kind {
	case Set:
		v, err := e.eval(step.expr)
		if err != nil {
			return fmt.Errorf("\\set %s: %w", e.script.names[step.target], err)
		}
		e.values[step.target] = v
		return nil
	case Sleep:
		d, err := e.sleepTime(step)
		if err != nil {
			return fmt.Errorf("\\sleep: %w", err)
		}
		if d <= 0 {
			return nil
		}
		return ex.Sleep(d)
	}
	return e.exec(i, step, ex)
}

func (e *Env) sleepTime(step *Step) (time.Duration, error) {
	v, err := e.eval(step.expr)
	if err != nil {
		return 0, err
	}
	n, err := v.toInt()
	if err != nil {
		return 0, err
	}
	return sleepTime(n, step.unit)
}

// exec runs a statement.
func (e *Env) exec(i int, step *Step, ex Executor) error {
	e.args = e.args[:0]
	for _, slot := range step.params {
		v := &e.values[slot]
		if v.kind == kindUnset {
			return undefined(e.script.names[slot])
		}
		e.args = append(e.args, v.box())
	}
	if !step.gset {
		return ex.Exec(i, step.SQL, e.args, nil)
	}
	e.row.Columns, e.row.Values = e.row.Columns[:0], e.row.Values[:0]
	if err := ex.Exec(i, step.SQL, e.args, &e.row); err != nil {
		return err
	}
	return e.store(i, step)
}

// store puts the row into the variables that are named after its columns.
func (e *Env) store(i int, step *Step) error {
	row, known := &e.row, &e.columns[i]
	if len(row.Values) == 0 {
		return errors.New("\\gset: the statement returned no row: it needs one")
	}
	if len(row.Columns) != len(row.Values) {
		return fmt.Errorf("\\gset: %d columns with %d values", len(row.Columns), len(row.Values))
	}
	if !slices.Equal(known.names, row.Columns) {
		known.names = slices.Clone(row.Columns)
		known.slots = known.slots[:0]
		for _, name := range row.Columns {
			slot, mentioned := e.script.slots[step.prefix+name]
			if !mentioned {
				slot = -1
			}
			known.slots = append(known.slots, slot)
		}
	}
	for column, slot := range known.slots {
		if slot < 0 {
			continue
		}
		v, err := valueOf(row.Values[column])
		if err != nil {
			return fmt.Errorf("\\gset: %w", err)
		}
		e.values[slot] = v
	}
	return nil
}
