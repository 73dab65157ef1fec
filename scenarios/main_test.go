package scenarios_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/enginetest"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// folder holds the data sets that tests copy.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "tpssim-scenarios"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(folder)
		os.Exit(code)
	}))
}

// balance is high enough for no account to run short by chance.
const balance = 100_000

func specOf(rows int64) accounts.Spec {
	return accounts.Spec{Rows: rows, Balance: balance, Schema: accounts.SchemaRowid, PageSize: 4096}
}

var (
	seededMu sync.Mutex
	seeded   = map[int64][]byte{} // by rows
)

// dataSet makes a data set of the test's own. When the test ends it must be whole
// and hold as much money as at the start, plus what the test has put into gain.
func dataSet(t *testing.T, rows int64) (path string, gain *int64) {
	t.Helper()
	seededMu.Lock()
	defer seededMu.Unlock()
	if seeded[rows] == nil {
		original := filepath.Join(folder, strconv.FormatInt(rows, 10)+".db")
		if _, err := dataset.Seed(t.Context(), original, specOf(rows), dataset.Options{}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		seeded[rows] = data
	}
	path = filepath.Join(t.TempDir(), "test.db")
	if err := os.WriteFile(path, seeded[rows], 0o644); err != nil {
		t.Fatal(err)
	}
	gain = new(int64)
	t.Cleanup(func() {
		if got, want := raw(t, path, "SELECT sum(balance) FROM account"), fmt.Sprint(rows*balance+*gain); got != want {
			t.Errorf("the accounts hold %s together, want %s", got, want)
		}
		if got := raw(t, path, "PRAGMA quick_check"); got != "ok" {
			t.Errorf("quick_check: %s", got)
		}
	})
	return path, gain
}

// raw runs one statement on a connection of its own and returns its answer.
func raw(t *testing.T, path, query string) string {
	t.Helper()
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := sqlconn.Open(nil, resolved, sqlconn.Existing)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Text(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return text
}

// config is a scenario with uniform traffic and no load yet.
func config(t *testing.T, name string, rows int64) scenarios.Config {
	t.Helper()
	s, err := scenarios.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := accounts.NewUniform(rows)
	if err != nil {
		t.Fatal(err)
	}
	cfg := scenarios.Config{
		Scenario: s, Spec: specOf(rows), Dist: d, Layout: accounts.Clustered{}, DistName: "uniform", DistParameters: "none", LayoutName: "clustered",
		RandomSeed: 1, Reads: s.Reads, Cache: scenarios.CacheAsIs,
	}
	if s.Direct {
		cfg.Load.BatchSize = 50
	}
	return cfg
}

// onSQLite makes cfg run on a data set in SQLite.
func onSQLite(t *testing.T, cfg *scenarios.Config, opt sqlite.Options) (path string, gain *int64) {
	t.Helper()
	opt.Spec = cfg.Spec
	opt.Path, gain = dataSet(t, cfg.Spec.Rows)
	if opt.Pragmas == nil {
		opt.Pragmas = map[string]string{"synchronous": "normal"} // for speed alone
	}
	opt.Connections = 2
	cfg.Open = func(ctx context.Context, needs engine.Needs) (engine.Engine, error) {
		return sqlite.Open(ctx, opt, needs)
	}
	return opt.Path, gain
}

// inMemory makes cfg run in memory.
func inMemory(cfg *scenarios.Config) *enginetest.Memory {
	m := enginetest.NewMemory(cfg.Spec)
	onEngine(cfg, m, m)
	return m
}

// onEngine makes cfg run on e, which stands in front of m.
func onEngine(cfg *scenarios.Config, m *enginetest.Memory, e engine.Engine) {
	cfg.Open = func(_ context.Context, needs engine.Needs) (engine.Engine, error) {
		m.Open(needs)
		return e, nil
	}
}

// run runs cfg and checks what holds for every result.
func run(t *testing.T, ctx context.Context, cfg scenarios.Config) *tps.Result {
	t.Helper()
	res, err := scenarios.Run(ctx, cfg)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if res.Scenario != cfg.Scenario.Name || res.Load.Dist != cfg.DistName || res.Load.Layout != cfg.LayoutName ||
		res.Load.DistParameters != cfg.DistParameters || res.Load.Schema != string(cfg.Spec.Schema) || res.Load.Rows != cfg.Spec.Rows || res.Load.RandomSeed != cfg.RandomSeed || res.Load.Cache != cfg.Cache ||
		res.Load.Think != cfg.Think || res.Load.ReadsPerTx != cfg.Reads {
		t.Errorf("the result is for another run: %q, %+v", res.Scenario, res.Load)
	}
	if res.Verify.AccountsChecked < 1 {
		t.Error("no account was checked")
	}
	if res.Verify.OK && !res.Verify.Conserved {
		t.Error("the proof is ok although money came or went")
	}
	l := res.Locality
	if cfg.Load.Warmup == 0 && l.AccountsTouched > 2*total(res) || l.LeafPagesTouched > min(l.AccountsTouched, l.LeafPages) || res.Acknowledged > 0 && l.LeafPagesTouched < 1 {
		t.Errorf("locality %+v after %d transactions", l, total(res))
	}
	if w := res.Writer; w.BusyFraction < 0 || w.BusyFraction > 1 {
		t.Errorf("busy for %v of the time", w.BusyFraction)
	}
	return res
}

// total returns how many transactions the rounds acknowledged.
func total(res *tps.Result) (n int64) {
	for _, round := range res.Runs {
		n += round.Acknowledged
	}
	return n
}

// wantProof fails the test unless the result was proved.
func wantProof(t *testing.T, res *tps.Result) {
	t.Helper()
	if !res.Verify.OK {
		t.Errorf("not proved: %s", res.Verify.Detail)
	}
}

// warned tells whether one of the result's warnings contains text.
func warned(res *tps.Result, text string) bool {
	for _, w := range res.Warnings {
		if strings.Contains(w, text) {
			return true
		}
	}
	return false
}
