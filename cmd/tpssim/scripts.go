package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/script"
	"github.com/tpssim/tpssim/script/tpcb"
)

// scriptFlags are a workload that users write.
type scriptFlags struct {
	files, builtins, defines []string
	foreign                  bool
	paths                    []string // of the files that were read
}

func (f *scriptFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.files, "file", "f", nil, "run the transactions of a pgbench script instead of a scenario, as `FILE[@weight]`; may be repeated")
	flags.StringArrayVarP(&f.builtins, "builtin", "b", nil, "the same for a script of pgbench's own, as `NAME[@weight]`: "+strings.Join(script.BuiltinNames(), ", "))
	flags.StringArrayVarP(&f.defines, "define", "D", nil, "a variable for the scripts, as `name=value`; may be repeated")
	flags.BoolVar(&f.foreign, "allow-foreign", false, "let scripts write to a database that tpssim did not make")
}

// wanted tells whether scripts are to be run at all.
func (f *scriptFlags) wanted() bool { return len(f.files)+len(f.builtins) > 0 }

// check refuses flags that mean nothing together.
func (f *scriptFlags) check(given func(string) bool) error {
	if !f.wanted() {
		for _, flag := range []string{"define", "allow-foreign"} {
			if given(flag) {
				return usagef("--%s needs a script: give -f or -b", flag)
			}
		}
		return nil
	}
	for _, flag := range []string{"scenario", "reads", "max-tries", "dist", "layout", "pareto-r", "theta", "hot-accounts", "hot-traffic",
		"rows", "balance", "schema", "payload", "indexes", "page-size", "think", "fail-rate", "panic-rate"} {
		if given(flag) {
			return usagef("--%s has no meaning with -f or -b: the script says what is done", flag)
		}
	}
	return nil
}

// scripts reads the scripts and the variables that are defined.
func (f *scriptFlags) scripts(seed uint64) (*scenarios.Scripts, error) {
	var weighted []script.Weighted
	for _, group := range []struct {
		values []string
		read   func(string) (*script.Script, error)
	}{{f.files, f.read}, {f.builtins, script.Builtin}} {
		for _, value := range group.values {
			name, weight, err := script.ParseFlag(value)
			if err != nil {
				return nil, usageError(err)
			}
			s, err := group.read(name)
			if err != nil {
				return nil, usageError(err)
			}
			weighted = append(weighted, script.Weighted{Script: s, Weight: weight})
		}
	}
	mix, err := script.NewMix(seed, weighted...)
	if err != nil {
		return nil, usageError(err)
	}
	s := &scenarios.Scripts{Mix: mix, Variables: map[string]any{"random_seed": int64(seed), "default_seed": int64(seed)}}
	for _, define := range f.defines {
		name, value, ok := strings.Cut(define, "=")
		if !ok || name == "" {
			return nil, usagef("-D %q is not name=value", define)
		}
		s.Variables[name] = value
	}
	return s, nil
}

// read reads the script in a file.
func (f *scriptFlags) read(path string) (*script.Script, error) {
	f.paths = append(f.paths, path)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("-f %s: there is no such file (-b NAME runs one of pgbench's own: %s)", path, strings.Join(script.BuiltinNames(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	defer file.Close()
	parsed, err := script.Parse(path, file)
	if errors.Is(err, syscall.EISDIR) {
		err = fmt.Errorf("-f %s: it is a folder: name the file in it", path)
	}
	return parsed, err
}

// prepare makes cfg run the scripts on the database at path, and defines what is
// known of it. Nothing about it is changed that nobody asked for.
func (f *scriptFlags) prepare(cfg *scenarios.Config, path string, engine *engineFlags, given func(string) bool) error {
	if err := f.lookAt(cfg.Scripts, path); err != nil {
		return err
	}
	known := slices.Collect(maps.Keys(cfg.Scripts.Variables))
	for _, w := range cfg.Scripts.Mix.Scripts {
		if err := w.Script.Undefined(known...); err != nil {
			return usageError(err)
		}
	}
	if !given("journal-mode") {
		engine.options.Pragmas["journal_mode"] = "" // as it is
	}
	cfg.Open = engine.opener(cfg.Scenario, path, accounts.Spec{}, true)
	return nil
}

// lookAt sees what database lies at path, and if the scripts may write to it.
func (f *scriptFlags) lookAt(s *scenarios.Scripts, path string) error {
	define := func(name string, n int64) {
		if _, given := s.Variables[name]; !given {
			s.Variables[name] = n
		}
	}
	found, err := dataset.Look(path)
	switch {
	case errors.Is(err, dataset.ErrNotExist) && len(f.builtins) > 0:
		return fmt.Errorf("there are no tables of pgbench in %s: make them with %s", path, report.Command("tpssim", "seed", "--schema", schemaTPCB, "--scale", "1", "--db", path))
	case errors.Is(err, dataset.ErrNotExist):
		return missing(path)
	case errors.Is(err, dataset.ErrNotOurs) && !f.foreign:
		return fmt.Errorf("%s is no data set of tpssim: --allow-foreign lets the scripts write to it", path)
	case err != nil && !errors.Is(err, dataset.ErrNotOurs):
		return err
	case err == nil && found.Kind == dataset.KindTPCB:
		bench, err := tpcb.Inspect(path)
		define("scale", bench.Scale)
		return err
	}
	define("scale", 1) // as pgbench has it for scripts that are not its own
	if err != nil {
		return nil // not ours, and allowed
	}
	info, err := dataset.Inspect(path)
	if err != nil {
		return err
	}
	define("rows", info.Spec.Rows)
	return info.Ready()
}
