package tps

import (
	"fmt"
	"math"
)

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
	case c.BurstSize < 0:
		return ConfigError("--burst-size must be 1 or more")
	case c.Arrival != "" && c.Arrival != ConstantArrival && c.Arrival != PoissonArrival:
		return ConfigError(fmt.Sprintf("--arrival %q is none of constant, poisson", c.Arrival))
	case c.SampleEvery < 0:
		return ConfigError("-P must be longer than 0")
	case c.LatencyLimit < 0:
		return ConfigError("-L must be longer than 0")
	case c.BatchOp != nil && c.BatchSize < 1:
		return ConfigError("--max-batch must be 1 or more")
	case c.MemoryBytes < 0:
		return ConfigError("tps: MemoryBytes must not be negative")
	}
	return c.validateStages()
}

// validateStages checks a rate that changes.
func (c *Config) validateStages() error {
	if len(c.Stages) == 0 {
		return nil
	}
	if c.Rate != 0 || c.Duration != 0 {
		return ConfigError("--stage takes the place of -R and -d: give stages alone")
	}
	arrivals := 0.0
	for _, s := range c.Stages {
		if s.Duration <= 0 {
			return ConfigError("--stage: each stage must be longer than 0")
		}
		for _, rate := range [...]float64{s.From, s.To} {
			if !(rate >= 0 && rate <= MaxRate) { // NaN included
				return ConfigError(fmt.Sprintf("--stage: a rate must be 0 or more and at most %.0f a second", float64(MaxRate)))
			}
		}
		arrivals += s.arrivals()
	}
	if arrivals < 1 {
		return ConfigError("--stage: no transaction is ever due: give a rate above 0")
	}
	return nil
}

// validateLoad checks how the fields go together.
func (c *Config) validateLoad() error {
	open := c.Mode() == OpenLoop || c.Rate != 0 || len(c.Stages) > 0
	unbounded := c.Transactions == 0 && c.Duration == 0 && len(c.Stages) == 0
	switch {
	case c.BatchOp != nil && open:
		return ConfigError("-R cannot be used here: this scenario runs one batch after the other on one goroutine; use -n or -d")
	case c.BatchOp != nil && c.Concurrency > 1:
		return ConfigError("-c cannot be used here: this scenario runs on one goroutine; use -n or -d")
	case open && c.Concurrency != 0:
		return ConfigError("-c cannot be used with -R: an open loop starts transactions on schedule whoever waits; use --max-in-flight to bound it")
	case open && unbounded:
		return ConfigError("-R needs an end: give -d or -n")
	case c.Concurrency != 0 && unbounded:
		return ConfigError("-c needs an end: give -n or -d")
	case unbounded:
		return ConfigError("-n must be 1 or more")
	case c.MaxInFlight != 0 && !open:
		return ConfigError("--max-in-flight needs -R: only an open loop can run ahead")
	case (c.Arrival != "" || c.BurstSize != 0) && !open:
		return ConfigError("--arrival and --burst-size need -R: they shape the arrivals of an open loop")
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
