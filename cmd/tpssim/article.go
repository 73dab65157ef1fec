package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// articleFlags are the flags of article.
type articleFlags struct {
	run   runFlags       // of each cell; what cells differ in is no flag of article
	cells *pflag.FlagSet // all flags of run

	transactions, rounds int64
	format, output       string
}

// articleShares are the flags of a run that article has too: what all cells have in
// common.
var articleShares = []string{
	"random-seed", "dist", "layout", "pareto-r", "theta", "hot-accounts", "hot-traffic",
	"db", "rows", "balance", "schema", "payload", "indexes", "page-size",
	"cache-size", "mmap-size", "checkpoint", "checkpoint-mode", "readers", "prefetch", "cache",
}

func (a *app) articleCommand() *cobra.Command {
	var f articleFlags
	cmd := &cobra.Command{
		Use:   "article",
		Short: "Measure the table of the article that this program goes back to",
		Long: `Measure the SQLite table of "100000 TPS over a billion rows" (2025) on this
machine: one transaction to a COMMIT, batches of at most 10,000, batches with a
savepoint for each transaction, and these with three awaited reads behind each;
all of them with synchronous=NORMAL and FULL.

The eight cells run in interleaved rounds, each with as many transactions, the
same transfers, each behind a burst that warms up, and each proved. The published
figures stand beside: another machine, and so nothing to divide by. Below the
table stands what was wrong with the original, and what is done here instead.

One transaction to a COMMIT is slow with FULL: as many syncs as -n says, once to
warm up and once measured, in each round. After each round it is told how long the
others will take.`,
		Example: `  tpssim article
  tpssim article -n 1m --db /data/billion.db --format markdown -o article.jsonl
  tpssim article --layout scattered`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.article(cmd.Context(), &f) },
	}
	f.add(cmd.Flags())
	return cmd
}

// add adds the flags.
func (f *articleFlags) add(flags *pflag.FlagSet) {
	flags.SortFlags = false
	countVar(flags, &f.transactions, "transactions", "n", defaultTransactions, "transactions of each cell in each round; the article had 1m")
	countVar(flags, &f.rounds, "runs", "", trials.DefaultRounds, "rounds, fixed before the first one")
	f.cells = pflag.NewFlagSet("article", pflag.ContinueOnError)
	f.run.add(f.cells)
	e := &f.run.engine
	e.maxBatch, e.options.MaxBatchTime = trials.ArticleBatch, 0
	e.readers, e.cacheSize = trials.ArticleReaders, trials.ArticleCacheBytes
	f.cells.Lookup("readers").Usage = "read-only connections; the article had 8"
	for _, name := range articleShares {
		flag := f.cells.Lookup(name)
		flag.DefValue = flag.Value.String()
		flags.AddFlag(flag)
	}
	choiceVar(flags, &f.format, "format", "text", "what stdout gets: text, markdown, csv or json", "text", "markdown", "csv", "json")
	flags.StringVarP(&f.output, "output", "o", "", "append the result to this `file`, a JSON object a line")
}

// article is tpssim article.
func (a *app) article(ctx context.Context, f *articleFlags) error {
	cells, err := a.articleCells(f)
	if err != nil {
		return err
	}
	out, err := openOutput("-o", f.output, append(filesOf(f.run.data.db), a.config))
	if err != nil {
		return err
	}
	for _, v := range cells {
		if err := a.variantData(ctx, f.cells, &f.run, v); err != nil {
			return errors.Join(err, out.abandon())
		}
	}
	syncs := 2 * f.rounds * f.transactions // to warm up, and measured
	a.note("unbatched with FULL alone waits for %s syncs: %v where one takes 1 ms (tpssim doctor measures it)",
		humanize.Comma(syncs), time.Duration(syncs)*time.Millisecond)
	res, err := trials.Article(ctx, trials.ArticleConfig{
		Transactions: f.transactions,
		Rounds:       int(f.rounds),
		Run: func(ctx context.Context, cell trials.ArticleCell, round int) (*tps.Result, error) {
			return cells[cell].run(a)(ctx, round)
		},
		Observe: a.noteLeft(len(cells)),
	})
	if err != nil && (res == nil || res.Rounds == 0) {
		return errors.Join(interrupted(ctx, f.run.data.db, err), out.abandon())
	}
	res.Argv = append(res.Argv, a.argv...)
	return errors.Join(interrupted(ctx, f.run.data.db, err), a.printArticle(res, f.format), report.JSONLine(res)(out), out.Close(), unfinished(res.Verify, res.Interrupted))
}

// articleCells checks the flags and returns a run for each cell.
func (a *app) articleCells(f *articleFlags) (map[trials.ArticleCell]*variant, error) {
	// 0 is no default here: rounds are said beforehand.
	always := func(string) bool { return true }
	if err := checkCounts(always, countRange{"runs", "--runs", f.rounds, 1, trials.MaxRounds}); err != nil {
		return nil, err
	}
	cells := map[trials.ArticleCell]*variant{}
	for _, cell := range trials.ArticleCells {
		v := &variant{name: cell.Name(), settings: []trials.Setting{
			{Name: "scenario", Value: cell.Scenario},
			{Name: "sync", Value: cell.Synchronous},
			{Name: "transactions", Value: strconv.FormatInt(f.transactions, 10)},
		}}
		if err := a.variantConfig(f.cells, &f.run, v); err != nil {
			return nil, err
		}
		cells[cell] = v
	}
	return cells, nil
}

// noteLeft returns what tells of each arm that is done and, after each round of so
// many arms, about how long the others will take.
func (a *app) noteLeft(arms int) func(trials.RoundProgress) {
	began, done := time.Now(), 0
	return func(p trials.RoundProgress) {
		a.noteRound(p)
		if p.Result == nil {
			return
		}
		if done++; done%arms == 0 && p.Round < p.Rounds {
			each := time.Since(began) / time.Duration(p.Round)
			a.note("about %v left", (each * time.Duration(p.Rounds-p.Round)).Round(time.Second))
		}
	}
}

// printArticle writes the table to stdout.
func (a *app) printArticle(res *trials.ArticleResult, format string) error {
	switch format {
	case "json":
		return report.JSON(res)(a.stdout)
	case "text":
		return report.Article(res, a.color(a.stdout))(a.stdout)
	}
	as, err := report.ArticleAs(format, res)
	if err != nil {
		return err
	}
	return as(a.stdout)
}
