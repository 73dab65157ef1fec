package scenarios_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// onTable returns a scenario on a table of its own.
func onTable(t *testing.T, name string, keys scenarios.Keys, load tps.Config) scenarios.Config {
	t.Helper()
	s, err := scenarios.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return scenarios.Config{
		Scenario: s, Load: load, Keys: keys, RandomSeed: 1, Cache: scenarios.CacheAsIs, Spec: accounts.Spec{Rows: 3000},
		OpenTable: func(ctx context.Context) (engine.Table, error) {
			opt := sqlite.Options{Pragmas: map[string]string{"synchronous": "off"}}
			return sqlite.OpenTable(ctx, dir, opt, engine.TableSpec{BlobKeys: !keys.Integers(), WithoutRowid: keys.WithoutRowid})
		},
	}
}

func runTable(t *testing.T, ctx context.Context, cfg scenarios.Config) *tps.Result {
	t.Helper()
	res, err := scenarios.Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Each scenario does what it says with keys of each kind, and its proof holds.
func TestTableScenarios(t *testing.T) {
	for _, name := range []string{"insert", "points", "scan"} {
		for _, kind := range scenarios.KeyKinds {
			for _, keys := range []scenarios.Keys{{Kind: kind}, {Kind: kind, WithoutRowid: true, Sorted: true}} {
				t.Run(name+" "+keys.String(), func(t *testing.T) {
					cfg := onTable(t, name, keys, tps.Config{Transactions: 250, BatchSize: 100, Runs: 2})
					want := int64(250)
					if name != "insert" {
						cfg.Load.BatchSize, want = 1, cfg.Spec.Rows
					}
					res := runTable(t, t.Context(), cfg)
					if !res.Verify.OK || res.Verify.RowsChecked != want || res.Verify.Detail != "" {
						t.Errorf("proof %+v, want of %d rows", res.Verify, want)
					}
					if res.Acknowledged != 250 || res.Failed != 0 || len(res.Runs) != 3 {
						t.Errorf("%d acknowledged, %d failed in %d rounds", res.Acknowledged, res.Failed, len(res.Runs))
					}
					if res.Load.Keys != keys.String() || res.Load.Rows != map[bool]int64{true: 0, false: 3000}[name == "insert"] {
						t.Errorf("load %+v", res.Load)
					}
				})
			}
		}
	}
}

// What a load that is bounded by time warms up with is not part of what it fills, and
// what one reads is there when it warms up.
func TestTableWarmup(t *testing.T) {
	for _, name := range []string{"insert", "points"} {
		cfg := onTable(t, name, scenarios.Keys{}, tps.Config{Duration: 30 * time.Millisecond, Warmup: 20 * time.Millisecond, BatchSize: 10})
		res := runTable(t, t.Context(), cfg)
		if !res.Verify.OK || res.Failed != 0 || res.Acknowledged == 0 {
			t.Errorf("%s: %d acknowledged, %d failed (%v), proof %+v", name, res.Acknowledged, res.Failed, res.Errors, res.Verify)
		}
		if name == "insert" && res.Verify.RowsChecked != res.Acknowledged {
			t.Errorf("%d rows were checked, %d acknowledged", res.Verify.RowsChecked, res.Acknowledged)
		}
	}
}

// The parts of a growth end at their marks, or with the batch that passes them, and
// are all there is.
func TestGrowth(t *testing.T) {
	for _, test := range []struct {
		marks []int64
		want  []int64
	}{
		{nil, []int64{1000}},
		{[]int64{300, 600}, []int64{300, 600, 1000}},
		{[]int64{250, 1000}, []int64{300, 1000}},
		{[]int64{310, 320, 5000}, []int64{400, 1000}},
	} {
		cfg := onTable(t, "insert", scenarios.Keys{}, tps.Config{Transactions: 1000, BatchSize: 100, Runs: 1})
		cfg.Growth, cfg.RSS = test.marks, func() int64 { return 42 }
		res := runTable(t, t.Context(), cfg)
		var rows []int64
		var before int64
		var since time.Duration
		for _, g := range res.Growth {
			rows = append(rows, g.Rows)
			since += g.Elapsed
			if g.SinceBegin != since || g.Batch.Count != (g.Rows-before)/100 || g.RSSBytes != 42 || g.DBBytes == 0 {
				t.Errorf("%v: %+v", test.marks, g)
			}
			if speed := float64(g.Rows-before) / g.Elapsed.Seconds(); g.TPS != speed {
				t.Errorf("%v: %v rows/s, want %v", test.marks, g.TPS, speed)
			}
			before = g.Rows
		}
		if !slices.Equal(rows, test.want) {
			t.Errorf("%v: parts end at %v, want %v", test.marks, rows, test.want)
		}
	}
}

// wrongTable is a table whose answers are wrong in one way.
type wrongTable struct {
	engine.Table
	kind string
}

func (w wrongTable) Insert(ctx context.Context, n int, entry func(int) engine.Entry) error {
	if w.kind == "lost" && n > 50 {
		n--
	}
	return w.Table.Insert(ctx, n, entry)
}

func (w wrongTable) Value(key engine.Key) (int64, error) {
	v, err := w.Table.Value(key)
	if w.kind == "value" {
		v++
	}
	return v, err
}

func (w wrongTable) Scan(ctx context.Context) (int64, int64, error) {
	n, sum, err := w.Table.Scan(ctx)
	if w.kind == "scan" {
		n--
	}
	return n, sum, err
}

func (w wrongTable) Count(ctx context.Context) (int64, int64, error) {
	n, sum, err := w.Table.Count(ctx)
	switch w.kind {
	case "sum":
		sum++
	case "count":
		err = errors.New("unreadable")
	}
	return n, sum, err
}

// The proof sees what is lost, changed or unreadable.
func TestTableProofFails(t *testing.T) {
	for kind, name := range map[string]string{"lost": "insert", "sum": "insert", "count": "insert", "value": "points", "scan": "scan"} {
		cfg := onTable(t, name, scenarios.Keys{}, tps.Config{Transactions: 100, BatchSize: 100, Runs: 1})
		open := cfg.OpenTable
		cfg.OpenTable = func(ctx context.Context) (engine.Table, error) {
			table, err := open(ctx)
			return wrongTable{table, kind}, err
		}
		if res := runTable(t, t.Context(), cfg); !res.Verify.Checked || res.Verify.OK || res.Verify.Detail == "" {
			t.Errorf("%s: proof %+v", kind, res.Verify)
		}
	}
}

// When ctx ends, the batch that is under way is not there, and what was acknowledged is.
func TestTableInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := onTable(t, "insert", scenarios.Keys{}, tps.Config{Duration: time.Hour, BatchSize: 100})
	open := cfg.OpenTable
	cfg.OpenTable = func(ctx context.Context) (engine.Table, error) {
		table, err := open(ctx)
		return &cancelling{table, cancel, 5}, err
	}
	res := runTable(t, ctx, cfg)
	if !res.Interrupted || !res.Verify.OK || res.Acknowledged != 400 || res.Verify.RowsChecked != 400 {
		t.Errorf("interrupted %v, %d acknowledged, proof %+v", res.Interrupted, res.Acknowledged, res.Verify)
	}
}

