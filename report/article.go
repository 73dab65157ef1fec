package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// articleFlaws are what is wrong with the measurement of the article that
// [trials.ArticleCells] names, by its text, its code and its critics, and what is done
// here instead.
var articleFlaws = []struct{ original, here string }{
	{
		"Its reads are started, but nobody waits for them.",
		"Each caller awaits its three reads before its transaction counts.",
	}, {
		"Its rollback, ROLLBACK name, is an error of syntax.",
		"ROLLBACK TO name and RELEASE name, with a test for each way in which a transaction can end.",
	}, {
		"None of its transactions ever fails.",
		"None fails in this table either; tpssim run --fail-rate 0.01 --panic-rate 0.01 lets some, and proves that nothing of them is left.",
	}, {
		"SQLite's transactions never wait for anything, only those of the server beside it do.",
		"None waits in this table either; tpssim run --think 1ms makes SQLite's wait too, and says what that costs.",
	}, {
		"One run, without a warm-up.",
		"Rounds in which the cells take turns, forwards and backwards, each behind a burst that warms up; medians with their intervals.",
	}, {
		"The number of transactions differs from figure to figure.",
		"The same number in each cell, and in each round the same transfers.",
	}, {
		"Nobody looks whether money was lost.",
		"Every account that was touched is proved after every run.",
	}, {
		"No latency.",
		"p99 stands in the Markdown, the CSV and the JSON. In a burst it is the length of the queue: tpssim run -R 3000 -d 30s measures it at a rate.",
	}, {
		"No batch sizes.",
		"The mean batch stands beside each figure.",
	}, {
		"No word of the WAL and its checkpoints.",
		"The settled figure counts the time until the WAL is checkpointed too.",
	}, {
		"Its headline is that of NORMAL, where a crash of the machine may lose commits.",
		"FULL stands beside NORMAL, and is what tpssim does unless told otherwise.",
	}, {
		"Its hot accounts lie side by side: of a billion rows about a thousand pages are used.",
		"The pages that were touched are counted above; --layout scattered and --dist uniform use others.",
	}, {
		"All that it uses fits into memory.",
		"With a table larger than that, --dist uniform --cache cold shows what the disk makes of it, and --prefetch 32 what helps.",
	}, {
		"Its key has no type, so that each UPDATE goes through an index to the row.",
		"The key is the row's own number; tpssim seed --schema article makes the article's two trees.",
	}, {
		"Nothing is known of crashes.",
		"With FULL nobody is told of a COMMIT before it was synced; the writer is tested by kill -9.",
	},
}

// Article renders the article's table for a person: the main figures in the first
// line, then the table with the published figures beside it, what the two durabilities
// promise, what the figures rest on, every doubt, and what is done otherwise than in
// the article. Lines stay within 80 columns. With color the first line, the proof and
// the warnings stand out.
func Article(r *trials.ArticleResult, color bool) Renderer {
	return func(w io.Writer) error {
		p := &page{color: color}
		text, shade := articleAnswer(r)
		for _, line := range wrap(text, columns) {
			fmt.Fprintln(p, p.paint(shade, line))
		}
		if len(r.Rows) > 0 {
			p.WriteByte('\n')
			p.grid(articleGrid(r))
			p.WriteByte('\n')
			for k, row := range r.Rows { // what Markdown has room for in the table
				if row.Title != row.Scenario && (k == 0 || row.Scenario != r.Rows[k-1].Scenario) {
					p.text(row.Scenario, plain, "%s", row.Title)
				}
			}
			for _, n := range articleNotes(r) {
				p.text(n.label, n.color, "%s", n.text)
			}
		}
		p.outcome(&tps.Result{Verify: r.Verify, Warnings: r.Warnings})
		if len(r.Rows) > 0 {
			p.WriteString("\n" + articleFlawsTitle + ":\n")
			for _, f := range articleFlaws {
				p.WriteByte('\n')
				p.bullet(f.original)
				p.bullet("Here: " + f.here)
			}
		}
		_, err := w.Write(p.Bytes())
		return err
	}
}

