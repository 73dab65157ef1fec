package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// runFlags are the flags of run.
type runFlags struct {
	workFlags
	scripts scriptFlags
	load    loadFlags
	keys    keyFlags
	data    dataFlags
	table   tableFlags
	engine  engineFlags
	files   fileFlags

	statements bool
	histograms bool
	format     string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [scenario]",
		Short: "Run a scenario, measure it and prove its result",
		Long: `Run a scenario, measure it and prove that the database holds exactly what was
acknowledged. The load follows from the flags:

  -n N                a burst: N goroutines as fast as they start
  -n N -c C           C clients, N transactions in total
  -d 30s [-c 64]      C clients for a time
  -R 5000 -d 30s      5,000 arrivals a second, whoever waits
  --stage 10s:5000 --stage 30s:5000->20000
                      a rate that changes

Results go to stdout, everything else to stderr. Exit codes: 0 ok, 1 error,
2 usage, 3 the proof failed, 4 interrupted (what was measured is printed),
99 a threshold was crossed.`,
		Example: `  tpssim run -n 100000
  tpssim run mixed -n 100k --sync normal
  tpssim run -R 3000 -d 30s -P 1 --threshold 'p99<50ms'
  tpssim run -n 1m --dist uniform --db /data/billion.db
  tpssim run -b tpcb-like -c 20 -d 30s --db bench.db`,
		Args:              f.scenarioArg("run"),
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && f.scripts.wanted() {
				return usagef("%q is a scenario, and -f or -b a script: name one of them", args[0])
			}
			if len(args) == 1 {
				f.scenario = args[0]
			}
			return a.runScenario(cmd.Context(), &f, cmd.Flags().Changed)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// scenarioArg checks the arguments of a command that takes a scenario, as its only
// argument or as a flag.
func (f *workFlags) scenarioArg(command string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("%s takes one scenario, not %d: %q", command, len(args), args)
		}
		// Asked before the environment and the file are read: those yield to the
		// argument.
		if len(args) == 1 && cmd.Flags().Changed("scenario") && f.scenario != args[0] {
			return usagef("%q and --scenario %s are two scenarios: name one", args[0], f.scenario)
		}
		return nil
	}
}

