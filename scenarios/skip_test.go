package scenarios_test

import (
	"testing"
	"time"

	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
)

// One that is too late hurts nobody: its batch-mates are acknowledged whatever
// isolates them, and it is no transaction that was rolled back.
func TestSkippedHurtsNobody(t *testing.T) {
	for _, name := range []string{scenarios.Default, "batch", "unbatched", "optimistic"} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, name, 5000)
			onSQLite(t, &cfg, sqlite.Options{})
			// Bursts that take twice as long as the limit, one after the other.
			cfg.Load = tps.Config{Transactions: 400, Rate: 2000, BurstSize: 100, LatencyLimit: 100 * time.Millisecond}
			cfg.Think = 2 * time.Millisecond
			cfg.MaxTries = map[bool]int{true: 1000}[cfg.Scenario.Retries]
			res := run(t, t.Context(), cfg)
			wantProof(t, res)
			if res.Acknowledged+res.Skipped+res.Errors["gave up"] != 400 || res.Acknowledged == 0 {
				t.Errorf("%d acknowledged, %d skipped, %v", res.Acknowledged, res.Skipped, res.Errors)
			}
			if !cfg.Scenario.Retries && (res.Skipped == 0 || res.Writer.RolledBack != 0) {
				t.Errorf("%d skipped, %d rolled back", res.Skipped, res.Writer.RolledBack)
			}
		})
	}
}
