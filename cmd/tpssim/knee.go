package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// kneeFlags are the flags of knee.
type kneeFlags struct {
	workFlags
	keys   keyFlags
	data   dataFlags
	engine engineFlags

	slo               []string
	need, start, most int64
	arrival           string
	burst             int64
	warmup            time.Duration
	given             bool // only the load as given
	format, output    string
}

func (a *app) kneeCommand() *cobra.Command {
	var f kneeFlags
	cmd := &cobra.Command{
		Use:   "knee [scenario]",
		Short: "Find the highest rate that holds an objective",
		Long: `Find the highest rate at which every --slo holds: double the rate until it fails
twice, bisect until 5 % are left, and go up and down around that edge: up after a
step that holds, down after one that does not. The answer is the highest rate that
holds at least as often as not. Each step has 10,000 transactions and two checkpoints
at least, or is noted as short of them.

Two loads are walked, the worse first: uniform keys with nothing in memory, and the
load as the flags give it. The smaller of the two rates is the answer.

With --need the answer is YES, NO, or UNKNOWN when this machine could not offer the
load evenly; all but YES exit with 99.`,
		Example: `  tpssim knee --slo 'p99<50ms' --need 3000
  tpssim knee funds --slo 'p99<20ms' --slo 'error_rate<1%' --db /data/billion.db`,
		Args:              f.scenarioArg("knee"),
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.scenario = args[0]
			}
			return a.knee(cmd.Context(), &f, cmd.Flags().Changed)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *kneeFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.scenario, "scenario", scenarios.Default, "the `scenario`, as the argument")
	flags.StringArrayVar(&f.slo, "slo", nil, "what must `hold`, as p99<50ms; may be repeated")
	countVar(flags, &f.need, "need", "", 0, "the rate that is needed: answer YES or NO")
	countVar(flags, &f.start, "start", "", 0, "the first rate that is tried (--need, or 1000)")
	countVar(flags, &f.most, "most", "", 0, "the highest rate that is tried")
	flags.BoolVar(&f.given, "as-given", false, "walk only the load that the flags give, not cold uniform keys too")
	choiceVar(flags, &f.arrival, "arrival", "poisson", "constant, or poisson as of many users who know nothing of each other", "constant", "poisson")
	countVar(flags, &f.burst, "burst-size", "", 0, "arrivals that come at the same instant (1)")
	durationVar(flags, &f.warmup, "warmup", "", 2*time.Second, time.Second, "load before each step, but for what is to be cold")
	f.keys.add(flags)
	f.data.add(flags)
	f.engine.add(flags)
	f.workFlags.add(flags)
	choiceVar(flags, &f.format, "format", "text", "what stdout gets: text, json or csv (a row a step)", "text", "json", "csv")
	flags.StringVarP(&f.output, "output", "o", "", "append the result to this `file`, a JSON object a line")
}

// knee is tpssim knee.
func (a *app) knee(ctx context.Context, f *kneeFlags, given func(string) bool) error {
	cfg, base, err := f.config(given)
	if err == nil {
		err = cmp.Or(f.keys.misused(a.typed), f.engine.misused(base.Scenario, a.typed))
	}
	if err != nil {
		return err
	}
	out, err := openOutput("-o", f.output, filesOf(f.data.db))
	if err != nil {
		return err
	}
	info, err := f.data.find(ctx, a, given, func(spec accounts.Spec) error {
		return f.keys.choose(&scenarios.Config{}, spec.Rows)
	})
	if err == nil {
		cfg.Loads, err = a.kneeLoads(f, base, info)
	}
	if err != nil {
		return errors.Join(err, out.abandon())
	}
	cfg.Observe = a.noteStep
	res, err := trials.Knee(ctx, cfg)
	if err != nil && (res == nil || len(res.Loads) == 0) {
		return errors.Join(interrupted(ctx, f.data.db, err), out.abandon())
	}
	res.Argv = append(res.Argv, a.argv...)
	if f.given {
		res.Warnings = append(res.Warnings, "only the load as given was walked, not cold uniform keys (--as-given)")
	}
	// What is known stands, also when an error ended the search.
	return errors.Join(interrupted(ctx, f.data.db, err), a.printKnee(res, f.format), report.JSONLine(res)(out), out.Close(), kneeOutcome(res))
}

