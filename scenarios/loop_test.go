package scenarios_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// looping is a Config with a pool of n transfers, and a loop that does them on an
// engine that it opens, all but the last missing of them.
func looping(t *testing.T, n int64, missing int) (scenarios.Config, func(context.Context, scenarios.Transfers) (scenarios.Looped, error)) {
	cfg := config(t, scenarios.Default, 5000)
	onSQLite(t, &cfg, sqlite.Options{})
	cfg.PoolSize = n
	return cfg, func(ctx context.Context, transfers scenarios.Transfers) (did scenarios.Looped, err error) {
		e, err := cfg.Open(ctx, engine.Needs{})
		if err != nil {
			return did, err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		did.Settings = e.Settings()
		for i := range transfers.From[:len(transfers.From)-missing] {
			err := e.Update(ctx, nil, func(tx engine.Tx) error {
				return errors.Join(tx.Add(transfers.From[i], -transfers.Amounts[i]), tx.Add(transfers.To[i], transfers.Amounts[i]))
			})
			if err != nil {
				return did, err
			}
			if i < transfers.Warm {
				did.Warmed++
			} else {
				did.Transfers++
			}
		}
		did.Elapsed, did.Settling = time.Second, time.Second
		return did, nil
	}
}

// What a loop did is proved like a burst: all that it says, once in the warm-up and
// once more.
func TestRunLoop(t *testing.T) {
	cfg, loop := looping(t, 300, 0)
	res, err := scenarios.RunLoop(t.Context(), cfg, loop)
	if err != nil {
		t.Fatal(err)
	}
	wantProof(t, res)
	if res.Acknowledged != 300 || res.TPS != 300 || res.TPSSettled != 150 || res.Settings.JournalMode != "wal" || res.Scenario != cfg.Scenario.Name ||
		res.Load.Mode != tps.Direct || res.Locality.AccountsTouched < 300 || res.Interrupted || res.Schema != tps.Schema {
		t.Errorf("%+v", res)
	}
}

// A loop that claims more than it did is found out, and one that fails is an error.
func TestRunLoopLies(t *testing.T) {
	cfg, loop := looping(t, 300, 1)
	res, err := scenarios.RunLoop(t.Context(), cfg, func(ctx context.Context, transfers scenarios.Transfers) (scenarios.Looped, error) {
		did, err := loop(ctx, transfers)
		did.Transfers++
		return did, err
	})
	if err != nil || res.Verify.OK || !res.Verify.Checked {
		t.Errorf("%+v, %v", res, err)
	}
	broken := errors.New("it is broken")
	_, err = scenarios.RunLoop(t.Context(), cfg, func(context.Context, scenarios.Transfers) (scenarios.Looped, error) {
		return scenarios.Looped{}, broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// A loop that is cancelled is proved as far as it came.
func TestRunLoopCancelled(t *testing.T) {
	cfg, loop := looping(t, 300, 250)
	ctx, cancel := context.WithCancel(t.Context())
	res, err := scenarios.RunLoop(ctx, cfg, func(_ context.Context, transfers scenarios.Transfers) (scenarios.Looped, error) {
		did, err := loop(t.Context(), transfers)
		cancel()
		return did, errors.Join(err, ctx.Err())
	})
	if err != nil {
		t.Fatal(err)
	}
	wantProof(t, res)
	if !res.Interrupted || res.Acknowledged != 50 {
		t.Errorf("%+v", res)
	}
}
