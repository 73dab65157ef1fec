package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// sweepFlags are the flags of sweep.
type sweepFlags struct {
	run runFlags // as every cell has them that does not say otherwise

	preset         string
	params, arms   []string
	loads          []string
	slo            []string
	rounds         int64
	sort           string
	format, output string
	resume         bool
}

func (a *app) sweepCommand() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep [scenario]",
		Short: "Measure a grid of settings and find the ones to choose",
		Long: `Measure every combination of some flags' values in interleaved rounds, mark the
frontier, the cells that no other beats on both TPS and p99, measure the best again
in rounds of their own, and recommend one: the fastest that holds every --slo, or
the ends of the frontier.

A --param is a flag and its values; a --load is a load that all cells run at, and only
cells of the same load are held against each other. As a batch window means nothing in
a burst, a sweep of batch-window runs at a rate as well, unless the load is given.
Flags that change the file get a data set of its own beside --db, made once.

With -o FILE each run is kept as soon as it is done; after Ctrl-C or a crash, the same
command with --resume goes on with the very next run.

Presets, which --param, --arm, --load and other flags change:

` + presetList(),
		Example: `  tpssim sweep --preset batch-window
  tpssim sweep --preset batch-window --slo 'p99<5ms' --sync normal
  tpssim sweep --param sync=normal,full --param max-batch=1,1000 -o sweep.jsonl
  tpssim sweep --param cache-size=4MiB,64MiB --load n=100k --load R=3000,d=10s
  tpssim sweep --param sync=normal,full --param max-batch=1,1000 -o sweep.jsonl --resume`,
		Args:              f.run.scenarioArg("sweep"),
		ValidArgsFunction: completeScenarios,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.run.scenario = args[0]
				a.typedFlags["scenario"] = true // an argument is as good as the flag
			}
			return a.sweep(cmd.Context(), &f, cmd.Flags())
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *sweepFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.preset, "preset", "", "a sweep by its `name`, see above")
	flags.StringArrayVar(&f.params, "param", nil, "a flag and its `values`, as batch-window=0,100us,1ms; may be repeated. A value given twice shows the noise")
	flags.StringArrayVar(&f.arms, "arm", nil, "several settings at once, as `name=a,sync=normal,cache-size=4MiB`; twice or more, each is a cell, or a row of them beside --param")
	flags.StringArrayVar(&f.loads, "load", nil, "a load that all cells run at, as n=100k or `R=5000,d=5s`; may be repeated")
	flags.StringArrayVar(&f.slo, "slo", nil, "what must `hold`, as p99<20ms; may be repeated")
	countVar(flags, &f.rounds, "runs", "", trials.DefaultSweepRounds, "rounds over all cells, fixed before the first one")
	flags.StringVar(&f.sort, "sort", "cell", "the `column` by which the table is sorted: cell, load, tps, tps_settled, p50_ns, p99_ns or a --param")
	f.run.addVariable(flags)
	formatVar(flags, &f.format)
	flags.StringVarP(&f.output, "output", "o", "", "keep each run in this `file` as soon as it is done, a JSON object a line")
	flags.BoolVar(&f.resume, "resume", false, "go on with the sweep that -o has kept")
}

