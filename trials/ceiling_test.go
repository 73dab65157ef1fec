package trials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tpssim/tpssim/tps"
)

// machine makes up what the arms of a ceiling measure. Each round is a little
// faster than the one before, for all arms.
type machine struct {
	loop   map[int]float64 // TPS of a C loop by its batch
	direct float64         // as a share of the loop's
	burst  float64         // TPS
	batch  float64         // the burst's mean
	calls  []string
	change func(arm string, round int, r *tps.Result) // nil: nothing
}

func newMachine() *machine {
	return &machine{loop: map[int]float64{1000: 90_000, 10_000: 160_000, 8333: 150_000}, direct: 0.8, burst: 120_000, batch: 8333.3}
}

func (m *machine) result(arm string, round int, tpsOf float64, err error) (*tps.Result, error) {
	r := &tps.Result{
		TPS: tpsOf * (1 + float64(round)/8), Acknowledged: 100_000,
		Settings: tps.Settings{JournalMode: "wal", Synchronous: "full", PageSize: 4096, CacheSize: -65536, Checkpoint: "pages:4000"},
		Env:      tps.Env{CPUs: 2}, Load: tps.Load{Rows: 1_000_000, RandomSeed: 7},
		Verify: tps.Verify{Checked: true, OK: true, Conserved: true, AccountsChecked: 61_000},
	}
	r.TPSSettled = r.TPS / 2
	if arm == "burst" {
		r.Writer.BatchSize.Mean, r.Settings.Queue = m.batch, 1<<20
	}
	m.calls = append(m.calls, fmt.Sprint(arm, " ", round))
	if m.change != nil {
		m.change(arm, round, r)
	}
	return r, err
}

func (m *machine) config(rounds int) CeilingConfig {
	return CeilingConfig{
		Transactions: 100_000, Rounds: rounds, Warmup: true,
		Loop: func(_ context.Context, round, batch int) (*tps.Result, error) {
			return m.result(fmt.Sprint("loop ", batch), round, m.loop[batch], nil)
		},
		Direct: func(_ context.Context, round, batch int) (*tps.Result, error) {
			return m.result(fmt.Sprint("direct ", batch), round, m.direct*m.loop[batch], nil)
		},
		Burst: func(_ context.Context, round int) (*tps.Result, error) { return m.result("burst", round, m.burst, nil) },
	}
}

// ceilingOf also checks what holds for every result.
func ceilingOf(t *testing.T, ctx context.Context, cfg CeilingConfig) (*CeilingResult, error) {
	t.Helper()
	r, err := Ceiling(ctx, cfg)
	if r == nil {
		t.Fatalf("no result: %v", err)
	}
	text, jsonErr := json.Marshal(r)
	if jsonErr != nil || strings.Contains(string(text), "null") || r.Schema != CeilingSchema || r.StartedAt.IsZero() {
		t.Errorf("as JSON it is %s, %v", text, jsonErr)
	}
	if (r.Rounds == 0) != (len(r.Arms) == 0) || (r.Ceiling == "") != (r.Rounds == 0) || (r.Rounds < r.RoundsPlanned) != slices.ContainsFunc(r.Warnings, func(w string) bool {
		return strings.Contains(w, "the rest was not finished")
	}) {
		t.Errorf("%+v", r)
	}
	for _, a := range r.Arms {
		if len(a.Values) != r.Rounds || a.Low > a.TPS || a.TPS > a.High || a.Batch < 1 {
			t.Errorf("%+v", a)
		}
	}
	return r, err
}

func TestCeiling(t *testing.T) {
	m := newMachine()
	r, err := ceilingOf(t, t.Context(), m.config(0))
	if err != nil || len(r.Warnings) > 0 || r.Interrupted {
		t.Fatalf("%q, %v", r.Warnings, err)
	}
	want := []string{"loop 1000 %d", "loop 10000 %d", "direct 10000 %d", "burst %d", "loop 8333 %d"}
	for round := range 1 + DefaultRounds {
		order := Order(5, round)
		for k, call := range m.calls[5*round : 5*round+5] {
			if call != fmt.Sprintf(want[order[k]], round) {
				t.Errorf("%q at place %d of round %d", call, k, round)
			}
		}
	}
	if r.Rounds != 6 || r.RoundsPlanned != 6 || r.Transactions != 100_000 || r.Ceiling != LoopLarge || r.Confidence != 0.96875 {
		t.Errorf("%+v", r)
	}
	burst := r.Arm(BurstArm)
	if burst.Batch != 8333 || burst.TPS != 120_000*(1+3.5/8) || burst.Low != 135_000 || burst.High != 210_000 || burst.TPSSettled != burst.TPS/2 || burst.Values[1] != 150_000 {
		t.Errorf("%+v", burst)
	}
	if direct := r.Arm(DirectArm); direct.Batch != 10_000 || r.Arm(LoopAsBurst).Batch != 8333 || r.Arm(LoopSmall).Batch != 1000 || r.Arm(LoopLarge).Batch != 10_000 {
		t.Errorf("%+v", r.Arms)
	}
	// The drift is in both of each pair.
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-9 }
	if !near(r.Ratio, 0.75) || !near(r.RatioLow, 0.75) || !near(r.RatioHigh, 0.75) {
		t.Errorf("the ratio is %v, from %v to %v", r.Ratio, r.RatioLow, r.RatioHigh)
	}
	names := ""
	for _, ratio := range r.Ratios {
		names += fmt.Sprintf("%s/%s %.3f;", ratio.Name, ratio.Of, ratio.Ratio)
	}
	if names != "c-loop 1,000/c-loop 10,000 0.562;direct/c-loop 10,000 0.800;burst/c-loop 10,000 0.750;c-loop at the burst's batch/c-loop 10,000 0.938;burst/c-loop at the burst's batch 0.800;" {
		t.Errorf("ratios %s", names)
	}
	if of := r.Of(LoopAsBurst, LoopLarge); !of.Noise || of.P <= Alpha { // 6 % are lost in the drift
		t.Errorf("%+v", of)
	}
	if of := r.Of(LoopSmall, LoopLarge); of.Noise || of.P > Alpha {
		t.Errorf("%+v", of)
	}
	if r.Of(BurstArm, DirectArm) != nil || r.Arm("another") != nil || r.LoopOf(LoopSmall) != "" || r.LoopOf(DirectArm) != LoopLarge {
		t.Error("there is more than was measured")
	}
	if r.Settings.Queue != 1<<20 || r.Env.CPUs != 2 || r.Load.RandomSeed != 7 || r.Verify.AccountsChecked != 61_000 || !r.Verify.OK {
		t.Errorf("%+v", r)
	}
}

