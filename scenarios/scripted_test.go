package scenarios_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/script"
	"github.com/tpssim/tpssim/tps"
)

// foreign makes a database that is none of ours.
func foreign(t *testing.T, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "foreign.db")
	c, err := sqlconn.Open(nil, path, sqlconn.Create)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if err := c.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// scripted is a Config that runs scripts, given as weight and text in turn, on the
// database at path.
func scripted(t *testing.T, path string, weighted ...any) scenarios.Config {
	t.Helper()
	var scripts []script.Weighted
	for k := 0; k < len(weighted); k += 2 {
		s, err := script.Parse(fmt.Sprintf("s%d", k/2), strings.NewReader(weighted[k+1].(string)))
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, script.Weighted{Script: s, Weight: int64(weighted[k].(int))})
	}
	mix, err := script.NewMix(1, scripts...)
	if err != nil {
		t.Fatal(err)
	}
	return scenarios.Config{
		Scenario: scenarios.Scripted, Cache: scenarios.CacheAsIs, RandomSeed: 1,
		Scripts: &scenarios.Scripts{Mix: mix, Variables: map[string]any{"n": int64(10)}},
		Open: func(ctx context.Context, needs engine.Needs) (engine.Engine, error) {
			return sqlite.Open(ctx, sqlite.Options{Path: path, Foreign: true, Spec: accounts.Spec{}}, needs)
		},
	}
}

// A script's statements run in one transaction for each call, with the script's own
// choices, and what fails undoes the whole script.
func TestScripted(t *testing.T) {
	path := foreign(t, "CREATE TABLE a(k INTEGER PRIMARY KEY, v INTEGER NOT NULL CHECK (v < 1000000))", "CREATE TABLE log(k)",
		"INSERT INTO a WITH r(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM r WHERE k < 10) SELECT k, 0 FROM r")
	cfg := scripted(t, path,
		3, "\\set k random(1, :n)\nUPDATE a SET v = v + 1 WHERE k = :k RETURNING v AS now \\gset\nINSERT INTO log VALUES (:now);\n",
		1, "INSERT INTO log VALUES (-1);\nUPDATE a SET v = 2000000;\n")
	cfg.Load = tps.Config{Transactions: 400, Concurrency: 8}
	cfg.Statements = true
	res, err := scenarios.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if res.Acknowledged+res.Failed != 400 || res.Failed < 60 || res.Failed > 140 || res.Errors["constraint"] != res.Failed {
		t.Errorf("%d acknowledged, %d failed: %v", res.Acknowledged, res.Failed, res.Errors)
	}
	for query, want := range map[string]string{
		"SELECT sum(v) FROM a":                       fmt.Sprint(res.Acknowledged),
		"SELECT count(*) FROM log":                   fmt.Sprint(res.Acknowledged),
		"SELECT count(*) FROM log WHERE k = -1":      "0",
		"SELECT count(*) FROM a WHERE v < 1":         "0",
		"SELECT max(k) FROM log":                     raw(t, path, "SELECT max(v) FROM a"),
		"SELECT count(DISTINCT k) > 10 FROM log":     "1",
		"SELECT quick_check FROM pragma_quick_check": "ok",
	} {
		if got := raw(t, path, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if res.Verify.Checked || res.Verify.OK || res.Load.Rows != 0 || fmt.Sprint(res.Load.Scripts) != "[s0@3 s1@1]" || res.Scenario != "script" {
		t.Errorf("%+v, %+v, %q", res.Verify, res.Load, res.Scenario)
	}
	if len(res.Statements) != 4 || res.Writer.Batches == 0 || res.Reads.Acknowledged != 0 {
		t.Errorf("statements %+v, writer %+v", res.Statements, res.Writer)
	}
}

// What sleeps before the transaction thinks beside others; what sleeps inside holds
// the writer.
func TestScriptedSleep(t *testing.T) {
	path := foreign(t, "CREATE TABLE a(k)")
	for name, want := range map[string]struct {
		text string
		at   func(tps.Stages) tps.Latency
	}{
		"before": {"\\sleep 20 ms\nINSERT INTO a VALUES (1);\n", func(s tps.Stages) tps.Latency { return *s.Think }},
		"inside": {"INSERT INTO a VALUES (1);\n\\sleep 20 ms\nINSERT INTO a VALUES (2);\n", func(s tps.Stages) tps.Latency { return s.Execute }},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := scripted(t, path, 1, want.text)
			cfg.Load = tps.Config{Transactions: 3, Concurrency: 1}
			res, err := scenarios.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got := want.at(res.Stages); res.Acknowledged != 3 || got.P50 < 19*time.Millisecond || (name == "inside") != (res.Stages.Think == nil) {
				t.Errorf("%d acknowledged, stages %+v", res.Acknowledged, res.Stages)
			}
		})
	}
}

// What cannot be said of scripts is refused before anything runs.
func TestScriptedValidate(t *testing.T) {
	for name, change := range map[string]func(*scenarios.Config){
		"think":    func(c *scenarios.Config) { c.Think = 1 },
		"fail":     func(c *scenarios.Config) { c.FailRate = 0.5 },
		"warm":     func(c *scenarios.Config) { c.Cache = scenarios.CacheWarm },
		"reads":    func(c *scenarios.Config) { c.Reads = 1 },
		"scenario": func(c *scenarios.Config) { c.Scenario = scenarios.All[0] },
		"variable": func(c *scenarios.Config) { c.Scripts.Variables["n"] = []int{1} },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := scripted(t, foreign(t, "CREATE TABLE a(k)"), 1, "INSERT INTO a VALUES (:n);")
			cfg.Load = tps.Config{Transactions: 1, Concurrency: 1}
			change(&cfg)
			if res, err := scenarios.Run(t.Context(), cfg); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}
