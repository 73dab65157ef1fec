package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// defaultTransactions is the burst of a run without any load flag.
const defaultTransactions = 100_000

// runFlags are the flags of run.
type runFlags struct {
	scenario                       string
	transactions                   int64
	duration, warmup               time.Duration
	concurrency, inFlight, runs    int64
	rate                           int64
	seed                           uint64
	dist, layout                   string
	paretoR                        int64
	theta, hotAccounts, hotTraffic float64

	db       string
	spec     accounts.Spec
	engine   sqlite.Options
	sync     string
	journal  string
	cacheSz  int64
	mmap     int64
	pragmas  []string
	maxBatch int64
	queue    int64
	readers  int64
	conns    int64

	reads               int64
	think               time.Duration
	failRate, panicRate float64
	cache               string
	format, output      string
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

Results go to stdout, everything else to stderr. Exit codes: 0 ok, 1 error,
2 usage, 3 the proof failed, 4 interrupted (what was measured is printed).`,
		Example: `  tpssim run -n 100000
  tpssim run mixed -n 100k --sync normal
  tpssim run -R 3000 -d 30s
  tpssim run -n 1m --dist uniform --db /data/billion.db`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("run takes one scenario, not %d: %q", len(args), args)
			}
			// Asked before the environment and the file are read: those yield to
			// the argument.
			if len(args) == 1 && cmd.Flags().Changed("scenario") && f.scenario != args[0] {
				return usagef("%q and --scenario %s are two scenarios: name one", args[0], f.scenario)
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, s := range scenarios.All {
				names = append(names, s.Name+"\t"+s.Summary)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.scenario = args[0]
			}
			return a.runScenario(cmd.Context(), &f, cmd.Flags().Changed)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// add adds the flags, grouped as they are listed.
func (f *runFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.StringVar(&f.scenario, "scenario", scenarios.Default, "the `scenario`, as the argument")

	countVar(flags, &f.transactions, "transactions", "n", 0, "transactions; alone, a burst (100000 when there is no load flag)")
	durationVar(flags, &f.duration, "duration", "d", 0, time.Second, "how long the load lasts; a bare number is seconds")
	countVar(flags, &f.concurrency, "concurrency", "c", 0, "clients of a closed loop (64 with -d alone)")
	countVar(flags, &f.rate, "rate", "R", 0, "arrivals a second, whoever waits; needs -d or -n")
	countVar(flags, &f.inFlight, "max-in-flight", "", 0, "with -R: unfinished transactions beyond this are dropped and counted (100k)")
	durationVar(flags, &f.warmup, "warmup", "", 0, time.Second, "with -c, -d or -R: load before measuring begins")
	countVar(flags, &f.runs, "runs", "", 0, "rounds of a burst after the cold one (5 when it is shorter than 2 s)")

	seedVar(flags, &f.seed, "random-seed", 1, "makes the choice of accounts repeatable")
	choiceVar(flags, &f.dist, "dist", "pareto", "which accounts: pareto (the article's), zipfian, uniform, hotspot", "pareto", "zipfian", "uniform", "hotspot")
	choiceVar(flags, &f.layout, "layout", "clustered", "where the hot accounts lie: clustered (side by side) or scattered", "clustered", "scattered")
	countVar(flags, &f.paretoR, "pareto-r", "", accounts.ParetoR, "pareto: the article's range, whatever the rows")
	numberVar(flags, &f.theta, "theta", 0.99, "zipfian: the skew, above 0 up to 2")
	numberVar(flags, &f.hotAccounts, "hot-accounts", 0.2, "hotspot: the share of the accounts that is hot")
	numberVar(flags, &f.hotTraffic, "hot-traffic", 0.8, "hotspot: the share of the traffic that it gets")

	flags.StringVar(&f.db, "db", defaultDB, "the database `file`; the default is seeded when it is not there")
	specFlags(flags, &f.spec)

	choiceVar(flags, &f.sync, "sync", "full", "PRAGMA synchronous: off, normal, full, extra", "off", "normal", "full", "extra")
	choiceVar(flags, &f.journal, "journal-mode", "wal", "PRAGMA journal_mode: wal, delete, truncate, persist", "wal", "delete", "truncate", "persist")
	sizeVar(flags, &f.cacheSz, "cache-size", 64<<20, "SQLite's page cache for each connection, in bytes")
	sizeVar(flags, &f.mmap, "mmap-size", 0, "PRAGMA mmap_size, in bytes")
	flags.StringArrayVar(&f.pragmas, "pragma", nil, "another PRAGMA as `name=value`; may be repeated")
	flags.StringVar(&f.engine.Checkpoint, "checkpoint", sqlite.DefaultCheckpoint, "pages:N, bytes:SIZE, idle or off")
	choiceVar(flags, &f.engine.CheckpointMode, "checkpoint-mode", "passive", "passive, restart or truncate", "passive", "restart", "truncate")
	countVar(flags, &f.maxBatch, "max-batch", "", 10_000, "transactions to a COMMIT at most")
	durationVar(flags, &f.engine.BatchWindow, "batch-window", "", 0, time.Millisecond, "how long a batch waits for more to come; a bare number is milliseconds")
	countVar(flags, &f.queue, "queue", "", 1<<20, "transactions that may wait")
	countVar(flags, &f.readers, "readers", "", 0, "read-only connections (as many as GOMAXPROCS)")
	countVar(flags, &f.conns, "connections", "", 8, "pool: connections")
	choiceVar(flags, &f.engine.Savepoints, "savepoints", "each", "each, none or on-failure", "each", "none", "on-failure")

	countVar(flags, &f.reads, "reads", "", -1, "awaited point reads for each transaction (as the scenario says)")
	durationVar(flags, &f.think, "think", "", 0, time.Millisecond, "wait inside each transaction; a bare number is milliseconds")
	numberVar(flags, &f.failRate, "fail-rate", 0, "the share of transactions whose code fails after its first UPDATE")
	numberVar(flags, &f.panicRate, "panic-rate", 0, "the share of transactions whose code panics after its first UPDATE")
	choiceVar(flags, &f.cache, "cache", scenarios.CacheAsIs, "before each round: cold, warm or as-is", "cold", "warm", "as-is")

	choiceVar(flags, &f.format, "format", "text", "what stdout gets: text or json", "text", "json")
	flags.StringVarP(&f.output, "output", "o", "", "append the result to this `file`, a JSON object a line")
}

// runScenario is tpssim run.
func (a *app) runScenario(ctx context.Context, f *runFlags, given func(string) bool) error {
	cfg, err := f.scenarioConfig(given)
	if err != nil {
		return err
	}
	out, err := openOutput(f.output)
	if err != nil {
		return err
	}
	res, err := a.load(ctx, f, cfg, given)
	if err != nil {
		return errors.Join(err, out.abandon())
	}
	return errors.Join(a.print(res, f.format), report.JSONLine(res)(out), out.Close(), outcome(res))
}

// load runs the scenario on its data set.
func (a *app) load(ctx context.Context, f *runFlags, cfg scenarios.Config, given func(string) bool) (*tps.Result, error) {
	info, err := a.dataSet(ctx, f.db, f.spec, seedPermission{
		seed:  !given("db") || f.db == defaultDB,
		fits:  func(spec accounts.Spec) error { return f.choose(&scenarios.Config{}, dataset.Info{Spec: spec}) },
		asked: given,
	})
	if err != nil {
		return nil, err
	}
	if err := f.choose(&cfg, info); err != nil {
		return nil, err
	}
	res, err := a.measure(ctx, f, cfg, info)
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, &codeError{exitInterrupted, errors.New("interrupted: nothing was measured")}
	case err != nil:
		return nil, explain(f.db, err)
	}
	return res, nil
}

// outcome turns what a result says into the program's exit code.
func outcome(res *tps.Result) error {
	switch {
	case !res.Verify.OK:
		return &codeError{exitCheck, nil}
	case res.Interrupted:
		return &codeError{exitInterrupted, nil}
	}
	return nil
}

// scenarioConfig reads the flags that do not depend on the data set, so that a
// mistake shows before anything is seeded.
func (f *runFlags) scenarioConfig(given func(string) bool) (cfg scenarios.Config, err error) {
	if cfg.Scenario, err = scenarios.Find(f.scenario); err != nil {
		return cfg, usageError(err)
	}
	if err := f.checkCounts(given); err != nil {
		return cfg, err
	}
	if err := f.spec.Validate(); err != nil {
		return cfg, usageError(err)
	}
	if given("duration") && f.duration <= 0 {
		return cfg, usagef("-d %v: it must be longer than 0", f.duration)
	}
	if !given("transactions") && !given("duration") && !given("rate") && !given("concurrency") {
		f.transactions = defaultTransactions
	}
	if err := f.engineOptions(); err != nil {
		return cfg, usageError(err)
	}
	cfg.Load = tps.Config{
		Transactions: f.transactions,
		Duration:     f.duration,
		Concurrency:  int(f.concurrency),
		Rate:         float64(f.rate),
		MaxInFlight:  int(f.inFlight),
		Warmup:       f.warmup,
		Runs:         int(f.runs),
		MemoryBytes:  int64(machine.AvailableMemory()),
	}
	if cfg.Scenario.Direct {
		cfg.Load.BatchSize = int(f.maxBatch)
	}
	cfg.RandomSeed = f.seed
	cfg.Reads = cfg.Scenario.Reads
	if given("reads") {
		cfg.Reads = int(f.reads)
	}
	cfg.Think, cfg.FailRate, cfg.PanicRate, cfg.Cache = f.think, f.failRate, f.panicRate, f.cache
	if err := validLoad(cfg.Load, cfg.Scenario.Direct); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// validLoad validates a load before there is anything to run.
func validLoad(load tps.Config, direct bool) error {
	if direct {
		load.BatchOp = func(context.Context, uint64, []error) error { return nil }
	} else {
		load.Op = func(context.Context, uint64, *tps.Trace) error { return nil }
	}
	return load.Validate()
}

// maxConnections bounds what each takes several file descriptors and a page cache.
const maxConnections = 1000

// checkCounts refuses counts that were given and are out of range. For those that
// were not, 0 has a meaning of its own.
func (f *runFlags) checkCounts(given func(string) bool) error {
	for _, flag := range []struct {
		name, written string
		n, min, max   int64
	}{
		{"transactions", "-n", f.transactions, 1, math.MaxInt64},
		{"concurrency", "-c", f.concurrency, 1, tps.MaxGoroutines},
		{"rate", "-R", f.rate, 1, tps.MaxRate},
		{"max-in-flight", "--max-in-flight", f.inFlight, 1, tps.MaxGoroutines},
		{"runs", "--runs", f.runs, 1, 1000},
		{"max-batch", "--max-batch", f.maxBatch, 1, math.MaxInt32},
		{"queue", "--queue", f.queue, 1, math.MaxInt32},
		{"readers", "--readers", f.readers, 1, maxConnections},
		{"connections", "--connections", f.conns, 1, maxConnections},
		{"reads", "--reads", f.reads, 0, 1000},
		{"pareto-r", "--pareto-r", f.paretoR, 1, accounts.MaxRows},
	} {
		switch {
		case !given(flag.name) || flag.min <= flag.n && flag.n <= flag.max:
		case flag.n < flag.min:
			return usagef("%s %d: it must be %d or more", flag.written, flag.n, flag.min)
		default:
			return usagef("%s %d: it must be %s or less", flag.written, flag.n, humanize.Comma(flag.max))
		}
	}
	return nil
}

// engineOptions turns the database flags into the engine's options.
func (f *runFlags) engineOptions() error {
	o := &f.engine
	o.MaxBatch, o.Queue, o.Readers, o.Connections = int(f.maxBatch), int(f.queue), int(f.readers), int(f.conns)
	if o.BatchWindow < 0 {
		return errors.New("--batch-window must be 0 or more")
	}
	if _, err := sqlite.ParseCheckpoint(o.Checkpoint, o.CheckpointMode, 4096); err != nil {
		return err
	}
	o.Pragmas = map[string]string{
		"synchronous":  f.sync,
		"journal_mode": f.journal,
		"cache_size":   fmt.Sprint(-max(f.cacheSz/1024, 1)),
		"mmap_size":    fmt.Sprint(f.mmap),
	}
	for _, p := range f.pragmas {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" || value == "" || strings.ContainsAny(p, " ;()'\"") {
			return fmt.Errorf("--pragma %q is not name=value", p)
		}
		o.Pragmas[strings.ToLower(name)] = value
	}
	return nil
}

// choose fills in what depends on the data set.
func (f *runFlags) choose(cfg *scenarios.Config, info dataset.Info) (err error) {
	n := info.Spec.Rows
	cfg.Spec = info.Spec
	cfg.DistName, cfg.LayoutName = f.dist, f.layout
	switch f.dist {
	case "pareto":
		cfg.Dist, err = accounts.NewPareto(n, f.paretoR, accounts.ParetoP)
		if f.paretoR != accounts.ParetoR {
			cfg.DistParameters = fmt.Sprintf("r=%d", f.paretoR)
		}
	case "zipfian":
		cfg.Dist, err = accounts.NewZipfian(n, f.theta)
		cfg.DistParameters = fmt.Sprintf("theta=%v", f.theta)
	case "uniform":
		cfg.Dist, err = accounts.NewUniform(n)
	default:
		cfg.Dist, err = accounts.NewHotspot(n, f.hotAccounts, f.hotTraffic)
		cfg.DistParameters = fmt.Sprintf("accounts=%v traffic=%v", f.hotAccounts, f.hotTraffic)
	}
	if err != nil {
		return usageError(err)
	}
	cfg.Layout = accounts.Clustered{}
	if f.layout == "scattered" {
		if cfg.Layout, err = accounts.NewScattered(n, f.seed); err != nil {
			return usageError(err)
		}
	}
	options := f.engine
	options.Path, options.Spec = info.Path, info.Spec
	cfg.Open = func(ctx context.Context, needs engine.Needs) (engine.Engine, error) {
		return sqlite.Open(ctx, options, needs)
	}
	return nil
}

// measure runs the scenario with progress on stderr and adds what the machine
// says.
func (a *app) measure(ctx context.Context, f *runFlags, cfg scenarios.Config, info dataset.Info) (*tps.Result, error) {
	if cfg.Load.Rate > 0 {
		sleeper, err := tps.NewSleeper()
		if err != nil {
			return nil, err
		}
		defer sleeper.Close()
		cfg.Load.Sleep = sleeper.Sleep
	}
	meter := new(tps.Meter)
	cfg.Load.Meter = meter
	reading := newWatched("reading balances", "accounts")
	cfg.Progress = func(stage string, done, total int) {
		reading.stage(stage)
		reading.progress(int64(done), int64(total))
	}
	before := machine.ReadCounters()
	stop := a.watch(func() status { return loadStatus(meter.Snapshot(), reading) })
	res, err := scenarios.Run(ctx, cfg)
	stop()
	if err != nil {
		return nil, err
	}
	res.Argv = append(res.Argv, a.argv...)
	res.Engine = "sqlite"
	res.Env = machine.Read(info.Path)
	if res.Env.SQLite, err = sqlite.Version(); err != nil {
		return nil, err
	}
	res.Warnings = append(res.Warnings, disturbances(machine.ReadCounters().Sub(before), res)...)
	return res, nil
}

// loadStatus is the progress of a load, or of the reading around it.
func loadStatus(p tps.Progress, reading *watched) status {
	if p.Phase == tps.Preparing {
		if s := reading.poll(); s.done < s.total {
			return s
		}
		return status{label: "preparing"}
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
func (a *app) print(res *tps.Result, format string) error {
	if format == "json" {
		return report.JSON(res)(a.stdout)
	}
	return report.Text(res, a.color(a.stdout))(a.stdout)
}
