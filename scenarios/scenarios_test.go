package scenarios_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// loads are the ways to offer a scenario's transactions.
var loads = []struct {
	name   string
	load   tps.Config
	queued bool // needs callers that wait
	exact  bool // all transactions run
}{
	{"burst", tps.Config{Transactions: 200, Runs: 1}, false, true},
	{"closed", tps.Config{Transactions: 200, Concurrency: 8}, true, true},
	{"timed", tps.Config{Duration: 30 * time.Millisecond}, false, false},
	{"rate", tps.Config{Transactions: 100, Rate: 2000, Warmup: 5 * time.Millisecond}, true, true},
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios.All {
		for _, l := range loads {
			if l.queued && s.Direct || s.OnTable() {
				continue
			}
			t.Run(s.Name+" "+l.name, func(t *testing.T) {
				cfg := config(t, s.Name, 5000)
				path, _ := onSQLite(t, &cfg, sqlite.Options{})
				size := cfg.Load.BatchSize
				cfg.Load = l.load
				cfg.Load.BatchSize = size
				res := run(t, t.Context(), cfg)
				wantProof(t, res)
				wantCounts(t, cfg, l.exact, res)
				wantShape(t, s, res)
				last := res.Runs[len(res.Runs)-1]
				want := map[bool]int64{true: last.Acknowledged}[s.Name == "ledger"]
				// A warm-up leaves its rows in front of the round; Reset comes after it.
				if got := raw(t, path, "SELECT count(*) FROM transfer"); got != fmt.Sprint(want) {
					t.Errorf("the ledger has %s rows, want %d", got, want)
				}
			})
		}
	}
}

// wantCounts checks how many transactions had which outcome.
func wantCounts(t *testing.T, cfg scenarios.Config, exact bool, res *tps.Result) {
	t.Helper()
	for k, round := range res.Runs {
		done := round.Acknowledged + round.Failed
		if exact && done+res.Dropped != cfg.Load.Transactions || done == 0 {
			t.Errorf("round %d: %d transactions have an outcome, want %d", k, done, cfg.Load.Transactions)
		}
		wantFailed := int64(0)
		if cfg.Scenario.Name == "funds" {
			if wantFailed = done / 10; !exact || cfg.Load.Warmup > 0 { // it may begin and end anywhere
				wantFailed = min(max(round.Failed, wantFailed-1), wantFailed+1)
			}
		}
		if round.Failed != wantFailed {
			t.Errorf("round %d: %d of %d failed, want %d: %v", k, round.Failed, done, wantFailed, res.Errors)
		}
	}
	if cfg.Scenario.Name == "funds" && res.Errors["funds are short"] != res.Failed {
		t.Errorf("%d failed with %v", res.Failed, res.Errors)
	}
	want := res.Acknowledged * int64(cfg.Reads)
	if cfg.Scenario.Retries { // it reads before each attempt
		want = res.Acknowledged + res.Retries
	}
	if res.Reads.Acknowledged != want {
		t.Errorf("%d reads were counted, want %d", res.Reads.Acknowledged, want)
	}
}

// wantShape checks that the engine was used as the scenario asks.
func wantShape(t *testing.T, s scenarios.Scenario, res *tps.Result) {
	t.Helper()
	savepoints, batch := "each", 25_000
	switch s.Name {
	case "direct":
		batch = 50
	case "batch":
		savepoints = "none"
	case "unbatched", "pool":
		savepoints, batch = "none", 1
	}
	if res.Settings.Savepoints != savepoints || res.Settings.MaxBatch != batch {
		t.Errorf("savepoints %q, batches of %d: want %q, %d", res.Settings.Savepoints, res.Settings.MaxBatch, savepoints, batch)
	}
	if res.Settings.Synchronous != "normal" || res.Settings.JournalMode != "wal" || res.Settings.PageSize != 4096 {
		t.Errorf("settings %+v", res.Settings)
	}
	switch w := res.Writer; {
	case s.Direct: // its batches are not the writer's
	case batch == 1 && (w.Batches != res.Acknowledged+res.Failed || w.BatchSize.Max != 1):
		t.Errorf("%d transactions in %+v", res.Acknowledged+res.Failed, w)
	case w.Batches < 1 || w.Commits < 1 || w.BatchSize.Mean < 1 || w.BatchSize.Max < 1 || w.BusyFraction <= 0 || w.WALBytes < 1:
		t.Errorf("the writer's statistics are %+v", w)
	}
}

