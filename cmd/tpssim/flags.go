package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/internal/quantity"
	"github.com/tpssim/tpssim/scenarios"
)

// The flags that say what is measured, in groups, so that each command that
// measures takes those that mean something to it. A group adds its flags, and turns
// them into Configs after it has checked them.

// keyFlags choose the accounts.
type keyFlags struct {
	seed                           uint64
	dist, layout                   string
	paretoR                        int64
	theta, hotAccounts, hotTraffic float64
}

func (f *keyFlags) add(flags *pflag.FlagSet) {
	seedVar(flags, &f.seed, "random-seed", 1, "makes all choices repeatable")
	choiceVar(flags, &f.dist, "dist", "pareto", "which accounts: pareto (the article's), zipfian, uniform, hotspot", "pareto", "zipfian", "uniform", "hotspot")
	choiceVar(flags, &f.layout, "layout", "clustered", "where the hot accounts lie: clustered (side by side) or scattered", "clustered", "scattered")
	countVar(flags, &f.paretoR, "pareto-r", "", accounts.ParetoR, "pareto: the article's range, whatever the rows")
	numberVar(flags, &f.theta, "theta", 0.99, "zipfian: the skew, above 0 up to 2")
	numberVar(flags, &f.hotAccounts, "hot-accounts", 0.2, "hotspot: the share of the accounts that is hot")
	numberVar(flags, &f.hotTraffic, "hot-traffic", 0.8, "hotspot: the share of the traffic that it gets")
}

// misused refuses flags that were typed and mean nothing beside the others.
func (f *keyFlags) misused(typed func(string) bool) error {
	for _, p := range []struct{ flag, dist string }{
		{"pareto-r", "pareto"}, {"theta", "zipfian"}, {"hot-accounts", "hotspot"}, {"hot-traffic", "hotspot"},
	} {
		if typed(p.flag) && f.dist != p.dist {
			return usagef("--%s belongs to --dist %s, not to %s", p.flag, p.dist, f.dist)
		}
	}
	if typed("layout") && f.dist == "uniform" {
		return usagef("--layout has no meaning with --dist uniform: no account is hot")
	}
	return nil
}

// check checks what does not depend on the data set.
func (f *keyFlags) check(given func(string) bool) error {
	return checkCounts(given, countRange{"pareto-r", "--pareto-r", f.paretoR, 1, accounts.MaxRows})
}

// choose fills in the accounts that n rows leave to choose from.
func (f *keyFlags) choose(cfg *scenarios.Config, n int64) (err error) {
	cfg.DistName, cfg.LayoutName, cfg.DistParameters = f.dist, f.layout, ""
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
	return nil
}

// engineFlags are the settings of the database and of the writer.
type engineFlags struct {
	options        sqlite.Options
	sync, journal  string
	cacheSize      int64
	mmap           int64
	pragmas        []string
	maxBatch       int64
	queue          int64
	readers, conns int64
	prefetch       int64
}

