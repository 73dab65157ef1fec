package tps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Run offers the load of cfg and returns what it measured.
//
// A failed transaction is no error of Run: it is counted. When ctx ends, no
// further transaction starts, those in flight are waited for, and the Result
// keeps what was measured, with Interrupted set; that is no error either.
// Errors are a [ConfigError] before anything ran, and those of the hooks; an error
// of a hook in a later round of a burst ends the rounds and becomes a warning.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := newRunner(cfg)
	defer r.meter.prepare()
	startedAt := time.Now()
	var rounds []*Result
	var err error
	if cfg.repeats() {
		rounds, err = r.rounds(ctx)
	} else {
		rounds, err = r.once(ctx)
	}
	if err != nil {
		return nil, err
	}
	res := combine(rounds)
	res.StartedAt = startedAt
	if r.cut != "" {
		res.Warnings = append(res.Warnings, r.cut)
	}
	res.Interrupted, res.Stopped = r.stopped, r.reason
	r.examples.Range(func(class, text any) bool {
		res.ErrorExamples[class.(string)] = text.(string)
		return true
	})
	res.Load = r.load()
	res.BytesPerWaiting = r.peak.perWaiting()
	return res, nil
}

// runner is the state of one Run.
type runner struct {
	cfg    Config
	mode   Mode
	now    func() int64
	sleep  func(context.Context, time.Duration)
	meter  *Meter
	seq    atomic.Uint64 // the next transaction's number
	traces []Trace       // of a burst, used again by every round
	peak   memoryPeak    // of the cold burst
	// stopped is set once the end of ctx has cut something short.
	stopped bool
	cut     string // why there were fewer rounds than asked for
	// measuring is set but for a warm-up.
	measuring bool
	// reason is why Config.Interim ended the load. The sampler sets it.
	reason string
	// examples are the first error of each class.
	examples sync.Map
}

func newRunner(cfg Config) *runner {
	r := &runner{cfg: cfg, mode: cfg.Mode(), now: cfg.Now, sleep: cfg.Sleep, meter: cfg.Meter}
	if r.now == nil {
		r.now = NewClock()
	}
	if r.sleep == nil {
		r.sleep = timerSleep
	}
	if r.meter == nil {
		r.meter = new(Meter)
	}
	return r
}

// load describes the load as it was offered.
func (r *runner) load() Load {
	l := Load{
		Mode:         r.mode,
		Transactions: r.cfg.Transactions,
		Duration:     r.cfg.Duration,
		Rate:         r.cfg.Rate,
		Stages:       []Stage{},
		Warmup:       r.cfg.Warmup,
		LatencyLimit: r.cfg.LatencyLimit,
		Scripts:      []string{},
	}
	switch r.mode {
	case ClosedLoop:
		l.Concurrency = r.cfg.clients()
	case OpenLoop:
		s := r.cfg.schedule()
		l.Arrival, l.BurstSize, l.MaxInFlight = s.Arrival, s.burst(), r.cfg.maxInFlight()
		l.Stages = append(l.Stages, r.cfg.Stages...)
	}
	return l
}

// class names the error of a transaction, and tells whether it failed because
// the load was cancelled.
func (r *runner) class(ctx context.Context, err error) (class string, cancelled bool) {
	if ended := ctx.Err(); ended != nil && (errors.Is(err, ended) || errors.Is(err, context.Cause(ctx))) {
		return ClassCancelled, true
	}
	class = classError
	if r.cfg.Classify != nil {
		class = r.cfg.Classify(err)
	}
	if _, known := r.examples.Load(class); r.measuring && !known { // the text of an error may take a while
		r.examples.LoadOrStore(class, err.Error())
	}
	return class, false
}

// rounds runs the cold round and its repetitions.
func (r *runner) rounds(ctx context.Context) (rounds []*Result, err error) {
	total := 1 + r.cfg.Runs
	for run := 0; run < total; run++ {
		if ctx.Err() != nil {
			r.stopped = true
			break
		}
		res, err := r.measure(ctx, run, run == 0)
		if err != nil && len(rounds) == 0 {
			return nil, err
		}
		if err != nil { // what the rounds before it measured stands
			r.cut = fmt.Sprintf("only %d of %d rounds were run: %v", run, total, err)
			break
		}
		if res == nil {
			break
		}
		rounds = append(rounds, res)
		if run == 0 && r.cfg.Runs == 0 && res.Elapsed < RepeatBelow {
			total += DefaultRuns
		}
		if r.stopped || r.reason != "" {
			break
		}
	}
	return rounds, nil
}

// once warms up and runs a load that is not repeated.
func (r *runner) once(ctx context.Context) ([]*Result, error) {
	if r.cfg.Warmup > 0 {
		r.meter.begin(Progress{Phase: WarmingUp, Duration: r.cfg.Warmup}, r.now)
		r.offer(ctx, r.cfg.warmup(), false) // what it recorded is dropped
		r.meter.prepare()
	}
	if ctx.Err() != nil {
		r.stopped = true
		return nil, nil
	}
	res, err := r.measure(ctx, 0, false)
	if err != nil || res == nil {
		return nil, err
	}
	return []*Result{res}, nil
}