// The article's traffic: a million accounts, of which a few get most of it.
func TestPareto(t *testing.T) {
	cfg := config(t, scenarios.Default, 1_000_000)
	var err error
	if cfg.Dist, err = accounts.NewPareto(cfg.Spec.Rows, 1_000_000_000, accounts.ParetoP); err != nil {
		t.Fatal(err)
	}
	cfg.DistName = "pareto"
	onSQLite(t, &cfg, sqlite.Options{})
	cfg.Load = tps.Config{Transactions: 2000, Runs: 2}
	clustered := run(t, t.Context(), cfg)
	wantProof(t, clustered)
	if len(clustered.Runs) != 3 || !clustered.Runs[0].Cold || clustered.Runs[1].Cold {
		t.Errorf("rounds %+v", clustered.Runs)
	}
	// The hot accounts are neighbours, unless they are scattered.
	if l := clustered.Locality; l.LeafPagesTouched > l.LeafPages/3 {
		t.Errorf("clustered: %+v", l)
	}
	if cfg.Layout, err = accounts.NewScattered(cfg.Spec.Rows, 1); err != nil {
		t.Fatal(err)
	}
	cfg.LayoutName = "scattered"
	scattered := run(t, t.Context(), cfg)
	wantProof(t, scattered)
	if scattered.Locality.LeafPagesTouched < 2*clustered.Locality.LeafPagesTouched {
		t.Errorf("scattered: %+v, clustered: %+v", scattered.Locality, clustered.Locality)
	}
}

// --fail-rate and --panic-rate fail exactly those transactions that the seed says.
func TestFailures(t *testing.T) {
	const n = 500
	for _, tt := range []struct{ scenario, savepoints string }{
		{"savepoint", "each"}, {"savepoint", "on-failure"}, {"unbatched", ""}, {"direct", ""}, {"ledger", ""}, {"pool", ""},
	} {
		t.Run(tt.scenario+" "+tt.savepoints, func(t *testing.T) {
			cfg := config(t, tt.scenario, 5000)
			onSQLite(t, &cfg, sqlite.Options{Savepoints: tt.savepoints})
			cfg.FailRate, cfg.PanicRate, cfg.RandomSeed = 0.1, 0.05, 7
			cfg.Load.Transactions, cfg.Load.Runs = n, 2
			res := run(t, t.Context(), cfg)
			wantProof(t, res)
			for k, round := range res.Runs {
				var failed, panicked int64
				for i := range uint64(n) {
					switch chance := scenarios.Uniform(cfg.RandomSeed, uint64(k)*n+i); {
					case chance < 0.1:
						failed++
					case chance < 0.15:
						panicked++
					}
				}
				if round.Failed != failed+panicked || round.Acknowledged != n-failed-panicked {
					t.Errorf("round %d: %d failed, want %d and %d panics", k, round.Failed, failed, panicked)
				}
				if k == res.MedianRun && (res.Errors["application"] != failed || res.Errors["panic"] != panicked) {
					t.Errorf("round %d: %v, want %d failed and %d panics", k, res.Errors, failed, panicked)
				}
			}
		})
	}
}

// Without savepoints a failure takes its batch along; what was acknowledged is
// still exactly what is in the table.
func TestFailuresWithoutSavepoints(t *testing.T) {
	cfg := config(t, "batch", 5000)
	onSQLite(t, &cfg, sqlite.Options{})
	cfg.FailRate, cfg.PanicRate = 0.01, 0.01
	cfg.Load.Transactions, cfg.Load.Runs = 500, 2
	res := run(t, t.Context(), cfg)
	wantProof(t, res)
	if res.Failed == 0 || res.Writer.RolledBack != res.Failed {
		t.Errorf("%d failed: %v, %+v", res.Failed, res.Errors, res.Writer)
	}
}

