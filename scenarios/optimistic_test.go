package scenarios_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/tps"
)

// Callers that fight for a handful of accounts lose and try again, and no money is
// lost with them.
func TestOptimisticUnderContention(t *testing.T) {
	cfg := config(t, "optimistic", 3)
	onSQLite(t, &cfg, sqlite.Options{})
	cfg.Load = tps.Config{Transactions: 2000, Concurrency: 40}
	cfg.MaxTries = 1000
	cfg.FailRate = 0.1
	res := run(t, t.Context(), cfg)
	wantProof(t, res)
	if res.Retries == 0 || res.Tries.Max < 2 || res.Tries.Mean <= 1 || res.Stages.Retry == nil {
		t.Errorf("%d retries, tries %+v, stage %+v", res.Retries, res.Tries, res.Stages.Retry)
	}
	if res.Acknowledged+res.Failed != 2000 || res.Failed < 100 || res.Errors["application"] != res.Failed {
		t.Errorf("%d acknowledged, %d failed: %v", res.Acknowledged, res.Failed, res.Errors)
	}
	if res.Load.MaxTries != 1000 || res.Load.ThinkBound != 0 {
		t.Errorf("load %+v", res.Load)
	}
}

// Everybody reads the same two accounts at the same instant: who changes them first
// wins, and some of the others give up after their last try.
func TestOptimisticGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, "optimistic", 2)
		inMemory(&cfg).CommitTime = time.Millisecond
		cfg.Load = tps.Config{Transactions: 40, Concurrency: 20}
		cfg.Think = 5 * time.Millisecond
		cfg.MaxTries = 3
		res := run(t, t.Context(), cfg)
		wantProof(t, res)
		gaveUp := res.Errors["gave up"]
		if res.Acknowledged+gaveUp != 40 || gaveUp == 0 || res.Retries < 2*gaveUp || res.Acknowledged == 0 {
			t.Errorf("%d acknowledged after %d retries, %v", res.Acknowledged, res.Retries, res.Errors)
		}
		if res.Stages.Think == nil || res.Stages.Think.Max != 5*time.Millisecond || res.Tries.Max != 3 {
			t.Errorf("think %+v, tries %+v", res.Stages.Think, res.Tries)
		}
	})
}

// Thinking holds nothing: ten callers on ten accounts think at the same time.
func TestOptimisticThinksBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, "optimistic", 100_000)
		inMemory(&cfg)
		cfg.Load = tps.Config{Transactions: 1000, Runs: 1}
		cfg.Think = time.Second
		res := run(t, t.Context(), cfg)
		wantProof(t, res)
		if res.Elapsed > 3*time.Second { // one that lost thinks again
			t.Errorf("1000 that think a second took %v", res.Elapsed)
		}
	})
}
