package trials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// measured makes up the result of a run.
func measured(speed float64) *tps.Result {
	return &tps.Result{
		Scenario: "savepoint", Engine: "sqlite", StartedAt: time.Unix(1e9+int64(speed), 0),
		TPS: speed, TPSSettled: speed / 2,
		Latency:  tps.Latency{P50: time.Millisecond, P99: time.Duration(1e12 / speed)},
		Load:     tps.Load{Mode: tps.ClosedLoop, Concurrency: 64, Rows: 1000, RandomSeed: 7},
		Settings: tps.Settings{JournalMode: "wal", Synchronous: "full", PageSize: 4096, CacheSize: -65536},
		Env:      tps.Env{CPU: "test", CPUs: 2, Filesystem: "ext4"},
		Verify:   tps.Verify{Checked: true, OK: true, Conserved: true, AccountsChecked: 900},
	}
}

// variantArm runs at a speed that grows from round to round, as all arms' do.
func variantArm(name string, speed float64, change func(round int, r *tps.Result), settings ...Setting) VariantArm {
	return VariantArm{Settings: settings, Arm: Arm{Name: name, Run: func(_ context.Context, round int) (*tps.Result, error) {
		r := measured(speed * (1 + float64(round)/100))
		if change != nil {
			change(round, r)
		}
		return r, nil
	}}}
}