// sweep is tpssim sweep.
func (a *app) sweep(ctx context.Context, f *sweepFlags, flags *pflag.FlagSet) error {
	cells, cfg, err := a.sweepConfig(f, flags)
	if err != nil {
		return err
	}
	taken := append(filesOf(f.run.data.db), a.config)
	for _, c := range cells {
		taken = append(taken, filesOf(c.path)...)
	}
	head := f.head(flags, cells)
	head.Argv = append(head.Argv, a.argv...)
	kept, err := openSweep(f.output, taken, f.resume, head)
	if err != nil {
		return err
	}
	cfg.Done = kept.done
	for k, c := range cells {
		if err = a.variantData(ctx, flags, &f.run, c.variant); err != nil {
			return errors.Join(interrupted(ctx, c.path, err), kept.abandon())
		}
		cfg.Cells[k].Run = c.run(a)
	}
	if err := cmp.Or(cfg.Validate(), sameRows(cfg.Done, cells)); err != nil {
		return errors.Join(err, kept.abandon())
	}
	if err := kept.begin(); err != nil {
		return errors.Join(err, kept.abandon())
	}
	a.tellSweep(f, cells, cfg)
	cfg.Save, cfg.Observe = kept.save, a.noteCell(cells, cfg)
	res, err := trials.Sweep(ctx, cfg)
	if !slices.ContainsFunc(res.Cells, func(c trials.SweptCell) bool { return c.TPS.N > 0 }) {
		if err == nil {
			err = ctx.Err()
		}
		return errors.Join(interrupted(ctx, f.run.data.db, err), kept.Close())
	}
	kept.head.Describe(res)
	if (err != nil || res.Interrupted) && f.output != "" {
		a.note("what is done is in %s: the same command with --resume goes on behind it", f.output)
	}
	// What is known stands, also when an error ended the sweep.
	return errors.Join(err, res.Sort(f.sort), a.printSweep(res, f.format), kept.Close(), unfinished(res.Verify, res.Interrupted))
}

// sweepCell is a cell before it is measured.
type sweepCell struct {
	*variant
	load     string           // its name
	swept    []trials.Setting // its settings without those of the load
	estimate time.Duration    // of a run
}

// sweepConfig checks the flags and lays out the grid.
func (a *app) sweepConfig(f *sweepFlags, flags *pflag.FlagSet) (cells []sweepCell, cfg trials.SweepConfig, err error) {
	always := func(string) bool { return true } // 0 is no default here: rounds are said beforehand
	if err := checkCounts(always, countRange{"runs", "--runs", f.rounds, 1, trials.MaxRounds}); err != nil {
		return nil, cfg, err
	}
	cfg.Rounds = int(f.rounds)
	for _, text := range f.slo {
		t, err := tps.ParseThreshold(text)
		if err != nil {
			return nil, cfg, usageError(err)
		}
		cfg.SLO = append(cfg.SLO, t)
	}
	if cells, err = a.sweepCells(f, flags); err != nil {
		return nil, cfg, err
	}
	for k, c := range cells {
		cfg.Cells = append(cfg.Cells, trials.SweepCell{Load: c.load, Settings: c.swept})
		if err := a.variantConfig(flags, &f.run, c.variant); err != nil {
			return nil, cfg, fmt.Errorf("%s: %w", c.name, err)
		}
		cells[k].estimate = estimate(c.cfg)
	}
	if err := cfg.CheckColumn(f.sort); err != nil {
		return nil, cfg, usagef("--sort: %w", err)
	}
	return cells, cfg, cfg.Validate()
}

// head is what the sweep is, to be kept.
func (f *sweepFlags) head(flags *pflag.FlagSet, cells []sweepCell) trials.SweepHead {
	head := trials.SweepHead{
		Schema: trials.SweepSchema, StartedAt: time.Now(), Argv: []string{}, Preset: f.preset, RandomSeed: f.run.keys.seed,
		Rounds: int(f.rounds), Base: []trials.Setting{}, SLO: append([]string{}, f.slo...), Cells: []trials.SweepHeadCell{},
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Name == "scenario" || flag.Changed && variable(flag.Name) && !slices.Contains(sweepOnly, flag.Name) {
			head.Base = append(head.Base, trials.Setting{Name: flag.Name, Value: flag.Value.String()})
		}
	})
	for _, c := range cells {
		head.Cells = append(head.Cells, trials.SweepHeadCell{Load: c.load, Settings: append([]trials.Setting{}, c.swept...)})
	}
	return head
}

// sameRows refuses to go on over other data sets than those of the runs that are done.
func sameRows(done []trials.SweepRun, cells []sweepCell) error {
	for _, run := range done {
		if was, is := run.Result.Load.Rows, cells[run.Cell-1].spec.Rows; was != is {
			return usagef("--resume: cell %d ran over %s accounts, and now there are %s: begin a new sweep", run.Cell, humanize.Comma(was), humanize.Comma(is))
		}
	}
	return nil
}