// outcome is what a load leaves behind when its clock has stopped.
type outcome struct {
	start       int64
	spawn       int64
	interrupted bool // by the end of the context
	cut         bool // by that or by Config.Interim
	series      []Sample
	// fold fills the histograms; it may take a while and is called once.
	fold func() *tally

	dropped, skipped int64
	lasted           time.Duration // it lasted at least so long
	kept             *Kept         // of an open loop only
	limit            time.Duration // Config.LatencyLimit
}

// offer runs the load once.
func (r *runner) offer(ctx context.Context, b bounds, cold bool) outcome {
	switch r.mode {
	case Burst:
		return r.burst(ctx, cold)
	case ClosedLoop:
		return r.closedLoop(ctx, b)
	case OpenLoop:
		return r.openLoop(ctx, b)
	default:
		return r.direct(ctx, b)
	}
}

// measure runs the load once with all that surrounds it. The Result is nil when
// ctx ended before the load began.
func (r *runner) measure(ctx context.Context, run int, cold bool) (*Result, error) {
	if r.mode == Burst {
		r.prepareBurst()
	}
	if r.cfg.BeforeRun != nil {
		err := r.cfg.BeforeRun(ctx, run, cold)
		if ctx.Err() != nil {
			r.stopped = true
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("tps: before run %d: %w", run, err)
		}
	}
	// Every round begins with the same heap; the collector is never off.
	runtime.GC()
	phase := Measuring
	if cold {
		phase = ColdRun
	}
	paused := gcPauses()
	r.meter.begin(Progress{Phase: phase, Run: run, Transactions: r.cfg.Transactions, Duration: r.cfg.length()}, r.now)
	r.measuring = true
	o := r.offer(ctx, bounds{r.cfg.Transactions, r.cfg.Duration, r.cfg.schedule()}, cold)
	o.dropped, o.skipped = r.meter.dropped.Load(), r.meter.skipped.Load()
	o.limit = r.cfg.LatencyLimit
	r.meter.prepare()
	paused = gcPauses() - paused
	r.stopped = r.stopped || o.interrupted

	uncancelled := context.WithoutCancel(ctx)
	var settling time.Duration
	if r.cfg.Settle != nil {
		from := r.now()
		if err := r.cfg.Settle(uncancelled); err != nil {
			return nil, fmt.Errorf("tps: settle after run %d: %w", run, err)
		}
		settling = time.Duration(r.now() - from)
	}
	if r.cfg.AfterRun != nil {
		if err := r.cfg.AfterRun(uncancelled, run, cold); err != nil {
			return nil, fmt.Errorf("tps: after run %d: %w", run, err)
		}
	}
	res := o.result(settling)
	res.Runs[0].Cold = cold
	length := r.cfg.length()
	if o.kept != nil {
		length = o.kept.Length
	}
	res.Steady = steady(res.Series, r.sampleEvery(), length)
	res.Warnings = append(res.Warnings, pauseWarnings(paused, res.Elapsed)...)
	return res, nil
}

// result folds the outcome of one run. settling is what Settle took after it.
func (o *outcome) result(settling time.Duration) *Result {
	t := o.fold()
	elapsed := o.lasted
	if t.lastDone > 0 {
		elapsed = max(elapsed, time.Duration(t.lastDone-o.start))
	}
	res := o.fill(t, elapsed)
	res.Series = o.series
	res.TPSSettled = perSecond(t.acknowledged, elapsed+settling)
	res.LatencyHistogram = t.latency.doubling()
	res.Runs = []Round{{TPS: res.TPS, Elapsed: elapsed, Acknowledged: t.acknowledged,
		Failed: t.failed, Interrupted: o.interrupted || o.cut}}
	res.Warnings = append(res.Warnings, o.warnings(t)...)
	return res
}

// fill returns the figures of what t holds after the time elapsed.
func (o *outcome) fill(t *tally, elapsed time.Duration) *Result {
	res := emptyResult()
	res.Acknowledged, res.Failed, res.Dropped, res.Skipped = t.acknowledged, t.failed, o.dropped, o.skipped
	res.Late, res.Retries, res.Errors = t.late, t.retries, maps.Clone(t.errors)
	res.Elapsed, res.Spawn = elapsed, time.Duration(o.spawn)
	res.TPS = perSecond(t.acknowledged, elapsed)
	res.TPSLow, res.TPSHigh, res.TPSSettled = res.TPS, res.TPS, res.TPS
	res.Reads = Reads{Acknowledged: t.reads, TPS: perSecond(t.reads, elapsed), Latency: t.readLatency.summary()}
	res.Latency, res.Service, res.Stages = t.latency.summary(), t.service.summary(), t.stageSummaries()
	tries := t.tries.summary()
	res.Tries = Tries{Mean: perOne(t.tries.sum, t.tries.count), P50: int64(tries.P50), P99: int64(tries.P99), Max: int64(tries.Max)}
	if o.kept != nil {
		kept := *o.kept
		late := t.behind.summary()
		kept.LateP99, kept.LateMax = late.P99, late.Max
		kept.GeneratorBound = kept.late(o.limit)
		res.Schedule = &kept
	}
	return res
}