// checkComparison checks what holds for every result.
func checkComparison(t *testing.T, r *CompareResult) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil || strings.Contains(string(text), "null") || r.Schema != CompareSchema || r.StartedAt.IsZero() {
		t.Errorf("as JSON it is %s, %v", text, err)
	}
	if len(r.Arms) > 0 && len(r.Pairs) != len(r.Arms)-1 {
		t.Errorf("%d arms and %d pairs", len(r.Arms), len(r.Pairs))
	}
	for _, p := range r.Pairs {
		if p.Of != r.Arms[0].Name || p.Adjusted < p.P || p.Adjusted > 1 || p.Noise != (p.Adjusted > Alpha) {
			t.Errorf("%+v", p)
		}
		if r.Interleaved != (p.Low > 0) || p.Low > p.Ratio || r.Interleaved && p.Ratio > p.High {
			t.Errorf("%+v", p)
		}
	}
	for _, d := range r.Differences {
		if len(d.Values) != len(r.Arms) || len(slices.Compact(slices.Sorted(slices.Values(d.Values)))) < 2 {
			t.Errorf("%+v", d)
		}
	}
	if slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "durability differs") }) != r.DurabilityDiffers {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func normal(_ int, r *tps.Result) { r.Settings.Synchronous = "normal" }

func TestCompare(t *testing.T) {
	var calls, seen []string
	note := func(arm string) func(int, *tps.Result) {
		return func(round int, r *tps.Result) {
			calls = append(calls, fmt.Sprint(arm, round))
			if arm != "a" {
				normal(round, r)
			}
		}
	}
	r, err := Compare(t.Context(), CompareConfig{
		Arms: []VariantArm{
			variantArm("a", 1000, note("a"), Setting{"sync", "full"}),
			variantArm("b", 2000, note("b"), Setting{"sync", "normal"}),
			variantArm("c", 1001, note("c"), Setting{"sync", "normal"}, Setting{"fail-rate", "0.1"}),
		},
		Warmup: true, Observe: func(p RoundProgress) { seen = append(seen, p.Arm) },
	})
	if err != nil {
		t.Fatal(err)
	}
	checkComparison(t, r)
	if got := strings.Join(calls[:9], " "); got != "a0 b0 c0 a1 b1 c1 c2 b2 a2" || len(seen) != 2*len(calls) || len(calls) != 3*(1+DefaultRounds) {
		t.Errorf("ran %q", calls)
	}
	if !r.Interleaved || r.AA || r.Interrupted || r.Rounds != 6 || r.RoundsPlanned != 6 || r.Figure != "tps" || !r.Verify.OK || r.Verify.AccountsChecked != 900 {
		t.Errorf("%+v", r)
	}
	b, c := r.Pairs[0], r.Pairs[1]
	// 6 and 6 runs apart from each other are 2 of the C(12, 6) = 924 orders; of two pairs.
	if b.Name != "b" || b.Ratio != 2 || b.Low < 1.999 || b.High > 2.001 || !near(b.P, 2./924) || !near(b.Adjusted, 4./924) || b.Noise {
		t.Errorf("%+v", b)
	}
	if c.Name != "c" || !near(c.Ratio, 1.001) || !c.Noise {
		t.Errorf("%+v", c)
	}
	a := r.Arms[0]
	if a.Name != "a" || a.Scenario != "savepoint" || a.Engine != "sqlite" || !near(a.TPS.Median, 1035) || !near(a.TPS.Low, 1010) || !near(a.TPS.High, 1060) ||
		!near(a.TPSSettled.Median, 1035./2) || a.P50.Median != 1e6 || a.P99.Values[0] != 990_099_009 || a.Load.Rows != 1000 || a.Effective.Synchronous != "full" || a.Env.CPUs != 2 {
		t.Errorf("%+v", a)
	}
	want := []Difference{{"settings.synchronous", []string{"full", "normal", "normal"}, true}}
	if fmt.Sprint(r.Differences) != fmt.Sprint(want) || !r.DurabilityDiffers {
		t.Errorf("%+v", r.Differences)
	}
	if want := []string{"durability differs: a: each COMMIT is synced before it is acknowledged; b: a crash of the machine may lose the last commits; c: a crash of the machine may lose the last commits"}; !slices.Equal(r.Warnings, want) {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func near(got, want float64) bool { return got > want*(1-1e-9) && got < want*(1+1e-9) }

func TestCompareFigure(t *testing.T) {
	atRate := func(_ int, r *tps.Result) { r.Load.Mode = tps.OpenLoop }
	for name, c := range map[string]struct {
		figure string
		change func(int, *tps.Result)
		want   string
		ratio  float64
	}{
		"by default":     {"", nil, "tps", 2},
		"at a rate":      {"", atRate, "p99_ns", 0.5},
		"asked for":      {"tps", atRate, "tps", 2},
		"settled":        {"tps_settled", nil, "tps_settled", 2},
		"another":        {"p99_ns", nil, "p99_ns", 0.5},
		"without change": {"p50_ns", nil, "p50_ns", 1},
	} {
		t.Run(name, func(t *testing.T) {
			arms := []VariantArm{variantArm("a", 1000, nil), variantArm("b", 2000, c.change, Setting{"rate", "1k"})}
			r, err := Compare(t.Context(), CompareConfig{Arms: arms, Figure: c.figure})
			if err != nil {
				t.Fatal(err)
			}
			checkComparison(t, r)
			if p := r.Pairs[0]; r.Figure != c.want || p.Ratio < c.ratio*0.999 || p.Ratio > c.ratio*1.001 {
				t.Errorf("%s: %+v", r.Figure, p)
			}
		})
	}
}

func TestCompareWarns(t *testing.T) {
	set := Setting{"max-batch", "10"}
	batch := func(_ int, r *tps.Result) { r.Settings.MaxBatch = 10 }
	few := fewRounds(3, 0.75)
	for name, c := range map[string]struct {
		rounds int
		aa     bool
		arms   []VariantArm
		want   []string
	}{
		"nothing": {6, false, []VariantArm{variantArm("a", 1000, nil), variantArm("b", 2000, batch, set)}, nil},
		"few rounds": {3, false, []VariantArm{variantArm("a", 1000, nil), variantArm("b", 2000, batch, set)},
			[]string{"too few rounds (3): at least 4 are needed to tell a difference from noise", few}},
		"few rounds for the pairs": {4, false, []VariantArm{variantArm("a", 1000, nil), variantArm("b", 2000, batch, set), variantArm("c", 3000, batch, set)},
			[]string{"too few rounds (4): at least 5 are needed to tell a difference from noise", fewRounds(4, 0.875)}},
		"the same": {6, false, []VariantArm{variantArm("a", 1000, nil), variantArm("b", 2000, nil, Setting{"fail-rate", "0.1"})},
			[]string{"nothing that results record differs between the arms: what they differ by is noise, or what is not recorded"}},
		"A/A": {6, true, []VariantArm{variantArm("A", 1000, nil), variantArm("A'", 1000, nil)}, nil},
		"A/A told apart": {6, true, []VariantArm{variantArm("A", 1000, nil), variantArm("A'", 2000, nil)},
			[]string{"A' and A are the same and were told apart (p 0.00216): once in 20 times that is chance, else the machine is not steady enough to compare on"}},
		"what was not asked": {6, false, []VariantArm{variantArm("a", 1000, nil, Setting{"max-batch", "20"}, Setting{"cache-size", "1m"}), variantArm("b", 2000, func(k int, r *tps.Result) {
			batch(k, r)
			r.Settings.CacheSize, r.Load.Stages, r.Load.ThinkBound, r.Env.DBBytes = -1000, []tps.Stage{}, 9, 7
		}, set, Setting{"cache-size", "1m"})},
			[]string{"besides what was asked, the arms differ in settings.cache_size (-65536, -1000)"}},
		"its own runs": {6, false, []VariantArm{variantArm("a", 1000, nil), variantArm("b", 2000, func(round int, r *tps.Result) {
			batch(round, r)
			r.Settings.Readers, r.Load.RandomSeed = round%2, uint64(7+round%6) // in the last round as a has them
		}, set)}, []string{"b: its own runs differ in settings.readers"}},
		"those of runs": {6, false, []VariantArm{variantArm("a", 1000, func(_ int, r *tps.Result) { r.Warnings = []string{"it is in memory"} }), variantArm("b", 2000, func(round int, r *tps.Result) {
			batch(round, r)
			if r.Warnings = []string{"it is in memory"}; round > 2 {
				r.Warnings = append(r.Warnings, fmt.Sprintf("it stood still for %d ms", round))
			}
		}, set)}, []string{"all arms: it is in memory (in 12 of 12 runs)", "b: it stood still for 3 ms (in 4 of 6 runs)"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Compare(t.Context(), CompareConfig{Arms: c.arms, Rounds: c.rounds, AA: c.aa})
			if err != nil {
				t.Fatal(err)
			}
			checkComparison(t, r)
			if !slices.Equal(r.Warnings, c.want) || r.AA != c.aa {
				t.Errorf("warnings %q", r.Warnings)
			}
		})
	}
}

func TestCompareEnds(t *testing.T) {
	broken := errors.New("the disk is on fire")
	for name, c := range map[string]struct {
		figure      string
		change      func(cancel func(), round int, r *tps.Result) error
		rounds      int
		interrupted bool
		err         string
	}{
		"an error": {"", func(_ func(), round int, _ *tps.Result) error {
			if round == 3 {
				return broken
			}
			return nil
		}, 2, false, "trials: b in round 3: the disk is on fire"},
		"nothing acknowledged": {"", func(_ func(), round int, r *tps.Result) error {
			r.TPS = 0
			return nil
		}, 0, false, "trials: b in round 1: no transaction was acknowledged"},
		"no such figure": {"p99_ns", func(_ func(), round int, r *tps.Result) error {
			r.Latency = tps.Latency{}
			return nil
		}, 0, false, "trials: b in round 1: it has no p99_ns: compare another figure (--figure)"},
		"interrupted": {"p99_ns", func(cancel func(), round int, r *tps.Result) error {
			if round == 5 {
				cancel()
				r.Interrupted, r.TPS, r.Latency = true, 0, tps.Latency{}
			}
			return nil
		}, 4, true, "<nil>"},
		"interrupted at once": {"", func(cancel func(), round int, r *tps.Result) error {
			cancel()
			return context.Canceled
		}, 0, true, "<nil>"},
		"a failed proof": {"", func(_ func(), round int, r *tps.Result) error {
			r.Verify.OK = round != 6
			return nil
		}, 5, false, "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cfg := CompareConfig{Figure: c.figure, Arms: []VariantArm{variantArm("a", 1000, nil), {Arm: Arm{"b", func(_ context.Context, round int) (*tps.Result, error) {
				r := measured(1000)
				return r, c.change(cancel, round, r)
			}}}}}
			r, err := Compare(ctx, cfg)
			if fmt.Sprint(err) != c.err || r.Rounds != c.rounds || r.Interrupted != c.interrupted || len(r.Arms) > 0 != (c.rounds > 0) {
				t.Errorf("%+v, %v", r, err)
			}
			checkComparison(t, r)
			if want := fmt.Sprintf("%d of 6 rounds were measured: the rest was not finished", c.rounds); r.Warnings[0] != want {
				t.Errorf("warnings %q", r.Warnings)
			}
			if failed := r.Verify.Checked && !r.Verify.OK; failed != (name == "a failed proof") {
				t.Errorf("the proof is %+v", r.Verify)
			}
		})
	}
}

