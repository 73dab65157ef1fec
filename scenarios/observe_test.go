package scenarios_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// The samples carry what the engine did, and add up to what it did in the round;
// what comes after this package in the chain sees them complete.
func TestSamples(t *testing.T) {
	cfg := config(t, scenarios.Default, 5000)
	onSQLite(t, &cfg, sqlite.Options{Checkpoint: "pages:20"})
	cfg.Load = tps.Config{Duration: time.Hour, Concurrency: 4, SampleEvery: 20 * time.Millisecond, Warmup: 20 * time.Millisecond}
	cfg.PoolSize = 2000
	cfg.Load.Interim = func(res *tps.Result) string {
		if len(res.Series) < 3 || res.Writer.Checkpoints == 0 {
			return ""
		}
		return "enough"
	}
	var wal int64
	cfg.Load.OnSample = func(s *tps.Sample) {
		wal = max(wal, s.WALFileBytes)
		s.RSSBytes = 42
	}
	res := run(t, t.Context(), cfg)
	wantProof(t, res)
	var sum tps.Sample
	for _, s := range res.Series {
		sum.Batches += s.Batches
		sum.Checkpoints += s.Checkpoints
		sum.WALBytes += s.WALBytes
		if s.RSSBytes != 42 || s.DBFileBytes == 0 || s.SHMFileBytes == 0 {
			t.Errorf("sample %+v", s)
		}
	}
	// The last batch is counted after its callers were woken, and so maybe after the
	// last sample.
	if w := res.Writer; sum.Batches > w.Batches || sum.Batches < w.Batches-1 || sum.Checkpoints > w.Checkpoints || sum.Checkpoints == 0 || sum.WALBytes > w.WALBytes {
		t.Errorf("%d samples add up to %+v, the writer has %+v", len(res.Series), sum, w)
	}
	if res.Writer.WALFileMax < wal || wal == 0 || len(res.Writer.BatchSizes) == 0 {
		t.Errorf("the WAL grew to %d: %+v", wal, res.Writer)
	}
}

// A judge of the load sees the writer's figures too, and none of a warm-up's.
func TestInterim(t *testing.T) {
	cfg := config(t, scenarios.Default, 5000)
	onSQLite(t, &cfg, sqlite.Options{})
	seen := 0
	cfg.PoolSize = 2000
	cfg.Load = tps.Config{Duration: time.Hour, Rate: 1000, SampleEvery: 10 * time.Millisecond, Warmup: 50 * time.Millisecond}
	cfg.Load.Interim = func(res *tps.Result) string {
		if seen++; res.Acknowledged > 100 && res.Writer.Batches > 0 && res.Settings.JournalMode == "wal" {
			return "enough"
		}
		return ""
	}
	res := run(t, t.Context(), cfg)
	wantProof(t, res)
	if res.Stopped != "enough" || res.Interrupted || seen == 0 || res.Acknowledged < 100 {
		t.Errorf("stopped %q after %d looks", res.Stopped, seen)
	}
}

// Each statement has a name that says where it stands, and is counted in the round
// that is shown alone.
func TestStatements(t *testing.T) {
	for name, want := range map[string][]string{
		"savepoint":  {"1 UPDATE account", "2 UPDATE account"},
		"funds":      {"1 SELECT account", "2 UPDATE account", "3 UPDATE account"},
		"ledger":     {"1 UPDATE account", "2 UPDATE account", "3 INSERT transfer"},
		"direct":     {"1 UPDATE account", "2 UPDATE account"},
		"optimistic": {"1 UPDATE account if unchanged", "2 UPDATE account if unchanged"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, name, 5000)
			onSQLite(t, &cfg, sqlite.Options{})
			cfg.Load.Transactions, cfg.Load.Runs = 100, 2
			cfg.Statements = true
			res := run(t, t.Context(), cfg)
			wantProof(t, res)
			if len(res.Statements) != len(want) {
				t.Fatalf("statements %+v", res.Statements)
			}
			for k, s := range res.Statements {
				if s.Name != want[k] || s.Latency.Count < res.Acknowledged || s.Latency.Count > 100+res.Retries || s.Latency.Max <= 0 {
					t.Errorf("statement %d is %+v, want %q", k, s, want[k])
				}
			}
		})
	}
}

// A transaction whose turn comes after the latency limit is skipped: it changes
// nothing and is neither acknowledged nor failed.
func TestSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, scenarios.Default, 1000)
		m := inMemory(&cfg)
		m.CommitTime = 10 * time.Millisecond
		cfg.Load = tps.Config{Transactions: 100, Rate: 200, LatencyLimit: 50 * time.Millisecond}
		res := run(t, t.Context(), cfg)
		wantProof(t, res)
		// A hundred a second is all that can be done, so half of them wait too long.
		if res.Skipped < 20 || res.Acknowledged+res.Skipped != 100 || res.Failed != 0 || res.Latency.Max > 60*time.Millisecond {
			t.Errorf("%d acknowledged, %d skipped, %d failed, latency at most %v", res.Acknowledged, res.Skipped, res.Failed, res.Latency.Max)
		}
	})
}

// pinned is an engine that tells of its pins.
type pinned struct {
	engine.Engine
	pins, releases int
	failure        error
}

func (p *pinned) Pin(context.Context) (func() error, error) {
	p.pins++
	return func() error { p.releases++; return p.failure }, nil
}

// The reader is pinned at the start of each round, and let go after its time, or
// at the end of a round that is shorter.
func TestPinReader(t *testing.T) {
	for name, pin := range map[string]time.Duration{"shorter": 50 * time.Millisecond, "longer": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(t, scenarios.Default, 1000)
				m := inMemory(&cfg)
				m.CommitTime = time.Millisecond
				e := &pinned{Engine: m}
				onEngine(&cfg, m, e)
				cfg.Load = tps.Config{Transactions: 200, Runs: 2}
				cfg.PinReader = pin
				res := run(t, t.Context(), cfg)
				wantProof(t, res)
				if e.pins != 3 || e.releases != 3 || res.Load.PinReader != pin {
					t.Errorf("%d pins, %d releases, %+v", e.pins, e.releases, res.Load)
				}
			})
		})
	}
}