// config reads the flags that do not depend on the data set.
func (f *kneeFlags) config(given func(string) bool) (cfg trials.KneeConfig, base scenarios.Config, err error) {
	if base, err = f.workFlags.config(given); err != nil {
		return cfg, base, err
	}
	if err := checkCounts(given,
		countRange{"need", "--need", f.need, trials.MinRate, tps.MaxRate},
		countRange{"start", "--start", f.start, trials.MinRate, tps.MaxRate},
		countRange{"most", "--most", f.most, trials.MinRate, tps.MaxRate},
		countRange{"burst-size", "--burst-size", f.burst, 1, 1_000_000},
	); err != nil {
		return cfg, base, err
	}
	if given("need") && given("start") {
		return cfg, base, usagef("--need and --start are two first rates: the search begins at the one that is needed")
	}
	cfg = trials.KneeConfig{Need: float64(f.need), Start: float64(f.start), Most: float64(f.most)}
	for _, text := range f.slo {
		t, err := tps.ParseThreshold(text)
		if err != nil {
			return cfg, base, usageError(err)
		}
		cfg.SLO = append(cfg.SLO, t)
	}
	if err := f.data.spec.Validate(); err != nil {
		return cfg, base, usageError(err)
	}
	if err := cmp.Or(f.keys.check(given), f.engine.check(given)); err != nil {
		return cfg, base, err
	}
	if base.Scenario.Direct {
		return cfg, base, usagef("direct has no callers that arrive at a rate: choose another scenario")
	}
	base.RandomSeed = f.keys.seed
	base.Load = tps.Config{
		Rate: max(cfg.Need, 1), Duration: time.Second, Warmup: f.warmup,
		Arrival: tps.Arrival(f.arrival), ArrivalSeed: f.keys.seed, BurstSize: int(f.burst),
	}
	if err := validLoad(base.Load, base.Scenario); err != nil {
		return cfg, base, err
	}
	if err := base.Validate(); err != nil {
		return cfg, base, err
	}
	// Only the loads are missing, which need the data set.
	probe := cfg
	probe.Loads = []trials.Load{{}}
	return cfg, base, probe.Validate()
}

// kneeLoads returns the loads that are walked, the worst first.
func (a *app) kneeLoads(f *kneeFlags, base scenarios.Config, info dataset.Info) ([]trials.Load, error) {
	base.Spec, base.Open = info.Spec, f.engine.opener(base.Scenario, info.Path, info.Spec, false)
	asGiven := base
	if err := f.keys.choose(&asGiven, info.Spec.Rows); err != nil {
		return nil, err
	}
	var loads []trials.Load
	if !f.given && !(f.keys.dist == "uniform" && f.cache == scenarios.CacheCold) {
		cold, keys := base, f.keys
		keys.dist, cold.Cache = "uniform", scenarios.CacheCold
		if err := keys.choose(&cold, info.Spec.Rows); err != nil {
			return nil, err
		}
		loads = append(loads, a.kneeLoad("cold uniform", cold, info.Path))
	}
	return append(loads, a.kneeLoad("as given", asGiven, info.Path)), nil
}

// kneeLoad is one load, at whatever rate.
func (a *app) kneeLoad(name string, cfg scenarios.Config, path string) trials.Load {
	if cfg.Cache == scenarios.CacheCold {
		cfg.Load.Warmup = 0 // it would be dropped from memory again
	}
	return trials.Load{
		Name: name,
		Run: func(ctx context.Context, rate float64, length, most time.Duration, enough func(*tps.Result) string) (*tps.Result, error) {
			step := cfg
			step.Load.Rate, step.Load.Duration, step.Load.Interim = rate, most, enough
			// Most steps end when they have seen enough, at the end of a second.
			step.PoolSize = int64(rate * (length + cfg.Load.Warmup + 2*time.Second).Seconds())
			return a.measure(ctx, step, path)
		},
	}
}

// noteStep tells of a step that is done.
func (a *app) noteStep(p trials.KneeProgress) {
	if p.Step == nil {
		return
	}
	line := fmt.Sprintf("%s: %s a second: %s, p99 %v", p.Load, humanize.CommafWithDigits(p.Rate, 0), p.Step.Verdict, p.Step.P99.Round(10*time.Microsecond))
	if p.Step.Reason != "" {
		line += " (" + p.Step.Reason + ")"
	}
	a.note("%s", line)
}

func (a *app) printKnee(res *trials.KneeResult, format string) error {
	switch format {
	case "json":
		return report.JSON(res)(a.stdout)
	case "csv":
		return report.KneeCSV(res)(a.stdout)
	}
	return report.KneeText(res, a.color(a.stdout))(a.stdout)
}

// kneeOutcome turns the answer into the program's exit code.
func kneeOutcome(res *trials.KneeResult) error {
	err := unfinished(res.Verify, res.Interrupted)
	if err == nil && res.Need > 0 && res.Answer != trials.Yes {
		err = &codeError{exitThreshold, nil}
	}
	return err
}