const articleFlawsTitle = "What is wrong with the original, and what is done here instead"

// bullet writes a paragraph, two blanks before each line.
func (p *page) bullet(text string) {
	for _, line := range wrap(text, columns-2) {
		fmt.Fprintf(p, "  %s\n", line)
	}
}

// ArticleAs renders the article's table as csv or markdown.
func ArticleAs(format string, r *trials.ArticleResult) (Renderer, error) {
	switch format {
	case "csv":
		return articleGrid(r).csv(), nil
	case "markdown":
		return articleMarkdown(r), nil
	}
	return nil, fmt.Errorf("report: the article's table has no format %q: choose csv or markdown", format)
}

// articleMarkdown renders what Article does, as Markdown.
func articleMarkdown(r *trials.ArticleResult) Renderer {
	return func(w io.Writer) error {
		p := &page{}
		text, _ := articleAnswer(r)
		fmt.Fprintf(p, "**%s**\n\n", text)
		notes := articleOutcome(r)
		if len(r.Rows) > 0 {
			articleGrid(r).markdown(p)
			p.WriteByte('\n')
			notes = append(articleNotes(r), notes...)
		}
		for _, n := range notes {
			fmt.Fprintf(p, "- **%s**: %s\n", n.label, n.text)
		}
		if len(r.Rows) > 0 {
			fmt.Fprintf(p, "\n%s:\n\n", articleFlawsTitle)
			flaws := &grid{columns: []column{{title: "the original"}, {title: "here"}}}
			for _, f := range articleFlaws {
				flaws.add(words(f.original), words(f.here))
			}
			flaws.markdown(p)
		}
		_, err := w.Write(p.Bytes())
		return err
	}
}

// articleAnswer is the first line, and the colour for it.
func articleAnswer(r *trials.ArticleResult) (text, color string) {
	full, normal := r.Row("savepoint", "full"), r.Row("savepoint", "normal")
	switch {
	case r.Verify.Checked && !r.Verify.OK:
		return "The proof FAILED: nothing that was measured counts", red
	case full == nil || normal == nil:
		text = "Nothing is known of the article's table here: no round was finished"
		if r.Interrupted {
			text += ", as it was interrupted"
		}
		return text, yellow
	}
	text = fmt.Sprintf("Batches with savepoints carry %s transactions a second here with synchronous=FULL, and %s with NORMAL",
		rate(full.TPS.Median), rate(normal.TPS.Median))
	more, _ := articleDurability(r, *full)
	if less, _ := articleDurability(r, *normal); less != more {
		text += ", which promises less"
	}
	if r.Interrupted {
		text += "; interrupted after " + plural(int64(r.Rounds), "round")
	}
	return text, bold
}

// articleGrid is the table.
func articleGrid(r *trials.ArticleResult) *grid {
	g := &grid{columns: []column{
		{name: "engine"}, {name: "scenario", title: "scenario"}, {name: "title", title: "what it is", wide: true},
		{name: "synchronous", title: "sync"}, {name: "durability"},
		{name: "tps", title: "TPS", right: true}, {name: "tps_low"}, {name: "tps_high"}, {title: "low to high", right: true},
		{name: "tps_settled", title: "settled", right: true}, {name: "tps_settled_low"}, {name: "tps_settled_high"},
		{name: "batch_size", title: "batch", right: true}, {name: "p99_ns", title: "p99", right: true, wide: true},
		{name: "transactions"}, {name: "rounds"},
		{name: "published_tps_another_machine", title: "another machine", right: true},
	}}
	figure := func(v float64) cell { return cell{text: rate(v), value: v} }
	for _, row := range r.Rows {
		promise, _ := articleDurability(r, row)
		span := compact(int64(math.Round(row.TPS.Low))) + " to " + compact(int64(math.Round(row.TPS.High)))
		g.add(words(row.Engine), words(row.Scenario), words(row.Title),
			cell{text: strings.ToUpper(row.Synchronous), value: row.Synchronous}, words(promise),
			figure(row.TPS.Median), figure(row.TPS.Low), figure(row.TPS.High), cell{text: span},
			figure(row.TPSSettled.Median), figure(row.TPSSettled.Low), figure(row.TPSSettled.High),
			cell{text: mean(row.BatchSize), value: row.BatchSize}, cell{text: short(nanoseconds(row.P99.Median)), value: nanoseconds(row.P99.Median)},
			cell{value: r.Transactions}, cell{value: r.Rounds}, figure(row.Published))
	}
	return g
}

