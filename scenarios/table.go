package scenarios

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/tps"
)

// OnTable tells whether it runs on a table of its own, Config.OpenTable, and so needs
// no accounts.
func (s Scenario) OnTable() bool { return s.table != nil }

// errWrong means that a read found something else than what was inserted.
var errWrong = errors.New("scenarios: the table does not hold what was inserted")

// tableRun is one run of a scenario on a table of its own.
type tableRun struct {
	Config
	table engine.Table
	keys  []byte // of a sorted batch
	order []int

	entries, sum int64 // what the table holds: acknowledged since it was made
	doubt        int64 // inserts of which nobody knows
	failed       int64 // in this part
	verdict      tps.Verify
	growth       [][]tps.Growth // of each round
	parts        []tps.Growth   // of this one
	batches      tps.Statements // of this part
	began        time.Time      // when the first insert of the round did
	cut          time.Time      // when the last part ended
}

// runTable is Run for a scenario on a table of its own.
func runTable(ctx context.Context, cfg Config) (*tps.Result, error) {
	t := &tableRun{Config: cfg, verdict: tps.Verify{Checked: true, OK: true}}
	var err error
	if t.table, err = cfg.OpenTable(ctx); err != nil {
		return nil, err
	}
	res, err := t.run(ctx)
	return res, errors.Join(err, t.table.Close())
}

func (t *tableRun) run(ctx context.Context) (*tps.Result, error) {
	l := t.Load
	l.BatchOp = func(ctx context.Context, first uint64, errs []error) error {
		return t.Scenario.table(t, ctx, first, errs)
	}
	l.Classify = t.table.Classify
	l.Settle = t.settle
	l.AfterRun = t.afterRun
	l.BeforeRun = func(ctx context.Context, run int, cold bool) error {
		err := t.ready(ctx)
		if err == nil && t.Load.BeforeRun != nil {
			err = t.Load.BeforeRun(ctx, run, cold)
		}
		return err
	}
	if l.Warmup > 0 && !t.Scenario.Fills {
		if err := t.ready(ctx); err != nil { // what the warm-up reads must be there
			return nil, err
		}
	}
	res, err := tps.Run(ctx, l)
	if err != nil {
		return nil, err
	}
	res.Scenario = t.Scenario.Name
	res.Load.RandomSeed, res.Load.Keys, res.Load.PayloadBytes = t.RandomSeed, t.Keys.String(), t.Spec.Payload
	if !t.Scenario.Fills {
		res.Load.Rows = t.Spec.Rows
	}
	res.Settings = tps.Settings(t.table.Settings())
	res.Settings.MaxBatch = t.Load.BatchSize
	if res.MedianRun < len(t.growth) {
		res.Growth = t.growth[res.MedianRun]
	}
	res.Verify = t.verdict
	res.Env.DBBytes = t.table.Stats().DBBytes
	return res, nil
}

// ready readies the table for a round: what a load fills is empty, what it reads is
// filled once.
func (t *tableRun) ready(ctx context.Context) error {
	t.parts, t.failed, t.began = []tps.Growth{}, 0, time.Time{}
	t.batches.Take() // a warm-up's
	if !t.Scenario.Fills {
		return t.fill(ctx)
	}
	t.entries, t.sum, t.doubt = 0, 0, 0
	return t.table.Reset(ctx)
}

// fillBatch is how many entries are inserted in one transaction where that is not
// measured.
const fillBatch = 100_000

// fill inserts what is to be read.
func (t *tableRun) fill(ctx context.Context) error {
	for t.entries < t.Spec.Rows {
		n := int(min(t.Spec.Rows-t.entries, fillBatch))
		if err := t.insert(ctx, uint64(t.entries), n); err != nil {
			return err
		}
		if t.Progress != nil {
			t.Progress("filling the table", int(t.entries), int(t.Spec.Rows))
		}
	}
	return t.table.Settle(ctx)
}

// insert inserts the entries from first on and notes that they are there. Entry i has
// key i and the value i.
func (t *tableRun) insert(ctx context.Context, first uint64, n int) error {
	err := t.table.Insert(ctx, n, t.entriesFrom(first, n))
	switch _, doubt := t.table.InDoubt(err); {
	case err == nil:
		t.entries += int64(n)
		t.sum += int64(n)*int64(first) + int64(n)*int64(n-1)/2
	case doubt:
		t.doubt += int64(n)
	}
	return err
}

