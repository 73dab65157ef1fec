package tps

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// defaultSampleEvery is the interval of Result.Series.
const defaultSampleEvery = time.Second

// sampler takes the samples of one load, and asks Config.Interim after each if the
// load shall go on.
type sampler struct {
	*runner
	start    int64
	tally    *shardedTally // nil for a burst, whose traces hold it all
	inFlight func() int64
	end      context.CancelFunc // ends the load

	quit    chan struct{}
	running sync.WaitGroup
	series  []Sample
	before  Progress // at the end of the last interval
}

// sample starts to sample a load, but for a warm-up. load ends when Config.Interim
// says so, or with ctx; finish takes the last sample and returns all of them.
func (r *runner) sample(ctx context.Context, start int64, tally *shardedTally, inFlight func() int64) (load context.Context, finish func() []Sample) {
	if !r.measuring {
		return ctx, func() []Sample { return nil }
	}
	load, end := context.WithCancel(ctx)
	s := &sampler{runner: r, start: start, tally: tally, inFlight: inFlight, end: end, quit: make(chan struct{}), series: []Sample{}}
	s.running.Go(s.watch)
	return load, func() []Sample {
		close(s.quit)
		s.running.Wait()
		end()
		s.take()
		return s.series
	}
}

func (r *runner) sampleEvery() time.Duration { return cmp.Or(r.cfg.SampleEvery, defaultSampleEvery) }

// watch takes a sample at the end of each interval.
func (s *sampler) watch() {
	ticker := time.NewTicker(s.sampleEvery())
	defer ticker.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-ticker.C:
		}
		if !s.take() || s.cfg.Interim == nil || s.reason != "" {
			continue
		}
		if s.reason = s.cfg.Interim(s.interim()); s.reason != "" {
			s.end()
		}
	}
}

// take takes one sample, unless no time has passed since the last.
func (s *sampler) take() bool {
	p := s.meter.Snapshot()
	at := time.Duration(s.now() - s.start)
	sample := Sample{
		At:           at,
		Interval:     at - s.before.Elapsed,
		Acknowledged: p.Acknowledged - s.before.Acknowledged,
		Failed:       p.Failed - s.before.Failed,
		Dropped:      p.Dropped - s.before.Dropped,
		Skipped:      p.Skipped - s.before.Skipped,
		InFlight:     s.inFlight(),
	}
	if sample.Interval <= 0 {
		return false
	}
	s.before, s.before.Elapsed = p, at
	sample.TPS = perSecond(sample.Acknowledged, sample.Interval)
	if s.tally != nil {
		s.tally.take()
		sample.setLatency(s.tally.interval)
	}
	if s.cfg.OnSample != nil {
		s.cfg.OnSample(&sample)
	}
	s.series = append(s.series, sample)
	return true
}

// interim returns what was measured until the last sample.
func (s *sampler) interim() *Result {
	last := s.series[len(s.series)-1]
	o := outcome{start: s.start, lasted: last.At}
	t := newTally(0)
	if s.tally != nil {
		t = s.tally.whole
	} else {
		t.acknowledged, t.failed = s.before.Acknowledged, s.before.Failed
	}
	o.dropped, o.skipped = s.before.Dropped, s.before.Skipped
	res := o.fill(t, last.At)
	res.Load, res.Series = s.load(), s.series[:len(s.series):len(s.series)]
	return res
}

func (s *Sample) setLatency(h *histogram) {
	l := h.summary()
	s.P50, s.P99, s.Max = l.P50, l.P99, l.Max
}

// sampleTraces fills in the latencies of a burst's series, which only its traces
// know.
func sampleTraces(series []Sample, traces []Trace, start int64) {
	if len(series) == 0 {
		return
	}
	order := make([]int32, 0, len(traces))
	for k := range traces {
		if traces[k].state == traceAcknowledged {
			order = append(order, int32(k))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(traces[a].Done, traces[b].Done) })
	h := newHistogram()
	for k := range series {
		h.reset()
		end, last := start+int64(series[k].At), k == len(series)-1
		for len(order) > 0 && (last || traces[order[0]].Done <= end) {
			tr := &traces[order[0]]
			h.record(tr.Done-tr.Intended, 1)
			order = order[1:]
		}
		series[k].setLatency(h)
	}
}
