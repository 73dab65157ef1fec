package scenarios_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/enginetest"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/writer/writertest"
)

// An engine that lies is found out, whatever it lies about.
func TestLies(t *testing.T) {
	for name, tt := range map[string]struct {
		tamper    func(changes map[int64]int64, other int64) // an account that others use
		conserved bool
	}{
		"lost":       {func(c map[int64]int64, _ int64) { clear(c) }, true},
		"half lost":  {func(c map[int64]int64, _ int64) { delete(c, min2(c)) }, false},
		"twice":      {func(c map[int64]int64, _ int64) { scale(c, 2) }, true},
		"backwards":  {func(c map[int64]int64, _ int64) { scale(c, -1) }, true},
		"one more":   {func(c map[int64]int64, _ int64) { c[min2(c)]++ }, false},
		"wrong home": {func(c map[int64]int64, other int64) { id := min2(c); c[other] += c[id]; delete(c, id) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, scenarios.Default, 1000)
			cfg.Load = tps.Config{Transactions: 300, Concurrency: 1} // one client, so that the order is known
			m := inMemory(&cfg)
			other := accounts.NewPool(300, cfg.RandomSeed, cfg.Dist, cfg.Layout).Accounts()[7]
			m.Tamper = func(commit int, changes map[int64]int64) {
				if commit == 201 {
					tt.tamper(changes, other)
				}
			}
			res := run(t, t.Context(), cfg)
			v := res.Verify
			if v.OK || v.Conserved != tt.conserved || !strings.Contains(v.Detail, "account ") && !strings.Contains(v.Detail, "changes sum") {
				t.Errorf("the verdict is %+v", v)
			}
		})
	}
}

// min2 returns the smaller of the ids that a transfer changes.
func min2(changes map[int64]int64) int64 {
	ids := []int64{}
	for id := range changes {
		ids = append(ids, id)
	}
	return slices.Min(ids)
}

func scale(changes map[int64]int64, by int64) {
	for id := range changes {
		changes[id] *= by
	}
}

// meddler does something to the database behind the engine's back, once, between
// the reading of the balances and the load.
type meddler struct {
	engine.Engine
	meddle func()
}

func (m *meddler) Stats() engine.Stats {
	if m.meddle != nil {
		m.meddle()
		m.meddle = nil
	}
	return m.Engine.Stats()
}

// When another program writes, that is what the result says.
func TestForeignWrites(t *testing.T) {
	for name, tt := range map[string]struct {
		sql  string
		gain int64
		ok   bool
	}{
		"a touched account": {"UPDATE account SET balance = balance + 1 WHERE id = %d", 1, false},
		"elsewhere":         {"INSERT INTO transfer(source, target, amount) VALUES (1, 2, %d)", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, scenarios.Default, 5000)
			path, gain := onSQLite(t, &cfg, sqlite.Options{})
			*gain = tt.gain
			cfg.Load = tps.Config{Transactions: 100, Runs: 1}
			touched := accounts.NewPool(100, cfg.RandomSeed, cfg.Dist, cfg.Layout).Accounts()[0]
			open := cfg.Open
			cfg.Open = func(ctx context.Context, needs engine.Needs) (engine.Engine, error) {
				e, err := open(ctx, needs)
				return &meddler{e, func() { raw(t, path, fmt.Sprintf(tt.sql, touched)) }}, err
			}
			res := run(t, t.Context(), cfg)
			const said = "another program wrote"
			if res.Verify.OK != tt.ok {
				t.Errorf("the verdict is %+v", res.Verify)
			}
			if tt.ok && !warned(res, said) {
				t.Errorf("no warning says that %s: %q", said, res.Warnings)
			}
			if !tt.ok && (!strings.Contains(res.Verify.Detail, said) || !strings.Contains(res.Verify.Detail, fmt.Sprintf("account %d holds", touched))) {
				t.Errorf("the detail is %q", res.Verify.Detail)
			}
		})
	}
}

