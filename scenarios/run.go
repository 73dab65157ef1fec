package scenarios

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/tps"
)

// The states that a run can ask of the caches.
const (
	CacheAsIs = "as-is" // as found; what the proof's reading brought in is dropped again
	CacheCold = "cold"  // before each round fresh connections, and nothing of the file in memory
	CacheWarm = "warm"  // before each round the accounts that it touches are read
)

// Config is a scenario with its load.
type Config struct {
	Scenario Scenario
	// Open opens the engine with what the scenario needs.
	Open func(context.Context, engine.Needs) (engine.Engine, error)
	// Spec is the data set, Dist and Layout choose the accounts; both were made
	// for Spec.Rows accounts. The names are for the result.
	Spec       accounts.Spec
	Dist       accounts.Dist
	Layout     accounts.Layout
	DistName   string
	LayoutName string
	// DistParameters are for the result too: those of Dist, as in "theta=0.99".
	DistParameters string
	// RandomSeed makes a run repeatable.
	RandomSeed uint64
	// Load is the load; Op, BatchOp, Now, Classify and the hooks are set here. Its
	// BeforeRun, OnSample and Interim are called by those that are set.
	Load tps.Config
	// Reads is the number of awaited point reads for each transaction.
	Reads int
	// Think is waited inside each transaction, between its two updates, or where
	// the scenario thinks.
	Think time.Duration
	// MaxTries bounds the attempts of a transaction of a scenario that retries. 0:
	// DefaultMaxTries.
	MaxTries int
	// PinReader holds a read transaction open for so long from the start of each
	// round. 0: none.
	PinReader time.Duration
	// Statements asks for the time of each statement.
	Statements bool
	// FailRate and PanicRate are the shares of transactions, 0 to 1, whose
	// application code fails or panics after the first update.
	FailRate, PanicRate float64
	// Cache is one of the Cache constants.
	Cache string
	// Scripts is the workload of the scenario Scripted, which needs no data set:
	// Spec, Dist and Layout are unused then.
	Scripts *Scripts
	// OpenTable opens the table of a scenario that has one of its own, with the keys
	// of Keys. Of Spec it uses Rows, for what is read, Payload and PageSize.
	OpenTable func(context.Context) (engine.Table, error)
	Keys      Keys
	// Growth are the numbers of entries, ascending, at which a part of the growth of a
	// table ends that is measured by itself.
	Growth []int64
	// RSS returns how much memory this process has, in bytes. nil: nobody knows.
	RSS func() int64
	// PoolSize is how many transfers are drawn, which the load then uses round robin.
	// 0: as many as the load is expected to have, 4 million at most.
	PoolSize int64
	// Progress, if not nil, is told of the reading before and after the load.
	Progress func(stage string, done, total int)
}

// Validate checks what concerns the scenario; tps checks the load.
func (c *Config) Validate() error {
	switch {
	case !(c.FailRate >= 0 && c.PanicRate >= 0 && c.FailRate+c.PanicRate <= 1): // NaN included
		return tps.ConfigError("--fail-rate and --panic-rate must be 0 or more and at most 1 together")
	case c.Think < 0:
		return tps.ConfigError("--think must be 0 or more")
	case c.Reads < 0:
		return tps.ConfigError("--reads must be 0 or more")
	case c.Reads > 0 && c.Scenario.op != nil:
		return tps.ConfigError("--reads has no meaning here: this scenario reads what it needs")
	case (c.Scripts != nil) != (c.Scenario.Name == Scripted.Name):
		return tps.ConfigError("scenarios: scripts belong to the scenario script, and it to them")
	case c.Scripts != nil && (c.Think > 0 || c.FailRate > 0 || c.PanicRate > 0):
		return tps.ConfigError("--think, --fail-rate and --panic-rate belong to the built-in scenarios: a script says \\sleep itself")
	case c.Scripts != nil && c.Cache == CacheWarm:
		return tps.ConfigError("--cache warm needs a data set of accounts: which rows a script reads is not known")
	case c.MaxTries < 0:
		return tps.ConfigError("--max-tries must be 1 or more")
	case c.MaxTries > 0 && !c.Scenario.Retries:
		return tps.ConfigError("--max-tries needs a scenario that tries again: optimistic")
	case c.PinReader < 0:
		return tps.ConfigError("--pin-reader must be longer than 0")
	case c.Reads > 0 && c.Scenario.Direct:
		return tps.ConfigError("--reads needs a scenario with a queue: direct has no caller that could wait")
	case !slices.IsSorted(c.Growth) || len(c.Growth) > 0 && c.Growth[0] < 1:
		return tps.ConfigError("--growth must be numbers of entries that ascend")
	case len(c.Growth) > 0 && !c.Scenario.Fills:
		return tps.ConfigError("--growth needs a scenario that fills a table: insert")
	case c.Keys.validate() != nil:
		return tps.ConfigError(c.Keys.validate().Error())
	case c.Keys != Keys{} && !c.Scenario.OnTable():
		return tps.ConfigError("--keys, --without-rowid and --sorted need a scenario on a table of its own: insert, points or scan")
	case c.Cache != CacheAsIs && c.Cache != CacheCold && c.Cache != CacheWarm:
		return tps.ConfigError(fmt.Sprintf("--cache %q is none of as-is, cold, warm", c.Cache))
	}
	return nil
}