// The first round decides on the batch of direct and all of them on the ceiling; the
// warm-up on nothing.
func TestCeilingSmall(t *testing.T) {
	m := newMachine()
	m.loop[1000], m.loop[10] = 170_000, 40_000
	m.change = func(arm string, round int, r *tps.Result) {
		switch {
		case round == 0 && arm == "burst":
			r.Writer.BatchSize.Mean = 10
		case round == 0 && arm == "loop 1000":
			r.TPS = 1
		}
	}
	r, err := ceilingOf(t, t.Context(), m.config(6))
	if err != nil || r.Ceiling != LoopSmall || r.Arm(DirectArm).Batch != 1000 || r.Arm(LoopAsBurst).Batch != 8333 || r.LoopOf(DirectArm) != LoopSmall || len(r.Warnings) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if !slices.Contains(m.calls, "direct 10000 0") || !slices.Contains(m.calls, "loop 10 0") || slices.Contains(m.calls, "loop 10 1") {
		t.Errorf("%q", m.calls)
	}
}

func TestCeilingWarns(t *testing.T) {
	for name, c := range map[string]struct {
		rounds int
		change func(m *machine, cfg *CeilingConfig)
		want   []string
	}{
		"few rounds": {5, func(*machine, *CeilingConfig) {}, []string{
			"5 rounds are few: the intervals are the lowest and the highest round and hold the median in 93.8 % of all cases; it takes 6 for 95 %"}},
		"too few rounds": {3, func(*machine, *CeilingConfig) {}, []string{
			"3 rounds are few: the intervals are the lowest and the highest round and hold the median in 75 % of all cases; it takes 6 for 95 %",
			"the burst and the ceiling cannot be told apart: need >= 4 samples to detect a difference at alpha level 0.05"}},
		"few transactions": {6, func(m *machine, cfg *CeilingConfig) {
			cfg.Transactions = 9_999
			m.change = func(_ string, _ int, r *tps.Result) { r.Acknowledged = 9_999 }
		}, []string{"9999 transactions are less than one batch of 10000: use more (-n)"}},
		"another ceiling": {6, func(m *machine, _ *CeilingConfig) {
			m.change = func(arm string, round int, r *tps.Result) {
				if arm == "loop 1000" && round == 1 {
					r.TPS = 1e6
				}
			}
			m.loop[8333] = 160_000
		}, []string{"direct has batches of 1000, as these were the fastest in the first round, but in all rounds the ceiling is c-loop 10,000"}},
		"another batch": {6, func(m *machine, _ *CeilingConfig) {
			m.change = func(arm string, round int, r *tps.Result) {
				if arm == "burst" && round > 1 {
					r.Writer.BatchSize.Mean = 4000
				}
			}
		}, []string{"the burst's mean batch was 8333 in the first round, but 4000 in the median one: what queueing costs is uncertain"}},
		"above the ceiling": {6, func(m *machine, _ *CeilingConfig) { m.loop[8333] = 320_000 },
			[]string{"the burst's own batch of 8333 is faster than the ceiling's in the C loop: 2 times"}},
		"failures": {6, func(m *machine, _ *CeilingConfig) {
			m.change = func(arm string, round int, r *tps.Result) {
				if arm == "burst" && round > 2 {
					r.Acknowledged = 99_988
				}
			}
		}, []string{"burst: 99988 and not 100000 transactions were acknowledged in round 3; so it went in 4 rounds"}},
		"other settings": {6, func(m *machine, _ *CeilingConfig) {
			m.change = func(arm string, round int, r *tps.Result) {
				if arm == "loop 10000" && round == 4 {
					r.Settings.Synchronous, r.Settings.CacheSize = "normal", -2000
				}
			}
		}, []string{"c-loop 10,000 ran with other settings than the burst: synchronous=normal and not full, cache_size=-2000 and not -65536"}},
		"warnings of runs": {6, func(m *machine, _ *CeilingConfig) {
			m.change = func(arm string, round int, r *tps.Result) {
				r.Warnings = []string{"it lay in memory"}
				if arm == "burst" && round > 3 {
					r.Warnings = append(r.Warnings, fmt.Sprintf("garbage collector: the program stood still for %dms of 1s", round), "garbage collector: the program stood still for 0ms of 1s")
				}
				if arm == "direct 10000" && round == 6 {
					r.Warnings = append(r.Warnings, "17")
				}
			}
		}, []string{
			"all arms: it lay in memory (in 30 of 30 runs)",
			"direct: 17 (in 1 of 6 runs)",
			"burst: garbage collector: the program stood still for 4ms of 1s (in 3 of 6 runs)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			cfg := m.config(c.rounds)
			c.change(m, &cfg)
			r, err := ceilingOf(t, t.Context(), cfg)
			if err != nil || !slices.Equal(r.Warnings, c.want) {
				t.Errorf("%q, %v", r.Warnings, err)
			}
		})
	}
}

