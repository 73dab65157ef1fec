package trials

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/tps"
)

// arms are so many that tell ran what they do, and return a TPS of their own.
func arms(n int, ran func(arm, round int)) (list []Arm) {
	for k := range n {
		list = append(list, Arm{string(rune('A' + k)), func(_ context.Context, round int) (*tps.Result, error) {
			if ran != nil {
				ran(k, round)
			}
			return &tps.Result{TPS: float64(100*round + k), Verify: tps.Verify{Checked: true, OK: true, Conserved: true, AccountsChecked: int64(k)}}, nil
		}})
	}
	return list
}

func TestOrder(t *testing.T) {
	for round, want := range [][]int{{0, 1, 2, 3}, {0, 1, 2, 3}, {3, 2, 1, 0}, {0, 1, 2, 3}, {3, 2, 1, 0}} {
		if got := Order(4, round); !slices.Equal(got, want) {
			t.Errorf("round %d: %v", round, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n, first := rapid.IntRange(1, 9).Draw(t, "arms"), rapid.IntRange(1, 9).Draw(t, "first")
		place := make([]int, n)
		for round := first; round < first+2; round++ {
			order := Order(n, round)
			for at, k := range order {
				place[k] += at
			}
			if slices.Sort(order); order[0] != 0 || order[n-1] != n-1 || len(slices.Compact(order)) != n {
				t.Fatalf("%v is not every arm once", order)
			}
		}
		for k, sum := range place {
			if sum != n-1 {
				t.Fatalf("after two rounds the places of arm %d sum up to %d", k, sum)
			}
		}
	})
}

func TestRounds(t *testing.T) {
	var ran, seen []string
	cfg := RoundsConfig{Rounds: 3, Warmup: true}
	cfg.Arms = arms(3, func(arm, round int) { ran = append(ran, fmt.Sprint(arm, " ", round)) })
	cfg.Observe = func(p RoundProgress) {
		if p.Rounds != 3 {
			t.Errorf("of %d rounds", p.Rounds)
		}
		seen = append(seen, fmt.Sprint(p.Arm, p.Round, p.Result != nil))
	}
	r, err := Rounds(t.Context(), cfg)
	if err != nil || r.Interrupted || len(r.Results) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	if want := "0 0,1 0,2 0,0 1,1 1,2 1,2 2,1 2,0 2,0 3,1 3,2 3"; strings.Join(ran, ",") != want {
		t.Errorf("ran %q", ran)
	}
	if len(seen) != 24 || !slices.Equal(seen[12:16], []string{"C2 false", "C2 true", "B2 false", "B2 true"}) {
		t.Errorf("observed %q", seen)
	}
	for k := range 3 {
		if got := r.Values(k, func(res *tps.Result) float64 { return res.TPS }); !slices.Equal(got, []float64{100 + float64(k), 200 + float64(k), 300 + float64(k)}) {
			t.Errorf("arm %d has the values %v", k, got)
		}
	}
	if want := (tps.Verify{Checked: true, OK: true, Conserved: true, AccountsChecked: 2}); r.Verify != want {
		t.Errorf("the proof is %+v", r.Verify)
	}
}

func TestRoundsByDefault(t *testing.T) {
	n := 0
	r, err := Rounds(t.Context(), RoundsConfig{Arms: arms(1, func(_, round int) {
		if n++; round != n { // no warm-up
			t.Errorf("round %d", round)
		}
	})})
	if err != nil || len(r.Results) != DefaultRounds || n != DefaultRounds {
		t.Errorf("%d results of %d runs, %v", len(r.Results), n, err)
	}
}

func TestRoundsCollectGarbage(t *testing.T) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	last := stats.NumForcedGC
	_, err := Rounds(t.Context(), RoundsConfig{Rounds: 2, Arms: arms(2, func(arm, round int) {
		runtime.ReadMemStats(&stats)
		if stats.NumForcedGC == last {
			t.Errorf("arm %d of round %d inherits garbage", arm, round)
		}
		last = stats.NumForcedGC
	})})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoundsEnd(t *testing.T) {
	broken := errors.New("the disk is on fire")
	failed := tps.Verify{Checked: true, Detail: "account 17 differs", AccountsChecked: 1}
	for name, c := range map[string]struct {
		warmup      bool
		round       int // in which arm B does it
		do          func(cancel context.CancelCauseFunc, res *tps.Result) (*tps.Result, error)
		whole, runs int
		interrupted bool
		err         string
	}{
		"an error": {false, 2, func(_ context.CancelCauseFunc, _ *tps.Result) (*tps.Result, error) { return nil, broken },
			1, 5, false, "trials: B in round 2: the disk is on fire"},
		"in the warm-up": {true, 0, func(_ context.CancelCauseFunc, _ *tps.Result) (*tps.Result, error) { return nil, broken },
			0, 2, false, "trials: B in the warm-up: the disk is on fire"},
		"cancelled, with an error": {false, 2, func(cancel context.CancelCauseFunc, _ *tps.Result) (*tps.Result, error) {
			cancel(nil)
			return nil, fmt.Errorf("at 17: %w", context.Canceled)
		}, 1, 5, true, ""},
		"cancelled, with its cause": {false, 2, func(cancel context.CancelCauseFunc, _ *tps.Result) (*tps.Result, error) {
			cancel(broken)
			return nil, broken
		}, 1, 5, true, ""},
		"cancelled, and another error": {false, 2, func(cancel context.CancelCauseFunc, _ *tps.Result) (*tps.Result, error) {
			cancel(nil)
			return nil, broken
		}, 1, 5, false, "trials: B in round 2: the disk is on fire"},
		"a timeout of its own": {false, 1, func(_ context.CancelCauseFunc, _ *tps.Result) (*tps.Result, error) {
			return nil, context.DeadlineExceeded
		}, 0, 2, false, "trials: B in round 1: context deadline exceeded"},
		"interrupted": {false, 3, func(cancel context.CancelCauseFunc, res *tps.Result) (*tps.Result, error) {
			cancel(nil)
			res.Interrupted = true
			return res, nil
		}, 2, 8, true, ""},
		"whole, then cancelled": {false, 3, func(cancel context.CancelCauseFunc, res *tps.Result) (*tps.Result, error) {
			cancel(nil)
			return res, nil
		}, 2, 8, true, ""},
		"a failed proof": {true, 1, func(_ context.CancelCauseFunc, res *tps.Result) (*tps.Result, error) {
			res.Verify = failed
			return res, nil
		}, 0, 5, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			runs := 0
			cfg := RoundsConfig{Rounds: 4, Warmup: c.warmup, Arms: arms(3, func(_, _ int) { runs++ })}
			run := cfg.Arms[1].Run
			cfg.Arms[1].Run = func(ctx context.Context, round int) (*tps.Result, error) {
				res, err := run(ctx, round)
				if round == c.round {
					return c.do(cancel, res)
				}
				return res, err
			}
			r, err := Rounds(ctx, cfg)
			if fmt.Sprint(err) != errorText(c.err) || r == nil || len(r.Results) != c.whole || runs != c.runs || r.Interrupted != c.interrupted {
				t.Fatalf("%d runs, %+v, %v", runs, r, err)
			}
			if (name == "a failed proof") != (r.Verify == failed) {
				t.Errorf("the proof is %+v", r.Verify)
			}
		})
	}
}

