package report

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// madeArm is an arm of a comparison whose rounds differ by a few percent, each in its
// own way for each arm.
type madeArm struct {
	name, settings string // flag=value, separated by blanks
	tps            float64
	change         func(round int, r *tps.Result)
}

// result is one round of arm number k.
func (a madeArm) result(k, round int) *tps.Result {
	r := burst()
	wobble := 1 + 0.01*float64((round*(k+2))%5)
	r.Runs, r.TPS, r.Warnings = r.Runs[:2], a.tps*wobble, []string{}
	r.TPSSettled = 0.96 * r.TPS
	r.Latency.P50, r.Latency.P99 = time.Duration(4e14/r.TPS), time.Duration(9e14/r.TPS)
	for _, s := range a.list() {
		switch s.Name {
		case "sync":
			r.Settings.Synchronous = s.Value
		case "batch-window":
			r.Settings.BatchWindow, _ = time.ParseDuration(s.Value)
		case "max-batch":
			fmt.Sscan(s.Value, &r.Settings.MaxBatch)
		}
	}
	if a.change != nil {
		a.change(round, r)
	}
	return r
}

func (a madeArm) list() (settings []trials.Setting) {
	for _, s := range strings.Fields(a.settings) {
		name, value, _ := strings.Cut(s, "=")
		settings = append(settings, trials.Setting{Name: name, Value: value})
	}
	return settings
}