func (f *engineFlags) add(flags *pflag.FlagSet) {
	choiceVar(flags, &f.sync, "sync", "full", "PRAGMA synchronous: off, normal, full, extra", "off", "normal", "full", "extra")
	choiceVar(flags, &f.journal, "journal-mode", "wal", "PRAGMA journal_mode: wal, delete, truncate, persist", "wal", "delete", "truncate", "persist")
	sizeVar(flags, &f.cacheSize, "cache-size", 64<<20, "SQLite's page cache for each connection, in bytes")
	sizeVar(flags, &f.mmap, "mmap-size", 0, "PRAGMA mmap_size, in bytes")
	flags.StringArrayVar(&f.pragmas, "pragma", nil, "another PRAGMA as `name=value`; may be repeated")
	flags.StringVar(&f.options.Checkpoint, "checkpoint", sqlite.DefaultCheckpoint, "when: stall:TIME, pages:N, bytes:SIZE, idle or off")
	choiceVar(flags, &f.options.CheckpointMode, "checkpoint-mode", "passive", "passive, restart or truncate", "passive", "restart", "truncate")
	countVar(flags, &f.maxBatch, "max-batch", "", 25_000, "transactions to a COMMIT at most")
	durationVar(flags, &f.options.MaxBatchTime, "max-batch-time", "", 100*time.Millisecond, time.Millisecond, "how long a batch runs at most while more wait; 0: any time; a bare number is milliseconds")
	durationVar(flags, &f.options.BatchWindow, "batch-window", "", 0, time.Millisecond, "how long a batch waits for more to come; a bare number is milliseconds")
	countVar(flags, &f.queue, "queue", "", 1<<20, "transactions that may wait")
	countVar(flags, &f.readers, "readers", "", 0, "read-only connections (as many as GOMAXPROCS; optimistic: 1)")
	countVar(flags, &f.prefetch, "prefetch", "", 0, "how many transactions at a time have their accounts read before they are queued, for a table larger than memory")
	countVar(flags, &f.conns, "connections", "", 8, "pool: connections")
	choiceVar(flags, &f.options.Savepoints, "savepoints", "each", "each, none or on-failure", "each", "none", "on-failure")
}

// maxConnections bounds what each takes several file descriptors and a page cache.
const maxConnections = 1000

// meaningless are the flags that a kind of scenario has no use for, or decides
// itself.
func meaningless(s scenarios.Scenario) (flags []string) {
	if s.Needs.Access == engine.Pooled {
		flags = append(flags, "max-batch", "max-batch-time", "batch-window", "queue", "readers", "savepoints")
	} else {
		flags = append(flags, "connections")
	}
	if s.Direct {
		flags = append(flags, "max-batch-time", "batch-window", "queue", "readers")
	}
	switch {
	case s.OnTable():
		flags = append(flags, "savepoints", "checkpoint-mode", "pin-reader", "think", "reads", "fail-rate", "panic-rate",
			"cache", "dist", "layout", "balance", "schema", "indexes", "statements")
	default:
		flags = append(flags, "keys", "without-rowid", "sorted")
	}
	if !s.Fills {
		flags = append(flags, "growth")
	} else {
		flags = append(flags, "rows")
	}
	if !s.Touches() {
		flags = append(flags, "prefetch")
	}
	if s.Needs.MaxBatch > 0 {
		flags = append(flags, "max-batch", "max-batch-time", "batch-window")
	}
	if s.Needs.Savepoints != "" {
		flags = append(flags, "savepoints")
	}
	return flags
}

// misused refuses flags that were typed and mean nothing in scenario s or beside the
// others. (The environment and the configuration file serve many commands.)
func (f *engineFlags) misused(s scenarios.Scenario, typed func(string) bool) error {
	for _, flag := range meaningless(s) {
		if typed(flag) {
			return usagef("--%s has no meaning in the scenario %s", flag, s.Name)
		}
	}
	if f.journal != "wal" {
		for _, flag := range []string{"checkpoint", "checkpoint-mode", "pin-reader", "prefetch"} {
			if typed(flag) {
				return usagef("--%s needs --journal-mode wal: %s has no WAL", flag, f.journal)
			}
		}
	}
	if byTime := strings.HasPrefix(f.options.Checkpoint, "stall") || f.options.Checkpoint == "idle"; s.OnTable() && byTime && typed("checkpoint") {
		return usagef("--checkpoint %s needs the writer: the scenario %s takes pages:N, bytes:SIZE or off", f.options.Checkpoint, s.Name)
	}
	if f.options.Checkpoint == "off" && typed("checkpoint-mode") {
		return usagef("--checkpoint-mode has no meaning with --checkpoint off")
	}
	return nil
}

