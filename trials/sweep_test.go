package trials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/tps"
)

// place makes up what a cell measures.
type place struct {
	load     string
	settings []Setting
	tps, p99 float64 // p99 in milliseconds
	rate     float64 // 0: a burst
	change   func(round int, r *tps.Result)
}

// swept makes up a sweep; calls are the cells and rounds that were asked for.
type swept struct {
	places []place
	calls  []string
}

func (s *swept) result(k, round int) *tps.Result {
	p := s.places[k]
	jitter := 1 + 0.001*float64((round*(k+3))%7)
	r := &tps.Result{
		Scenario: "savepoint", TPS: p.tps * jitter, TPSSettled: p.tps / 2, Acknowledged: 1000, Elapsed: time.Second,
		Latency:  tps.Latency{Count: 1000, P50: time.Duration(p.p99 * 5e5), P99: time.Duration(p.p99 * 1e6 * jitter)},
		Load:     tps.Load{Mode: tps.Burst, Transactions: 1000, Rows: 5000, RandomSeed: uint64(round)},
		Settings: tps.Settings{JournalMode: "wal", Synchronous: "full", MaxBatch: k + 1},
		Verify:   tps.Verify{Checked: true, OK: true, Conserved: true, AccountsChecked: int64(100 + k)},
	}
	if p.rate > 0 {
		r.Load.Mode, r.Load.Rate = tps.OpenLoop, p.rate
	}
	if p.change != nil {
		p.change(round, r)
	}
	return r
}

func (s *swept) config() SweepConfig {
	cfg := SweepConfig{}
	for k, p := range s.places {
		settings := p.settings
		if settings == nil {
			settings = []Setting{{"max-batch", fmt.Sprint(k + 1)}}
		}
		cfg.Cells = append(cfg.Cells, SweepCell{Load: p.load, Settings: settings, Run: func(_ context.Context, round int) (*tps.Result, error) {
			s.calls = append(s.calls, fmt.Sprintf("%d/%d", k+1, round))
			return s.result(k, round), nil
		}})
	}
	return cfg
}

// sweepOf also checks what holds for every result.
func sweepOf(t *testing.T, ctx context.Context, cfg SweepConfig) (*SweepResult, error) {
	t.Helper()
	r, err := Sweep(ctx, cfg)
	if r == nil {
		t.Fatalf("no result: %v", err)
	}
	text, jsonErr := json.Marshal(r)
	if jsonErr != nil || strings.Contains(string(text), "null") || r.Schema != SweepResultSchema || r.StartedAt.IsZero() {
		t.Errorf("as JSON it is %s, %v", text, jsonErr)
	}
	for k, c := range r.Cells {
		if c.Cell != k+1 || c.TPS.N > r.Rounds || c.Frontier && c.TPS.N == 0 || c.Final != nil && c.TPS.N != r.Rounds || c.SameAs >= c.Cell {
			t.Errorf("%+v", c)
		}
	}
	for _, choice := range r.Choices {
		if choice.Cell > 0 && r.Cell(choice.Cell).Final == nil || slices.Contains(choice.Alike, choice.Cell) {
			t.Errorf("%+v", choice)
		}
	}
	return r, err
}

// four is a grid with a frontier of three and one cell that is beaten.
func four() *swept {
	return &swept{places: []place{{tps: 100, p99: 1}, {tps: 200, p99: 2}, {tps: 150, p99: 3}, {tps: 300, p99: 4}}}
}

func numbers(r *SweepResult, in func(SweptCell) bool) (list []int) {
	for _, c := range r.Cells {
		if in(c) {
			list = append(list, c.Cell)
		}
	}
	return list
}

func onFrontier(c SweptCell) bool { return c.Frontier }
func isFinal(c SweptCell) bool    { return c.Final != nil }