// DefaultMaxTries is how often a transaction is tried before it gives up.
const DefaultMaxTries = 100

// expected returns how many transactions the load may run, as far as that is
// known before it does.
func (c *Config) expected() int64 {
	n := c.Load.Expected()
	switch closed := c.Load.Mode() != tps.OpenLoop; {
	case c.PoolSize > 0:
		n = float64(c.PoolSize)
	case closed && c.Load.Duration > 0:
		byTime := c.Load.Duration.Seconds() * guessedTPS
		n = min(byTime, cmp.Or(n, byTime)) + c.Load.Warmup.Seconds()*guessedTPS
	case closed:
		n += c.Load.Warmup.Seconds() * guessedTPS
	case c.Load.Arrival == tps.PoissonArrival:
		n += poissonSpread * math.Sqrt(n*float64(max(c.Load.BurstSize, 1)))
	}
	return int64(min(n, accounts.MaxPool))
}

// poissonSpread is by how many standard deviations the arrivals of a Poisson process
// may exceed their mean before the pool wraps.
const poissonSpread = 6

// guessedTPS sizes the pool of a closed loop, which is as fast as it happens to
// be. Where the guess is low the pool wraps and the result says so.
const guessedTPS = 200_000

// session is one run of a scenario, from the first balance read to the verdict.
type session struct {
	*work
	ids       []int64
	before    []int64
	after     []int64
	rounds    []round
	began     engine.Stats // when the round did
	sampled   engine.Stats // at the last sample
	unpin     func() error
	foreign   bool
	unproved  error // why the balances could not be read after the load
	unsettled error // why the engine could not pay its debts after a round
	lost      error // why it could not be opened again after a storage failure
	reopens   int   // how often a storage failure made it necessary
}

// round is what a round leaves behind beside the harness's own figures.
type round struct {
	engine     engine.Stats
	statements []tps.Statement
}

// Run runs the scenario and proves its result. The Result lacks only what belongs
// to the command: Argv and Env.
//
// A verdict that is not ok is part of the Result, not an error. When ctx ends,
// what was measured is still proved and returned.
func Run(ctx context.Context, cfg Config) (*tps.Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Scenario.OnTable() {
		return runTable(ctx, cfg)
	}
	s := &session{work: &work{Config: cfg}}
	s.configure()
	if err := s.Load.Validate(); err != nil {
		return nil, err
	}
	var err error
	if s.engine, err = cfg.Open(ctx, cfg.Scenario.Needs); err != nil {
		return nil, err
	}
	if cfg.Scenario.Touches() && s.engine.Settings().Prefetch > 0 {
		s.Load.Op = s.touchingOp
	}
	res, err := s.run(ctx)
	if closeErr := s.engine.Close(); err == nil && !s.stopped(closeErr) {
		err = closeErr
	}
	return res, err
}

// configure fills in the load's functions.
func (s *session) configure() {
	l := &s.Load
	switch scenario := s.Scenario; {
	case scenario.Direct:
		l.BatchOp = s.batchOp
	case scenario.op != nil:
		l.Op = func(_ context.Context, i uint64, tr *tps.Trace) error { return scenario.op(s.work, i, tr) }
	default:
		l.Op = s.op
	}
	if s.Scenario.Retries {
		s.MaxTries = cmp.Or(s.MaxTries, DefaultMaxTries)
	}
	if l.Mode() == tps.OpenLoop {
		s.skipAfter = int64(l.LatencyLimit)
	}
	l.OnSample, l.Interim = s.onSample(l.OnSample), s.interim(l.Interim)
	l.Now = func() int64 { return s.engine.Now() }
	l.Classify = s.classify
	l.Settle = s.settle
	l.BeforeRun = s.beforeRun(l.BeforeRun)
	l.AfterRun = s.afterRun
}

