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
	columns  []columns       // by step: where \gset puts its columns
	pauses   []time.Duration // of the steps of After, since Inside ran

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
// or nil. Names that the script does not mention are ignored. Reset comes before the
// first Run.
//
// A string is bound to statements as it is, unless it is an integer or a double and
// written as strconv writes it: 501 is an integer, 00501 is text. In expressions all
// text is read as pgbench reads the values of -D, in any case of letters: as NULL if
// it is null, as true if it is on or a prefix of true or yes (so t and y), as false
// if it is off, of or a prefix of false or no, else as a number. An integer of more
// than 64 bits is an error there, and so is other text; pgbench's infinities, NaN and
// hexadecimals are other text.
func (s *Script) NewEnv(vars map[string]any) (*Env, error) {
	e := &Env{
		script:   s,
		preset:   make([]value, len(s.names)),
		values:   make([]value, len(s.names)),
		marked:   make([]value, len(s.names)),
		zipfians: make([]zipfian, s.zipfians),
		columns:  make([]columns, len(s.Steps)),
		pauses:   make([]time.Duration, len(s.Steps)-s.End),
	}
	e.rng = rand.New(&e.pcg)
	for name, v := range vars {
		slot, mentioned := s.slots[name]
		if !mentioned {
			continue
		}
		if text, ok := v.(string); ok {
			e.preset[slot] = definedAs(text)
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

// Run runs a part of the script; the parts run in their order. An error stops it and
// is an [*Error] with the line of the command, wrapping the Executor's error if it is
// one. Inside fails too if it is not known how long After is to sleep.
func (e *Env) Run(part Part, ex Executor) error {
	if part == Inside && e.script.mutates {
		copy(e.values, e.marked)
		e.pcg = e.markedPCG
	}
	first, end := e.script.steps(part)
	for i := first; i < end; i++ {
		if err := e.run(i, ex); err != nil {
			return e.errorAt(i, err)
		}
	}
	switch part {
	case Before:
		e.mark()
	case Inside:
		return e.pause()
	}
	return nil
}

func (e *Env) errorAt(i int, err error) error {
	return &Error{e.script.Name, e.script.Steps[i].Line, err}
}

// pause computes how long After will sleep. It does so at the end of Inside, where
// an error still undoes the transaction.
func (e *Env) pause() error {
	for k := range e.pauses {
		var err error
		if e.pauses[k], err = e.sleepTime(&e.script.Steps[e.script.End+k]); err != nil {
			return e.errorAt(e.script.End+k, err)
		}
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
		if k := i - e.script.End; k >= 0 {
			return sleep(ex, e.pauses[k])
		}
		d, err := e.sleepTime(step)
		if err != nil {
			return err
		}
		return sleep(ex, d)
	}
	return e.exec(i, step, ex)
}

func sleep(ex Executor, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return ex.Sleep(d)
}

// sleepTime computes how long a \sleep takes.
func (e *Env) sleepTime(step *Step) (d time.Duration, err error) {
	v, err := e.eval(step.expr)
	if err == nil {
		var n int64
		if n, err = v.toInt(); err == nil {
			d, err = sleepTime(n, step.unit)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("\\sleep: %w", err)
	}
	return d, nil
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