func TestSweep(t *testing.T) {
	s := four()
	cfg := s.config()
	var progress []SweepProgress
	cfg.Observe = func(p SweepProgress) { progress = append(progress, p) }
	r, err := sweepOf(t, t.Context(), cfg)
	if err != nil || r.Interrupted || len(r.Warnings) > 0 || r.Verify.AccountsChecked != 103 {
		t.Fatalf("%+v, %v", r, err)
	}
	want := "1/1 2/1 3/1 4/1 4/2 3/2 2/2 1/2 1/3 2/3 3/3 4/3"
	for round := 4; round <= 9; round++ { // the finals, their rounds counted on
		order := []string{"1", "2", "4"}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, cell := range order {
			want += fmt.Sprintf(" %s/%d", cell, round)
		}
	}
	if got := strings.Join(s.calls, " "); got != want {
		t.Errorf("it ran\n%s, want\n%s", got, want)
	}
	if f := numbers(r, onFrontier); !slices.Equal(f, []int{1, 2, 4}) {
		t.Errorf("frontier %v", f)
	}
	if f := numbers(r, isFinal); !slices.Equal(f, []int{1, 2, 4}) || r.FinalRounds != FinalRounds || r.Cell(1).Final.TPS.N != FinalRounds {
		t.Errorf("finalists %v", f)
	}
	if want := []SweepChoice{{Kind: MostTPS, Cell: 4, Alike: []int{}, Figure: "tps"}, {Kind: LowestP99, Cell: 1, Alike: []int{}, Figure: "p99_ns"}}; !reflect.DeepEqual(r.Choices, want) {
		t.Errorf("choices %+v", r.Choices)
	}
	if len(progress) != 2*len(s.calls) || progress[0].Result != nil || progress[1].Result == nil || progress[1].Done != 1 || len(progress[1].Left) != 11 {
		t.Errorf("%d reports, the first %+v", len(progress), progress[0])
	}
}

// Whatever run a sweep ends before, going on makes the rest of the same runs, and the
// same result.
func TestSweepResumed(t *testing.T) {
	whole, _ := sweepOf(t, t.Context(), four().config())
	all := four()
	sweepOf(t, t.Context(), all.config())
	for end := range all.calls {
		s := four()
		cfg := s.config()
		ctx, cancel := context.WithCancel(t.Context())
		if end == 0 {
			cancel()
		}
		var file []string
		cfg.Save = func(run SweepRun) error {
			line, err := json.Marshal(run)
			if file = append(file, string(line)); len(file) == end {
				cancel()
			}
			return err
		}
		r, err := sweepOf(t, ctx, cfg)
		cancel()
		if err != nil || !r.Interrupted || len(r.Choices) > 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "nothing is recommended yet") {
			t.Fatalf("ended after %d: %+v, %v", end, r, err)
		}
		cfg = s.config()
		for _, line := range file {
			var run SweepRun
			if err := json.Unmarshal([]byte(line), &run); err != nil {
				t.Fatal(err)
			}
			cfg.Done = append(cfg.Done, run)
		}
		if r, err = sweepOf(t, t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.calls, all.calls) {
			t.Errorf("ended after %d: it ran %v", end, s.calls)
		}
		if r.StartedAt = whole.StartedAt; !reflect.DeepEqual(r, whole) {
			t.Errorf("ended after %d: the result is another one", end)
		}
	}
}

