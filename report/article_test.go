package report

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// articleSpeeds are made-up speeds of trials.ArticleCells.
var articleSpeeds = []float64{18_000, 4_800, 190_000, 171_000, 131_000, 118_000, 101_000, 92.5}

// articleResult is the table of a made-up machine.
func articleResult(t *testing.T, rounds int, change func(cell trials.ArticleCell, round int, r *tps.Result)) *trials.ArticleResult {
	t.Helper()
	r, err := trials.Article(t.Context(), trials.ArticleConfig{
		Transactions: 100_000, Rounds: rounds,
		Run: func(_ context.Context, cell trials.ArticleCell, round int) (*tps.Result, error) {
			k := slices.Index(trials.ArticleCells, cell)
			r := burst()
			r.TPS = articleSpeeds[k] * (1 + 0.01*float64((round*(k+2))%5))
			r.TPSSettled = 0.96 * r.TPS
			r.Settings.Synchronous, r.Settings.Readers = cell.Synchronous, trials.ArticleReaders
			if cell.Scenario == "unbatched" {
				r.Writer.BatchSize.Mean, r.Settings.MaxBatch = 1, 1
			}
			if change != nil {
				change(cell, round, r)
			}
			return r, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.StartedAt = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	r.Argv = []string{"article"}
	return r
}

// articles are the cases that the golden files show.
func articles(t *testing.T) map[string]*trials.ArticleResult {
	return map[string]*trials.ArticleResult{
		"usual": articleResult(t, 6, nil),
		"few": articleResult(t, 2, func(_ trials.ArticleCell, _ int, r *tps.Result) {
			r.Env.Filesystem = "tmpfs"
			r.Warnings = []string{"the database lies in memory | nothing is durable here"}
		}),
		"failed": articleResult(t, 6, func(_ trials.ArticleCell, round int, r *tps.Result) {
			if round == 3 {
				r.Verify.OK, r.Verify.Detail = false, "account 17 differs"
			}
		}),
		"interrupted": articleResult(t, 6, func(_ trials.ArticleCell, round int, r *tps.Result) { r.Interrupted = round == 6 }),
		"nothing":     articleResult(t, 6, func(_ trials.ArticleCell, _ int, r *tps.Result) { r.Interrupted = true }),
	}
}

func TestArticle(t *testing.T) {
	for name, r := range articles(t) {
		t.Run(name, func(t *testing.T) {
			plain, colored := rendered(t, Article(r, false)), rendered(t, Article(r, true))
			golden(t, "article-"+name, plain)
			if strings.Contains(plain, "\x1b") || escape.ReplaceAllString(colored, "") != plain || colored == plain {
				t.Error("colours change more or less than the colour")
			}
			fits(t, plain)
		})
	}
}

// Whatever the format: both durabilities are told apart, and the published figures are
// there, called another machine's.
func TestArticleFormats(t *testing.T) {
	for name, r := range articles(t) {
		for _, format := range []string{"markdown", "csv"} {
			as, err := ArticleAs(format, r)
			if err != nil {
				t.Fatal(err)
			}
			text := rendered(t, as)
			golden(t, "article-"+name+"-"+format, text)
			if len(r.Rows) == 0 {
				continue
			}
			for _, want := range []string{"another", "commits", "synced", "FULL", "44096"} {
				if format == "csv" {
					want = strings.ReplaceAll(want, "FULL", "full")
				}
				found := strings.ReplaceAll(text, ",", "")
				if name != "few" && !strings.Contains(found, want) { // memory is durable for nobody
					t.Errorf("%s as %s does not say %q", name, format, want)
				}
			}
		}
	}
	if _, err := ArticleAs("html", &trials.ArticleResult{}); err == nil || !strings.Contains(err.Error(), `no format "html": choose csv or markdown`) {
		t.Errorf("error %v", err)
	}
}

// The CSV has the figures in full, those of the JSON.
func TestArticleCSV(t *testing.T) {
	r := articleResult(t, 6, nil)
	as, err := ArticleAs("csv", r)
	if err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(strings.NewReader(rendered(t, as))).ReadAll()
	if err != nil || len(records) != 9 {
		t.Fatalf("%d records, error %v", len(records), err)
	}
	for k, row := range r.Rows {
		for column, want := range map[string]float64{
			"tps": row.TPS.Median, "tps_low": row.TPS.Low, "tps_high": row.TPS.High, "tps_settled": row.TPSSettled.Median,
			"batch_size": row.BatchSize, "p99_ns": row.P99.Median, "published_tps_another_machine": row.Published, "rounds": 6,
		} {
			at := slices.Index(records[0], column)
			if at < 0 {
				t.Fatalf("no column %s in %q", column, records[0])
			}
			if got, err := strconv.ParseFloat(records[k+1][at], 64); err != nil || got != want {
				t.Errorf("%s of %s is %s, want %v", column, row.Name(), records[k+1][at], want)
			}
		}
	}
}

func TestArticleJSON(t *testing.T) {
	text := rendered(t, JSON(articles(t)["few"]))
	golden(t, "article-json", text)
	var back trials.ArticleResult
	if err := json.Unmarshal([]byte(text), &back); err != nil {
		t.Fatal(err)
	}
	if again := rendered(t, JSON(back)); again != text {
		t.Errorf("it came back as %s", again)
	}
}
