package report

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// measured is a ceiling of made-up arms: TPS by batch of the C loop, of direct as a
// share of that, and of the burst. The rounds differ by a few percent, each in its
// own way for each arm.
type measured struct {
	rounds, asBurst int
	loop            func(batch int) float64
	direct, burst   float64
	change          func(arm string, round int, r *tps.Result)
}

func (m measured) result(t *testing.T) *trials.CeilingResult {
	t.Helper()
	run := func(arm string, k, round int, speed float64) (*tps.Result, error) {
		r := burst()
		r.TPS = speed * (1 + 0.01*float64((round*(k+2))%5))
		r.TPSSettled = 0.96 * r.TPS
		r.Writer.BatchSize.Mean = float64(m.asBurst)
		if m.change != nil {
			m.change(arm, round, r)
		}
		return r, nil
	}
	r, err := trials.Ceiling(t.Context(), trials.CeilingConfig{
		Transactions: 100_000, Rounds: m.rounds,
		Loop: func(_ context.Context, round, batch int) (*tps.Result, error) {
			return run("loop", batch, round, m.loop(batch))
		},
		Direct: func(_ context.Context, round, batch int) (*tps.Result, error) {
			return run("direct", 3, round, m.direct*m.loop(batch))
		},
		Burst: func(_ context.Context, round int) (*tps.Result, error) { return run("burst", 1, round, m.burst) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.StartedAt = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	r.Argv = []string{"ceiling", "-n", "100k"}
	return r
}

// ceilings are the cases that the golden files show.
func ceilings(t *testing.T) map[string]*trials.CeilingResult {
	loop := func(batch int) float64 { return 175_000 * float64(batch) / float64(batch+900) }
	usual := measured{rounds: 6, asBurst: 7692, loop: loop, direct: 0.85, burst: 118_000}
	few := usual
	few.rounds, few.burst = 3, 170_000
	few.change = func(arm string, round int, r *tps.Result) {
		if arm == "burst" {
			r.Warnings = []string{"garbage collector: the program stood still for 30ms of 400ms"}
		}
		r.Settings.Synchronous = "normal"
	}
	small := measured{rounds: 6, asBurst: 1_000_000, loop: func(int) float64 { return 2_000_000 }, direct: 1, burst: 2_200_000}
	failed := usual
	failed.change = func(_ string, round int, r *tps.Result) {
		if round == 3 {
			r.Verify.OK, r.Verify.Detail = false, "account 17 differs"
		}
	}
	nothing := usual
	nothing.change = func(arm string, _ int, r *tps.Result) { r.Interrupted = arm == "burst" }
	interrupted := usual
	interrupted.change = func(_ string, round int, r *tps.Result) { r.Interrupted = round == 6 }
	return map[string]*trials.CeilingResult{
		"usual": usual.result(t), "few": few.result(t), "faster": small.result(t), "failed": failed.result(t),
		"nothing": nothing.result(t), "interrupted": interrupted.result(t),
	}
}

func TestCeiling(t *testing.T) {
	for name, r := range ceilings(t) {
		t.Run(name, func(t *testing.T) {
			plain, colored := rendered(t, Ceiling(r, false)), rendered(t, Ceiling(r, true))
			golden(t, "ceiling-"+name, plain)
			if strings.Contains(plain, "\x1b") || escape.ReplaceAllString(colored, "") != plain || colored == plain {
				t.Error("colours change more or less than the colour")
			}
			fits(t, plain)
		})
	}
}

func TestCeilingJSON(t *testing.T) {
	text := rendered(t, JSON(ceilings(t)["few"]))
	golden(t, "ceiling-json", text)
	var back trials.CeilingResult
	if err := json.Unmarshal([]byte(text), &back); err != nil {
		t.Fatal(err)
	}
	if again := rendered(t, JSON(back)); again != text {
		t.Errorf("it came back as %s", again)
	}
}

func TestCost(t *testing.T) {
	for want, r := range map[string]trials.CeilingRatio{
		"costs 26 % (22 to 30 %)":             {Ratio: 0.74, Low: 0.70, High: 0.78},
		"costs 2 % (-1 to 5 %) ~ (p = 0.31)":  {Ratio: 0.98, Low: 0.95, High: 1.01, P: 0.31, Noise: true},
		"gains 10 % (2 to 18 %)":              {Ratio: 1.10, Low: 1.02, High: 1.18},
		"costs 0 % (-3 to 3 %) ~ (p = 1)":     {Ratio: 1, Low: 0.97, High: 1.03, P: 1, Noise: true},
		"gains 1 % (-5 to 7 %) ~ (p = 0.055)": {Ratio: 1.01, Low: 0.95, High: 1.07, P: 0.0551, Noise: true},
	} {
		if got := cost(&r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