// A sweep that is done is only concluded again.
func TestSweepDone(t *testing.T) {
	s := four()
	cfg := s.config()
	var done []SweepRun
	cfg.Save = func(run SweepRun) error { done = append(done, run); return nil }
	sweepOf(t, t.Context(), cfg)
	head := SweepHead{StartedAt: time.Unix(7, 0), Argv: []string{"sweep"}, RandomSeed: 3, Rounds: DefaultSweepRounds, SLO: []string{"p99<1s"}}
	for _, c := range cfg.Cells {
		head.Cells = append(head.Cells, SweepHeadCell{Settings: c.Settings})
	}
	if r, err := head.Result(done[:5]); err != nil || r.RandomSeed != 3 || len(r.Argv) != 1 || !r.StartedAt.Equal(head.StartedAt) || r.Cell(4).Held != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	head.Cells = head.Cells[:2]
	if _, err := head.Result(done); !errors.As(err, new(tps.ConfigError)) {
		t.Errorf("other cells: %v", err)
	}
	head.SLO = []string{"p99"}
	if _, err := head.Result(nil); !errors.As(err, new(tps.ConfigError)) {
		t.Errorf("no objective: %v", err)
	}
	s.calls, cfg.Done = nil, done
	if r, err := sweepOf(t, t.Context(), cfg); err != nil || len(s.calls) > 0 || len(r.Choices) != 2 {
		t.Errorf("it ran %v, %+v, %v", s.calls, r, err)
	}
	for name, change := range map[string]func([]SweepRun) []SweepRun{
		"one is missing":   func(d []SweepRun) []SweepRun { return append(d[:3:3], d[4:]...) },
		"one is twice":     func(d []SweepRun) []SweepRun { return append(d[:3:3], d[2:]...) },
		"one too many":     func(d []SweepRun) []SweepRun { return append(d, d[len(d)-1]) },
		"another cell":     func(d []SweepRun) []SweepRun { d[20].Cell = 3; return d },
		"no such cell":     func(d []SweepRun) []SweepRun { d[2].Cell = 5; return d },
		"without a result": func(d []SweepRun) []SweepRun { d[2].Result = nil; return d },
	} {
		cfg.Done = change(slices.Clone(done))
		if r, err := Sweep(t.Context(), cfg); r != nil || !errors.As(err, new(tps.ConfigError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSweepEnds(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		change func(*SweepConfig, *swept)
		saved  int
		says   string
		failed bool
	}{
		{"a failed proof is kept and ends it", func(c *SweepConfig, s *swept) {
			s.places[1].change = func(_ int, r *tps.Result) { r.Verify = tps.Verify{Checked: true, Detail: "lost"} }
		}, 2, "", true},
		{"an error of a run", func(c *SweepConfig, s *swept) {
			c.Cells[2].Run = func(context.Context, int) (*tps.Result, error) { return nil, boom }
		}, 2, "trials: cell 3 in round 1 of the grid: boom", false},
		{"an interrupted run does not count", func(c *SweepConfig, s *swept) {
			s.places[2].change = func(_ int, r *tps.Result) { r.Interrupted = true }
		}, 2, "", false},
		{"the file is full", func(c *SweepConfig, s *swept) {
			save := c.Save
			c.Save = func(run SweepRun) error { return errors.Join(save(run), boom) }
		}, 1, "boom", false},
	} {
		s, saved := four(), 0
		cfg := s.config()
		cfg.Save = func(SweepRun) error { saved++; return nil }
		c.change(&cfg, s)
		r, err := sweepOf(t, t.Context(), cfg)
		if saved != c.saved || (err == nil) != (c.says == "") || err != nil && err.Error() != c.says || len(r.Choices) > 0 {
			t.Errorf("%s: %d saved, %v, %+v", c.name, saved, err, r)
		}
		if r.Verify.Checked && !r.Verify.OK != c.failed {
			t.Errorf("%s: %+v", c.name, r.Verify)
		}
	}
}

// Nothing goes on behind a failed proof.
func TestSweepResumedBehindFailure(t *testing.T) {
	s := four()
	cfg := s.config()
	bad := s.result(0, 1)
	bad.Verify.OK = false
	cfg.Done = []SweepRun{{Cell: 1, Round: 1, Phase: GridPhase, Result: bad}}
	if r, err := sweepOf(t, t.Context(), cfg); err != nil || len(s.calls) > 0 || r.Verify.OK {
		t.Errorf("it ran %v, %v", s.calls, err)
	}
}

func TestSweepConfig(t *testing.T) {
	for name, change := range map[string]func(*SweepConfig){
		"no cells":        func(c *SweepConfig) { c.Cells = nil },
		"too many cells":  func(c *SweepConfig) { c.Cells = make([]SweepCell, MaxCells+1) },
		"negative rounds": func(c *SweepConfig) { c.Rounds = -1 },
		"too many rounds": func(c *SweepConfig) { c.Rounds = MaxRounds + 1 },
	} {
		cfg := four().config()
		change(&cfg)
		if r, err := Sweep(t.Context(), cfg); r != nil || !errors.As(err, new(tps.ConfigError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No cell of the frontier is beaten, and every other one is, by one of the frontier.
func TestFrontier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "cells")
		cells, of := make([]SweptCell, n), []int{}
		for k := range cells {
			c := &cells[k]
			c.Cell, c.Load = k+1, tps.Load{Mode: tps.Burst}
			c.TPS = Summary{N: 1, Median: float64(rapid.IntRange(1, 5).Draw(t, "tps"))}
			c.P99 = Summary{N: 1, Median: float64(rapid.IntRange(1, 5).Draw(t, "p99"))}
			of = append(of, k)
		}
		beats := func(a, b SweptCell) bool {
			return a.TPS.Median >= b.TPS.Median && a.P99.Median <= b.P99.Median && (a.TPS.Median > b.TPS.Median || a.P99.Median < b.P99.Median)
		}
		front := frontier(cells, of)
		for _, k := range of {
			by := func(list []int) bool {
				return slices.ContainsFunc(list, func(n int) bool { return beats(cells[n], cells[k]) })
			}
			if in := slices.Contains(front, k); in == by(of) || !in && !by(front) {
				t.Fatalf("cell %d of %+v: frontier %v", k, cells, front)
			}
		}
		for k := 1; k < len(front); k++ {
			if cells[front[k-1]].TPS.Median < cells[front[k]].TPS.Median {
				t.Fatalf("not the fastest first: %v", front)
			}
		}
	})
}

func TestEvenly(t *testing.T) {
	for n := range 12 {
		list := make([]int, n)
		for k := range list {
			list[k] = k
		}
		got := evenly(list, MaxFinalists)
		if len(got) != min(n, MaxFinalists) || n > 0 && (got[0] != 0 || got[len(got)-1] != n-1) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("of %d: %v", n, got)
		}
	}
}

// At a rate, cells that keep up are equally fast, and p99 tells them apart. Loads are
// held against themselves only.
func TestSweepAtRate(t *testing.T) {
	s := &swept{places: []place{
		{load: "burst", tps: 900, p99: 50}, {load: "burst", tps: 800, p99: 60},
		{load: "rate", tps: 1000, p99: 9, rate: 1000}, {load: "rate", tps: 999, p99: 3, rate: 1000}, {load: "rate", tps: 500, p99: 7, rate: 1000},
	}}
	r, err := sweepOf(t, t.Context(), s.config())
	if f := numbers(r, onFrontier); err != nil || !slices.Equal(f, []int{1, 4}) {
		t.Errorf("frontier %v, %v", f, err)
	}
	want := []SweepChoice{{Load: "burst", Kind: BestOf, Cell: 1, Alike: []int{}, Figure: "tps"}, {Load: "rate", Kind: BestOf, Cell: 4, Alike: []int{}, Figure: "p99_ns"}}
	if !reflect.DeepEqual(r.Choices, want) || !slices.Equal(r.Loads(), []string{"burst", "rate"}) {
		t.Errorf("choices %+v", r.Choices)
	}
}

func TestSweepSLO(t *testing.T) {
	slo := func(text string) []tps.Threshold {
		threshold, err := tps.ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		return []tps.Threshold{threshold}
	}
	// Of those that hold, the fastest, though another one is faster.
	cfg := four().config()
	cfg.SLO = slo("p99<2.5ms")
	r, err := sweepOf(t, t.Context(), cfg)
	if want := (SweepChoice{Kind: MostTPS, Cell: 2, Alike: []int{}, Figure: "tps"}); err != nil || len(r.Choices) != 1 || !reflect.DeepEqual(r.Choices[0], want) {
		t.Errorf("choices %+v, %v", r.Choices, err)
	}
	if f := numbers(r, isFinal); !slices.Equal(f, []int{1, 2}) || r.Cell(2).Final.Held != FinalRounds || r.Cell(4).Held != 0 || !slices.Equal(r.SLO, []string{"p99<2.5ms"}) {
		t.Errorf("finalists %v", f)
	}
	// Nothing is measured again where nothing holds.
	s := four()
	cfg = s.config()
	cfg.SLO = slo("p99<500us")
	r, err = sweepOf(t, t.Context(), cfg)
	if err != nil || len(s.calls) != 12 || len(r.Choices) != 1 || r.Choices[0].Kind != NoneHolds || r.FinalRounds != 0 {
		t.Errorf("%d calls, %+v, %v", len(s.calls), r.Choices, err)
	}
	// What held in the grid but not when it was measured again is not recommended.
	s = four()
	s.places[1].change = func(round int, r *tps.Result) {
		if round > DefaultSweepRounds {
			r.Latency.P99 = time.Second
		}
	}
	cfg = s.config()
	cfg.SLO = slo("p99<2.5ms")
	if r, err = sweepOf(t, t.Context(), cfg); err != nil || len(r.Choices) != 1 || r.Choices[0].Cell != 1 {
		t.Errorf("%+v, %v", r.Choices, err)
	}
}

// Cells that are the same are found, are the noise floor, and are one finalist.
func TestSweepNoise(t *testing.T) {
	same := func(_ int, r *tps.Result) { r.Settings.MaxBatch = 7 }
	s := four()
	s.places = append(s.places, place{tps: 330, p99: 4, settings: []Setting{{"max-batch", "7"}}, change: same})
	s.places[3].settings, s.places[3].change = []Setting{{"max-batch", "7"}}, same
	r, err := sweepOf(t, t.Context(), s.config())
	if err != nil || len(r.Noise) != 1 || !slices.Equal(r.Noise[0].Cells, []int{4, 5}) || r.Noise[0].TPS < 1.09 || r.Noise[0].TPS > 1.11 || r.Noise[0].P99 > 1.01 || r.Cell(5).SameAs != 4 {
		t.Fatalf("%+v, %v", r.Noise, err)
	}
	if f := numbers(r, isFinal); !slices.Equal(f, []int{1, 2, 4}) {
		t.Errorf("finalists %v", f)
	}
	// What is not read back may differ all the same.
	s.places[4].settings = append(s.places[4].settings, Setting{"pragma", "temp_store=2"})
	if r, _ := sweepOf(t, t.Context(), s.config()); len(r.Noise) > 0 || r.Cell(5).SameAs != 0 {
		t.Errorf("%+v", r.Noise)
	}
	// A value that came to the same in another way is the same.
	s.places[4].settings = []Setting{{"max-batch", "7k"}}
	if r, _ := sweepOf(t, t.Context(), s.config()); len(r.Noise) != 1 {
		t.Error("not found")
	}
}

// What cannot be told apart from the choice is named.
func TestSweepAlike(t *testing.T) {
	s := &swept{places: []place{{tps: 1001.5, p99: 4}, {tps: 1000, p99: 3}, {tps: 500, p99: 1}}}
	r, err := sweepOf(t, t.Context(), s.config())
	if err != nil || len(r.Choices) != 2 || len(r.Choices[0].Alike) != 1 || len(r.Choices[1].Alike) != 0 {
		t.Errorf("%+v, %v", r.Choices, err)
	}
}

func TestSweepDoubts(t *testing.T) {
	s := four()
	s.places[2].change = func(round int, r *tps.Result) {
		r.Settings.Synchronous, r.Env.CPUs = "normal", 7
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d pauses", round))
	}
	r, err := sweepOf(t, t.Context(), s.config())
	if err != nil || !r.DurabilityDiffers || len(r.Warnings) != 2 || r.Warnings[1] != "cell 3: 1 pauses (in 3 of 3 runs)" {
		t.Errorf("%q, %v", r.Warnings, err)
	}
}

func TestSweepSort(t *testing.T) {
	s := four()
	for k, value := range []string{"9k", "1", "9k", "1"} {
		s.places[k].settings = []Setting{{"max-batch", value}}
	}
	cfg := s.config()
	r, err := sweepOf(t, t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string][]int{
		"cell": {1, 2, 3, 4}, "load": {1, 2, 3, 4}, "tps": {4, 2, 3, 1}, "tps_settled": {4, 2, 3, 1}, "p50_ns": {1, 2, 3, 4}, "p99_ns": {1, 2, 3, 4}, "max-batch": {1, 3, 2, 4},
	} {
		if err := errors.Join(cfg.CheckColumn(column), r.Sort(column)); err != nil {
			t.Error(err)
		}
		if got := numbers(r, func(SweptCell) bool { return true }); !slices.Equal(got, want) {
			t.Errorf("by %s: %v", column, got)
		}
	}
	if err := r.Sort("speed"); err == nil || cfg.CheckColumn("speed") == nil || !strings.Contains(err.Error(), "use one of cell, load, tps, ") {
		t.Errorf("%v", err)
	}
	r.Cells[1].SweepFigures = SweepFigures{} // nothing was measured
	if r.Sort("p99_ns"); r.Cells[3].TPS.N != 0 {
		t.Error("what was not measured is not the last")
	}
}

// A cell that lies in memory promises less than one on a disk, and is another one.
func TestSweepFilesystems(t *testing.T) {
	s := &swept{places: []place{{tps: 1000, p99: 2}, {tps: 3000, p99: 1}}}
	s.places[1].change = func(_ int, r *tps.Result) { r.Env.Filesystem = "tmpfs" }
	r, err := sweepOf(t, t.Context(), s.config())
	if err != nil || !r.DurabilityDiffers || len(r.Warnings) != 0 || r.Cells[0].Env.Filesystem == "tmpfs" || r.Cells[1].Env.Filesystem != "tmpfs" {
		t.Errorf("%+v, %v", r, err)
	}
}
