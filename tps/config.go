package tps

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Op runs transaction number i and returns its outcome: nil means acknowledged.
// The numbers of one call of [Run] are unique and dense from 0, over the warm-up
// and all repeated runs, so that a caller can map them to a pool round robin.
// (A load that is cancelled leaves the numbers unused that it had set aside.)
// Ops run concurrently. An Op should return soon after ctx has ended; the
// harness waits for it.
type Op func(ctx context.Context, i uint64, t *Trace) error

// BatchOp runs the transactions first to first+len(errs)-1 together, one batch
// at a time on one goroutine. errs comes in cleared; errs[k] receives the outcome
// of transaction first+k. A returned error is the outcome of all of them.
type BatchOp func(ctx context.Context, first uint64, errs []error) error

// Mode names a way to offer load.
type Mode string

// The loads. Which one a Config asks for follows from the fields that are set;
// see [Config.Mode].
const (
	// Burst starts every transaction at once, each on its own goroutine.
	// Latency is then mostly a place in the queue.
	Burst Mode = "burst"
	// ClosedLoop has a number of clients that each start a transaction when
	// their last one is done. A stall stops the clients too, so its latency is
	// service time only.
	ClosedLoop Mode = "closed"
	// OpenLoop starts transactions on a schedule, whatever became of those
	// before, and measures from the scheduled instant.
	OpenLoop Mode = "open"
	// Direct calls a BatchOp over and over on one goroutine. A transaction
	// takes as long as its batch; there is no queue to wait in.
	Direct Mode = "direct"
)

// Limits and defaults of a Config.
const (
	// DefaultRuns is how often a short burst is repeated after the cold one.
	DefaultRuns = 5
	// RepeatBelow is the length of the cold run from which on it counts itself
	// and nothing is repeated, unless Config.Runs asks for it.
	RepeatBelow = 2 * time.Second
	// DefaultConcurrency is the number of clients when only a duration is given.
	DefaultConcurrency = 64
	// DefaultMaxInFlight bounds an open loop.
	DefaultMaxInFlight = 100_000
	// BytesPerGoroutine is the memory that one waiting goroutine is taken to
	// need when a load is refused because it would not fit.
	BytesPerGoroutine = 4096
	// MaxGoroutines bounds a burst and the clients of a closed loop (1 TiB).
	MaxGoroutines = 1 << 28
	// MaxRate is one arrival a nanosecond, the resolution of the clock.
	MaxRate = 1e9
)

// ClassCancelled is the error class of a transaction that returned the error of
// its context after the load was cancelled.
const ClassCancelled = "cancelled"

// ClassSkipped is what Config.Record is told of a transaction that was skipped.
const ClassSkipped = "skipped"

// classError is the class of every failure when Config.Classify is nil.
const classError = "error"

// Config says what to run, how to offer it and what to do around it. Exactly
// one of Op and BatchOp must be set; every other zero value has the meaning
// written beside it.
type Config struct {
	Op      Op
	BatchOp BatchOp
	// BatchSize is the number of transactions in one call of BatchOp: 1 or more
	// with BatchOp, unused with Op.
	BatchSize int

	// Transactions (-n) bounds the load by count, Duration (-d) by time; with
	// both, what comes first ends it. Transactions alone is a burst. 0: unbounded.
	Transactions int64
	Duration     time.Duration
	// Concurrency (-c) makes a closed loop with that many clients. 0: a burst,
	// or DefaultConcurrency when Duration is set.
	Concurrency int
	// Rate (-R) makes an open loop with that many arrivals a second. 0: none.
	Rate float64
	// Stages (--stage) make an open loop whose rate changes. They take the place
	// of Rate and Duration. None: an unchanging rate.
	Stages []Stage
	// Arrival (--arrival) and BurstSize (--burst-size) shape the arrivals of an
	// open loop, and ArrivalSeed makes the chance in them repeatable; see
	// [Schedule].
	Arrival     Arrival
	BurstSize   int
	ArrivalSeed uint64
	// MaxInFlight bounds the unfinished transactions of an open loop; arrivals
	// beyond it are dropped and counted. 0: DefaultMaxInFlight.
	MaxInFlight int
	// Warmup runs a closed or open loop for this long, unrecorded, and drains
	// it before measuring begins. 0: none. A burst has its cold run instead.
	Warmup time.Duration
	// Runs repeats a burst so often after its cold run. 0: DefaultRuns if the
	// cold run took less than RepeatBelow; otherwise the cold run counts alone.
	Runs int
	// LatencyLimit (-L) counts acknowledged transactions with a longer latency
	// as late. An open loop does not start a transaction for which it has passed
	// already, but counts it as skipped; so does an Op of a loop that returns
	// ErrSkipped. 0: none.
	LatencyLimit time.Duration

	// Now is a monotonic clock in nanoseconds that never returns 0 or less. Give
	// the same clock to what stamps Timing. nil: a clock from NewClock.
	Now func() int64
	// Sleep waits for d or until ctx ends, in an open loop. nil: a time.Timer,
	// which on Linux may be 1 ms late when the process is idle; see [Sleeper].
	Sleep func(ctx context.Context, d time.Duration)
	// Classify names the class of a failure, for Result.Errors. It is called
	// concurrently. nil: "error" for all.
	Classify func(error) string
	// MemoryBytes is the memory that the goroutines of a load may take; a load
	// that needs more is refused before it starts. 0: not checked.
	MemoryBytes int64

	// BeforeRun and AfterRun surround each measured run, outside the timed part
	// (in a loop BeforeRun comes after the warm-up), so that the caller can take
	// counters or drop caches. run is the index in Result.Runs; cold is true for
	// the first burst. Settle is called as soon as the clock of a run has
	// stopped, before AfterRun, and is timed on its own for TPSSettled. After a
	// cancelled load Settle and AfterRun still run, with a context that has not
	// ended. An error from any of them ends Run, or the rounds. nil: nothing to do.
	BeforeRun func(ctx context.Context, run int, cold bool) error
	AfterRun  func(ctx context.Context, run int, cold bool) error
	Settle    func(ctx context.Context) error

	// SampleEvery is the length of an interval of Result.Series. 0: a second.
	SampleEvery time.Duration
	// OnSample completes each sample, on a goroutine of its own, at the end of
	// its interval. A warm-up has none. nil: the fields that Run does not know stay zero.
	OnSample func(*Sample)
	// Interim sees what was measured until now, after each sample, and ends the
	// load when it returns a reason, which becomes Result.Stopped: nothing more is
	// started, and what is in flight is waited for. Of a burst it sees the counts
	// only. nil: the bounds alone end the load.
	Interim func(*Result) (reason string)
	// Record is told of each transaction that has an outcome: its number, its
	// trace, which it must not keep, and the class of its failure, "" when it was
	// acknowledged and ClassSkipped when it was skipped. It is called concurrently;
	// for the transactions of a burst after the load, and not for a warm-up. nil:
	// nobody is told.
	Record func(i uint64, tr *Trace, class string)

	// Meter, if not nil, is kept up to date while the load runs.
	Meter *Meter
}