// check checks the flags and turns them into options.
func (f *engineFlags) check(given func(string) bool) error {
	if err := checkCounts(given,
		countRange{"max-batch", "--max-batch", f.maxBatch, 1, math.MaxInt32},
		countRange{"queue", "--queue", f.queue, 1, math.MaxInt32},
		countRange{"readers", "--readers", f.readers, 1, maxConnections},
		countRange{"prefetch", "--prefetch", f.prefetch, 0, maxConnections},
		countRange{"connections", "--connections", f.conns, 1, maxConnections},
	); err != nil {
		return err
	}
	o := &f.options
	o.MaxBatch, o.Queue, o.Readers, o.Connections = int(f.maxBatch), int(f.queue), int(f.readers), int(f.conns)
	o.Prefetch = int(f.prefetch)
	switch {
	case o.BatchWindow < 0:
		return usagef("--batch-window must be 0 or more")
	case o.MaxBatchTime < 0:
		return usagef("--max-batch-time must be 0 or more")
	case o.MaxBatchTime == 0:
		o.MaxBatchTime = -1 // as the writer's options say it
	}
	if _, err := sqlite.ParseCheckpoint(o.Checkpoint, o.CheckpointMode, 4096); err != nil {
		return usageError(err)
	}
	o.Pragmas = map[string]string{
		"synchronous":  f.sync,
		"journal_mode": f.journal,
		"cache_size":   fmt.Sprint(-max(f.cacheSize/1024, 1)),
		"mmap_size":    fmt.Sprint(f.mmap),
	}
	for _, p := range f.pragmas {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" || value == "" || strings.ContainsAny(p, " ;()'\"") {
			return usagef("--pragma %q is not name=value", p)
		}
		o.Pragmas[strings.ToLower(name)] = value
	}
	return nil
}

// opener returns how scenario s opens the database at path.
func (f *engineFlags) opener(s scenarios.Scenario, path string, spec accounts.Spec, foreign bool) func(context.Context, engine.Needs) (engine.Engine, error) {
	options := f.options
	options.Path, options.Spec, options.Foreign = path, spec, foreign
	options.Readers = cmp.Or(options.Readers, s.Readers)
	if !s.Touches() { // it came from the environment or the configuration file
		options.Prefetch = 0
	}
	return func(ctx context.Context, needs engine.Needs) (engine.Engine, error) {
		return sqlite.Open(ctx, options, needs)
	}
}

// table returns how a scenario opens a table of its own, in the folder of the data set.
func (f *engineFlags) table(db string, spec accounts.Spec, keys scenarios.Keys) func(context.Context) (engine.Table, error) {
	options := f.options
	table := engine.TableSpec{BlobKeys: !keys.Integers(), WithoutRowid: keys.WithoutRowid, Payload: spec.Payload, PageSize: spec.PageSize}
	return func(ctx context.Context) (engine.Table, error) {
		return sqlite.OpenTable(ctx, filepath.Dir(db), options, table)
	}
}

// workFlags are the scenario and what is done inside and around each transaction.
type workFlags struct {
	scenario            string
	reads               int64
	maxTries            int64
	think               time.Duration
	failRate, panicRate float64
	cache               string
	pinReader           time.Duration
}

func (f *workFlags) add(flags *pflag.FlagSet) {
	countVar(flags, &f.reads, "reads", "", -1, "awaited point reads for each transaction (as the scenario says)")
	durationVar(flags, &f.think, "think", "", 0, time.Millisecond, "wait inside each transaction; a bare number is milliseconds")
	countVar(flags, &f.maxTries, "max-tries", "", scenarios.DefaultMaxTries, "optimistic: attempts before a transaction gives up")
	numberVar(flags, &f.failRate, "fail-rate", 0, "the share of transactions whose code fails after its first UPDATE")
	numberVar(flags, &f.panicRate, "panic-rate", 0, "the share of transactions whose code panics after its first UPDATE")
	durationVar(flags, &f.pinReader, "pin-reader", "", 0, time.Second, "hold a read transaction open for so long from the start; a bare number is seconds")
	choiceVar(flags, &f.cache, "cache", scenarios.CacheAsIs, "before each round: cold, warm or as-is", "cold", "warm", "as-is")
}

