package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// ceilingFlags are the flags of ceiling.
type ceilingFlags struct {
	keys   keyFlags
	data   dataFlags
	engine engineFlags

	transactions, rounds int64
	format, output       string
}

func (a *app) ceilingCommand() *cobra.Command {
	var f ceilingFlags
	cmd := &cobra.Command{
		Use:   "ceiling",
		Short: "Hold a burst against a hand-written C loop",
		Long: `Measure, in interleaved rounds, how much of the speed of a C loop is left when each
transaction belongs to a caller of its own who waits for it: a C loop that commits
every 1,000 and every 10,000 transfers (the faster is the ceiling), the same loop in
Go, the burst, and the C loop at the batch that the burst came to. All arms do the
same transfers with the same settings, and each is proved.`,
		Example: `  tpssim ceiling -n 100k
  tpssim ceiling -n 1m --rounds 10 --db /data/billion.db`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ceiling(cmd.Context(), &f, cmd.Flags().Changed)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	countVar(flags, &f.transactions, "transactions", "n", defaultTransactions, "transactions of each arm in each round")
	countVar(flags, &f.rounds, "rounds", "", trials.DefaultRounds, "rounds, fixed before the first one")
	f.keys.add(flags)
	f.data.add(flags)
	f.engine.add(flags)
	choiceVar(flags, &f.format, "format", "text", "what stdout gets: text or json", "text", "json")
	flags.StringVarP(&f.output, "output", "o", "", "append the result to this `file`, a JSON object a line")
	return cmd
}

// ceiling is tpssim ceiling.
func (a *app) ceiling(ctx context.Context, f *ceilingFlags, given func(string) bool) error {
	burst, err := scenarios.Find(scenarios.Default)
	if err == nil {
		err = f.check(burst, a.typed, given)
	}
	if err != nil {
		return err
	}
	out, err := openOutput("-o", f.output, append(filesOf(f.data.db), a.config))
	if err != nil {
		return err
	}
	info, err := f.data.find(ctx, a, given, func(spec accounts.Spec) error {
		return f.keys.choose(&scenarios.Config{}, spec.Rows)
	})
	if err != nil {
		return errors.Join(err, out.abandon())
	}
	cfg, err := a.ceilingConfig(f, burst, info)
	if err != nil {
		return errors.Join(err, out.abandon())
	}
	res, err := trials.Ceiling(ctx, cfg)
	if err != nil && (res == nil || res.Rounds == 0) {
		return errors.Join(interrupted(ctx, f.data.db, err), out.abandon())
	}
	res.Argv = append(res.Argv, a.argv...)
	return errors.Join(interrupted(ctx, f.data.db, err), a.printCeiling(res, f.format), report.JSONLine(res)(out), out.Close(), unfinished(res.Verify, res.Interrupted))
}

// check checks the flags.
func (f *ceilingFlags) check(burst scenarios.Scenario, typed, given func(string) bool) error {
	if ok, why := sqlite.CLoopAvailable(); !ok {
		return fmt.Errorf("this program has no C loop to measure against: %s", why)
	}
	if err := checkCounts(given,
		countRange{"transactions", "-n", f.transactions, 1, accounts.MaxPool},
		countRange{"rounds", "--rounds", f.rounds, 1, trials.MaxRounds},
	); err != nil {
		return err
	}
	if err := f.data.spec.Validate(); err != nil {
		return usageError(err)
	}
	if err := validLoad(f.burstLoad(), burst); err != nil {
		return err
	}
	return cmp.Or(f.keys.misused(typed), f.engine.misused(burst, typed), f.keys.check(given), f.engine.check(given))
}

// burstLoad is a burst once to warm up and once to be measured.
func (f *ceilingFlags) burstLoad() tps.Config {
	return tps.Config{Transactions: f.transactions, Runs: 1, MemoryBytes: int64(machine.AvailableMemory())}
}

// ceilingConfig returns the arms. Each round has keys of its own, the same in all arms.
func (a *app) ceilingConfig(f *ceilingFlags, burst scenarios.Scenario, info dataset.Info) (trials.CeilingConfig, error) {
	direct, err := scenarios.Find("direct")
	if err != nil {
		return trials.CeilingConfig{}, err
	}
	base := scenarios.Config{
		Scenario: burst, Spec: info.Spec, Cache: scenarios.CacheAsIs, Load: f.burstLoad(), PoolSize: f.transactions,
		Open: f.engine.opener(burst, info.Path, info.Spec, false),
	}
	if err := f.keys.choose(&base, info.Spec.Rows); err != nil {
		return trials.CeilingConfig{}, err
	}
	in := func(round int) scenarios.Config {
		cfg := base
		cfg.RandomSeed = f.keys.seed + uint64(round)
		return cfg
	}
	options := f.engine.options
	options.Path, options.Spec = info.Path, info.Spec
	return trials.CeilingConfig{
		Transactions: f.transactions,
		Rounds:       int(f.rounds),
		Loop: func(ctx context.Context, round, batch int) (*tps.Result, error) {
			return scenarios.RunLoop(ctx, in(round), func(ctx context.Context, t scenarios.Transfers) (scenarios.Looped, error) {
				did, err := sqlite.CLoop(ctx, options, sqlite.CLoopConfig{
					From: t.From, To: t.To, Amounts: t.Amounts, Warm: t.Warm,
					Batch: batch, Savepoints: options.Savepoints != "none", Settle: true,
				})
				return scenarios.Looped{
					Warmed: did.Warmed, Transfers: did.Transfers, Elapsed: did.Elapsed, Settling: did.Settling, Settings: did.Settings,
				}, err
			})
		},
		Direct: func(ctx context.Context, round, batch int) (*tps.Result, error) {
			cfg := in(round)
			cfg.Scenario, cfg.Load.BatchSize = direct, batch
			return a.measure(ctx, cfg, info.Path)
		},
		Burst: func(ctx context.Context, round int) (*tps.Result, error) {
			return a.measure(ctx, in(round), info.Path)
		},
		Observe: a.noteRound,
	}, nil
}

// noteRound tells of an arm that is done.
func (a *app) noteRound(p trials.RoundProgress) {
	if p.Result == nil {
		return
	}
	round := fmt.Sprintf("round %d of %d", p.Round, p.Rounds)
	if p.Round == 0 {
		round = "warm-up"
	}
	a.note("%s: %s: %s TPS in %v", round, p.Arm, humanize.CommafWithDigits(p.Result.TPS, 0), p.Result.Elapsed.Round(time.Millisecond))
}

func (a *app) printCeiling(res *trials.CeilingResult, format string) error {
	if format == "json" {
		return report.JSON(res)(a.stdout)
	}
	return report.Ceiling(res, a.color(a.stdout))(a.stdout)
}