// nanoseconds is a figure of times as a time.
func nanoseconds(v float64) time.Duration { return time.Duration(math.Round(v)) }

// articleDurability is what a row's acknowledgements are worth.
func articleDurability(r *trials.ArticleResult, row trials.ArticleRow) (promise, color string) {
	return durability(row.Settings, r.Env)
}

// articleNote is a line that stands below the table.
type articleNote struct{ label, text, color string }

// articleNotes say what the table is about and what it rests on.
func articleNotes(r *trials.ArticleResult) (notes []articleNote) {
	add := func(label, format string, args ...any) {
		notes = append(notes, articleNote{label, fmt.Sprintf(format, args...), plain})
	}
	for _, synchronous := range []string{"normal", "full"} {
		if row := r.Row("savepoint", synchronous); row != nil {
			promise, color := articleDurability(r, *row)
			notes = append(notes, articleNote{strings.ToUpper(synchronous), promise, color})
		}
	}
	add("published", "under \"another machine\": the article's figures, of another program and 1,000,000 transactions on %s; nothing to divide by", trials.ArticleMachine)
	l, s, e, loc := r.Load, r.Rows[len(r.Rows)-1].Settings, r.Env, r.Locality
	rounds := "1 round, which has no interval"
	if r.Rounds > 1 {
		rounds = fmt.Sprintf("%s, interleaved: medians, and intervals that hold them with %.3g %% confidence", plural(int64(r.Rounds), "round"), 100*r.Rows[0].TPS.Confidence)
	}
	add("rounds", "%s", rounds)
	load := fmt.Sprintf("%s in each cell and round", plural(r.Transactions, "transaction"))
	if l.Rows > 0 {
		load += fmt.Sprintf(", %s keys of %s, %s, cache %s, random seed %d in the last round", strings.TrimSpace(l.Dist+" "+l.DistParameters), plural(l.Rows, "account"), l.Layout, l.Cache, l.RandomSeed)
	}
	add("load", "%s", load)
	if loc.LeafPages > 0 {
		add("touched", "%s on %s of %s leaf pages of the table (%s)",
			plural(loc.AccountsTouched, "account"), count(loc.LeafPagesTouched), count(loc.LeafPages), percent(loc.LeafPagesTouched, loc.LeafPages))
	}
	add("database", "SQLite %s, %s, page_size=%d, cache_size=%d, checkpoint %s, %s, batches of at most %s",
		e.SQLite, size(e.DBBytes), s.PageSize, s.CacheSize, s.Checkpoint, plural(int64(s.Readers), "reader"), count(int64(s.MaxBatch)))
	add("machine", "%s, %s, %s memory, %s, %s, GOMAXPROCS=%d, GOGC=%d", e.CPU, plural(int64(e.CPUs), "CPU"), size(e.MemoryBytes), e.Filesystem, e.Go, e.GOMAXPROCS, e.GOGC)
	return notes
}

// articleOutcome is what the proof and the warnings say.
func articleOutcome(r *trials.ArticleResult) (notes []articleNote) {
	proof, v := "not checked", r.Verify
	switch {
	case v.OK:
		proof = "ok: " + holds(v) + " what was acknowledged, and nothing else"
	case v.Checked:
		proof = "FAILED: " + v.Detail
	}
	notes = append(notes, articleNote{label: "proof", text: proof})
	for _, warning := range r.Warnings {
		notes = append(notes, articleNote{label: "warning", text: warning})
	}
	return notes
}