// combine makes one Result of the rounds: the one that stands for all, with the
// list of all and the span of those that count. Without rounds it is empty.
func combine(rounds []*Result) *Result {
	if len(rounds) == 0 {
		return emptyResult()
	}
	runs := make([]Round, len(rounds))
	for k, round := range rounds {
		runs[k] = round.Runs[0]
	}
	shown, counted := pick(runs)
	res := rounds[shown]
	res.Runs, res.MedianRun = runs, shown
	res.TPSLow, res.TPSHigh = runs[counted[0]].TPS, runs[counted[len(counted)-1]].TPS
	var hidden int64
	for k := range runs {
		if k != shown {
			hidden += runs[k].Failed
		}
	}
	if hidden > 0 && res.Failed == 0 {
		res.Warnings = append(res.Warnings,
			fmt.Sprintf("%d transactions failed in runs other than the one shown", hidden))
	}
	return res
}

// pick returns the run to show and the runs that count, slowest first. Whole
// runs after the cold one count, and the median of them is shown (the slower of
// the middle two when they are even in number). If there are none, a whole cold
// run counts alone; if there is none either, the interrupted run that got
// furthest.
func pick(runs []Round) (shown int, counted []int) {
	for k, run := range runs {
		if !run.Cold && !run.Interrupted {
			counted = append(counted, k)
		}
	}
	if len(counted) > 0 {
		slices.SortStableFunc(counted, func(a, b int) int { return cmp.Compare(runs[a].TPS, runs[b].TPS) })
		return counted[(len(counted)-1)/2], counted
	}
	for k, run := range runs {
		best := runs[shown]
		if best.Interrupted && (!run.Interrupted || run.Acknowledged > best.Acknowledged) {
			shown = k
		}
	}
	return shown, []int{shown}
}

// NewResult returns the result of a load that was run without the harness: so many
// transactions acknowledged in elapsed, and the time that settling took after it.
func NewResult(mode Mode, acknowledged int64, elapsed, settling time.Duration) *Result {
	res := emptyResult()
	res.Load.Mode, res.Load.Transactions = mode, acknowledged
	res.Acknowledged, res.Elapsed = acknowledged, elapsed
	res.TPS = perSecond(acknowledged, elapsed)
	res.TPSLow, res.TPSHigh = res.TPS, res.TPS
	res.TPSSettled = perSecond(acknowledged, elapsed+settling)
	res.Runs = append(res.Runs, Round{TPS: res.TPS, Elapsed: elapsed, Acknowledged: acknowledged})
	return res
}

// emptyResult returns a Result without nil lists, which JSON would show as null.
func emptyResult() *Result {
	return &Result{
		Schema:        Schema,
		Argv:          []string{},
		Runs:          []Round{},
		Errors:        map[string]int64{},
		Series:        []Sample{},
		Warnings:      []string{},
		ErrorExamples: map[string]string{},
		Load:          Load{Stages: []Stage{}, Scripts: []string{}},

		LatencyHistogram: []Bucket{},
		Statements:       []Statement{},
		Thresholds:       []Outcome{},
		Writer:           Writer{BatchSizes: []Bucket{}},
		Growth:           []Growth{},
	}
}

// stageSummaries returns the stages as a Result shows them.
func (t *tally) stageSummaries() Stages {
	s := Stages{
		Lag:     t.stages[stageLag].summary(),
		Queue:   t.stages[stageQueue].summary(),
		Turn:    t.stages[stageTurn].summary(),
		Execute: t.stages[stageExecute].summary(),
		Hold:    t.stages[stageHold].summary(),
		Commit:  t.stages[stageCommit].summary(),
		Wake:    t.stages[stageWake].summary(),
	}
	for stage, to := range map[int]**Latency{
		stageCheckpoint: &s.Checkpoint, stageReads: &s.Reads, stageThink: &s.Think, stageRetry: &s.Retry,
	} {
		if t.stages[stage].max > 0 {
			l := t.stages[stage].summary()
			*to = &l
		}
	}
	return s
}

// perOne returns sum over n, 0 when there is nothing.
func perOne(sum float64, n int64) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// perSecond returns n over d, 0 when no time has passed.
func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// gcPauses returns how long the collector has stopped this process so far.
func gcPauses() time.Duration {
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	return stats.PauseTotal
}
