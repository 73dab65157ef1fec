package trials

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// database is what a fake load measures: latencies grow with the rate, up to 1 s
// beyond its capacity.
type database struct {
	capacity  float64
	generator float64 // 0: without limit
	steps     int
	rates     []float64
	change    func(step int, r *tps.Result) // nil: nothing
}

func (d *database) load(name string) Load {
	return Load{Name: name, Run: func(_ context.Context, rate float64, _, most time.Duration, enough func(*tps.Result) string) (*tps.Result, error) {
		d.steps++
		d.rates = append(d.rates, rate)
		r := goodStep()
		r.Load.Rate, r.TPS = rate, rate
		r.Latency.P50, r.Latency.P99 = time.Duration(rate), 2*time.Duration(rate)*time.Microsecond/1000
		if rate > d.capacity {
			r.Latency.P99 = time.Second
		}
		if d.generator > 0 && rate > d.generator { // late, but no fault of the database
			r.Schedule.GeneratorBound, r.Schedule.LateP99 = true, 310*time.Millisecond
			r.Service = r.Latency
			r.Latency.P99 += 310 * time.Millisecond
		}
		r.Verify = tps.Verify{Checked: true, OK: true, Conserved: true, AccountsChecked: int64(100 * d.steps)}
		r.Env.CPUs = d.steps
		if d.change != nil {
			d.change(d.steps, r)
		}
		return r, nil
	}}
}

func search(t *testing.T, ctx context.Context, need float64, loads ...Load) (*KneeResult, error) {
	t.Helper()
	res, err := Knee(ctx, KneeConfig{SLO: []tps.Threshold{threshold(t, "p99<50ms")}, Need: need, Loads: loads})
	if res == nil {
		t.Fatalf("no result: %v", err)
	}
	text, jsonErr := json.Marshal(res)
	if jsonErr != nil || strings.Contains(string(text), "null") {
		t.Errorf("as JSON it is %s, %v", text, jsonErr)
	}
	return res, err
}

func must(t *testing.T, need float64, loads ...Load) *KneeResult {
	t.Helper()
	res, err := search(t, t.Context(), need, loads...)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestKneeAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		need     float64
		dbs      []*database
		answer   Answer
		rate     float64
		atLeast  bool
		headroom float64
		states   []State
	}{
		"yes":                      {500, []*database{{capacity: 3000}, {capacity: 9000}}, Yes, 2954, false, 5.908, []State{Found, Found}},
		"no":                       {6000, []*database{{capacity: 3000}, {capacity: 9000}}, No, 3000, false, 0.5, []State{Found, Found}},
		"one says no":              {6000, []*database{{capacity: 9000}, {capacity: 3000}}, No, 3000, false, 0.5, []State{Found, Found}},
		"just":                     {3000, []*database{{capacity: 3000}}, Yes, 3000, false, 1, []State{Found}},
		"no question":              {0, []*database{{capacity: 3000}}, NoQuestion, 2954, false, 0, []State{Found}},
		"nothing":                  {2, []*database{{capacity: 0.1}, {capacity: 100}}, No, 0, false, 0, []State{BelowMinimum, Found}},
		"at least, and enough":     {500, []*database{{capacity: 1e9, generator: 3000}}, Yes, 2954, true, 5.908, []State{AtLeast}},
		"at least, and too little": {6000, []*database{{capacity: 1e9, generator: 3000}}, Unknown, 3000, true, 0.5, []State{AtLeast}},
		"the generator decides":    {500, []*database{{capacity: 9000}, {capacity: 1e9, generator: 3000}}, Yes, 2954, true, 5.908, []State{Found, AtLeast}},
		"the database decides":     {500, []*database{{capacity: 3000}, {capacity: 1e9, generator: 9000}}, Yes, 2954, false, 5.908, []State{Found, AtLeast}},
		"both the same":            {500, []*database{{capacity: 3000}, {capacity: 1e9, generator: 3000}}, Yes, 2954, false, 5.908, []State{Found, AtLeast}},
		"both, the other way":      {500, []*database{{capacity: 1e9, generator: 3000}, {capacity: 3000}}, Yes, 2954, false, 5.908, []State{AtLeast, Found}},
	} {
		t.Run(name, func(t *testing.T) {
			var loads []Load
			for k, db := range c.dbs {
				loads = append(loads, db.load(string(rune('a'+k))))
			}
			r := must(t, c.need, loads...)
			if r.Answer != c.answer || r.SustainableTPS != c.rate || r.AtLeast != c.atLeast || math.Abs(r.Headroom-c.headroom) > 1e-3 {
				t.Errorf("%q, %g a second, at least %t, headroom %g", r.Answer, r.SustainableTPS, r.AtLeast, r.Headroom)
			}
			var states []State
			for _, l := range r.Loads {
				states = append(states, l.State)
				checkLoad(t, c.need, l)
			}
			if !slices.Equal(states, c.states) || r.Interrupted || len(r.Warnings) > 0 {
				t.Errorf("%v, interrupted %t, warnings %q", states, r.Interrupted, r.Warnings)
			}
		})
	}
}