// cancelling ends the run in the middle of an Insert.
type cancelling struct {
	engine.Table
	cancel context.CancelFunc
	left   int
}

func (c *cancelling) Insert(ctx context.Context, n int, entry func(int) engine.Entry) error {
	if c.left--; c.left == 0 {
		c.cancel()
	}
	return c.Table.Insert(ctx, n, entry)
}

// A sorted batch inserts the same rows in the order of their keys, and keys have the
// form that their kind says.
func TestKeysInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		keys := scenarios.Keys{Kind: rapid.SampledFrom(scenarios.KeyKinds).Draw(rt, "kind"), Sorted: rapid.Bool().Draw(rt, "sorted")}
		cfg := onTable(t, "insert", keys, tps.Config{Transactions: rapid.Int64Range(1, 200).Draw(rt, "n"), BatchSize: rapid.IntRange(1, 100).Draw(rt, "batch"), Runs: 1})
		cfg.RandomSeed = rapid.Uint64().Draw(rt, "seed")
		spy := &spyTable{}
		open := cfg.OpenTable
		cfg.OpenTable = func(ctx context.Context) (_ engine.Table, err error) {
			spy.Table, err = open(ctx)
			return spy, err
		}
		if res := runTable(t, t.Context(), cfg); !res.Verify.OK {
			rt.Fatal(res.Verify.Detail)
		}
		seen := map[string]bool{}
		for _, batch := range spy.batches {
			if keys.Sorted && !keys.Integers() && !slices.IsSortedFunc(batch, bytes.Compare) {
				rt.Fatal("not sorted")
			}
			for _, key := range batch {
				if seen[string(key)] {
					rt.Fatalf("%x is there twice", key)
				}
				seen[string(key)] = true
				if err := formOf(keys.Kind, key); err != nil {
					rt.Fatalf("%x: %v", key, err)
				}
			}
		}
	})
}

// spyTable keeps the keys of each Insert.
type spyTable struct {
	engine.Table
	batches [][][]byte
}

func (s *spyTable) Insert(ctx context.Context, n int, entry func(int) engine.Entry) error {
	var batch [][]byte
	err := s.Table.Insert(ctx, n, func(k int) engine.Entry {
		e := entry(k)
		if e.Key.Blob == nil {
			batch = append(batch, fmt.Append(nil, e.Key.Integer))
		} else {
			batch = append(batch, bytes.Clone(e.Key.Blob))
		}
		return e
	})
	s.batches = append(s.batches, batch)
	return err
}

func formOf(kind string, key []byte) error {
	size, version := map[string]int{"uuid4": 16, "uuid7": 16, "random20": 20}[kind], map[string]byte{"uuid4": 4, "uuid7": 7}[kind]
	switch {
	case kind == "integer":
	case len(key) != size:
		return fmt.Errorf("%d bytes, want %d", len(key), size)
	case version != 0 && (key[6]>>4 != version || key[8]>>6 != 2):
		return fmt.Errorf("no UUID of version %d", version)
	}
	return nil
}
