package scenarios

import (
	"fmt"
	"math"
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
	s.describe(res)
	res.Settings = tps.Settings(s.engine.Settings())
	if res.MedianRun < len(s.rounds) {
		shown := s.rounds[res.MedianRun]
		res.Writer, res.Statements = writerStats(shown.engine, res), shown.statements
	}
	if s.Scenario.Direct { // its batches are its own
		res.Settings.MaxBatch, res.Settings.MaxBatchTime, res.Settings.BatchWindow = s.Load.BatchSize, 0, 0
	}
	for _, own := range ownClasses { // whose names say it all
		delete(res.ErrorExamples, own.class)
	}
	if s.Scripts != nil {
		res.Load.Scripts = s.Scripts.names()
		s.noteForeign(res)
	} else {
		s.locate(res)
		s.verify(res)
	}
	res.Warnings = append(res.Warnings, s.warnings(res, resident)...)
}

// describe says what was run on what.
func (s *session) describe(res *tps.Result) {
	res.Scenario = s.Scenario.Name
	res.Load.RandomSeed = s.RandomSeed
	res.Load.Dist, res.Load.Layout = s.DistName, s.LayoutName
	res.Load.DistParameters = s.DistParameters
	res.Load.Rows, res.Load.Schema = s.Spec.Rows, string(s.Spec.Schema)
	res.Load.PayloadBytes, res.Load.Indexes = s.Spec.Payload, s.Spec.Indexes
	res.Load.ReadsPerTx = s.Reads
	res.Load.Think, res.Load.MaxTries, res.Load.PinReader = s.Think, s.MaxTries, s.PinReader
	if s.Think > 0 && !s.Scenario.ThinksOutside {
		res.Load.ThinkBound = 1 / s.Think.Seconds()
	}
	res.Load.Cache = s.Cache
}

// writerStats converts an engine's statistics of the round that res is of.
func writerStats(st engine.Stats, res *tps.Result) tps.Writer {
	w := tps.Writer{
		Batches:         st.Batches,
		BatchSize:       tps.BatchSize{Mean: st.BatchMean(), P50: st.BatchQuantile(0.5), Max: st.BatchQuantile(1)},
		BatchSizes:      []tps.Bucket{},
		Commits:         st.Commits,
		RolledBack:      st.RolledBack,
		Checkpoints:     st.Checkpoints,
		CheckpointTime:  st.CheckpointTime,
		WALBytes:        st.WALBytes,
		WALPendingBytes: st.WALPending,
		WALBlocked:      st.WALBlocked,
		WALFileMax:      st.WALFileBytes,
		Touched:         st.Touched,
		TouchMisses:     st.TouchMisses,
	}
	// A bucket may reach beyond what can have been in one batch.
	most := int64(math.MaxInt64)
	switch {
	case res.Load.Concurrency > 0:
		most = int64(res.Load.Concurrency)
	case res.Schedule != nil:
		most = max(res.Schedule.BacklogMax, 1)
	}
	w.BatchSize.P50, w.BatchSize.Max = min(w.BatchSize.P50, most), min(w.BatchSize.Max, most)
	for _, b := range st.BatchSizes {
		w.BatchSizes = append(w.BatchSizes, tps.Bucket{Upto: min(b.Upto, most), Count: b.Count})
	}
	for _, sample := range res.Series {
		w.WALFileMax = max(w.WALFileMax, sample.WALFileBytes)
	}
	if res.Elapsed > 0 {
		w.BusyFraction = min(float64(st.Busy)/float64(res.Elapsed), 1)
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
	if s.unproved != nil { // what was measured is shown all the same
		res.Verify = tps.Verify{Checked: true, Detail: fmt.Sprintf("the balances could not be read after the load: %v", s.unproved)}
		return
	}
	v := accounts.Check(s.pool, s.journal, s.ids, s.before, s.after)
	res.Verify = tps.Verify{Checked: true, OK: v.OK, AccountsChecked: v.AccountsChecked, Conserved: v.Conserved, Detail: v.Detail}
	if s.foreign && !v.OK {
		res.Verify.Detail = "another program wrote to the database during the run, so nothing can be proved; " + v.Detail
		return
	}
	s.noteForeign(res)
}

// noteForeign warns of changes by others.
func (s *session) noteForeign(res *tps.Result) {
	if s.foreign {
		res.Warnings = append(res.Warnings, "another program wrote to the database during the run")
	}
}

// wrapped tells whether a round, or its warm-up, used some transfer twice.
func (s *session) wrapped() bool {
	if s.pool == nil {
		return false
	}
	for slot := range s.pool.Len() {
		if int(s.journal.Acked(slot)) > len(s.rounds) {
			return true
		}
	}
	return false
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
		switch {
		case s.Reads > 0:
			why = "its callers were with their reads"
		case s.Scenario.ThinksOutside && s.Think > 0:
			why = "its callers were thinking"
		}
		list = append(list, fmt.Sprintf("generator-bound: the writer was idle %.0f %% of the time; %s", 100*idle, why))
	}
	if s.wrapped() {
		list = append(list, fmt.Sprintf("the transactions used a pool of %d transfers again and again", s.pool.Len()))
	}
	if resident >= residentShare && s.Cache != CacheCold && s.Scripts == nil {
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
	return list
}