func completeScenarios(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	for _, s := range scenarios.All {
		names = append(names, s.Name+"\t"+s.Summary)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// add adds the flags, grouped as they are listed.
func (f *runFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.scenario, "scenario", scenarios.Default, "the `scenario`, as the argument")
	f.scripts.add(flags)
	f.load.add(flags)
	f.keys.add(flags)
	f.data.add(flags)
	f.table.add(flags)
	f.engine.add(flags)
	f.workFlags.add(flags)
	flags.BoolVarP(&f.statements, "statements", "r", false, "time each statement too")
	flags.BoolVar(&f.histograms, "histograms", false, "draw the latencies and the batch sizes")
	formatVar(flags, &f.format)
	f.files.add(flags)
}

// runScenario is tpssim run.
func (a *app) runScenario(ctx context.Context, f *runFlags, given func(string) bool) error {
	cfg, err := f.config(given)
	if err == nil {
		err = cmp.Or(f.keys.misused(a.typed), f.engine.misused(cfg.Scenario, a.typed))
	}
	if err != nil {
		return err
	}
	files, err := f.files.open(f.keys.seed, slices.Concat(filesOf(f.data.db), f.scripts.paths, []string{a.config}))
	if err != nil {
		return err
	}
	res, err := a.runLoad(ctx, f, cfg, files, given)
	if err != nil {
		return errors.Join(err, files.abandon())
	}
	return errors.Join(a.print(res, f), files.write(res), outcome(res))
}

// runLoad runs the scenario on its data set.
func (a *app) runLoad(ctx context.Context, f *runFlags, cfg scenarios.Config, files *resultFiles, given func(string) bool) (*tps.Result, error) {
	path, err := f.prepare(ctx, a, &cfg, given)
	if err != nil {
		return nil, err
	}
	if files.log != nil {
		cfg.Load.Record = files.log.Record
	}
	if given("progress") {
		cfg.Load.OnSample = a.printSamples(f.load.sampleEvery)
	}
	if err := files.begin(); err != nil {
		return nil, err
	}
	defer files.stopProfiles()
	res, err := a.measure(ctx, cfg, path)
	if err != nil {
		return nil, interrupted(ctx, f.data.db, err)
	}
	for _, t := range f.load.parsedThresholds {
		res.Thresholds = append(res.Thresholds, t.Check(res))
	}
	return res, nil
}

// prepare makes cfg run on the database, which it finds or seeds.
func (f *runFlags) prepare(ctx context.Context, a *app, cfg *scenarios.Config, given func(string) bool) (path string, err error) {
	if cfg.Scripts != nil {
		return f.data.db, f.scripts.prepare(cfg, f.data.db, &f.engine, given)
	}
	if cfg.Scenario.OnTable() {
		f.ownTable(cfg)
		return f.data.db, nil
	}
	info, err := f.data.find(ctx, a, given, func(spec accounts.Spec) error {
		return f.keys.choose(&scenarios.Config{}, spec.Rows)
	})
	if err != nil {
		return "", err
	}
	cfg.Spec, cfg.Open = info.Spec, f.engine.opener(cfg.Scenario, info.Path, info.Spec, false)
	return info.Path, f.keys.choose(cfg, info.Spec.Rows)
}

// ownTable makes cfg run on a table of its own.
func (f *runFlags) ownTable(cfg *scenarios.Config) {
	cfg.Spec, cfg.RSS = f.data.spec, machine.RSS
	cfg.OpenTable = f.engine.table(f.data.db, cfg.Spec, cfg.Keys)
}

// outcome turns what a result says into the program's exit code.
func outcome(res *tps.Result) error {
	if err := unfinished(res.Verify, res.Interrupted); err != nil {
		return err
	}
	if res.Stopped != "" { // what drained afterwards may look better
		return &codeError{exitThreshold, nil}
	}
	for _, o := range res.Thresholds {
		if !o.OK {
			return &codeError{exitThreshold, nil}
		}
	}
	return nil
}

// unfinished is the exit code of a measurement whose proof failed or that was
// interrupted, whatever else it says.
func unfinished(v tps.Verify, interrupted bool) error {
	switch {
	case v.Checked && !v.OK:
		return &codeError{exitCheck, nil}
	case interrupted:
		return &codeError{exitInterrupted, nil}
	}
	return nil
}

// config reads the flags that do not depend on the data set, so that a mistake
// shows before anything is seeded.
func (f *runFlags) config(given func(string) bool) (scenarios.Config, error) {
	cfg, err := f.workFlags.config(given)
	if err != nil {
		return cfg, err
	}
	if cfg.Load, err = f.load.config(given); err != nil {
		return cfg, err
	}
	if err := f.data.spec.Validate(); err != nil {
		return cfg, usageError(err)
	}
	if err := cmp.Or(f.keys.check(given), f.engine.check(given)); err != nil {
		return cfg, err
	}
	if err := f.scripts.check(given); err != nil {
		return cfg, err
	}
	if f.scripts.wanted() {
		cfg.Scenario, cfg.Reads = scenarios.Scripted, 0
		if cfg.Scripts, err = f.scripts.scripts(f.keys.seed); err != nil {
			return cfg, err
		}
	}
	if cfg.Scenario.Direct {
		cfg.Load.BatchSize = cmp.Or(cfg.Scenario.Needs.MaxBatch, int(f.engine.maxBatch))
	}
	if err := f.table.config(&cfg); err != nil {
		return cfg, err
	}
	if f.histograms && f.format != "text" {
		return cfg, usagef("--histograms draws in the text: the JSON has them anyway")
	}
	cfg.RandomSeed, cfg.Load.ArrivalSeed = f.keys.seed, f.keys.seed
	cfg.Statements = f.statements
	if err := validLoad(cfg.Load, cfg.Scenario); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// measure runs the scenario with progress on stderr and adds what the machine
// says.
func (a *app) measure(ctx context.Context, cfg scenarios.Config, path string) (*tps.Result, error) {
	sampled := cfg.Load.OnSample != nil // samples are printed, and need no bar beside them
	if cfg.Load.Mode() == tps.OpenLoop {
		sleeper, err := tps.NewSleeper()
		if err != nil {
			return nil, err
		}
		defer sleeper.Close()
		cfg.Load.Sleep = sleeper.Sleep
	}
	meter := new(tps.Meter)
	cfg.Load.Meter = meter
	cfg.Load.BeforeRun, cfg.Load.OnSample = machineSamples(cfg.Load.OnSample)
	reading := newWatched("reading balances", "accounts")
	cfg.Progress = func(stage string, done, total int) {
		reading.stage(stage)
		reading.progress(int64(done), int64(total))
	}
	before := machine.ReadCounters()
	stop := a.watch(func() status { return loadStatus(meter.Snapshot(), reading, sampled) })
	res, err := scenarios.Run(ctx, cfg)
	stop()
	if err != nil {
		return nil, err
	}
	res.Argv = append(res.Argv, a.argv...)
	res.Engine = "sqlite"
	size := res.Env.DBBytes // of a table of its own, which is gone
	res.Env = machine.Read(path)
	res.Env.DBBytes = cmp.Or(size, res.Env.DBBytes)
	if res.Env.SQLite, err = sqlite.Version(); err != nil {
		return nil, err
	}
	res.Warnings = append(res.Warnings, disturbances(machine.ReadCounters().Sub(before), res)...)
	return res, nil
}

// machineSamples returns what completes each sample of a round with what this
// process took from the machine, and then passes it on.
func machineSamples(next func(*tps.Sample)) (begin func(context.Context, int, bool) error, complete func(*tps.Sample)) {
	var before machine.Usage
	begin = func(context.Context, int, bool) error {
		before = machine.ReadUsage()
		return nil
	}
	complete = func(s *tps.Sample) {
		now := machine.ReadUsage()
		since := now.Sub(before)
		before = now
		s.RSSBytes, s.CPU, s.GCs, s.GCPause = now.RSSBytes, since.CPU, since.GCs, since.GCPause
		if next != nil {
			next(s)
		}
	}
	return begin, complete
}

// printSamples returns what prints each sample of a load on stderr, but for what is
// left of an interval when the load ends.
func (a *app) printSamples(every time.Duration) func(*tps.Sample) {
	at := time.Duration(0)
	return func(s *tps.Sample) {
		if s.Interval < every/2 {
			return
		}
		if at == 0 || s.At < at { // another round
			fmt.Fprintln(a.stderr, report.SeriesHeader)
		}
		at = s.At
		fmt.Fprintln(a.stderr, report.SeriesLine(*s))
	}
}

// loadStatus is the progress of a load, or of the reading around it.
func loadStatus(p tps.Progress, reading *watched, sampled bool) status {
	if p.Phase == tps.Preparing {
		if s := reading.poll(); s.done < s.total {
			return s
		}
		return status{label: "preparing"}
	}
	if sampled && p.Phase != tps.WarmingUp {
		return status{}
	}
	if p.Duration > 0 && p.Elapsed > p.Duration {
		return status{label: "draining", unit: "tx", done: p.Acknowledged + p.Failed}
	}
	s := status{label: string(p.Phase), unit: "tx", done: p.Acknowledged + p.Failed, total: p.Transactions}
	if p.Phase == tps.Measuring && p.Run > 0 {
		s.label = fmt.Sprintf("run %d", p.Run)
	}
	if p.Duration > 0 {
		s.note = fmt.Sprintf("%v of %v", p.Elapsed.Round(time.Second), p.Duration)
	}
	return s
}

// stealShare is the share of CPU time taken by other guests above which a result
// is doubtful.
const stealShare = 0.02

// disturbances returns warnings about what the surroundings did meanwhile.
func disturbances(c machine.Counters, res *tps.Result) (list []string) {
	if share := c.StealFraction(); share > stealShare {
		list = append(list, fmt.Sprintf("other guests of this machine took %.0f %% of the CPU time", 100*share))
	}
	if c.ThrottledPeriods > 0 {
		list = append(list, fmt.Sprintf("a cgroup quota stopped this process %d times, for %v in all", c.ThrottledPeriods, c.Throttled.Round(time.Millisecond)))
	}
	switch res.Env.Filesystem {
	case "tmpfs", "ramfs":
		list = append(list, "the database lies in memory ("+res.Env.Filesystem+"): nothing is durable here, whatever synchronous says")
	}
	if res.Env.OS == "darwin" && res.Settings.Synchronous == "full" {
		list = append(list, "durability on macOS depends on fullfsync, which is on unless --pragma fullfsync=off")
	}
	return list
}

// print writes the result to stdout.
func (a *app) print(res *tps.Result, f *runFlags) error {
	render, err := a.renderRun(f.format, res, f.histograms)
	if err != nil {
		return err
	}
	return render(a.stdout)
}
