package cloop

import (
	"testing"
	"time"

	"github.com/tpssim/tpssim/internal/wal"
)

// What the loop makes of a checkpoint's cost is what wal.Limit makes of it, whether
// it was dear, cheap or in between.
func TestRunAdaptsTheLimit(t *testing.T) {
	const most, first = 2400, 600
	path := database(t)
	c := openLoop(t, path)
	cfg := draw(420) // of one page or two each: one checkpoint, and not a second at half the limit
	cfg.Batch, cfg.CheckpointMost = 1, most
	done := 0
	run := func(stall time.Duration, start int) Result {
		t.Helper()
		if _, err := c.Settle(); err != nil {
			t.Fatal(err)
		}
		cfg.CheckpointStall, cfg.CheckpointFirst = stall, start
		got, err := c.Run(t.Context(), cfg)
		if err != nil || got.Checkpoints != 1 || got.CheckpointPages < first || got.CheckpointPages > first+1 {
			t.Fatalf("%+v, %v", got, err)
		}
		done++
		return got
	}
	took := run(time.Hour, 0).CheckpointTime
	seen := map[int]bool{}
	for _, stall := range []time.Duration{1, took / 4, took * 2 / 3, took * 4 / 5, took * 3 / 2, took * 3, time.Hour} {
		got := run(stall, 0)
		want := wal.Limit{Most: most, Stall: stall}
		want.Took(int(got.CheckpointPages), got.CheckpointTime)
		if got.CheckpointLimit != want.Pages() {
			t.Errorf("after %d pages in %v of %v the limit is %d, want %d",
				got.CheckpointPages, got.CheckpointTime, stall, got.CheckpointLimit, want.Pages())
		}
		seen[got.CheckpointLimit] = true
	}
	if !seen[first/2] || !seen[first+first/4] {
		t.Errorf("the limits became %v, want some that shrank and some that grew", seen)
	}
	if got := run(0, first); got.CheckpointLimit != first {
		t.Errorf("without a time to keep it became %d", got.CheckpointLimit)
	}
	whole := Config{}
	for range done {
		whole.From, whole.To = append(whole.From, cfg.From...), append(whole.To, cfg.To...)
		whole.Amount = append(whole.Amount, cfg.Amount...)
	}
	mustHold(t, path, whole, done*len(cfg.From))
}

// The limit goes no lower than wal.Least, nor above the most, and the next loop goes
// on from where it was.
func TestRunKeepsTheLimitInBounds(t *testing.T) {
	for _, tt := range []struct {
		most, first int
		stall       time.Duration
		want        int
	}{
		{100, 0, 1, 100}, {100, 0, time.Hour, 100}, {100, 50, time.Hour, 100}, {300, 0, 1, wal.Least},
		{1000, 280, 1, wal.Least}, {310, 300, time.Hour, 310}, {1000, 300, time.Hour, 375},
	} {
		c := openLoop(t, database(t))
		cfg := draw(320)
		cfg.Batch = 1
		cfg.CheckpointMost, cfg.CheckpointFirst, cfg.CheckpointStall = tt.most, tt.first, tt.stall
		if got, err := c.Run(t.Context(), cfg); err != nil || got.Checkpoints < 1 || got.CheckpointLimit != tt.want {
			t.Errorf("%+v: %+v, %v", tt, got, err)
		}
	}
}

// A checkpoint that a reader hindered, or that waited although the policy does not,
// tells nothing of what pages cost.
func TestRunLearnsNothingFromReaders(t *testing.T) {
	c := openLoop(t, database(t))
	reader := other(t, c.path)
	for _, sql := range []string{"BEGIN", "SELECT 1 FROM account"} {
		if err := reader.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	cfg := draw(800)
	cfg.Batch, cfg.CheckpointMost, cfg.CheckpointFirst, cfg.CheckpointStall = 20, 300, 300, 1
	got, err := c.Run(t.Context(), cfg)
	if err != nil || got.Checkpoints < 1 || got.CheckpointLimit != 300 {
		t.Errorf("hindered: %+v, %v", got, err)
	}
	if err := reader.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Settle(); err != nil {
		t.Fatal(err)
	}
	cfg = draw(1000)
	cfg.Batch, cfg.CheckpointMost, cfg.CheckpointFirst, cfg.CheckpointStall = 20, 2, 1, time.Hour
	got, err = c.Run(t.Context(), cfg) // each batch is larger than four times the most
	if err != nil || got.Checkpoints != 49 || got.CheckpointLimit != 1 {
		t.Errorf("by force: %+v, %v", got, err)
	}
}
