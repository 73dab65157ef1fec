package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/script"
	"github.com/tpssim/tpssim/tps"
)

// Scripts is a workload that users write. What it should leave behind is known to
// them alone, so nothing is proved of it.
type Scripts struct {
	Mix       *script.Mix
	Variables map[string]any // that every transaction begins with; see script.Script.NewEnv

	envs []sync.Pool // of each script: *script.Env that no transaction uses
}

// prepare makes sure that a script can be run, before anything is.
func (s *Scripts) prepare() error {
	s.envs = make([]sync.Pool, len(s.Mix.Scripts))
	for k, weighted := range s.Mix.Scripts {
		env, err := weighted.Script.NewEnv(s.Variables)
		if err != nil {
			return err
		}
		s.envs[k].Put(env)
	}
	return nil
}

// env returns an Env for script k. Its variables are known to be good.
func (s *Scripts) env(k int) (*script.Env, error) {
	if env, ok := s.envs[k].Get().(*script.Env); ok {
		return env, nil
	}
	return s.Mix.Scripts[k].Script.NewEnv(s.Variables)
}

// check lets the database see each statement before any is run, up to the first that
// makes a table, on which those behind it may depend.
func (s *Scripts) check(ctx context.Context, e engine.Engine) error {
	scripter, ok := e.(engine.Scripter)
	if !ok {
		return errNoScripts
	}
	for _, weighted := range s.Mix.Scripts {
		for _, step := range weighted.Script.Steps {
			if step.Kind != script.SQL {
				continue
			}
			if err := scripter.PrepareSQL(ctx, step.SQL); err != nil {
				return &script.Error{Name: weighted.Script.Name, Line: step.Line, Err: err}
			}
			if word, _, _ := strings.Cut(step.SQL, " "); strings.EqualFold(word, "CREATE") {
				break
			}
		}
	}
	return nil
}

var errNoScripts = errors.New("scenarios: this engine runs no scripts")

// names are the scripts as a result shows them.
func (s *Scripts) names() []string {
	names := []string{}
	for _, weighted := range s.Mix.Scripts {
		names = append(names, fmt.Sprintf("%s@%d", weighted.Script.Name, weighted.Weight))
	}
	return names
}

// scripted is one transaction of a script.
func scripted(w *work, i uint64, tr *tps.Trace) error {
	scripter, ok := w.engine.(engine.Scripter)
	if !ok {
		return errNoScripts
	}
	k := w.Scripts.Mix.Pick(i)
	env, err := w.Scripts.env(k)
	if err != nil {
		return err
	}
	defer w.Scripts.envs[k].Put(env)
	env.Reset(w.RandomSeed, i)
	run := &scriptRun{w: w, tr: tr, script: w.Scripts.Mix.Scripts[k].Script}
	if err := env.Run(script.Before, run); err != nil {
		return err
	}
	c := &call{w: w, i: i, intended: tr.Intended + run.thought}
	err = c.outcome(scripter.UpdateSQL(w.endless, (*engine.Timing)(&tr.Timing), func(tx engine.SQLTx) error {
		return c.run(func() error {
			run.tx = tx
			defer func() { run.tx = nil }()
			return env.Run(script.Inside, run)
		})
	}))
	if err == nil {
		// It is committed, and only the end of the run can cut the sleep behind it.
		_ = env.Run(script.After, run)
	}
	return err
}

// scriptRun is one transaction of a script as its commands see it.
type scriptRun struct {
	w      *work
	tr     *tps.Trace
	script *script.Script
	tx     engine.SQLTx // nil outside the transaction
	// thought is how long it slept before the transaction, in nanoseconds.
	thought int64
	row     engine.Row
}

// Exec implements script.Executor.
func (r *scriptRun) Exec(step int, sql string, args []any, row *script.Row) error {
	if r.w.Statements {
		start := r.w.engine.Now()
		defer func() {
			s := r.script.Steps[step]
			r.w.statements.Record(s.Line, fmt.Sprintf("%s:%d %s", r.script.Name, s.Line, s.Text), r.w.engine.Now()-start)
		}()
	}
	if row == nil {
		return r.tx.Run(sql, args, nil)
	}
	r.row = engine.Row(*row)
	err := r.tx.Run(sql, args, &r.row)
	*row = script.Row(r.row)
	return err
}

// Sleep implements script.Executor. Inside the transaction it holds the writer.
func (r *scriptRun) Sleep(d time.Duration) error {
	if err := r.w.sleep(d); err != nil {
		return err
	}
	if r.tx == nil {
		r.thought += int64(d)
		r.tr.Think(int64(d))
	}
	return nil
}