// The ratio to its own loop is there when that loop is not the ceiling.
func TestCeilingDirectApart(t *testing.T) {
	m := newMachine()
	m.change = func(arm string, round int, r *tps.Result) {
		if arm == "loop 1000" && round == 1 {
			r.TPS = 1e6
		}
	}
	r, err := ceilingOf(t, t.Context(), m.config(6))
	if of := r.Of(DirectArm, LoopSmall); err != nil || of == nil || math.Abs(of.Ratio-0.8) > 1e-9 || len(r.Ratios) != 6 {
		t.Errorf("%+v, %v", r.Ratios, err)
	}
}

func TestCeilingEnds(t *testing.T) {
	broken := errors.New("the disk is on fire")
	for name, c := range map[string]struct {
		change      func(cfg *CeilingConfig, m *machine, cancel func())
		rounds      int
		interrupted bool
		err         string
	}{
		"an error": {func(cfg *CeilingConfig, m *machine, _ func()) {
			cfg.Burst = func(_ context.Context, round int) (*tps.Result, error) {
				if round == 3 {
					return nil, broken
				}
				return m.result("burst", round, m.burst, nil)
			}
		}, 2, false, "trials: burst in round 3: the disk is on fire"},
		"nothing acknowledged": {func(_ *CeilingConfig, m *machine, _ func()) { m.direct = 0 }, 0, false,
			"trials: direct in the warm-up: no transaction was acknowledged"},
		"no batch": {func(_ *CeilingConfig, m *machine, _ func()) { m.batch = 0 }, 0, false,
			"trials: burst in the warm-up: the result names no mean batch"},
		"interrupted": {func(_ *CeilingConfig, m *machine, cancel func()) {
			m.change = func(arm string, round int, r *tps.Result) {
				if arm == "burst" && round == 3 {
					cancel()
					r.Interrupted, r.TPS, r.Writer.BatchSize.Mean = true, 0, 0
				}
			}
		}, 2, true, "<nil>"},
		"interrupted in the first burst": {func(_ *CeilingConfig, m *machine, cancel func()) {
			m.change = func(arm string, round int, r *tps.Result) {
				if arm == "burst" && round == 1 {
					cancel()
					r.Interrupted, r.TPS, r.Writer.BatchSize.Mean = true, 0, 0
				}
			}
		}, 0, true, "<nil>"},
		"a failed proof": {func(_ *CeilingConfig, m *machine, _ func()) {
			m.change = func(arm string, round int, r *tps.Result) {
				r.Verify.OK = arm != "loop 8333" || round != 5
			}
		}, 4, false, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := newMachine()
			cfg := m.config(6)
			c.change(&cfg, m, cancel)
			r, err := ceilingOf(t, ctx, cfg)
			if fmt.Sprint(err) != c.err || r.Rounds != c.rounds || r.Interrupted != c.interrupted {
				t.Errorf("%+v, %v", r, err)
			}
			if failed := r.Verify.Checked && !r.Verify.OK; failed != (name == "a failed proof") {
				t.Errorf("the proof is %+v", r.Verify)
			}
		})
	}
}

func TestCeilingValidate(t *testing.T) {
	for want, change := range map[string]func(*CeilingConfig){
		"-n must be at least 1":                     func(c *CeilingConfig) { c.Transactions = 0 },
		"--rounds must be from 1 to 1000":           func(c *CeilingConfig) { c.Rounds = 1001 },
		"trials: Loop, Direct and Burst are needed": func(c *CeilingConfig) { c.Burst = nil },
	} {
		cfg := newMachine().config(6)
		change(&cfg)
		r, err := Ceiling(t.Context(), cfg)
		var config tps.ConfigError
		if r != nil || !errors.As(err, &config) || err.Error() != want {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
