package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/internal/quantity"
	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// defaultTransactions is the burst of a run without any load flag.
const defaultTransactions = 100_000

// loadFlags are how the load of a run is offered.
type loadFlags struct {
	transactions     int64
	duration, warmup time.Duration
	concurrency      int64
	inFlight, runs   int64
	rate, burst      int64
	arrival          string
	stages           []string
	latency          time.Duration
	sampleEvery      time.Duration
	thresholds       []string
	abort            bool
	parsedStages     []tps.Stage
	parsedThresholds []tps.Threshold
}

func (f *loadFlags) add(flags *pflag.FlagSet) {
	countVar(flags, &f.transactions, "transactions", "n", 0, "transactions; alone, a burst (100000 when there is no load flag)")
	durationVar(flags, &f.duration, "duration", "d", 0, time.Second, "how long the load lasts; a bare number is seconds")
	countVar(flags, &f.concurrency, "concurrency", "c", 0, "clients of a closed loop (64 with -d alone)")
	countVar(flags, &f.rate, "rate", "R", 0, "arrivals a second, whoever waits; needs -d or -n")
	choiceVar(flags, &f.arrival, "arrival", "constant", "at a rate: constant, or poisson as of many users who know nothing of each other", "constant", "poisson")
	countVar(flags, &f.burst, "burst-size", "", 0, "at a rate: arrivals that come at the same instant (1)")
	flags.StringArrayVar(&f.stages, "stage", nil, "a part of a rate that changes, as `10s:5000` or 30s:5000->20000; may be repeated, in place of -R and -d")
	countVar(flags, &f.inFlight, "max-in-flight", "", 0, "at a rate: unfinished transactions beyond this are dropped and counted (100k)")
	durationVar(flags, &f.latency, "latency-limit", "L", 0, time.Millisecond, "count transactions slower than this; at a rate skip those that are too late already; a bare number is milliseconds")
	durationVar(flags, &f.warmup, "warmup", "", 0, time.Second, "with -c, -d or at a rate: load before measuring begins")
	countVar(flags, &f.runs, "runs", "", 0, "rounds of a burst after the cold one (5 when it is shorter than 2 s)")
	durationVar(flags, &f.sampleEvery, "progress", "P", 0, time.Second, "print a sample on stderr as often as this; a bare number is seconds")
	flags.StringArrayVar(&f.thresholds, "threshold", nil, "exit with 99 unless it `holds`, as p99<20ms, tps>50000 or failed==0 (a bare number for a time is milliseconds); may be repeated")
	flags.BoolVar(&f.abort, "abort-on-fail", false, "end the load as soon as a threshold is crossed")
}

// config checks the flags and returns the load.
func (f *loadFlags) config(given func(string) bool) (load tps.Config, err error) {
	if err := checkCounts(given,
		countRange{"transactions", "-n", f.transactions, 1, math.MaxInt64},
		countRange{"concurrency", "-c", f.concurrency, 1, tps.MaxGoroutines},
		countRange{"rate", "-R", f.rate, 1, tps.MaxRate},
		countRange{"burst-size", "--burst-size", f.burst, 1, 1_000_000},
		countRange{"max-in-flight", "--max-in-flight", f.inFlight, 1, tps.MaxGoroutines},
		countRange{"runs", "--runs", f.runs, 1, 1000},
	); err != nil {
		return load, err
	}
	if given("progress") && f.sampleEvery > 0 && f.sampleEvery < minSampleEvery {
		return load, usagef("-P %v: it must be %v or longer, as each sample takes some milliseconds", f.sampleEvery, minSampleEvery)
	}
	for _, length := range []struct {
		flag, written string
		d             time.Duration
	}{{"duration", "-d", f.duration}, {"latency-limit", "-L", f.latency}, {"progress", "-P", f.sampleEvery}} {
		if given(length.flag) && length.d <= 0 {
			return load, usagef("%s %v: it must be longer than 0", length.written, length.d)
		}
	}
	if err := f.parse(); err != nil {
		return load, usageError(err)
	}
	if !given("transactions") && !given("duration") && !given("rate") && !given("concurrency") && len(f.stages) == 0 {
		f.transactions = defaultTransactions
	}
	load = tps.Config{
		Transactions: f.transactions,
		Duration:     f.duration,
		Concurrency:  int(f.concurrency),
		Rate:         float64(f.rate),
		Stages:       f.parsedStages,
		BurstSize:    int(f.burst),
		MaxInFlight:  int(f.inFlight),
		Warmup:       f.warmup,
		Runs:         int(f.runs),
		LatencyLimit: f.latency,
		SampleEvery:  f.sampleEvery,
		MemoryBytes:  int64(machine.AvailableMemory()),
	}
	if given("arrival") {
		load.Arrival = tps.Arrival(f.arrival)
	}
	if f.abort {
		if len(f.thresholds) == 0 {
			return load, usagef("--abort-on-fail needs a --threshold that can be crossed")
		}
		load.Interim = f.crossed
	}
	return load, nil
}

// minSampleEvery keeps the sampling from being what is measured.
const minSampleEvery = 100 * time.Millisecond

// parse reads the stages and the thresholds.
func (f *loadFlags) parse() error {
	for _, text := range f.stages {
		stage, err := parseStage(text)
		if err != nil {
			return err
		}
		f.parsedStages = append(f.parsedStages, stage)
	}
	for _, text := range f.thresholds {
		threshold, err := tps.ParseThreshold(text)
		if err != nil {
			return err
		}
		f.parsedThresholds = append(f.parsedThresholds, threshold)
	}
	return nil
}

// parseStage reads 10s:5000 or 30s:5000->20000.
func parseStage(text string) (s tps.Stage, err error) {
	wrong := func(err error) error {
		return fmt.Errorf("--stage %q is neither 10s:5000 nor 30s:5000->20000: %w", text, err)
	}
	length, rates, ok := strings.Cut(text, ":")
	if !ok {
		return s, wrong(fmt.Errorf("no colon"))
	}
	if s.Duration, err = quantity.Duration(length, time.Second); err != nil {
		return s, wrong(err)
	}
	from, to, ramp := strings.Cut(rates, "->")
	if s.From, err = parseRate(from); err != nil {
		return s, wrong(err)
	}
	if s.To = s.From; ramp {
		if s.To, err = parseRate(to); err != nil {
			return s, wrong(err)
		}
	}
	return s, nil
}

// parseRate reads arrivals a second: a count, or a number with a fraction.
func parseRate(text string) (float64, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n, nil
	}
	n, err := quantity.Count(text)
	return float64(n), err
}

// crossed is the Interim of --abort-on-fail. The first sample is not judged: a load
// that gets going is slower than it will be. What has no samples yet, such as the
// latencies of a burst that is under way, is judged at the end.
func (f *loadFlags) crossed(so *tps.Result) string {
	if len(so.Series) < 2 {
		return ""
	}
	for _, t := range f.parsedThresholds {
		if o := t.Check(so); t.Hopeless(o) {
			return "crossed " + o.Threshold
		}
	}
	return ""
}

// validLoad validates a load before there is anything to run.
func validLoad(load tps.Config, scenario scenarios.Scenario) error {
	if scenario.Direct {
		load.BatchOp = func(context.Context, uint64, []error) error { return nil }
	} else {
		load.Op = func(context.Context, uint64, *tps.Trace) error { return nil }
	}
	return load.Validate()
}