func errorText(text string) string {
	if text == "" {
		return "<nil>"
	}
	return text
}

func TestRoundsNotBegun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := Rounds(ctx, RoundsConfig{Arms: arms(2, func(_, _ int) { t.Error("an arm ran") })})
	if err != nil || !r.Interrupted || len(r.Results) != 0 || r.Verify != (tps.Verify{}) {
		t.Errorf("%+v, %v", r, err)
	}
}

// What ends after the last arm is whole.
func TestRoundsEndedAtTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := Rounds(ctx, RoundsConfig{Rounds: 1, Arms: arms(2, func(arm, _ int) {
		if arm == 1 {
			cancel()
		}
	})})
	if err != nil || r.Interrupted || len(r.Results) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRoundsProveAll(t *testing.T) {
	cfg := RoundsConfig{Rounds: 1, Arms: arms(3, nil)}
	cfg.Arms[1].Run = func(context.Context, int) (*tps.Result, error) {
		return &tps.Result{Verify: tps.Verify{Detail: "nothing is known of it"}}, nil
	}
	r, err := Rounds(t.Context(), cfg)
	if want := (tps.Verify{AccountsChecked: 2, Detail: "nothing is known of it"}); err != nil || r.Verify != want {
		t.Errorf("%+v, %v", r.Verify, err)
	}
}

func TestRoundsValidate(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  RoundsConfig
		want string
	}{
		"too many":   {RoundsConfig{Arms: arms(1, nil), Rounds: MaxRounds + 1}, "--rounds must be from 1 to 1000"},
		"negative":   {RoundsConfig{Arms: arms(1, nil), Rounds: -1}, "--rounds must be from 1 to 1000"},
		"no arm":     {RoundsConfig{}, "trials: an arm is needed"},
		"no name":    {RoundsConfig{Arms: []Arm{{}}}, `trials: each arm needs a name of its own, unlike ""`},
		"same names": {RoundsConfig{Arms: append(arms(1, nil), arms(1, nil)...)}, `trials: each arm needs a name of its own, unlike "A"`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Rounds(t.Context(), c.cfg)
			var config tps.ConfigError
			if r != nil || !errors.As(err, &config) || err.Error() != c.want {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