// checkLoad checks what holds for every finished search.
func checkLoad(t *testing.T, need float64, l LoadKnee) {
	t.Helper()
	if (l.Candidate != nil) != (l.SustainableTPS > 0) || l.Candidate != nil && (l.Candidate.Rate != l.SustainableTPS || l.Candidate.Verdict != Pass) {
		t.Errorf("%s: the candidate is %+v", l.Name, l.Candidate)
	}
	if (l.AtNeed != nil) != (need > 0) || l.AtNeed != nil && l.AtNeed.Rate != need {
		t.Errorf("%s: at need it is %+v", l.Name, l.AtNeed)
	}
	if l.AtNeed != nil && (l.AtNeed.Verdict == Pass) != (l.SustainableTPS >= need) {
		t.Errorf("%s: %+v at need, but %g hold", l.Name, l.AtNeed, l.SustainableTPS)
	}
	if need > 0 && l.Steps[0].Rate != need {
		t.Errorf("%s begins at %g", l.Name, l.Steps[0].Rate)
	}
	if l.AtLeast != (l.State == AtLeast) {
		t.Errorf("%s: %s, at least %t", l.Name, l.State, l.AtLeast)
	}
}

func TestKneeKeepsEachStep(t *testing.T) {
	db := &database{capacity: 3000, change: func(step int, r *tps.Result) {
		r.Schedule.Arrivals, r.Acknowledged, r.Failed, r.Schedule.Backlog = 20_000, 19_900, 7, 30
		r.Writer.Checkpoints, r.Elapsed, r.Warnings = 1, 6*time.Second, []string{"hot"}
		r.Latency.P99 += time.Duration(step) // tells the steps apart
	}}
	r := must(t, 3000, db.load("a"))
	want := Step{
		Rate: 3000, Phase: Bracketing, Verdict: Pass, Note: "1 of 2 checkpoints",
		TPS: 3000, P50: 3 * time.Microsecond, P99: 6*time.Microsecond + 1, P999: 9 * time.Millisecond,
		Backlog: 30, Kept: 0.995, Checkpoints: 1, Samples: 19_907, Elapsed: 6 * time.Second, Warnings: []string{"hot"},
	}
	got := r.Loads[0].Steps[0]
	got.latency = tps.Latency{}
	got.P50, want.P50 = 0, 0
	if a, b := asJSON(t, got), asJSON(t, want); a != b {
		t.Errorf("%s\nwant %s", a, b)
	}
	// The slowest of the steps that held there, which is the last of them.
	last := len(db.rates)
	for db.rates[last-1] != 3000 {
		last--
	}
	if at := r.Loads[0].AtNeed; at.Latency.P99 != 6*time.Microsecond+time.Duration(last) || last == 1 {
		t.Errorf("at need %+v, which was measured last in step %d", at, last)
	}
	if !slices.Equal(r.Warnings, []string{"a: 3000 a second was judged with 1 of 2 checkpoints only", "a: hot"}) {
		t.Errorf("warnings %q", r.Warnings)
	}
	if r.Settings.JournalMode != "wal" || r.Env.CPUs != db.steps {
		t.Errorf("%+v, %+v", r.Settings, r.Env)
	}
	if r.Verify != (tps.Verify{Checked: true, OK: true, Conserved: true, AccountsChecked: int64(100 * db.steps)}) {
		t.Errorf("proof %+v", r.Verify)
	}
	if r.Schema != "tpssim.knee/1" || r.StartedAt.IsZero() || !slices.Equal(r.SLO, []string{"p99<50ms"}) || r.Need != 3000 {
		t.Errorf("%+v", r)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestKneeInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		need   float64
		at     int // the step in which ctx ends
		err    bool
		answer Answer
		rate   float64
		steps  int
		loads  int
	}{
		"in the first step":       {500, 1, false, Unknown, 0, 0, 1},
		"after need held":         {500, 2, false, Unknown, 500, 1, 1},
		"with an error":           {500, 2, true, Unknown, 500, 1, 1},
		"after need failed once":  {5000, 2, false, Unknown, 0, 1, 1},
		"after need failed twice": {5000, 3, false, No, 0, 2, 1},
		"in the second load":      {500, 15, false, Unknown, 500, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			db := &database{capacity: 3000, change: func(step int, r *tps.Result) {
				if step == c.at {
					cancel()
					r.Interrupted = !c.err
				}
			}}
			first := db.load("a")
			run := first.Run
			first.Run = func(ctx context.Context, rate float64, length, most time.Duration, enough func(*tps.Result) string) (*tps.Result, error) {
				r, err := run(ctx, rate, length, most, enough)
				if c.err && ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return r, err
			}
			second := first
			second.Name = "b"
			r, err := search(t, ctx, c.need, first, second)
			if err != nil || !r.Interrupted || r.Answer != c.answer || r.SustainableTPS != c.rate || !r.AtLeast || len(r.Loads) != c.loads {
				t.Fatalf("%+v, %v", r, err)
			}
			l := r.Loads[len(r.Loads)-1]
			if l.State != Unfinished || len(l.Steps) != c.steps {
				t.Errorf("%+v", l)
			}
			if missing := c.loads == 1; missing != slices.Contains(r.Warnings, "b was not measured: the search ended before") {
				t.Errorf("warnings %q", r.Warnings)
			}
			if !r.Verify.OK {
				t.Errorf("proof %+v", r.Verify)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := search(t, ctx, 500, (&database{}).load("a")); err != nil || !r.Interrupted || len(r.Loads) != 0 || r.Answer != Unknown {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestKneeEndsWithAFailedProof(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		db := &database{capacity: 3000, change: func(step int, r *tps.Result) {
			if step == 3 {
				r.Verify = tps.Verify{Checked: true, Detail: "account 17 differs"}
				r.Interrupted = interrupted
			}
		}}
		r := must(t, 500, db.load("a"), db.load("b"))
		if db.steps != 3 || r.Verify.OK || r.Verify.Detail != "account 17 differs" || r.Answer != Unknown || r.Interrupted {
			t.Errorf("after %d steps %+v", db.steps, r)
		}
		if s := r.Loads[0].Steps[2]; s.Verdict != Fail || s.Reason != "the proof FAILED: account 17 differs" {
			t.Errorf("%+v", s)
		}
	}
}

func TestKneeWithoutProof(t *testing.T) {
	db := &database{capacity: 3000, change: func(step int, r *tps.Result) {
		if step == 3 {
			r.Verify = tps.Verify{Detail: "a script"}
		}
	}}
	r := must(t, 500, db.load("a"))
	if r.Verify.Checked || r.Verify.OK || r.Verify.Detail != "a script" || r.Answer != Yes {
		t.Errorf("%+v, %q", r.Verify, r.Answer)
	}
}

func TestKneeError(t *testing.T) {
	broken := errors.New("broken")
	db := &database{capacity: 3000}
	load := db.load("cold uniform")
	run := load.Run
	load.Run = func(ctx context.Context, rate float64, length, most time.Duration, enough func(*tps.Result) string) (*tps.Result, error) {
		if rate == 1000 {
			return nil, broken
		}
		return run(ctx, rate, length, most, enough)
	}
	r, err := search(t, t.Context(), 500, load)
	if !errors.Is(err, broken) || err.Error() != "trials: cold uniform at 1000 a second: broken" {
		t.Errorf("%v", err)
	}
	if r.Interrupted || r.Answer != Unknown || r.Loads[0].SustainableTPS != 500 || r.Loads[0].State != Unfinished {
		t.Errorf("%+v", r)
	}
}

func TestKneeUnsettled(t *testing.T) {
	db := &database{capacity: 3000}
	db.change = func(_ int, r *tps.Result) {
		n := 0 // each rate above 1,000 holds twice and never again
		for _, rate := range db.rates {
			if rate == r.Load.Rate {
				n++
			}
		}
		if r.Load.Rate > 1000 && n > 2 {
			r.Latency.P99 = time.Second
		}
	}
	r := must(t, 2000, db.load("a"))
	if l := r.Loads[0]; l.State != Unsettled || r.Answer != No || l.AtLeast || l.SustainableTPS >= 2000 || l.Candidate.Verdict != Pass || l.AtNeed.Verdict != Fail {
		t.Errorf("%q: %+v", r.Answer, l)
	}
	if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "a: the verdicts contradict each other") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// A rate is measured several times, and not always with the same verdict.
func TestStepsThatStandForARate(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	steps := []Step{
		{Rate: 100, Verdict: Pass, P99: ms(2)}, {Rate: 100, Verdict: Pass, P99: ms(4)}, {Rate: 100, Verdict: Fail, P99: ms(90)}, {Rate: 100, Verdict: Pass, P99: ms(3)},
		{Rate: 200, Verdict: GeneratorBound, P99: ms(300)}, {Rate: 200, Verdict: Fail, P99: ms(70)}, {Rate: 200, Verdict: Fail, P99: ms(60)},
		{Rate: 300, Verdict: GeneratorBound, P99: ms(400)},
	}
	for _, c := range []struct {
		need  float64
		holds bool
		p99   time.Duration // of the step, 0 for none
	}{
		{100, true, ms(4)}, {100, false, ms(90)},
		{200, true, 0}, {200, false, ms(70)},
		{300, true, 0}, {300, false, ms(400)},
		{400, true, 0}, {400, false, 0}, {0, true, 0},
	} {
		switch s := atNeed(steps, c.need, c.holds); {
		case s == nil && c.p99 != 0, s != nil && (s.Rate != c.need || s.P99 != c.p99 || (s.Verdict == Pass) != c.holds):
			t.Errorf("%g, %t: %+v, want p99 %v", c.need, c.holds, s, c.p99)
		case s == nil && s.measured() != nil:
			t.Errorf("%g, %t: nothing was measured, and yet %+v", c.need, c.holds, s.measured())
		}
	}
}

func TestKneeObserve(t *testing.T) {
	db := &database{capacity: 3000}
	var before, after []KneeProgress
	cfg := KneeConfig{
		SLO: []tps.Threshold{threshold(t, "p99<50ms")}, Start: 2000, Most: 9000, Loads: []Load{db.load("a")},
		Observe: func(p KneeProgress) {
			if p.Step == nil {
				before = append(before, p)
			} else {
				after = append(after, p)
			}
		},
	}
	r, err := Knee(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(before) != db.steps || len(after) != db.steps || db.rates[0] != 2000 || r.Answer != NoQuestion {
		t.Fatalf("%d, %d of %d from %g, %q", len(before), len(after), db.steps, db.rates[0], r.Answer)
	}
	for k := range before {
		b, a := before[k], after[k]
		if b.Rate != db.rates[k] || a.Step.Rate != b.Rate || b.Load != "a" || b.Length != 5*time.Second || b.Most != 20*time.Second || b.Phase != a.Step.Phase {
			t.Errorf("%d: %+v, %+v", k, b, a)
		}
	}
	if last := after[len(after)-1].Known; last.State != Found || last.Rate != r.SustainableTPS || before[0].Known.Rate != 0 {
		t.Errorf("%+v", last)
	}
}

func TestKneeConfigErrors(t *testing.T) {
	for want, change := range map[string]func(*KneeConfig){
		"--slo is needed: say what must hold, as in --slo 'p99<50ms'": func(c *KneeConfig) { c.SLO = nil },
		"--need must be from 1 to 1000000000 a second":                func(c *KneeConfig) { c.Need = 0.5 },
		"--need must be from 1 to 9 a second":                         func(c *KneeConfig) { c.Need, c.Most = 10, 9 },
		"--start must be from 1 to 1000000000 a second":               func(c *KneeConfig) { c.Start = math.NaN() },
		"--most must be from 1 to 1000000000 a second":                func(c *KneeConfig) { c.Most = 2e9 },
		"trials: a load is needed":                                    func(c *KneeConfig) { c.Loads = nil },
		"":                                                            func(c *KneeConfig) { c.Most = 10; c.Need = 10 },
	} {
		cfg := KneeConfig{SLO: []tps.Threshold{threshold(t, "p99<50ms")}, Loads: []Load{(&database{capacity: 5}).load("a")}}
		change(&cfg)
		_, err := Knee(t.Context(), cfg)
		var usage tps.ConfigError
		if want == "" && err == nil {
			continue
		}
		if err == nil || err.Error() != want || !errors.As(err, &usage) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
