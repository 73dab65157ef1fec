package trials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// ArticleSchema names the format of [ArticleResult] as JSON.
const ArticleSchema = "tpssim.article/1"

// How the article's figures came about: see [ArticleCells].
const (
	ArticleBatch      = 10_000         // the most transactions to a COMMIT
	ArticleReaders    = 8              // read-only connections
	ArticleCacheBytes = 15_625 * 4_096 // SQLite's page cache for each connection
	ArticleMachine    = "M1 Pro, 16 GB"
)

// ArticleCell is one figure of the article's table: a scenario at a durability.
type ArticleCell struct {
	// Engine is the database, so that tables of others can stand in the same list.
	Engine      string `json:"engine"`
	Scenario    string `json:"scenario"`    // this program's name of the work
	Title       string `json:"title"`       // what is added from row to row
	Synchronous string `json:"synchronous"` // PRAGMA synchronous, in lower case
	// Published is the TPS that the article gives, of 1,000,000 transactions on
	// another machine with another program: nothing to divide by.
	Published float64 `json:"published_tps"`
}

// Name names the cell, as in "savepoint FULL".
func (c ArticleCell) Name() string { return c.Scenario + " " + strings.ToUpper(c.Synchronous) }

// ArticleCells are the SQLite table of "100000 TPS over a billion rows: the
// unreasonable effectiveness of SQLite" (Anders Murphy, 2 December 2025), with the
// figures that it publishes for both durabilities.
var ArticleCells = []ArticleCell{
	{"sqlite", "unbatched", "one to a COMMIT", "normal", 44_096},
	{"sqlite", "unbatched", "one to a COMMIT", "full", 20_654},
	{"sqlite", "batch", "batch", "normal", 186_157},
	{"sqlite", "batch", "batch", "full", 161_868},
	{"sqlite", "savepoint", "batch + savepoint", "normal", 121_922},
	{"sqlite", "savepoint", "batch + savepoint", "full", 98_163},
	{"sqlite", "mixed", "batch + savepoint + 3 awaited reads", "normal", 102_545},
	{"sqlite", "mixed", "batch + savepoint + 3 awaited reads", "full", 100_405},
}

// ArticleConfig says how the article's table is measured.
type ArticleConfig struct {
	Transactions int64 // in each cell, in each round
	Rounds       int   // as in RoundsConfig
	Warmup       bool  // as in RoundsConfig
	// Run measures one cell, as [Arm].Run does. All cells of a round must be given
	// the same transfers. Of a result are read: TPS, TPSSettled, Latency.P99,
	// Acknowledged, Writer.BatchSize.Mean, Settings, Env, Load, Locality, Verify,
	// Interrupted and Warnings. One whose Settings have another synchronous than the
	// cell is an error: its figure would stand in the wrong place.
	Run     func(ctx context.Context, cell ArticleCell, round int) (*tps.Result, error)
	Observe func(RoundProgress) // as in RoundsConfig
}

// ArticleResult is the article's table on this machine, in the order and with the
// names of the JSON object that tpssim prints. No list is ever null. Argv belongs to
// the caller.
type ArticleResult struct {
	Schema    string    `json:"schema"`
	StartedAt time.Time `json:"started_at"`
	Argv      []string  `json:"argv"`

	Transactions  int64        `json:"transactions"`   // in each cell, in each round
	Rounds        int          `json:"rounds"`         // whole ones, those that count
	RoundsPlanned int          `json:"rounds_planned"` // before the first one began
	Rows          []ArticleRow `json:"rows"`           // none without a whole round
	// DurabilityDiffers tells that rows differ in Synchronous, and so in what they
	// promise after a power loss, which is what the table is about.
	DurabilityDiffers bool `json:"durability_differs"`

	Load     tps.Load     `json:"load"`     // of the first row, in the last round
	Locality tps.Locality `json:"locality"` // of all rows, in the last round
	Env      tps.Env      `json:"env"`

	Verify      tps.Verify `json:"verify"` // over all cells and rounds
	Interrupted bool       `json:"interrupted"`
	Warnings    []string   `json:"warnings"`
}

// ArticleRow is one cell over the rounds.
type ArticleRow struct {
	ArticleCell
	TPS        Summary `json:"tps"`
	TPSSettled Summary `json:"tps_settled"` // see [tps.Result]
	// P99 is of a burst, and so tells how long the queue was; nanoseconds.
	P99 Summary `json:"p99_ns"`
	// BatchSize is the median of the rounds' mean number of transactions to a COMMIT.
	BatchSize float64      `json:"batch_size"`
	Settings  tps.Settings `json:"settings"` // as read back in the last round
}

// Row returns the row of a scenario at a durability, nil when there is none.
func (r *ArticleResult) Row(scenario, synchronous string) *ArticleRow {
	k := slices.IndexFunc(r.Rows, func(row ArticleRow) bool {
		return row.Scenario == scenario && row.Synchronous == synchronous
	})
	if k < 0 {
		return nil
	}
	return &r.Rows[k]
}

