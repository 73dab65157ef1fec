package trials

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// articleRun measures made-up cells: each has a speed of its own, which grows by 1 %
// from round to round. change, if any, may turn what came of it.
func articleRun(change func(cell ArticleCell, round int, r *tps.Result)) func(context.Context, ArticleCell, int) (*tps.Result, error) {
	return func(_ context.Context, cell ArticleCell, round int) (*tps.Result, error) {
		r := &tps.Result{
			Acknowledged: 100_000,
			TPS:          10 * float64(1+slices.Index(ArticleCells, cell)) * float64(100+round),
			Settings:     tps.Settings{JournalMode: "wal", Synchronous: cell.Synchronous, PageSize: 4096},
			Verify:       tps.Verify{Checked: true, OK: true, Conserved: true, AccountsChecked: 5},
		}
		r.TPSSettled, r.Latency.P99, r.Writer.BatchSize.Mean = r.TPS/2, time.Duration(round)*time.Millisecond, float64(10*round)
		r.Load.RandomSeed, r.Locality.LeafPages = uint64(round), 7
		if change != nil {
			change(cell, round, r)
		}
		return r, nil
	}
}

func TestArticle(t *testing.T) {
	var ran []string
	r, err := Article(t.Context(), ArticleConfig{
		Transactions: 100_000, Rounds: 6, Run: articleRun(nil),
		Observe: func(p RoundProgress) {
			if p.Result != nil {
				ran = append(ran, p.Arm)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Schema != ArticleSchema || r.Rounds != 6 || r.RoundsPlanned != 6 || r.Transactions != 100_000 || len(r.Rows) != 8 || r.Argv == nil || r.StartedAt.IsZero() {
		t.Errorf("%+v", r)
	}
	if !r.DurabilityDiffers || !r.Verify.OK || r.Interrupted || len(r.Warnings) > 0 {
		t.Errorf("durability differs %v, verify %+v, interrupted %v, warnings %q", r.DurabilityDiffers, r.Verify, r.Interrupted, r.Warnings)
	}
	for k, row := range r.Rows {
		base := 10 * float64(k+1)
		if row.ArticleCell != ArticleCells[k] || row.TPS.Median != base*103.5 || row.TPS.Low != base*101 || row.TPS.High != base*106 {
			t.Errorf("%s: %+v", row.Name(), row)
		}
		if row.TPSSettled.Median != row.TPS.Median/2 || row.P99.Median != 3.5e6 || row.BatchSize != 35 || row.Settings.Synchronous != row.Synchronous {
			t.Errorf("%s: %+v", row.Name(), row)
		}
		if r.Row(row.Scenario, row.Synchronous) != &r.Rows[k] || ran[k] != row.Name() || ran[8+k] != r.Rows[7-k].Name() {
			t.Errorf("%s is in another place; they ran as %q", row.Name(), ran)
		}
	}
	if r.Row("savepoint", "off") != nil {
		t.Error("there is a row that nobody measured")
	}
	if r.Load.RandomSeed != 6 || r.Load.Stages == nil || r.Load.Scripts == nil || r.Locality.LeafPages != 7 {
		t.Errorf("load %+v, locality %+v", r.Load, r.Locality)
	}
}

// The published table: each scenario at both durabilities, and FULL never above NORMAL.
func TestArticleCells(t *testing.T) {
	if len(ArticleCells) != 8 {
		t.Fatalf("%d cells", len(ArticleCells))
	}
	for k := 0; k < 8; k += 2 {
		normal, full := ArticleCells[k], ArticleCells[k+1]
		if normal.Scenario != full.Scenario || normal.Title != full.Title || normal.Synchronous != "normal" || full.Synchronous != "full" ||
			full.Published <= 0 || full.Published > normal.Published || normal.Engine != "sqlite" || full.Engine != "sqlite" {
			t.Errorf("%+v and %+v", normal, full)
		}
	}
	if name := ArticleCells[5].Name(); name != "savepoint FULL" {
		t.Errorf("name %q", name)
	}
}

func TestArticleDoubts(t *testing.T) {
	r, err := Article(t.Context(), ArticleConfig{Transactions: 5000, Rounds: 2, Run: articleRun(func(cell ArticleCell, round int, r *tps.Result) {
		r.Acknowledged = 5000
		switch cell.Name() {
		case "batch NORMAL":
			if round == 2 {
				r.Acknowledged = 4999
			}
		case "savepoint FULL":
			r.Settings.CacheSize = 5
		case "mixed FULL":
			r.Warnings = []string{"the disk was slow"}
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		fewRounds(2, 0.5),
		"5000 transactions are less than one batch of 10000: use more (-n)",
		"batch NORMAL: 4999 and not 5000 transactions were acknowledged in round 2",
		"savepoint FULL ran with other settings than unbatched NORMAL: cache_size=5 and not 0",
		"mixed FULL: the disk was slow (in 2 of 2 runs)",
	}
	if !slices.Equal(r.Warnings, want) {
		t.Errorf("warnings %q, want %q", r.Warnings, want)
	}
}

// What a cell shows may not be of another durability than its row says.
func TestArticleWrongDurability(t *testing.T) {
	r, err := Article(t.Context(), ArticleConfig{Transactions: 1, Rounds: 3, Run: articleRun(func(cell ArticleCell, round int, r *tps.Result) {
		if cell.Name() == "batch FULL" && round == 2 {
			r.Settings.Synchronous = "normal"
		}
	})})
	if err == nil || !strings.Contains(err.Error(), "batch FULL in round 2: it ran with synchronous=normal") {
		t.Fatalf("error %v", err)
	}
	if r.Rounds != 1 || len(r.Rows) != 8 {
		t.Errorf("%d rounds, %d rows: what was whole until then is lost", r.Rounds, len(r.Rows))
	}
}

func TestArticleEnds(t *testing.T) {
	failed := errors.New("no room")
	for name, c := range map[string]struct {
		run         func(cancel context.CancelFunc, cell ArticleCell, round int, r *tps.Result) error
		rounds      int
		interrupted bool
		err         error
	}{
		"interrupted": {func(cancel context.CancelFunc, cell ArticleCell, round int, r *tps.Result) error {
			if r.Interrupted = round == 3 && cell.Name() == "batch FULL"; r.Interrupted {
				cancel()
			}
			return nil
		}, 2, true, nil},
		"before the first round is whole": {func(cancel context.CancelFunc, _ ArticleCell, _ int, _ *tps.Result) error {
			cancel()
			return nil
		}, 0, true, nil},
		"the proof fails": {func(_ context.CancelFunc, _ ArticleCell, round int, r *tps.Result) error {
			r.Verify.OK = round < 2
			return nil
		}, 1, false, nil},
		"an error": {func(_ context.CancelFunc, _ ArticleCell, round int, _ *tps.Result) error {
			if round == 4 {
				return failed
			}
			return nil
		}, 3, false, failed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			run := articleRun(nil)
			r, err := Article(ctx, ArticleConfig{Transactions: 100_000, Rounds: 4, Run: func(ctx context.Context, cell ArticleCell, round int) (*tps.Result, error) {
				res, err := run(ctx, cell, round)
				if wrong := c.run(cancel, cell, round, res); wrong != nil {
					return nil, wrong
				}
				return res, err
			}})
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v", err)
			}
			if r.Rounds != c.rounds || r.Interrupted != c.interrupted || (len(r.Rows) == 8) != (c.rounds > 0) || r.Rows == nil || len(r.Warnings) == 0 {
				t.Errorf("%d rounds, interrupted %v, %d rows, warnings %q", r.Rounds, r.Interrupted, len(r.Rows), r.Warnings)
			}
		})
	}
}

func TestArticleRefused(t *testing.T) {
	for says, cfg := range map[string]ArticleConfig{
		"-n must be at least 1":       {Run: articleRun(nil)},
		"trials: Run is needed":       {Transactions: 1},
		"--rounds must be from 1 to ": {Transactions: 1, Run: articleRun(nil), Rounds: MaxRounds + 1},
	} {
		var wrong tps.ConfigError
		if r, err := Article(t.Context(), cfg); r != nil || !errors.As(err, &wrong) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