// comparison measures made-up arms.
func comparison(t *testing.T, rounds int, figure string, arms ...madeArm) *trials.CompareResult {
	t.Helper()
	cfg := trials.CompareConfig{Rounds: rounds, Figure: figure, AA: arms[0].settings == "" && arms[1].settings == ""}
	for k, arm := range arms {
		cfg.Arms = append(cfg.Arms, trials.VariantArm{Settings: arm.list(), Arm: trials.Arm{
			Name: arm.name, Run: func(_ context.Context, round int) (*tps.Result, error) { return arm.result(k, round), nil },
		}})
	}
	r, err := trials.Compare(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.StartedAt = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	r.Argv = []string{"compare", "-n", "100k"}
	return r
}

// saved compares runs that were made at other times.
func saved(t *testing.T, rounds int, arms ...madeArm) *trials.CompareResult {
	t.Helper()
	var names []string
	var runs [][]*tps.Result
	for k, arm := range arms {
		names, runs = append(names, arm.name), append(runs, nil)
		for round := range rounds {
			runs[k] = append(runs[k], arm.result(k, round))
		}
	}
	r, err := trials.CompareRuns(names, runs, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// comparisons are the cases that the golden files show.
func comparisons(t *testing.T) map[string]*trials.CompareResult {
	full, normal := madeArm{name: "full", settings: "sync=full", tps: 20_654}, madeArm{name: "normal", settings: "sync=normal", tps: 66_000}
	another := madeArm{name: "sync=full", settings: "sync=full", tps: 20_900, change: func(_ int, r *tps.Result) {
		r.Settings.PageSize, r.Env.SQLite = 8192, "3.50.0"
		r.Warnings = []string{"garbage collector: the program stood still for 30ms of 400ms"}
	}}
	batches := []madeArm{
		{name: "max-batch=1", settings: "max-batch=1", tps: 5_512}, {name: "max-batch=1000", settings: "max-batch=1000", tps: 118_000},
		{name: "max-batch=10000", settings: "max-batch=10000", tps: 119_900}, {name: "max-batch=20000", settings: "max-batch=20000", tps: 118_700},
	}
	failed := normal
	failed.change = func(round int, r *tps.Result) {
		if round == 3 {
			r.Verify.OK, r.Verify.Detail = false, "account 17 differs"
		}
	}
	stopped := func(at int) madeArm {
		arm := normal
		arm.change = func(round int, r *tps.Result) { r.Interrupted = round == at }
		return arm
	}
	open := func(name, settings string, p99 time.Duration) madeArm {
		return madeArm{name: name, settings: settings, tps: 3000, change: func(round int, r *tps.Result) {
			r.Load.Mode, r.Load.Rate, r.Load.Arrival, r.Load.Transactions, r.Load.Duration = tps.OpenLoop, 3000, tps.ConstantArrival, 0, 10*time.Second
			r.Latency.P50, r.Latency.P99 = p99/3, p99+p99/20*time.Duration(round)
		}}
	}
	return map[string]*trials.CompareResult{
		"usual":   comparison(t, 6, "", normal, full),
		"besides": comparison(t, 6, "", full, another),
		"many":    comparison(t, 8, "", batches...),
		"few":     comparison(t, 3, "tps_settled", normal, full),
		"aa":      comparison(t, 6, "", madeArm{name: "A", tps: 100_000}, madeArm{name: "A'", tps: 100_400}),
		"apart":   comparison(t, 6, "", madeArm{name: "A", tps: 100_000}, madeArm{name: "A'", tps: 112_000}),
		"rate": comparison(t, 6, "", open("batch-window=0", "batch-window=0", 4100*time.Microsecond),
			open("a window as long as ten milliseconds", "batch-window=10ms", 12300*time.Microsecond)),
		"failed":      comparison(t, 6, "", full, failed),
		"interrupted": comparison(t, 6, "", full, stopped(5)),
		"nothing":     comparison(t, 6, "", full, stopped(1)),
		"saved":       saved(t, 5, madeArm{name: "old.json", tps: 66_000}, madeArm{name: "new.json", tps: 71_000}),
		"saved-few":   saved(t, 3, normal, full),
	}
}

func TestCompare(t *testing.T) {
	for name, r := range comparisons(t) {
		t.Run(name, func(t *testing.T) {
			plain, colored := rendered(t, Compare(r, false)), rendered(t, Compare(r, true))
			golden(t, "compare-"+name, plain)
			if strings.Contains(plain, "\x1b") || escape.ReplaceAllString(colored, "") != plain || colored == plain {
				t.Errorf("colours change more or less than the colour:\n%s", colored)
			}
			fits(t, plain)
			for _, format := range []string{csvFormat, markdownFormat, benchFormat} {
				if text := rendered(t, as(t, format, r)); format != csvFormat || name == "usual" || name == "saved" || name == "nothing" {
					golden(t, "compare-"+name+"-"+format, text)
				}
			}
		})
	}
}

func as(t *testing.T, format string, r *trials.CompareResult) Renderer {
	t.Helper()
	render, err := CompareAs(format, r)
	if err != nil {
		t.Fatal(err)
	}
	return render
}

// Nobody gets the figures without the doubts, whichever format is read.
func TestCompareDoubtsInEveryFormat(t *testing.T) {
	all := comparisons(t)
	for _, format := range []string{"text", "json", csvFormat, markdownFormat, benchFormat} {
		text := func(name string) string {
			switch format {
			case "text":
				return strings.Join(strings.Fields(rendered(t, Compare(all[name], false))), " ")
			case "json":
				return rendered(t, JSON(all[name]))
			}
			return rendered(t, as(t, format, all[name]))
		}
		differs := map[string]string{"json": `"durability_differs": true`, csvFormat: "partly: a crash of the machine may lose the last commits"}[format]
		if differs == "" {
			differs = "DIFFERS: normal: partly: a crash of the machine may lose the last commits"
		}
		notInTurn := map[string]string{"json": `"interleaved": false`, csvFormat: "false", benchFormat: "interleaved: NO"}[format]
		if notInTurn == "" {
			notInTurn = "NO: the runs were made at other times"
		}
		for _, tt := range []struct {
			with, without, want string
		}{
			{"usual", "many", differs},
			{"saved-few", "saved", differs},
			{"saved", "usual", notInTurn},
			{"failed", "usual", map[bool]string{true: "account 17 differs", false: "FAILED: account 17 differs"}[format == "json"]},
			{"besides", "usual", map[bool]string{true: "3.50.0", false: "env.sqlite (3.46.1, 3.50.0)"}[format == "json"]},
		} {
			if got := text(tt.with); !strings.Contains(got, tt.want) {
				t.Errorf("%s of %q does not say %q:\n%s", format, tt.with, tt.want, got)
			}
			if got := text(tt.without); strings.Contains(got, tt.want) && format != csvFormat {
				t.Errorf("%s of %q says %q:\n%s", format, tt.without, tt.want, got)
			}
		}
	}
}

func TestCompareCSV(t *testing.T) {
	r := comparisons(t)["many"]
	rows, err := csv.NewReader(strings.NewReader(rendered(t, as(t, csvFormat, r)))).ReadAll()
	if err != nil || len(rows) != 1+len(r.Arms) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	value := func(row int, name string) string {
		k := slices.Index(rows[0], name)
		if k < 0 {
			t.Fatalf("there is no column %s in %v", name, rows[0])
		}
		return rows[row][k]
	}
	for k, arm := range r.Arms {
		for name, want := range map[string]string{
			"arm": arm.Name, "settings": settingsOf(&arm), "n": "8", "tps": fmt.Sprint(arm.TPS.Median), "p99_low_ns": fmt.Sprintf("%.0f", arm.P99.Low),
			"tps_settled_high": fmt.Sprint(arm.TPSSettled.High), "durability_differs": "false", "interleaved": "true", "synchronous": "full", "figure": "tps",
		} {
			if got := value(k+1, name); got != want {
				t.Errorf("%s of %s is %s, want %s", name, arm.Name, got, want)
			}
		}
	}
	if value(1, "ratio") != "" || value(1, "noise") != "" || value(2, "of") != "max-batch=1" || value(2, "noise") != "false" || value(2, "p_adjusted") == "" {
		t.Errorf("the pairs: %v", rows)
	}
	seen := map[string]bool{}
	for _, name := range rows[0] {
		if seen[name] {
			t.Errorf("two columns are called %s", name)
		}
		seen[name] = true
	}
}

func TestCompareJSON(t *testing.T) {
	text := rendered(t, JSON(comparisons(t)["few"]))
	golden(t, "compare-json", text)
	var back trials.CompareResult
	if err := json.Unmarshal([]byte(text), &back); err != nil {
		t.Fatal(err)
	}
	if again := rendered(t, JSON(back)); again != text {
		t.Errorf("it came back as %s", again)
	}
}

// What others script against is described.
func TestCompareDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## The comparison\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/json.md does not describe comparisons")
	}
	var object any
	if err := json.Unmarshal([]byte(rendered(t, JSON(comparisons(t)["few"]))), &object); err != nil {
		t.Fatal(err)
	}
	var walk func(name string, value any)
	walk = func(name string, value any) {
		if name != "" && !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/json.md does not describe %s of a comparison", name)
		}
		switch value := value.(type) {
		case []any:
			for _, v := range value {
				walk("", v)
			}
		case map[string]any:
			for field, v := range value {
				// These are as in a run.
				if slices.Contains([]string{"load", "effective", "env", "verify"}, field) {
					v = nil
				}
				walk(field, v)
			}
		}
	}
	walk("", object)
}