// Validate returns a [tps.ConfigError] that says what is wrong, or nil.
func (c *ArticleConfig) Validate() error {
	switch {
	case c.Transactions < 1:
		return tps.ConfigError("-n must be at least 1")
	case c.Run == nil:
		return tps.ConfigError("trials: Run is needed")
	}
	rounds := c.rounds()
	return rounds.Validate()
}

// rounds are those of all cells.
func (c *ArticleConfig) rounds() RoundsConfig {
	rounds := RoundsConfig{Rounds: c.Rounds, Warmup: c.Warmup, Observe: c.Observe}
	for _, cell := range ArticleCells {
		rounds.Arms = append(rounds.Arms, Arm{cell.Name(), func(ctx context.Context, round int) (*tps.Result, error) {
			res, err := counted(c.Run(ctx, cell, round))
			if err == nil && !res.Interrupted && res.Settings.Synchronous != cell.Synchronous {
				return nil, fmt.Errorf("it ran with synchronous=%s: no other setting may decide it", res.Settings.Synchronous)
			}
			return res, err
		}})
	}
	return rounds
}

// Article measures [ArticleCells] in interleaved rounds: the same number of
// transactions and the same transfers in each.
//
// For the rest see [Rounds]: when ctx ends, a proof fails or a cell returns an
// error, the result is what the whole rounds show, if any.
func Article(ctx context.Context, cfg ArticleConfig) (*ArticleResult, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	started := time.Now()
	rounds := cfg.rounds()
	measured, err := Rounds(ctx, rounds)
	res := articleOf(measured, cfg.Transactions, rounds.rounds())
	res.StartedAt = started
	return res, err
}

// articleOf draws the result from the rounds.
func articleOf(measured *RoundsResult, transactions int64, planned int) *ArticleResult {
	r := &ArticleResult{
		Schema: ArticleSchema, Argv: []string{}, Transactions: transactions,
		Rounds: len(measured.Results), RoundsPlanned: planned, Rows: []ArticleRow{},
		Load:   tps.Load{Stages: []tps.Stage{}, Scripts: []string{}},
		Verify: measured.Verify, Interrupted: measured.Interrupted, Warnings: []string{},
	}
	if r.Rounds < r.RoundsPlanned {
		r.warn("%d of %d rounds were measured: the rest was not finished", r.Rounds, r.RoundsPlanned)
	}
	if r.Rounds == 0 {
		return r
	}
	last := measured.Results[r.Rounds-1]
	for k, cell := range ArticleCells {
		summary := func(figure func(*tps.Result) float64) Summary { return Summarize(measured.Values(k, figure)) }
		r.Rows = append(r.Rows, ArticleRow{
			ArticleCell: cell,
			TPS:         summary(func(res *tps.Result) float64 { return res.TPS }),
			TPSSettled:  summary(func(res *tps.Result) float64 { return res.TPSSettled }),
			P99:         summary(func(res *tps.Result) float64 { return float64(res.Latency.P99) }),
			BatchSize:   summary(func(res *tps.Result) float64 { return res.Writer.BatchSize.Mean }).Median,
			Settings:    last[k].Settings,
		})
	}
	r.Load, r.Locality, r.Env = last[0].Load, last[0].Locality, last[0].Env
	r.Load.Stages, r.Load.Scripts = append([]tps.Stage{}, last[0].Load.Stages...), append([]string{}, last[0].Load.Scripts...)
	r.DurabilityDiffers = slices.ContainsFunc(r.Rows, func(row ArticleRow) bool { return row.Synchronous != r.Rows[0].Synchronous })
	r.doubt(measured)
	return r
}

func (r *ArticleResult) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// doubt adds what makes the figures doubtful.
func (r *ArticleResult) doubt(measured *RoundsResult) {
	if reach := r.Rows[0].TPS.Confidence; reach < Confidence {
		r.Warnings = append(r.Warnings, fewRounds(r.Rounds, reach))
	}
	if r.Transactions < ArticleBatch {
		r.warn("%d transactions are less than one batch of %d: use more (-n)", r.Transactions, ArticleBatch)
	}
	var names []string
	for k, cell := range ArticleCells {
		names = append(names, cell.Name())
		short := measured.Values(k, func(res *tps.Result) float64 { return float64(r.Transactions - res.Acknowledged) })
		if n := slices.IndexFunc(short, func(v float64) bool { return v != 0 }); n >= 0 {
			r.warn("%s: %d and not %d transactions were acknowledged in round %d", cell.Name(), measured.Results[n][k].Acknowledged, r.Transactions, n+1)
		}
		settings := r.Rows[k].Settings
		settings.Synchronous = r.Rows[0].Settings.Synchronous // in which rows are to differ
		if differs := settingsDiffer(settings, r.Rows[0].Settings); differs != "" {
			r.warn("%s ran with other settings than %s: %s", cell.Name(), names[0], differs)
		}
	}
	r.Warnings = append(r.Warnings, gather(measured.arms(), named(names))...)
}