// run runs the load, between two readings of the balances when there are some.
func (s *session) run(ctx context.Context) (*tps.Result, error) {
	s.ctx, s.endless = ctx, context.Background()
	cacher, _ := s.engine.(engine.Cacher)
	resident := -1.0
	if cacher != nil {
		if share, err := cacher.Resident(); err == nil {
			resident = share
		}
	}
	if s.Scripts == nil {
		s.draw()
		readBefore := func() error { return s.read(ctx, "reading balances", s.before) }
		if cacher != nil && s.Cache != CacheWarm {
			if err := cacher.Preserve(readBefore); err != nil {
				return nil, err
			}
		} else if err := readBefore(); err != nil {
			return nil, err
		}
	} else if err := cmp.Or(s.Scripts.prepare(), s.Scripts.check(ctx, s.engine)); err != nil {
		return nil, err
	}

	res, err := tps.Run(ctx, s.Load)
	if err != nil {
		return nil, err
	}
	if s.unproved = s.reopenIfStopped(ctx); s.unproved == nil {
		s.unproved = s.read(context.WithoutCancel(ctx), "checking balances", s.after)
	}
	s.fill(res, resident)
	return res, nil
}

// draw draws the transfers.
func (s *session) draw() {
	s.pool = accounts.NewPool(s.expected(), s.RandomSeed, s.Dist, s.Layout)
	s.journal = accounts.NewJournal(s.pool.Len())
	s.ids = s.pool.Accounts()
	s.before, s.after = make([]int64, len(s.ids)), make([]int64, len(s.ids))
}

// read reads the touched accounts, which scripts have none of.
func (s *session) read(ctx context.Context, stage string, into []int64) error {
	if s.Scripts != nil {
		return nil
	}
	return s.engine.Balances(ctx, s.ids, into, func(done int) {
		if s.Progress != nil {
			s.Progress(stage, done, len(s.ids))
		}
	})
}

// beforeRun returns what puts the engine and the caches into the state that a round
// starts in, and then calls next.
func (s *session) beforeRun(next func(context.Context, int, bool) error) func(context.Context, int, bool) error {
	return func(ctx context.Context, run int, cold bool) error {
		err := s.ready(ctx)
		if err == nil && next != nil {
			err = next(ctx, run, cold)
		}
		return err
	}
}

// ready readies the engine for a round.
func (s *session) ready(ctx context.Context) error {
	if err := s.reopenIfStopped(ctx); err != nil {
		return err
	}
	if err := s.engine.Reset(ctx); err != nil {
		return err
	}
	if err := s.engine.Settle(ctx); err != nil {
		return err
	}
	switch s.Cache {
	case CacheCold:
		cacher, ok := s.engine.(engine.Cacher)
		if !ok {
			return tps.ConfigError("--cache cold needs a database whose files are on this machine")
		}
		if err := cacher.Cold(ctx); err != nil {
			return err
		}
	case CacheWarm:
		if err := s.read(ctx, "warming the cache", s.after); err != nil {
			return err
		}
	}
	if err := s.pin(ctx); err != nil {
		return err
	}
	s.statements.Take() // a warm-up's
	s.began = s.engine.Stats()
	s.sampled = s.began
	return nil
}

// settle keeps what the engine did in the round, then lets it pay its debts.
func (s *session) settle(ctx context.Context) error {
	if err := s.unpin(); err != nil {
		s.unsettled = fmt.Errorf("letting the pinned reader go: %w", err)
	}
	if err := s.engine.Quiet(ctx); err != nil && !s.stopped(err) {
		return err
	}
	s.rounds = append(s.rounds, round{s.engine.Stats().Sub(s.began), s.statements.Take()})
	if err := s.engine.Settle(ctx); err != nil && !s.stopped(err) {
		s.unsettled = err // a full disk, say; what was measured stands
	}
	return nil
}

// afterRun looks for changes by others.
func (s *session) afterRun(ctx context.Context, run int, cold bool) error {
	foreign, err := s.engine.ForeignWrites(ctx)
	s.foreign = s.foreign || foreign
	return s.ignoreStopped(err)
}

// reopenIfStopped opens the database again after a storage failure stopped the
// engine: only recovery tells what it holds.
func (s *session) reopenIfStopped(ctx context.Context) error {
	if s.lost != nil {
		return s.lost
	}
	_, err := s.engine.ForeignWrites(context.WithoutCancel(ctx))
	if !s.stopped(err) {
		return err
	}
	s.engine.Close() // its error is the one that stopped it
	fresh, err := s.Open(context.WithoutCancel(ctx), s.Scenario.Needs)
	if err != nil {
		s.lost = fmt.Errorf("the database stopped during the run and cannot be opened again: %w", err)
		return s.lost
	}
	s.engine = fresh
	s.reopens++
	return nil
}

func (s *session) stopped(err error) bool { return errors.Is(err, engine.ErrStopped) }

func (s *session) ignoreStopped(err error) error {
	if s.stopped(err) {
		return nil
	}
	return err
}