// entriesFrom returns the entries from first on, in the order in which they are
// inserted.
func (t *tableRun) entriesFrom(first uint64, n int) func(k int) engine.Entry {
	const room = 24
	if !t.Keys.Sorted || t.Keys.Integers() {
		t.keys = slices.Grow(t.keys[:0], room)
		return func(k int) engine.Entry {
			i := first + uint64(k)
			return engine.Entry{Key: t.Keys.at(t.RandomSeed, i, t.keys), Value: int64(i)}
		}
	}
	t.keys = slices.Grow(t.keys[:0], room*n)[:room*n]
	t.order = slices.Grow(t.order[:0], n)[:n]
	size := 0
	for k := range n {
		size = len(t.Keys.at(t.RandomSeed, first+uint64(k), t.keys[room*k:room*k:room*(k+1)]).Blob)
		t.order[k] = k
	}
	key := func(k int) []byte { return t.keys[room*k : room*k+size] }
	slices.SortFunc(t.order, func(a, b int) int { return bytes.Compare(key(a), key(b)) })
	return func(k int) engine.Entry {
		k = t.order[k]
		return engine.Entry{Key: engine.Key{Blob: key(k)}, Value: int64(first) + int64(k)}
	}
}

// insertOp is the scenario insert: one transaction.
func insertOp(t *tableRun, ctx context.Context, first uint64, errs []error) error {
	start := time.Now()
	if t.began.IsZero() {
		t.began, t.cut = start, start
	}
	err := t.insert(ctx, first, len(errs))
	if err != nil {
		t.failed += int64(len(errs))
		return err
	}
	t.batches.Record(0, "insert", int64(time.Since(start)))
	for _, mark := range t.Growth {
		if t.entries-int64(len(errs)) < mark && mark <= t.entries {
			t.endPart()
			break // a batch that passes several ends one part
		}
	}
	return nil
}

// endPart ends a part of the growth.
func (t *tableRun) endPart() {
	now := time.Now()
	inserted := t.entries
	if len(t.parts) > 0 {
		inserted -= t.parts[len(t.parts)-1].Rows
	}
	part := tps.Growth{Rows: t.entries, Elapsed: now.Sub(t.cut), SinceBegin: now.Sub(t.began), Failed: t.failed}
	if part.Elapsed > 0 {
		part.TPS = float64(inserted) / part.Elapsed.Seconds()
	}
	for _, batches := range t.batches.Take() {
		part.Batch = batches.Latency
	}
	files := t.table.Stats()
	part.DBBytes, part.WALBytes, part.SHMBytes = files.DBBytes, files.WALFileBytes, files.SHMBytes
	if t.RSS != nil {
		part.RSSBytes = t.RSS()
	}
	t.parts = append(t.parts, part)
	t.failed, t.cut = 0, now
}

// pointOp is the scenario points: one entry by its key, whichever.
func pointOp(t *tableRun, _ context.Context, first uint64, errs []error) error {
	for k := range errs {
		var buf [24]byte
		i := mix(t.RandomSeed+1, first+uint64(k)) % uint64(t.Spec.Rows)
		value, err := t.table.Value(t.Keys.at(t.RandomSeed, i, buf[:]))
		if err == nil && value != int64(i) {
			err = t.wrong(fmt.Sprintf("entry %d has the value %d", i, value))
		}
		errs[k] = err
	}
	return nil
}

// scanOp is the scenario scan: all entries.
func scanOp(t *tableRun, ctx context.Context, _ uint64, errs []error) error {
	for k := range errs {
		entries, sum, err := t.table.Scan(ctx)
		if err == nil && (entries != t.entries || sum != t.sum) {
			err = t.wrong(fmt.Sprintf("a scan found %d entries with the sum %d: %d with %d were inserted", entries, sum, t.entries, t.sum))
		}
		errs[k] = err
	}
	return nil
}

// wrong notes that the proof failed.
func (t *tableRun) wrong(detail string) error {
	t.verdict.OK = false
	if t.verdict.Detail == "" {
		t.verdict.Detail = detail
	}
	return errWrong
}

func (t *tableRun) settle(ctx context.Context) error {
	if t.Scenario.Fills && (len(t.parts) == 0 || t.parts[len(t.parts)-1].Rows < t.entries) && !t.began.IsZero() {
		t.endPart()
	}
	t.growth = append(t.growth, t.parts)
	return t.table.Settle(ctx)
}

// afterRun proves that the table holds what was acknowledged.
func (t *tableRun) afterRun(ctx context.Context, run int, cold bool) error {
	entries, sum, err := t.table.Count(ctx)
	t.verdict.RowsChecked = max(t.verdict.RowsChecked, t.entries)
	switch {
	case err != nil:
		t.wrong(fmt.Sprintf("the table could not be counted: %v", err))
	case entries < t.entries || entries > t.entries+t.doubt || t.doubt == 0 && sum != t.sum:
		t.wrong(fmt.Sprintf("the table holds %d entries with the sum %d: %d with %d were acknowledged, and %d are in doubt",
			entries, sum, t.entries, t.sum, t.doubt))
	}
	if t.Load.AfterRun != nil {
		return t.Load.AfterRun(ctx, run, cold)
	}
	return nil
}