// config returns the part of a scenario's Config that these flags are.
func (f *workFlags) config(given func(string) bool) (cfg scenarios.Config, err error) {
	if cfg.Scenario, err = scenarios.Find(f.scenario); err != nil {
		return cfg, usageError(err)
	}
	if err := checkCounts(given,
		countRange{"reads", "--reads", f.reads, 0, 1000},
		countRange{"max-tries", "--max-tries", f.maxTries, 1, 1_000_000},
	); err != nil {
		return cfg, err
	}
	cfg.Reads = cfg.Scenario.Reads
	if given("reads") {
		cfg.Reads = int(f.reads)
	}
	if given("max-tries") {
		cfg.MaxTries = int(f.maxTries)
	}
	cfg.Think, cfg.FailRate, cfg.PanicRate, cfg.Cache, cfg.PinReader = f.think, f.failRate, f.panicRate, f.cache, f.pinReader
	return cfg, nil
}

// tableFlags are the keys of a table of its own and how it grows.
type tableFlags struct {
	keys   scenarios.Keys
	growth []string
}

func (f *tableFlags) add(flags *pflag.FlagSet) {
	choiceVar(flags, &f.keys.Kind, "keys", scenarios.KeysInteger, "insert, points, scan: integer, uuid4, uuid7, random20 (20 bytes)", scenarios.KeyKinds...)
	flags.BoolVar(&f.keys.WithoutRowid, "without-rowid", false, "insert, points, scan: the table is the index of its keys")
	flags.BoolVar(&f.keys.Sorted, "sorted", false, "insert, points, scan: each transaction inserts in the order of its keys")
	flags.StringSliceVar(&f.growth, "growth", nil, "insert: measure each part by itself, up to so many `entries`: 3m,5m,10m")
}

// config fills in cfg. What came from the environment or the configuration file, which
// serve many commands, is left out where it means nothing.
func (f *tableFlags) config(cfg *scenarios.Config) error {
	if !cfg.Scenario.OnTable() {
		return nil
	}
	cfg.Keys, cfg.Growth = f.keys, nil
	for _, text := range f.growth {
		n, err := quantity.Count(text)
		if err != nil {
			return usagef("--growth %q: %w", text, err)
		}
		cfg.Growth = append(cfg.Growth, n)
	}
	return nil
}

// countRange is a count and what it may be.
type countRange struct {
	flag, written string
	n, min, max   int64
}

// checkCounts refuses counts that were given and are out of range. For those that
// were not, 0 has a meaning of its own.
func checkCounts(given func(string) bool, counts ...countRange) error {
	for _, c := range counts {
		switch {
		case !given(c.flag) || c.min <= c.n && c.n <= c.max:
		case c.n < c.min:
			return usagef("%s %d: it must be %d or more", c.written, c.n, c.min)
		default:
			return usagef("%s %d: it must be %s or less", c.written, c.n, humanize.Comma(c.max))
		}
	}
	return nil
}

// dataFlags are the data set.
type dataFlags struct {
	db   string
	spec accounts.Spec
}

func (f *dataFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.db, "db", defaultDB, "the database `file`; the default is seeded when it is not there")
	specFlags(flags, &f.spec)
}

// find returns the data set, seeding the default one first when it is not there.
// fits says whether what would be seeded could be used.
func (f *dataFlags) find(ctx context.Context, a *app, given func(string) bool, fits func(accounts.Spec) error) (dataset.Info, error) {
	return a.dataSet(ctx, f.db, f.spec, seedPermission{
		seed:  !given("db") || f.db == defaultDB,
		fits:  fits,
		asked: given,
	})
}

// interrupted turns the error of a load that was interrupted before it measured
// anything into the program's own.
func interrupted(ctx context.Context, db string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return &codeError{exitInterrupted, errors.New("interrupted: nothing was measured")}
	}
	return explain(db, err)
}