// ErrSkipped is what an Op returns for a transaction that it did not run because
// LatencyLimit had passed before its turn came.
var ErrSkipped = errors.New("tps: too late to be worth starting")

// ConfigError is a Config that makes no sense: one line, in the terms of the
// command line's flags.
type ConfigError string

func (e ConfigError) Error() string { return string(e) }

// NewClock returns a monotonic clock in nanoseconds that starts at 1, so that 0
// can mean "never".
func NewClock() func() int64 {
	base := time.Now()
	return func() int64 { return int64(time.Since(base)) + 1 }
}

// Mode returns the load that the fields ask for. It is meaningful only for a
// Config that Validate accepts.
func (c *Config) Mode() Mode {
	switch {
	case c.BatchOp != nil:
		return Direct
	case c.Rate != 0 || len(c.Stages) > 0:
		return OpenLoop
	case c.Concurrency != 0 || c.Duration != 0:
		return ClosedLoop
	default:
		return Burst
	}
}

// schedule returns the schedule of an open loop; another load has none.
func (c *Config) schedule() Schedule {
	if c.Mode() != OpenLoop {
		return Schedule{}
	}
	s := ConstantRate(c.Rate, c.Duration)
	if len(c.Stages) > 0 {
		s.Stages = c.Stages
	}
	s.Arrival, s.BurstSize, s.Seed = cmp.Or(c.Arrival, ConstantArrival), c.BurstSize, c.ArrivalSeed
	return s
}

// warmup returns the bounds of the warm-up: an open loop warms up at the first rate
// of its schedule that is not 0.
func (c *Config) warmup() bounds {
	s := c.schedule()
	for _, stage := range s.Stages {
		if rate := cmp.Or(stage.From, stage.To); rate > 0 {
			s.Stages = []Stage{{Duration: c.Warmup, From: rate, To: rate}}
			break
		}
	}
	return bounds{duration: c.Warmup, schedule: s}
}

// length returns how long the load lasts, 0 where that is not bounded.
func (c *Config) length() time.Duration { return cmp.Or(c.Duration, c.schedule().Length()) }

// Expected returns how many transactions the load runs, as far as its bounds tell:
// 0 when a closed loop is bounded by time alone. The warm-up of an open loop is
// included; that of a closed one runs as many as it happens to.
func (c *Config) Expected() float64 {
	if c.Mode() != OpenLoop {
		return float64(c.Transactions)
	}
	n := c.schedule().Expected()
	if c.Transactions > 0 {
		n = min(n, float64(c.Transactions))
	}
	if c.Warmup > 0 {
		n += c.warmup().schedule.Expected()
	}
	return n
}

// repeats tells whether the load is run in rounds after a cold one: a count
// alone, all at once or batch after batch.
func (c *Config) repeats() bool {
	return c.Mode() != OpenLoop && c.Concurrency == 0 && c.Duration == 0
}

// clients returns the number of clients of a closed loop.
func (c *Config) clients() int {
	if c.Concurrency == 0 {
		return DefaultConcurrency
	}
	return c.Concurrency
}

// maxInFlight returns the bound of an open loop.
func (c *Config) maxInFlight() int64 {
	if c.MaxInFlight == 0 {
		return DefaultMaxInFlight
	}
	return int64(c.MaxInFlight)
}