// The draws that decide failures are even and of the seed alone.
func TestUniform(t *testing.T) {
	const n, cells = 100_000, 10
	var counts [cells]int
	for i := range uint64(n) {
		u := scenarios.Uniform(3, i)
		if u < 0 || u >= 1 {
			t.Fatalf("uniform(3, %d) = %v", i, u)
		}
		if u == scenarios.Uniform(4, i) {
			t.Errorf("seeds 3 and 4 agree at %d", i)
		}
		counts[int(u*cells)]++
	}
	for _, c := range counts {
		if c < n/cells*95/100 || c > n/cells*105/100 { // five standard deviations
			t.Errorf("uneven: %v", counts)
			break
		}
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"savepiont", `did you mean "savepoint"?`}, {"SAVEPOINT", `did you mean "savepoint"?`}, {"fund", `did you mean "funds"?`},
		{"pol", `did you mean "pool"?`}, {"unbached", `did you mean "unbatched"?`}, {"batched", `did you mean`},
		{"xyzzyplugh", ""}, {"", ""},
	} {
		_, err := scenarios.Find(tt.name)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "tpssim scenarios") {
			t.Errorf("Find(%q): %v, want %s", tt.name, err, tt.want)
		} else if tt.name == "xyzzyplugh" && strings.Contains(err.Error(), "did you mean") {
			t.Errorf("Find(%q) guesses: %v", tt.name, err)
		}
	}
	names := map[string]bool{}
	for _, s := range scenarios.All {
		got, err := scenarios.Find(s.Name)
		if err != nil || got.Name != s.Name || names[s.Name] || s.Summary == "" || strings.Contains(s.Summary, "\n") {
			t.Errorf("scenario %q: %+v, %v", s.Name, got, err)
		}
		names[s.Name] = true
	}
	if !names[scenarios.Default] {
		t.Errorf("the default %q is none of them", scenarios.Default)
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*scenarios.Config){
		"negative rate": func(c *scenarios.Config) { c.FailRate = -0.1 },
		"negative too":  func(c *scenarios.Config) { c.PanicRate = -0.1 },
		"together":      func(c *scenarios.Config) { c.FailRate, c.PanicRate = 0.6, 0.5 },
		"think":         func(c *scenarios.Config) { c.Think = -1 },
		"reads":         func(c *scenarios.Config) { c.Reads = -1 },
		"cache":         func(c *scenarios.Config) { c.Cache = "hot" },
		"no load":       func(c *scenarios.Config) { c.Load.Transactions = 0 },
		"direct reads":  func(c *scenarios.Config) { c.Scenario.Direct, c.Reads = true, 1 },
		"direct rate":   func(c *scenarios.Config) { c.Scenario.Direct, c.Load.BatchSize, c.Load.Rate = true, 1, 5 },
		"tries":         func(c *scenarios.Config) { c.MaxTries = 3 },
		"few tries":     func(c *scenarios.Config) { c.Scenario, c.MaxTries = config(t, "optimistic", 1000).Scenario, -1 },
		"own reads":     func(c *scenarios.Config) { c.Scenario, c.Reads = config(t, "optimistic", 1000).Scenario, 1 },
		"pin":           func(c *scenarios.Config) { c.PinReader = -1 },
		"pin memory":    func(c *scenarios.Config) { c.PinReader = time.Second },
		"no scripts":    func(c *scenarios.Config) { c.Scenario = scenarios.Scripted },
		"both":          func(c *scenarios.Config) { c.Scripts = &scenarios.Scripts{} },
		"cold memory":   func(c *scenarios.Config) { c.Cache = scenarios.CacheCold },
		"direct memory": func(c *scenarios.Config) { c.Scenario.Direct, c.Load.BatchSize = true, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, scenarios.Default, 1000)
			cfg.Load.Transactions = 10
			inMemory(&cfg)
			change(&cfg)
			res, err := scenarios.Run(t.Context(), cfg)
			switch {
			case name == "direct memory": // found out by the first batch
				if err != nil || res.Acknowledged != 0 || res.Failed != 10 {
					t.Errorf("%+v, %v", res, err)
				}
			case err == nil || strings.Contains(err.Error(), "\n"):
				t.Errorf("Run: %v", err)
			}
		})
	}
}