func TestCompareValidate(t *testing.T) {
	for want, change := range map[string]func(*CompareConfig){
		"two arms are needed to compare":                                   func(c *CompareConfig) { c.Arms = c.Arms[:1] },
		"trials: every arm needs Run":                                      func(c *CompareConfig) { c.Arms[1].Run = nil },
		`trials: each arm needs a name of its own, unlike "a"`:             func(c *CompareConfig) { c.Arms[1].Name = "a" },
		"the arms of an A/A comparison must have the same settings":        func(c *CompareConfig) { c.AA = true },
		"--rounds must be from 1 to 1000":                                  func(c *CompareConfig) { c.Rounds = 1001 },
		`--figure must be tps, tps_settled, p50_ns or p99_ns, not "speed"`: func(c *CompareConfig) { c.Figure = "speed" },
	} {
		cfg := CompareConfig{Arms: []VariantArm{variantArm("a", 1, nil), variantArm("b", 1, nil, Setting{"sync", "off"})}}
		change(&cfg)
		r, err := Compare(t.Context(), cfg)
		var config tps.ConfigError
		if r != nil || !errors.As(err, &config) || err.Error() != want {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// What an arm was told is not held against it; what it was told in the same way as
// all others is.
func TestAsked(t *testing.T) {
	arm := func(settings ...Setting) comparedRuns { return comparedRuns{settings: settings} }
	for name, c := range map[string]struct {
		field string
		arms  []comparedRuns
		want  bool
	}{
		"one of them":          {"settings.synchronous", []comparedRuns{arm(), arm(Setting{"sync", "off"})}, true},
		"both, the same":       {"settings.synchronous", []comparedRuns{arm(Setting{"sync", "off"}), arm(Setting{"sync", "off"})}, false},
		"another flag":         {"settings.synchronous", []comparedRuns{arm(), arm(Setting{"cache-size", "1m"})}, false},
		"a PRAGMA":             {"settings.synchronous", []comparedRuns{arm(), arm(Setting{"pragma", "Synchronous=off"})}, true},
		"another PRAGMA":       {"settings.synchronous", []comparedRuns{arm(), arm(Setting{"pragma", "cell_size_check=1"})}, false},
		"the second PRAGMA":    {"settings.cache_size", []comparedRuns{arm(Setting{"pragma", "a=1"}), arm(Setting{"pragma", "a=1"}, Setting{"pragma", "cache_size=1"})}, true},
		"what a flag implies":  {"load.mode", []comparedRuns{arm(Setting{"concurrency", "4"}), arm()}, true},
		"what nobody can ask":  {"env.cpu", []comparedRuns{arm(Setting{"sync", "off"}), arm()}, false},
		"a flag without field": {"settings.readers", []comparedRuns{arm(Setting{"fail-rate", "1"}), arm()}, false},
	} {
		if got := asked(c.arms, c.field); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The table names only what results have, and every setting can be asked for.
func TestSetBy(t *testing.T) {
	known := map[string]bool{}
	for _, p := range properties(measured(1)) {
		known[p.name] = true
	}
	asks := map[string]bool{}
	for flag, fields := range setBy {
		for _, field := range fields {
			if asks[field] = true; !known[field] {
				t.Errorf("%s sets %s, which no result has", flag, field)
			}
		}
	}
	for name := range known {
		if !asks[name] && !strings.HasPrefix(name, "env.") {
			t.Errorf("no flag sets %s", name)
		}
	}
}

func TestPromise(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct{ journal, sync, filesystem, class string }{
		{"wal", "full", "ext4", "all"}, {"wal", "extra", "xfs", "all"}, {"delete", "extra", "", "all"}, {"truncate", "full", "", "all"}, {"persist", "full", "", "all"},
		{"delete", "full", "", "but the last"},
		{"wal", "normal", "", "but the last ones"},
		{"delete", "normal", "", "rarely none"}, {"persist", "normal", "", "rarely none"},
		{"wal", "off", "", "none"}, {"delete", "off", "", "none"},
		{"off", "full", "", "none, ever"}, {"memory", "off", "", "none, ever"},
		{"wal", "full", "tmpfs", "memory"}, {"off", "off", "ramfs", "memory"},
		{"", "on", "", "another database's"}, {"", "", "", "unknown"},
	} {
		p := PromiseOf(tps.Settings{JournalMode: c.journal, Synchronous: c.sync}, tps.Env{Filesystem: c.filesystem}).String()
		if class, ok := seen[p]; ok && class != c.class {
			t.Errorf("%+v promises %q as %s does", c, p, class)
		}
		seen[p] = c.class
	}
	if len(seen) != 9 {
		t.Errorf("%d promises of 9", len(seen))
	}
}

// history makes up the runs of a file.
func history(change func(*tps.Result), speeds ...float64) (list []*tps.Result) {
	for k, speed := range speeds {
		r := measured(speed)
		if r.Load.RandomSeed = uint64(k); change != nil {
			change(r)
		}
		list = append(list, r)
	}
	return list
}

func TestCompareRuns(t *testing.T) {
	older := history(nil, 100, 103, 101, 102)
	newer := history(func(r *tps.Result) { r.Settings.Synchronous, r.Env.Commit = "normal", "1234567" }, 204, 203, 206, 207, 205)
	r, err := CompareRuns([]string{"old", "new"}, [][]*tps.Result{older, newer}, "")
	if err != nil {
		t.Fatal(err)
	}
	checkComparison(t, r)
	p := r.Pairs[0]
	if p.Name != "new" || p.Of != "old" || !near(p.Ratio, 205/101.5) || !near(p.P, 2./126) || p.Noise { // C(9, 4) = 126
		t.Errorf("%+v", p)
	}
	if r.Interleaved || r.Rounds != 0 || r.RoundsPlanned != 0 || r.Figure != "tps" || !r.DurabilityDiffers || !r.Verify.OK || r.StartedAt != time.Unix(1e9+100, 0) ||
		r.Arms[1].TPS.N != 5 || len(r.Arms[0].Settings) != 0 {
		t.Errorf("%+v", r)
	}
	want := []string{
		"durability differs: old: each COMMIT is synced before it is acknowledged; new: a crash of the machine may lose the last commits",
		"besides their figures, the runs differ in settings.synchronous (full, normal); env.commit (, 1234567)",
	}
	if !slices.Equal(r.Warnings, want) {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// Files that hold the same mixture of promises are not alike.
func TestCompareRunsMixed(t *testing.T) {
	mixed := history(nil, 1, 2, 3, 4)
	normal(0, mixed[1])
	r, err := CompareRuns([]string{"old", "new"}, [][]*tps.Result{mixed, mixed}, "")
	if err != nil {
		t.Fatal(err)
	}
	checkComparison(t, r)
	if !r.DurabilityDiffers || len(r.Differences) > 0 || !slices.Contains(r.Warnings, "new: its own runs differ in settings.synchronous") {
		t.Errorf("%+v", r)
	}
}

func TestCompareRunsLeavesOut(t *testing.T) {
	older := history(nil, 100, 101, 102)
	newer := history(nil, 200, 201, 202, 203, 99)
	newer[1].Interrupted = true
	newer[4].Verify = tps.Verify{Checked: true, Detail: "account 17 differs"}
	late := measured(102)
	late.Verify.Checked = false // must not hide the failure before it
	r, err := CompareRuns([]string{"old", "new", "late"}, [][]*tps.Result{older, newer, {late, late, late}}, "tps")
	if err != nil {
		t.Fatal(err)
	}
	checkComparison(t, r)
	want := []string{
		"new: 2 of 5 runs are left out, as they were interrupted or their proof failed",
		"too few runs (3): at least 5 a side are needed to tell a difference from noise",
	}
	if !slices.Equal(r.Warnings, want) || !slices.Equal(r.Arms[1].TPS.Values, []float64{200, 202, 203}) || !r.Pairs[0].Noise {
		t.Errorf("%+v", r)
	}
	if !r.Verify.Checked || r.Verify.OK || r.Verify.Detail != "account 17 differs" || r.StartedAt != time.Unix(1e9+99, 0) {
		t.Errorf("%+v", r)
	}
}

func TestCompareRunsRefuses(t *testing.T) {
	older := history(nil, 1, 2, 3, 4)
	for want, c := range map[string]struct {
		names  []string
		newer  []*tps.Result
		figure string
	}{
		`trials: new: run 1 has the scenario "funds", and the first run of old "savepoint": they cannot be compared`: {nil, history(func(r *tps.Result) { r.Scenario = "funds" }, 1), ""},
		`trials: new: run 1 has the engine "postgres", and the first run of old "sqlite": they cannot be compared`:   {nil, history(func(r *tps.Result) { r.Engine = "postgres" }, 1), ""},
		`trials: new: run 2 has the load "open", and the first run of old "closed": they cannot be compared`: {nil, append(history(nil, 1),
			history(func(r *tps.Result) { r.Load.Mode = tps.OpenLoop }, 1)...), ""},
		"trials: new: run 3: no transaction was acknowledged":                             {nil, history(nil, 1, 2, 0), ""},
		"trials: new: run 1: it has no p99_ns: compare another figure (--figure)":         {nil, history(func(r *tps.Result) { r.Latency.P99 = 0 }, 1), "p99_ns"},
		"trials: new: no run of it counts: save one that is whole and proved with -o":     {nil, history(func(r *tps.Result) { r.Interrupted = true }, 1), ""},
		"trials: old is named twice: name another one to hold it against":                 {[]string{"old", "old"}, older, ""},
		"trials: 2 lists of runs have 1 names: two or more are needed, each with its own": {[]string{"old"}, older, ""},
		`--figure must be tps, tps_settled, p50_ns or p99_ns, not "tp"`:                   {nil, older, "tp"},
	} {
		if c.names == nil {
			c.names = []string{"old", "new"}
		}
		if r, err := CompareRuns(c.names, [][]*tps.Result{older, c.newer}, c.figure); r != nil || err == nil || err.Error() != want {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
