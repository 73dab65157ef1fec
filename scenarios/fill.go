package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/tps"
)

// fill completes the result with what the scenario and the engine know. resident
// is the share of the database that was in memory beforehand, negative if that
// could not be seen.
func (s *session) fill(res *tps.Result, resident float64) {
	res.Scenario = s.Scenario.Name
	res.Load.RandomSeed = s.RandomSeed
	res.Load.Dist, res.Load.Layout = s.DistName, s.LayoutName
	res.Load.DistParameters = s.DistParameters
	res.Load.Rows, res.Load.Schema = s.Spec.Rows, string(s.Spec.Schema)
	res.Load.PayloadBytes, res.Load.Indexes = s.Spec.Payload, s.Spec.Indexes
	res.Load.ReadsPerTx = s.Reads
	res.Load.Think = s.Think
	res.Load.Cache = s.Cache
	res.Settings = tps.Settings(s.engine.Settings())
	if res.MedianRun < len(s.rounds) {
		res.Writer = writerStats(s.rounds[res.MedianRun], res.Elapsed)
	}
	s.locate(res)
	s.verify(res)
	res.Warnings = append(res.Warnings, s.warnings(res, resident)...)
}

// writerStats converts an engine's statistics of a round that took elapsed.
func writerStats(st engine.Stats, elapsed time.Duration) tps.Writer {
	w := tps.Writer{
		Batches:         st.Batches,
		BatchSize:       tps.BatchSize{Mean: st.BatchMean, P50: st.BatchP50, Max: st.BatchMax},
		Commits:         st.Commits,
		RolledBack:      st.RolledBack,
		Checkpoints:     st.Checkpoints,
		CheckpointTime:  st.CheckpointTime,
		WALBytes:        st.WALBytes,
		WALPendingBytes: st.WALPending,
	}
	if elapsed > 0 {
		w.BusyFraction = min(float64(st.Busy)/float64(elapsed), 1)
	}
	return w
}

// locate says how much of the table the acknowledged transfers touched.
func (s *session) locate(res *tps.Result) {
	var touched []int64
	for slot := range s.pool.Len() {
		if s.journal.Acked(slot) > 0 {
			_, t, _ := s.pool.At(uint64(slot))
			touched = append(touched, t.From, t.To)
		}
	}
	slices.Sort(touched)
	touched = slices.Compact(touched)
	res.Locality = tps.Locality{
		AccountsTouched:  int64(len(touched)),
		LeafPagesTouched: s.Spec.LeavesTouched(touched),
		LeafPages:        s.Spec.LeafPages(),
	}
}

// verify compares the balances with the journal.
func (s *session) verify(res *tps.Result) {
	v := accounts.Check(s.pool, s.journal, s.ids, s.before, s.after)
	res.Verify = tps.Verify{OK: v.OK, AccountsChecked: v.AccountsChecked, Conserved: v.Conserved, Detail: v.Detail}
	switch {
	case s.foreign && !v.OK:
		res.Verify.Detail = "another program wrote to the database during the run, so nothing can be proved; " + v.Detail
	case s.foreign:
		res.Warnings = append(res.Warnings, "another program wrote to the database during the run")
	}
}

const (
	// In a burst or a closed loop a writer that idles more than this was not what
	// the result measured.
	idleShare = 0.20
	// From this share on the data set counts as resident in memory.
	residentShare = 0.95
	// No disk syncs faster than this; something in between answers for it.
	impossibleSync = 20 * time.Microsecond
)

// warnings returns the doubts about a result that lie in the database.
func (s *session) warnings(res *tps.Result, resident float64) (list []string) {
	closed := res.Load.Mode == tps.Burst || res.Load.Mode == tps.ClosedLoop
	queued := s.Scenario.Needs.Access != engine.Pooled && !s.Scenario.Direct
	idle := 1 - res.Writer.BusyFraction
	if res.Elapsed > 0 {
		idle -= float64(res.Writer.CheckpointTime) / float64(res.Elapsed)
	}
	if closed && queued && res.Acknowledged > 0 && idle > idleShare {
		why := "more callers would get more out of it"
		if s.Reads > 0 {
			why = "its callers were with their reads"
		}
		list = append(list, fmt.Sprintf("generator-bound: the writer was idle %.0f %% of the time; %s", 100*idle, why))
	}
	if done := res.Acknowledged + res.Failed; s.pool.Wrapped(uint64(done)) {
		list = append(list, fmt.Sprintf("%d transactions used a pool of %d transfers again and again", done, s.pool.Len()))
	}
	if resident >= residentShare && s.Cache != CacheCold {
		list = append(list, "the whole data set was in memory: a larger one would have to read from the disk")
	}
	durable := res.Settings.Synchronous == "full" || res.Settings.Synchronous == "extra"
	if commit := res.Stages.Commit.P50; durable && commit > 0 && commit < impossibleSync {
		list = append(list, fmt.Sprintf("COMMIT took %v (p50): too fast for a sync that reaches a disk", commit))
	}
	if s.unsettled != nil {
		list = append(list, fmt.Sprintf("the WAL could not be checkpointed after the load, so the settled TPS does not count that: %v", s.unsettled))
	}
	if s.reopens > 0 {
		list = append(list, fmt.Sprintf("the database was opened again after %d storage failure(s); what was in doubt is part of the proof", s.reopens))
	}
	if s.Think > 0 {
		list = append(list, fmt.Sprintf("--think holds the writer: at most one transaction in %v is possible, whatever else is tuned", s.Think))
	}
	return list
}
