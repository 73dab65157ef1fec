package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tpssim/tpssim/trials"
)

// endsAt cancels a context as soon as some text is written to it.
type endsAt struct {
	bytes.Buffer
	text   string
	cancel context.CancelFunc
}

func (e *endsAt) Write(p []byte) (int, error) {
	n, err := e.Buffer.Write(p)
	if strings.Contains(e.String(), e.text) {
		e.cancel()
	}
	return n, err
}

// Ctrl-C during the rounds: the whole ones are printed and kept.
func TestInterruptedArticle(t *testing.T) {
	for _, c := range []struct {
		until, says string
		rounds      int
	}{
		{" left\n", "interrupted after 1 round ", 1},
		{"round 1 of 1000: batch FULL: ", "no round was finished, as it was interrupted ", 0},
	} {
		t.Run(strings.TrimSpace(c.until), func(t *testing.T) {
			path, out := seeded(t), filepath.Join(t.TempDir(), "a.jsonl")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stderr := &endsAt{text: c.until, cancel: cancel}
			var stdout bytes.Buffer
			code := run(ctx, []string{"article", "--db", path, "--dist", "uniform", "-n", "20", "--runs", "1000", "-o", out}, &stdout, stderr)
			said := strings.Join(strings.Fields(stdout.String()), " ") // lines break where they are full
			if code != exitInterrupted || !strings.Contains(said, c.says) || !strings.Contains(said, "proof ok: ") {
				t.Errorf("exit code %d, stderr %q, stdout:\n%s", code, stderr, &stdout)
			}
			var res trials.ArticleResult
			if line, err := os.ReadFile(out); err != nil || json.Unmarshal(line, &res) != nil {
				t.Fatalf("%q, error %v", line, err)
			}
			if !res.Interrupted || res.Rounds != c.rounds || res.RoundsPlanned != 1000 || len(res.Argv) == 0 {
				t.Errorf("%d of %d rounds, interrupted %v, argv %q", res.Rounds, res.RoundsPlanned, res.Interrupted, res.Argv)
			}
			whole(t, path)
		})
	}
}

// Every cell runs as its row says, whatever the others are: what the flags come to is
// read back from the database.
func TestArticleCells(t *testing.T) {
	code, stdout, stderr := invoke(t, "article", "--db", seeded(t), "--dist", "uniform", "-n", "30", "--runs", "1", "--format", "json", "-q")
	var res trials.ArticleResult
	if err := json.Unmarshal([]byte(stdout), &res); err != nil || code != exitOK || len(res.Rows) != len(trials.ArticleCells) {
		t.Fatalf("exit code %d, error %v, stderr %q", code, err, stderr)
	}
	for _, row := range res.Rows {
		batch, savepoints := trials.ArticleBatch, "each"
		switch row.Scenario {
		case "unbatched":
			batch, savepoints = 1, "none"
		case "batch":
			savepoints = "none"
		}
		s := row.Settings
		if s.Synchronous != row.Synchronous || s.JournalMode != "wal" || s.MaxBatch != batch || s.Savepoints != savepoints ||
			s.Readers != trials.ArticleReaders || s.CacheSize != -trials.ArticleCacheBytes/1024 {
			t.Errorf("%s ran with %+v", row.Name(), s)
		}
		if row.TPS.N != 1 || row.TPS.Median <= 0 || row.TPSSettled.Median <= 0 || row.P99.Median <= 0 || row.BatchSize < 1 || (row.Scenario == "unbatched") != (row.BatchSize == 1) {
			t.Errorf("%s: %+v", row.Name(), row)
		}
	}
	if res.Load.Transactions != 30 || res.Transactions != 30 || res.Locality.AccountsTouched == 0 || !res.Verify.OK {
		t.Errorf("load %+v, locality %+v, verify %+v", res.Load, res.Locality, res.Verify)
	}
}

func TestArticleUsage(t *testing.T) {
	for args, says := range map[string]string{
		"--runs 0":     "--runs 0: it must be 1 or more",
		"-n 0":         "-n 0: it must be 1 or more",
		"-n 1e12":      "is too many goroutines for one burst",
		"--sync full":  "unknown flag: --sync (tpssim article --help lists the flags)",
		"--readers 0":  "--readers 0: it must be 1 or more",
		"--theta 0.5":  "--theta belongs to --dist zipfian",
		"--format xml": `"xml" is none of text, markdown, csv, json`,
		"savepoint":    "tpssim article takes no arguments",
	} {
		t.Chdir(t.TempDir())
		code, stdout, stderr := invoke(t, append([]string{"article"}, strings.Fields(args)...)...)
		if code != exitUsage || complaint(stdout, stderr) != "" || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, %q does not say %q", args, code, stderr, says)
		}
	}
}
