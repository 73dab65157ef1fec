package scenarios

import (
	"context"
	"sync"
	"time"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/tps"
)

// onSample returns what completes a sample: the engine's part here, the rest by
// next.
func (s *session) onSample(next func(*tps.Sample)) func(*tps.Sample) {
	return func(sample *tps.Sample) {
		now := s.engine.Stats()
		fillSample(sample, now.Sub(s.sampled))
		s.sampled = now
		if next != nil {
			next(sample)
		}
	}
}

// fillSample adds what an engine did in an interval.
func fillSample(sample *tps.Sample, st engine.Stats) {
	sample.Queued, sample.OldestWait = st.Queued, st.OldestWait
	sample.InFlight = max(sample.InFlight, sample.Queued) // it was read a moment before
	sample.Batches, sample.BatchMean = st.Batches, st.BatchMean()
	sample.Checkpoints, sample.CheckpointTime, sample.CheckpointPages = st.Checkpoints, st.CheckpointTime, st.CheckpointPages
	sample.WALBytes, sample.WALPendingBytes = st.WALBytes, st.WALPending
	sample.DBFileBytes, sample.WALFileBytes, sample.SHMFileBytes = st.DBBytes, st.WALFileBytes, st.SHMBytes
}

// interim adds what the engine did until now to the results that judge sees.
func (s *session) interim(judge func(*tps.Result) string) func(*tps.Result) string {
	if judge == nil {
		return nil
	}
	return func(res *tps.Result) string {
		res.Settings = tps.Settings(s.engine.Settings())
		res.Writer = writerStats(s.engine.Stats().Sub(s.began), res)
		return judge(res)
	}
}

// pin holds a snapshot for PinReader, or until unpin is called.
func (s *session) pin(ctx context.Context) error {
	s.unpin = func() error { return nil }
	if s.PinReader == 0 {
		return nil
	}
	pinner, ok := s.engine.(engine.Pinner)
	if !ok {
		return tps.ConfigError("--pin-reader needs a database with a log that a reader can hold")
	}
	release, err := pinner.Pin(ctx)
	if err != nil {
		return err
	}
	unpin := sync.OnceValue(release)
	timer := time.AfterFunc(s.PinReader, func() { unpin() }) // settle hears of its error
	s.unpin = func() error {
		timer.Stop()
		return unpin()
	}
	return nil
}