// What is in doubt may be in the table or not; the proof says which.
func TestInDoubt(t *testing.T) {
	cfg := config(t, scenarios.Default, 1000)
	cfg.Load = tps.Config{Transactions: 100, Runs: 1}
	m := inMemory(&cfg)
	m.Fail = func(commit int) error {
		if commit%70 == 20 {
			return fmt.Errorf("commit %d: %w", commit, enginetest.ErrInDoubt)
		}
		return nil
	}
	res := run(t, t.Context(), cfg)
	wantProof(t, res)
	if !strings.Contains(res.Verify.Detail, "of 3 commits in doubt 0 are in the table") {
		t.Errorf("the detail is %q", res.Verify.Detail)
	}
	if res.Failed == 0 || res.Errors["in doubt"] != res.Failed {
		t.Errorf("%d failed with %v", res.Failed, res.Errors)
	}
}

// After a storage failure the database is opened again, and the proof tells what
// became of the transactions in doubt.
func TestStorageFailure(t *testing.T) {
	for _, name := range []string{"savepoint", "direct", "pool", "optimistic"} {
		for _, tt := range []struct {
			kept bool
			nth  int // COMMIT of the run
			// Who failed by itself in the batch that is in doubt has left nothing there.
			failRate float64
		}{{false, 2, 0}, {true, 2, 0}, {true, 1, 0}, {true, 2, 0.3}, {false, 2, 0.3}} {
			if tt.failRate > 0 && name == "pool" {
				continue // a transaction there is a COMMIT of its own
			}
			t.Run(fmt.Sprintf("%s kept %v commit %d fail %v", name, tt.kept, tt.nth, tt.failRate), func(t *testing.T) {
				faults := &writertest.Faults{}
				rule := writertest.Rule{SQL: "COMMIT", Nth: tt.nth, Code: sqliteh.SQLITE_IOERR_FSYNC, Effect: writertest.RollBack}
				if tt.kept {
					rule.Effect = writertest.Keep
				}
				cfg := config(t, name, 5000)
				onSQLite(t, &cfg, sqlite.Options{Open: faults.Open, MaxBatch: 20})
				cfg.Load.Transactions, cfg.Load.Runs, cfg.Load.BatchSize = 100, 2, cfg.Load.BatchSize/2
				opens, open := 0, cfg.Open
				cfg.Open = func(ctx context.Context, needs engine.Needs) (engine.Engine, error) {
					if opens++; opens == 1 {
						faults.Add(rule)
					}
					return open(ctx, needs)
				}
				cfg.FailRate = tt.failRate
				res := run(t, t.Context(), cfg)
				wantProof(t, res)
				if opens != 2 || faults.Injected() != 1 {
					t.Errorf("opened %d times after %d faults", opens, faults.Injected())
				}
				want := fmt.Sprintf("of 1 commits in doubt %d are in the table", map[bool]int{true: 1}[tt.kept])
				if !strings.Contains(res.Verify.Detail, want) {
					t.Errorf("the detail is %q, want %q", res.Verify.Detail, want)
				}
				if !warned(res, "storage failure") {
					t.Errorf("the warnings are %q", res.Warnings)
				}
				cold := res.Runs[0]
				if cold.Failed == 0 || cold.Acknowledged+cold.Failed != 100 || len(res.Runs) != 3 || tt.failRate == 0 && res.Runs[2].Acknowledged != 100 {
					t.Errorf("the rounds are %+v", res.Runs)
				}
			})
		}
	}
}

// What cannot be opened again cannot be proved; what was measured is shown all the
// same.
func TestStorageFailureForGood(t *testing.T) {
	for _, load := range []tps.Config{{Transactions: 50, Runs: 1}, {Transactions: 50, Concurrency: 2}} {
		cfg := config(t, scenarios.Default, 1000)
		cfg.Load = load
		m := inMemory(&cfg)
		m.Fail = func(commit int) error {
			if commit == 10 {
				return engine.ErrStopped
			}
			return nil
		}
		broken, open, opens := errors.New("the disk is gone"), cfg.Open, 0
		cfg.Open = func(ctx context.Context, needs engine.Needs) (engine.Engine, error) {
			if opens++; opens > 1 {
				return nil, broken
			}
			return open(ctx, needs)
		}
		res, err := scenarios.Run(t.Context(), cfg)
		if err != nil || res.Verify.OK || !res.Verify.Checked || !strings.Contains(res.Verify.Detail, "cannot be opened again: the disk is gone") {
			t.Errorf("Run: %+v, %v", res, err)
		}
	}
}