func TestTooFew(t *testing.T) {
	for _, tt := range []struct {
		n, m, pairs int
		want        bool
	}{
		{3, 3, 1, true},  // 2/20
		{4, 4, 1, false}, // 2/70
		{4, 4, 2, true},
		{5, 5, 2, false}, // 4/252
		{3, 5, 1, false}, // 2/56
		{2, 8, 1, false}, // 2/45
		{1, 38, 1, true}, // 2/39
		{1, 39, 1, false},
		{0, 5, 1, true},
	} {
		if got := tooFew(tt.n, tt.m, tt.pairs); got != tt.want {
			t.Errorf("%d and %d values, %d pairs: %v", tt.n, tt.m, tt.pairs, got)
		}
		// As the test itself has it: the least p that so many values can come to.
		a, b := make([]float64, tt.n), make([]float64, tt.m)
		for k := range a {
			a[k] = float64(k)
		}
		for k := range b {
			b[k] = float64(100 + k)
		}
		if p := trials.CompareValues(a, b).P * float64(tt.pairs); (p > trials.Alpha) != tt.want {
			t.Errorf("%d and %d values, %d pairs: the test comes to %v", tt.n, tt.m, tt.pairs, p)
		}
	}
}

func TestVerdictOfZero(t *testing.T) {
	r := comparisons(t)["usual"]
	for _, p := range []float64{0, 1e-9, 0.00051, 0.0349, 1} {
		r.Pairs[0].Adjusted = p
		if text := compareVerdicts(r)[0].text; strings.HasSuffix(text, "=0") {
			t.Errorf("%v is shown as nothing: %s", p, text)
		}
	}
	r.Pairs[0].Name = "somebody else" // as in a file that was changed
	if len(compareVerdicts(r)) != 0 {
		t.Error("a pair of an arm that is not there has a verdict")
	}
}

func TestCompareWriterErrors(t *testing.T) {
	broken := errors.New("broken")
	r := comparisons(t)["usual"]
	renderers := map[string]Renderer{"text": Compare(r, false)}
	for _, format := range []string{csvFormat, markdownFormat, benchFormat} {
		renderers[format] = as(t, format, r)
	}
	for name, render := range renderers {
		if err := render(brokenWriter{broken}); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := CompareAs("html", r); err == nil || err.Error() != `report: there is no format "html": use csv, markdown or bench` {
		t.Errorf("an unknown format: %v", err)
	}
}
