package tps

import (
	"context"
	"fmt"
	"math"
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
	// as late. 0: none.
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

	// Meter, if not nil, is kept up to date while the load runs.
	Meter *Meter
}

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
	case c.Rate != 0:
		return OpenLoop
	case c.Concurrency != 0 || c.Duration != 0:
		return ClosedLoop
	default:
		return Burst
	}
}

// repeats tells whether the load is run in rounds after a cold one: a count
// alone, all at once or batch after batch.
func (c *Config) repeats() bool {
	return c.Rate == 0 && c.Concurrency == 0 && c.Duration == 0
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

// Validate returns a [ConfigError] that names the flag at fault, or nil.
func (c *Config) Validate() error {
	if (c.Op == nil) == (c.BatchOp == nil) {
		return ConfigError("tps: exactly one of Op and BatchOp must be set")
	}
	if err := c.validateRanges(); err != nil {
		return err
	}
	if err := c.validateLoad(); err != nil {
		return err
	}
	return c.validateMemory()
}

// validateRanges checks each field by itself.
func (c *Config) validateRanges() error {
	switch {
	case c.Transactions < 0:
		return ConfigError("-n must be 1 or more")
	case c.Duration < 0:
		return ConfigError("-d must be longer than 0")
	case c.Concurrency < 0:
		return ConfigError("-c must be 1 or more")
	case c.Concurrency > MaxGoroutines:
		return ConfigError(fmt.Sprintf("-c must be %d or less", MaxGoroutines))
	case math.IsNaN(c.Rate) || c.Rate < 0 || c.Rate > MaxRate:
		return ConfigError(fmt.Sprintf("-R must be above 0 and at most %.0f a second", float64(MaxRate)))
	case c.MaxInFlight < 0:
		return ConfigError("--max-in-flight must be 1 or more")
	case c.Warmup < 0:
		return ConfigError("--warmup must not be negative")
	case c.Runs < 0:
		return ConfigError("--runs must be 1 or more")
	case c.LatencyLimit < 0:
		return ConfigError("-L must be longer than 0")
	case c.BatchOp != nil && c.BatchSize < 1:
		return ConfigError("--max-batch must be 1 or more")
	case c.MemoryBytes < 0:
		return ConfigError("tps: MemoryBytes must not be negative")
	}
	return nil
}

// validateLoad checks how the fields go together.
func (c *Config) validateLoad() error {
	unbounded := c.Transactions == 0 && c.Duration == 0
	switch {
	case c.BatchOp != nil && c.Rate != 0:
		return ConfigError("-R cannot be used here: this scenario runs one batch after the other on one goroutine; use -n or -d")
	case c.BatchOp != nil && c.Concurrency > 1:
		return ConfigError("-c cannot be used here: this scenario runs on one goroutine; use -n or -d")
	case c.Rate != 0 && c.Concurrency != 0:
		return ConfigError("-c cannot be used with -R: an open loop starts transactions on schedule whoever waits; use --max-in-flight to bound it")
	case c.Rate != 0 && unbounded:
		return ConfigError("-R needs an end: give -d or -n")
	case c.Concurrency != 0 && unbounded:
		return ConfigError("-c needs an end: give -n or -d")
	case unbounded:
		return ConfigError("-n must be 1 or more")
	case c.MaxInFlight != 0 && c.Rate == 0:
		return ConfigError("--max-in-flight needs -R: only an open loop can run ahead")
	case c.Runs != 0 && !c.repeats():
		return ConfigError("--runs repeats a burst: it cannot be used with -c, -d or -R")
	case c.Warmup != 0 && c.repeats():
		return ConfigError("--warmup needs -c, -d or -R: a burst has its cold run instead")
	}
	return nil
}

// validateMemory refuses goroutines that would not fit.
func (c *Config) validateMemory() error {
	switch c.Mode() {
	case Burst:
		if c.Transactions > MaxGoroutines {
			return ConfigError(fmt.Sprintf("-n %d is too many goroutines for one burst (at most %d): use -c to bound them", c.Transactions, MaxGoroutines))
		}
		if !c.fits(c.Transactions) {
			return ConfigError(fmt.Sprintf("a burst of -n %d needs about %d MiB, %d MiB are there: use -c to bound the goroutines",
				c.Transactions, mebibytes(c.Transactions*BytesPerGoroutine), mebibytes(c.MemoryBytes)))
		}
	case ClosedLoop:
		if clients := int64(c.clients()); !c.fits(clients) {
			return ConfigError(fmt.Sprintf("-c %d needs about %d MiB, %d MiB are there: use a smaller -c",
				clients, mebibytes(clients*BytesPerGoroutine), mebibytes(c.MemoryBytes)))
		}
	}
	return nil
}

func (c *Config) fits(goroutines int64) bool {
	return c.MemoryBytes == 0 || goroutines <= c.MemoryBytes/BytesPerGoroutine
}

// mebibytes rounds up, so that something never shows as nothing.
func mebibytes(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }
