package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// maxArms bounds what one comparison may hold: the correction for so many pairs leaves
// hardly any difference to be seen anyway.
const maxArms = 100

// The arms of compare --aa.
const (
	armA      = "A"
	armAAgain = "A'"
)

// compareFlags are the flags of compare.
type compareFlags struct {
	run runFlags // as every arm has them that does not say otherwise

	arms           []string
	aa             bool
	rounds         int64
	figure         string
	format, output string
}

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare [scenario] | compare OLD NEW",
		Short: "Tell whether two or more ways to run differ",
		Long: `Measure two or more arms in interleaved rounds, whose order turns round from one to
the next, and tell by how much they differ and whether that is likely noise. An arm is
what is set otherwise than by the other flags: flag=value, separated by commas, with a
value that holds a comma in double quotes. Its name is name=…, or else what it sets.
All arms of a round do the same transfers, each on fresh connections and with an empty
write-ahead log, and each is proved. An arm that changes the file itself, such as
page-size=8192, gets a data set of its own beside --db, made once.

With two files or more nothing is run: the runs that were saved there with -o are
compared, the first file's against the others'. They were not interleaved, and what
the machine did meanwhile is a part of the difference: the result says so.`,
		Example: `  tpssim compare --arm name=a,sync=normal --arm name=b,sync=full
  tpssim compare funds -c 64 -n 50k --arm max-batch=1 --arm max-batch=1000 --runs 10
  tpssim compare -R 3000 -d 10s --arm batch-window=0 --arm batch-window=1ms --figure p99_ns
  tpssim compare --aa
  tpssim compare old.json new.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return f.run.scenarioArg("compare")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return a.compareFiles(&f, args)
			}
			if len(args) == 1 {
				f.run.scenario = args[0]
			}
			return a.compareArms(cmd.Context(), &f, cmd.Flags())
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *compareFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	var figures []string
	for _, figure := range trials.Figures {
		figures = append(figures, figure.Name)
	}
	flags.StringArrayVar(&f.arms, "arm", nil, "an arm, as `name=a,sync=normal`; twice or more, the first is what the others are held against")
	flags.BoolVar(&f.aa, "aa", false, "hold the flags as they are against themselves: this machine's noise")
	countVar(flags, &f.rounds, "runs", "", trials.DefaultRounds, "rounds, fixed before the first one")
	choiceVar(flags, &f.figure, "figure", "", "what is compared: tps, tps_settled, p50_ns or p99_ns (tps; at a rate p99_ns)", figures...)
	f.run.addVariable(flags)
	formatVar(flags, &f.format)
	flags.StringVarP(&f.output, "output", "o", "", "append the result to this `file`, a JSON object a line")
}

// compareArms is tpssim compare with arms that are measured.
func (a *app) compareArms(ctx context.Context, f *compareFlags, flags *pflag.FlagSet) error {
	if err := checkCounts(flags.Changed, countRange{"runs", "--runs", f.rounds, 1, trials.MaxRounds}); err != nil {
		return err
	}
	variants, err := f.variants(flags)
	if err != nil {
		return err
	}
	taken := append(filesOf(f.run.data.db), a.config)
	for _, v := range variants {
		if err := a.variantConfig(flags, &f.run, v); err != nil {
			return v.explain(err)
		}
		taken = append(taken, filesOf(v.path)...)
	}
	out, err := openOutput("-o", f.output, taken)
	if err != nil {
		return err
	}
	for _, v := range variants {
		if err := a.variantData(ctx, flags, &f.run, v); err != nil {
			return errors.Join(v.explain(err), out.abandon())
		}
	}
	res, err := trials.Compare(ctx, f.config(a, variants))
	if err != nil && (res == nil || res.Rounds == 0) {
		return errors.Join(err, out.abandon())
	}
	res.Argv = append(res.Argv, a.argv...)
	// What the whole rounds say stands, also when an error ended the last one.
	return errors.Join(err, a.printCompare(f.format, res), report.JSONLine(res)(out), out.Close(), unfinished(res.Verify, res.Interrupted))
}

// variants reads the arms.
func (f *compareFlags) variants(flags *pflag.FlagSet) ([]*variant, error) {
	switch {
	case f.aa && len(f.arms) > 0:
		return nil, usagef("--aa and --arm are two questions: --aa holds the flags as they are against themselves")
	case f.aa:
		return []*variant{{name: armA}, {name: armAAgain}}, nil
	case len(f.arms) > maxArms:
		return nil, usagef("%d arms: compare %d or less at a time (tpssim sweep takes more)", len(f.arms), maxArms)
	case len(f.arms) < 2 && isFile(f.run.scenario):
		return nil, usagef("compare %s: name two files, the older first", f.run.scenario)
	case len(f.arms) < 2:
		return nil, usagef("compare needs two arms, as --arm name=a,sync=normal --arm name=b,sync=full, or --aa, or two files of results")
	}
	var list []*variant
	for _, text := range f.arms {
		v, err := parseArm(flags, text)
		if err != nil {
			return nil, usagef("--arm %q: %w", text, err)
		}
		if slices.ContainsFunc(list, func(other *variant) bool { return other.name == v.name }) {
			return nil, usagef("--arm %q: another arm is called %s too: give each a name= of its own", text, v.name)
		}
		list = append(list, v)
	}
	return list, nil
}

// isFile tells whether an argument that is no scenario names a file.
func isFile(arg string) bool {
	if _, err := scenarios.Find(arg); err == nil {
		return false
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}

// parseArm reads the text of an arm.
func parseArm(flags *pflag.FlagSet, text string) (*variant, error) {
	const name = "name"
	settings, err := parseSettings(flags, text)
	if err != nil {
		return nil, err
	}
	v := &variant{}
	named := false
	for _, s := range settings {
		if s.Name != name {
			v.settings = append(v.settings, s)
			continue
		}
		if v.name, named = s.Value, true; v.name == "" {
			return nil, errors.New("the name is empty")
		}
	}
	if !named {
		v.name = settingsText(v.settings)
	}
	return v, nil
}

// explain says which arm an error is about, when it is not about all.
func (v *variant) explain(err error) error {
	if err == nil || len(v.settings) == 0 {
		return err
	}
	return fmt.Errorf("arm %s: %w", v.name, err)
}

// config is what is compared.
func (f *compareFlags) config(a *app, variants []*variant) trials.CompareConfig {
	cfg := trials.CompareConfig{Rounds: int(f.rounds), Figure: f.figure, AA: f.aa, Observe: a.noteRound}
	for _, v := range variants {
		cfg.Arms = append(cfg.Arms, trials.VariantArm{Arm: trials.Arm{Name: v.name, Run: v.run(a)}, Settings: v.settings})
		cfg.Warmup = cfg.Warmup || v.startsAtOnce()
	}
	return cfg
}

// startsAtOnce tells whether the variant would be measured from its first transaction
// on though nobody asked for that: a burst has a round before, and what is to be cold
// would be dropped from memory again.
func (v *variant) startsAtOnce() bool {
	load := v.cfg.Load
	return load.Mode() != tps.Burst && load.Warmup == 0 && v.cfg.Cache != scenarios.CacheCold
}

// compareFiles is tpssim compare with files of saved runs.
func (a *app) compareFiles(f *compareFlags, paths []string) error {
	for _, flag := range slices.Sorted(maps.Keys(a.typedFlags)) {
		if !slices.Contains([]string{"figure", "format", "output", "quiet", "no-color", "config"}, flag) {
			return usagef("--%s has no meaning beside files: nothing is run (a scenario is one argument, files are two)", flag)
		}
	}
	for k, path := range paths {
		for _, other := range paths[:k] {
			if sameFile(path, other) {
				return usagef("compare %s: the file is named twice: name another one to hold it against", path)
			}
		}
	}
	out, err := openOutput("-o", f.output, append(slices.Clone(paths), a.config))
	if err != nil {
		return err
	}
	results, err := compareSaved(paths, f.figure)
	if err != nil {
		return errors.Join(err, out.abandon())
	}
	var sheets []sheet
	var errs []error
	for _, res := range results {
		res.Argv = append(res.Argv, a.argv...)
		render, err := a.renderCompare(f.format, res)
		sheets = append(sheets, sheet{compareTitle(res), render})
		errs = append(errs, err, report.JSONLine(res)(out))
	}
	errs = append(errs, a.printSheets(f.format, sheets), out.Close())
	for _, res := range results {
		errs = append(errs, unfinished(res.Verify, false))
	}
	return errors.Join(errs...)
}
