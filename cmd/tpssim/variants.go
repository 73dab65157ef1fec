package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// variant is a run with some flags set in another way than on the command line: an
// arm of a comparison, a cell of a sweep.
type variant struct {
	name     string
	settings []trials.Setting
	cfg      scenarios.Config
	path     string // of its data set
	spec     accounts.Spec
}

// sets tells whether it sets a flag.
func (v *variant) sets(flag string) bool {
	return slices.ContainsFunc(v.settings, func(s trials.Setting) bool { return s.Name == flag })
}

// with calls do with the flags as they are when settings are set beside what was given,
// and puts them back afterwards. All that flags write to is in f. What a command calls
// like one of the fixed flags is its own, and not given to the run.
func (f *runFlags) with(flags *pflag.FlagSet, settings []trials.Setting, do func(given func(string) bool) error) error {
	saved, changed := *f, map[*pflag.Flag]bool{}
	defer func() {
		*f = saved
		for flag, was := range changed {
			flag.Changed = was
		}
	}()
	for _, s := range settings {
		flag := flags.Lookup(s.Name)
		if flag == nil || !variable(s.Name) {
			return usagef("%s=%s: %q is no flag of a run that can differ (tpssim run --help lists them)", s.Name, s.Value, s.Name)
		}
		if _, ok := changed[flag]; !ok {
			changed[flag] = flag.Changed
		}
		if err := setFlag(flags, s.Name, s.Value, s.Name+"="+s.Value); err != nil {
			return err
		}
	}
	return do(func(flag string) bool { return variable(flag) && flags.Changed(flag) })
}

// addVariable adds the flags that may differ between runs of one command.
func (f *runFlags) addVariable(flags *pflag.FlagSet) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(all)
	all.VisitAll(func(flag *pflag.Flag) {
		if variable(flag.Name) {
			flags.AddFlag(flag)
		}
	})
}

// fixed are flags of a run that say where its results go or what the whole command
// does, and so are the same for all.
var fixed = []string{
	"runs", "format", "output", "series", "log", "log-sample", "cpuprofile", "trace", "progress", "histograms", "statements",
	"threshold", "abort-on-fail", "quiet", "no-color", "config", "help",
	"file", "builtin", "define", "allow-foreign", // which rows a script touches is not known
}

// variable reports whether a flag may differ between runs of one command.
func variable(flag string) bool { return !slices.Contains(fixed, flag) }

// fileFlag reports whether a flag is of the data set itself.
func fileFlag(flag string) bool {
	return slices.Contains([]string{"rows", "balance", "schema", "payload", "indexes", "page-size"}, flag)
}

// variantConfig checks one set of settings, before anything is seeded, and names its
// data set.
func (a *app) variantConfig(flags *pflag.FlagSet, f *runFlags, v *variant) error {
	return f.with(flags, v.settings, func(given func(string) bool) (err error) {
		if v.cfg, err = f.config(given); err != nil {
			return err
		}
		v.path = ownFile(f.data.db, v.settings)
		typed := func(flag string) bool {
			return a.typed(flag) || v.sets(flag)
		}
		return cmp.Or(f.keys.misused(typed), f.engine.misused(v.cfg.Scenario, typed))
	})
}

// variantData finds the data set of one set of settings and makes it when it is not
// there: what differs in the file itself has one of its own beside the others', which
// is in all else like theirs.
func (a *app) variantData(ctx context.Context, flags *pflag.FlagSet, f *runFlags, v *variant) error {
	base := f.data.db
	return f.with(flags, v.settings, func(given func(string) bool) error {
		if _, err := f.config(given); err != nil { // the options of the engine come of it
			return err
		}
		if v.cfg.Scenario.OnTable() {
			v.path = f.data.db
			f.ownTable(&v.cfg)
			if !v.cfg.Scenario.Fills { // it reads as many as there are
				v.spec.Rows = v.cfg.Spec.Rows
			}
			return nil
		}
		spec := f.data.spec
		may := seedPermission{
			seed:  !given("db") || f.data.db == defaultDB,
			fits:  func(spec accounts.Spec) error { return f.keys.choose(&scenarios.Config{}, spec.Rows) },
			asked: given,
		}
		if v.path != base {
			if others, err := dataset.Inspect(base); err == nil {
				spec = may.want(others.Spec, spec)
			}
			if may.seed = true; !v.sets("db") { // whoever names a file may have one of another kind
				may.asked = func(string) bool { return true }
			}
		}
		info, err := a.dataSet(ctx, v.path, spec, may)
		if err != nil {
			return err
		}
		return f.place(v, info)
	})
}

// place makes v run on the data set.
func (f *runFlags) place(v *variant, info dataset.Info) error {
	v.path, v.spec, v.cfg.Spec = info.Path, info.Spec, info.Spec
	v.cfg.Open = f.engine.opener(v.cfg.Scenario, info.Path, info.Spec, false)
	return f.keys.choose(&v.cfg, info.Spec.Rows)
}

// ownFile names the data set of settings: db, or a file beside it when they say what
// is in it.
func ownFile(db string, settings []trials.Setting) string {
	var parts []string
	for _, s := range settings {
		if fileFlag(s.Name) {
			parts = append(parts, s.Name+"-"+s.Value)
		}
	}
	if len(parts) == 0 {
		return db
	}
	ext := filepath.Ext(db)
	return strings.TrimSuffix(db, ext) + "." + strings.Join(parts, ".") + ext
}

// run measures the variant once in a round: all variants of a round get the same
// transfers, each round others.
func (v *variant) run(a *app) func(ctx context.Context, round int) (*tps.Result, error) {
	return func(ctx context.Context, round int) (*tps.Result, error) {
		cfg := v.cfg
		cfg.RandomSeed += uint64(round)
		cfg.Load.ArrivalSeed = cfg.RandomSeed
		if cfg.Load.Mode() == tps.Burst {
			cfg.Load.Runs = 1 // behind one that warms up
		}
		res, err := a.measure(ctx, cfg, v.path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, explain(v.path, err))
		}
		return res, nil
	}
}