// estimate is about how long a run takes, to say so before it was measured: what the
// load says or, of so many transactions, at the speed of a small machine. A burst has
// one before it that warms up, if it is short.
func estimate(cfg scenarios.Config) time.Duration {
	const overhead = 500 * time.Millisecond
	load, speed := cfg.Load, 50_000.0 // transactions a second
	switch s := cfg.Scenario; {
	case s.Fills && load.BatchSize == 1:
		speed = 2_000
	case s.Fills:
		speed = 500_000
	case s.Name == "scan":
		speed = 5e6 / float64(max(cfg.Spec.Rows, 1))
	case s.OnTable():
		speed = 200_000
	}
	at := func(rate float64) time.Duration {
		return time.Duration(float64(load.Transactions) / rate * float64(time.Second))
	}
	length := load.Duration
	switch {
	case load.Mode() == tps.Burst:
		if length = at(speed); length < 2*time.Second || !cfg.Scenario.OnTable() {
			length *= 2
		}
	case load.Rate > 0 && load.Transactions > 0 && (length == 0 || at(load.Rate) < length):
		length = at(load.Rate)
	case len(load.Stages) > 0:
		for _, s := range load.Stages {
			length += s.Duration
		}
	case length == 0:
		length = at(speed)
	}
	return load.Warmup + length + overhead
}

// tellSweep says what is about to be measured, and about how long it will take.
func (a *app) tellSweep(f *sweepFlags, cells []sweepCell, cfg trials.SweepConfig) {
	if p, err := findPreset(f.preset); err == nil {
		a.note("%s: %s. %s", p.name, p.summary, p.explanation)
	}
	var left time.Duration
	plan := cfg.Plan(cfg.Done)
	for _, step := range plan {
		left += cells[step.Cell-1].estimate
	}
	a.note("%d cells x %d rounds are %d runs, and the best are measured again", len(cells), cfg.Rounds, len(cells)*cfg.Rounds)
	switch {
	case len(plan) == 0:
		a.note("all is done already: nothing is run")
	case len(cfg.Done) > 0:
		a.note("%d runs are done already; this phase takes about %v more", len(cfg.Done), rounded(left))
	default:
		a.note("the rounds over all cells take about %v", rounded(left))
	}
}

// rounded is a time that is only an estimate.
func rounded(d time.Duration) time.Duration {
	if d > time.Minute {
		return d.Round(10 * time.Second)
	}
	return max(d.Round(time.Second), time.Second)
}

// noteCell returns what tells of each run that is done, and how long the others of its
// phase will take: what was estimated of them, times what the runs so far took over
// what was estimated of those.
func (a *app) noteCell(cells []sweepCell, cfg trials.SweepConfig) func(trials.SweepProgress) {
	var took, estimated time.Duration
	var began time.Time
	return func(p trials.SweepProgress) {
		if p.Result == nil {
			began = time.Now()
			return
		}
		took, estimated = took+time.Since(began), estimated+cells[p.Step.Cell-1].estimate
		var left time.Duration
		for _, step := range p.Left {
			left += cells[step.Cell-1].estimate
		}
		cell := cells[p.Step.Cell-1]
		name := cellText(trials.SweepHeadCell{Load: cell.load, Settings: cell.swept})
		line := fmt.Sprintf("%s round %d of %d: cell %d (%s): %s TPS, p99 %v", p.Step.Phase, p.Step.Round, p.Rounds, p.Step.Cell, name,
			humanize.CommafWithDigits(p.Result.TPS, 0), p.Result.Latency.P99.Round(10*time.Microsecond))
		if left > 0 {
			left = time.Duration(float64(left) * float64(took) / float64(estimated))
			line += fmt.Sprintf("; %s left, about %v", english.Plural(len(p.Left), "run", ""), rounded(left))
		}
		a.note("%s", line)
	}
}

func (a *app) printSweep(res *trials.SweepResult, format string) error {
	switch format {
	case "text":
		return report.Sweep(res, a.color(a.stdout))(a.stdout)
	case "json":
		return report.JSON(res)(a.stdout)
	}
	as, err := report.SweepAs(format, res)
	if err != nil {
		return err
	}
	return as(a.stdout)
}
