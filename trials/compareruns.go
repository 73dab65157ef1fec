package trials

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tpssim/tpssim/tps"
)

// CompareRuns compares results that were measured at other times: runs are those of
// each name, the first is what the others are held against, and figure is as in
// [CompareConfig]. They must have the same scenario, engine and kind of load, and may
// differ in all else, which the result lists.
//
// Nothing makes such runs comparable but that somebody says so: what the machine did
// at the time is a part of every difference, and no statistics take it out.
//
// Runs that were interrupted, or whose proof failed, are left out with a warning;
// Verify is over all of them. A name without a run that counts is an error. StartedAt
// is that of the oldest run.
func CompareRuns(names []string, runs [][]*tps.Result, figure string) (*CompareResult, error) {
	if figure != "" {
		if _, err := FindFigure(figure); err != nil {
			return nil, err
		}
	}
	if len(names) < 2 || len(names) != len(runs) {
		return nil, fmt.Errorf("trials: %d lists of runs have %d names: two or more are needed, each with its own", len(runs), len(names))
	}
	c := comparing{figure: figure}
	left := []string{}
	for k, name := range names {
		if slices.Contains(names[:k], name) {
			return nil, fmt.Errorf("trials: %s is named twice: name another one to hold it against", name)
		}
		arm := comparedRuns{name: name}
		for _, run := range runs[k] {
			if v := run.Verify; !run.Interrupted && (!v.Checked || v.OK) {
				arm.runs = append(arm.runs, run)
			}
		}
		if without := len(runs[k]) - len(arm.runs); without > 0 {
			left = append(left, fmt.Sprintf("%s: %d of %d runs are left out, as they were interrupted or their proof failed", name, without, len(runs[k])))
		}
		if err := c.add(arm); err != nil {
			return nil, fmt.Errorf("trials: %s: %w", name, err)
		}
	}
	r := c.result()
	r.Warnings = append(left, r.Warnings...)
	for k, run := range slices.Concat(runs...) {
		if k == 0 || run.StartedAt.Before(r.StartedAt) {
			r.StartedAt = run.StartedAt
		}
		if failed := k > 0 && r.Verify.Checked && !r.Verify.OK; !failed {
			addProof(&r.Verify, run.Verify, k == 0)
		}
	}
	return r, nil
}

// add adds an arm of a history, if it can be compared with those before it.
func (c *comparing) add(arm comparedRuns) error {
	if len(arm.runs) == 0 {
		return errors.New("no run of it counts: save one that is whole and proved with -o")
	}
	c.arms = append(c.arms, arm)
	first := c.arms[0].runs[0]
	for k, run := range arm.runs {
		for _, must := range []struct{ name, got, want string }{
			{"scenario", run.Scenario, first.Scenario},
			{"engine", run.Engine, first.Engine},
			{"load", string(run.Load.Mode), string(first.Load.Mode)},
		} {
			if must.got != must.want {
				return fmt.Errorf("run %d has the %s %q, and the first run of %s %q: they cannot be compared", k+1, must.name, must.got, c.arms[0].name, must.want)
			}
		}
		if _, err := counted(run, nil); err != nil {
			return fmt.Errorf("run %d: %w", k+1, err)
		}
		if err := hasFigure(run, c.figure); err != nil {
			return fmt.Errorf("run %d: %w", k+1, err)
		}
	}
	return nil
}
