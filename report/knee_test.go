package report

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// simulated is a load whose latencies grow as those of a queue do, until it has
// done so many steps, after which cancel is called.
type simulated struct {
	name      string
	capacity  float64
	generator float64 // what this machine can offer; 0: anything
	steps     int     // 0: as many as are asked for
	cancel    context.CancelFunc
	change    func(*tps.Result)
}

func (s *simulated) load() trials.Load {
	done := 0
	return trials.Load{Name: s.name, Run: func(_ context.Context, rate float64, _, _ time.Duration, _ func(*tps.Result) string) (*tps.Result, error) {
		r := openLoop(rate)
		p50 := time.Second
		if free := 1 - rate/s.capacity; free > 0.001 {
			p50 = min(p50, time.Duration(float64(time.Millisecond)*(1+rate/s.capacity/free)))
		}
		r.Latency = latency(r.Acknowledged, p50)
		if s.generator > 0 && rate > s.generator { // late, but no fault of the database
			r.Schedule.GeneratorBound, r.Schedule.LateP99 = true, 310*time.Millisecond
			r.Service = r.Latency
			r.Latency.P99 += 310 * time.Millisecond
		}
		r.Writer.Checkpoints = 20
		r.Verify = tps.Verify{Checked: true, OK: true, Conserved: true, AccountsChecked: 100_000}
		if rate > 1.5*s.capacity { // cut short
			r.Acknowledged, r.Schedule.Arrivals, r.Schedule.Backlog, r.Elapsed = int64(3*s.capacity), int64(4*rate), int64(rate), 4*time.Second
			r.TPS = s.capacity
		}
		if s.capacity < 1 {
			r.Acknowledged, r.Latency = 0, tps.Latency{}
		}
		if s.change != nil {
			s.change(r)
		}
		if done++; done == s.steps {
			s.cancel()
		}
		return r, nil
	}}
}

// searched is what a search with p99<50ms finds under the loads.
func searched(t *testing.T, need float64, loads ...*simulated) *trials.KneeResult {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slo, err := tps.ParseThreshold("p99<50ms")
	if err != nil {
		t.Fatal(err)
	}
	cfg := trials.KneeConfig{SLO: []tps.Threshold{slo}, Need: need}
	for _, l := range loads {
		l.cancel = cancel
		cfg.Loads = append(cfg.Loads, l.load())
	}
	r, err := trials.Knee(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.StartedAt = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	r.Argv = []string{"knee", "--slo", "p99<50ms"}
	return r
}

// knees are the cases that the golden files show.
func knees(t *testing.T) map[string]*trials.KneeResult {
	uniform := func(capacity float64) *simulated { return &simulated{name: "cold uniform", capacity: capacity} }
	given := func(capacity float64) *simulated { return &simulated{name: "as given", capacity: capacity} }
	bound := given(1e9)
	bound.generator = 200_000
	shaky := uniform(5000)
	steps := 0
	shaky.change = func(r *tps.Result) { // two stalls in a row, twice: two brackets that were wrong
		if steps++; steps <= 2 || steps == 13 || steps == 14 {
			r.Latency = latency(r.Acknowledged, time.Second)
		}
		r.Writer.Checkpoints = 1
		r.Warnings = []string{"garbage collector: the program stood still for 300ms of 5s"}
	}
	failed := uniform(3000)
	failed.change = func(r *tps.Result) {
		r.Verify = burst().Verify
		r.Verify.OK = false
		r.Verify.Detail = "account 17 differs"
	}
	nowhere := uniform(1e9)
	nowhere.generator = 0.5
	short := uniform(20_000)
	short.steps = 6
	results := map[string]*trials.KneeResult{
		"yes":           searched(t, 3000, uniform(20_000), given(250_000)),
		"yes-at-least":  searched(t, 3000, uniform(250_000), bound),
		"no":            searched(t, 30_000, uniform(2500), given(250_000)),
		"not-even-one":  searched(t, 3, uniform(0.5)),
		"no-question":   searched(t, 0, given(20_000)),
		"at-least":      searched(t, 0, bound),
		"interrupted":   searched(t, 3000, short, given(250_000)),
		"not-offered":   searched(t, 1_000_000, bound),
		"nothing-known": searched(t, 2, nowhere),
		"unsettled":     searched(t, 0, shaky),
		"failed":        searched(t, 3000, failed),
		"never-begun":   searched(t, 3000, uniform(1)),
	}
	results["never-begun"].Loads, results["never-begun"].Interrupted, results["never-begun"].Answer = nil, true, trials.Unknown
	results["never-begun"].SustainableTPS, results["never-begun"].Env, results["never-begun"].Verify = 0, tps.Env{}, tps.Verify{}
	return results
}

func TestKneeText(t *testing.T) {
	for name, r := range knees(t) {
		t.Run(name, func(t *testing.T) {
			plain, colored := rendered(t, KneeText(r, false)), rendered(t, KneeText(r, true))
			golden(t, "knee-"+name, plain)
			if strings.Contains(plain, "\x1b") || escape.ReplaceAllString(colored, "") != plain || colored == plain {
				t.Error("colours change more or less than the colour")
			}
			fits(t, plain)
		})
	}
}

func TestKneeAnswerLine(t *testing.T) {
	of := func(answer trials.Answer, rate float64, atLeast bool, loads ...trials.LoadKnee) *trials.KneeResult {
		return &trials.KneeResult{
			SLO: []string{"p99<50ms", "failed==0"}, Need: 3000, Answer: answer, SustainableTPS: rate, AtLeast: atLeast,
			Headroom: rate / 3000, Loads: loads, Verify: tps.Verify{Checked: true, OK: true},
		}
	}
	load := func(name string, rate float64, p99 time.Duration) trials.LoadKnee {
		return trials.LoadKnee{Name: name, State: trials.Found, SustainableTPS: rate, AtNeed: &trials.Measured{Rate: 3000, Latency: tps.Latency{Count: 1, P99: p99}}}
	}
	nothing := load("b", 0, 2*time.Second)
	nothing.State, nothing.FailedTPS = trials.BelowMinimum, 1
	ended := load("a", 2000, time.Second)
	ended.State = trials.Unfinished
	none := of(trials.NoQuestion, 0, false, ended)
	none.Need, none.Verify.OK = 0, false
	stopped := of(trials.NoQuestion, 2000, true, ended)
	stopped.Interrupted = true
	exhausted, bound := load("a", 3000, 4*time.Millisecond), load("b", 3100, 4*time.Millisecond)
	exhausted.State, bound.State, bound.UnofferedTPS = trials.AtLeast, trials.AtLeast, 3250
	above := exhausted
	above.SustainableTPS = 3100
	cut := of(trials.No, 1500.5, true, ended)
	cut.Interrupted = true
	shaky, lost := load("a", 3100, 4*time.Millisecond), load("a", 0, time.Second)
	shaky.State, lost.State, lost.FailedTPS = trials.Unsettled, trials.Unsettled, 900
	unasked := of(trials.NoQuestion, 3100, false, shaky)
	unasked.Need = 0
	for want, r := range map[string]*trials.KneeResult{
		"NO: 3,000 transactions a second do not hold p99<50ms and failed==0 here: at least 1,500.5 do; p99 at 3,000 was 1.00 s; the search was interrupted": cut,
		"YES: 3,000 transactions a second hold p99<50ms and failed==0 here, with 5.2 times to spare; p99 there 4.10 ms": of(trials.Yes, 15_600, false,
			load("a", 15_600, 3*time.Millisecond), load("b", 20_000, 4100*time.Microsecond)),
		"YES: 3,000 transactions a second hold p99<50ms and failed==0 here, with at least 1.1 times to spare; p99 there 4.00 ms": of(trials.Yes, 3150, true,
			load("a", 3150, 4*time.Millisecond)),
		"YES: 3,000 transactions a second hold p99<50ms and failed==0 here, with nothing to spare; p99 there 4.00 ms": of(trials.Yes, 3149, false,
			load("a", 3149, 4*time.Millisecond)),
		"YES: 3,000 transactions a second hold p99<50ms and failed==0 here; p99 there 4.00 ms; nothing above was tried":                   of(trials.Yes, 3000, true, exhausted, bound),
		"YES: 3,000 transactions a second hold p99<50ms and failed==0 here; p99 there 4.00 ms; nothing above 3,100 was tried":             of(trials.Yes, 3100, true, above),
		"YES: 3,000 transactions a second hold p99<50ms and failed==0 here; p99 there 4.00 ms; this machine could not offer 3,250 evenly": of(trials.Yes, 3100, true, above, bound),
		"NO: 3,000 transactions a second do not hold p99<50ms and failed==0 here: 1,200 do under the load b; p99 at 3,000 was 2.00 s": of(trials.No, 1200, false,
			load("a", 9000, time.Second), load("b", 1200, 2*time.Second)),
		"NO: 3,000 transactions a second do not hold p99<50ms and failed==0 here: not even 1 transaction a second does; p99 at 3,000 was 2.00 s":        of(trials.No, 0, false, nothing),
		"NO: 3,000 transactions a second do not hold p99<50ms and failed==0 here; p99 at 3,000 was 1.00 s":                                              of(trials.No, 0, true, ended),
		"UNKNOWN: whether 3,000 transactions a second hold p99<50ms and failed==0 here: the search ended before it was settled; at least 2,000 hold it": of(trials.Unknown, 2000, true, ended),
		"UNKNOWN: whether 3,000 transactions a second hold p99<50ms and failed==0 here: this machine could not offer so many evenly": of(trials.Unknown, 0, true,
			load("a", 0, 0)),
		"YES: 3,000 transactions a second hold p99<50ms and failed==0 here, with nothing to spare; p99 there 4.00 ms; the verdicts contradict each other":                               of(trials.Yes, 3100, false, shaky),
		"NO: 3,000 transactions a second do not hold p99<50ms and failed==0 here: not even 900 transactions a second does; p99 at 3,000 was 1.00 s; the verdicts contradict each other": of(trials.No, 0, false, lost),
		"3,100 transactions a second hold p99<50ms and failed==0 here; the verdicts contradict each other":                                                                              unasked,
		"The proof FAILED: nothing that was measured counts":                                                none,
		"At least 2,000 transactions a second hold p99<50ms and failed==0 here; the search was interrupted": stopped,
	} {
		if got, _ := kneeAnswer(r); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestKneeLoadLines(t *testing.T) {
	steps := []trials.Step{
		{Rate: 62_250, Verdict: trials.Pass}, {Rate: 64_990, Verdict: trials.Fail}, {Rate: 62_250, Verdict: trials.Fail},
		{Rate: 62_250, Verdict: trials.Pass}, {Rate: 64_990, Verdict: trials.GeneratorBound}, {Rate: 64_990, Verdict: trials.Pass}, {Rate: 1000, Verdict: trials.Pass},
	}
	for _, c := range []struct {
		load          trials.LoadKnee
		holds, counts string
	}{
		{trials.LoadKnee{State: trials.Found, SustainableTPS: 62_250, FailedTPS: 64_990, Steps: steps}, "62,250 a second; 64,990 do not", "62,250: 2 of 3 held; 64,990: 1 of 3"},
		{trials.LoadKnee{State: trials.AtLeast, SustainableTPS: 62_250, UnofferedTPS: 64_990, Steps: steps}, "at least 62,250 a second; this machine could not offer 64,990 evenly", "62,250: 2 of 3 held; 64,990: 1 of 3"},
		{trials.LoadKnee{State: trials.Unsettled, SustainableTPS: 62_250, FailedTPS: 64_990, Steps: steps}, "62,250 a second, more or less: the verdicts contradict each other", "62,250: 2 of 3 held; 64,990: 1 of 3"},
		{trials.LoadKnee{State: trials.Unsettled, FailedTPS: 64_990, Steps: steps}, "not known: the verdicts contradict each other, and nothing held more often than not", "64,990: 1 of 3 held"},
		{trials.LoadKnee{State: trials.Unfinished, SustainableTPS: 62_250, FailedTPS: 64_990, Steps: steps[:2]}, "not settled: at least 62,250 a second; 64,990 do not", ""},
		{trials.LoadKnee{State: trials.Unfinished, Steps: steps}, "not settled", ""},
	} {
		if got := kneeLine(c.load); got != c.holds {
			t.Errorf("%q, want %q", got, c.holds)
		}
		if got := kneeVotes(c.load); got != c.counts {
			t.Errorf("%q, want %q", got, c.counts)
		}
	}
}

func TestKneeJSON(t *testing.T) {
	r := knees(t)["yes"]
	text := rendered(t, JSON(r))
	golden(t, "knee-json", text)
	if strings.Contains(text, "null") || strings.Contains(text, `\u003c`) {
		t.Error("there are nulls or escapes in it")
	}
	var back trials.KneeResult
	if err := json.Unmarshal([]byte(text), &back); err != nil {
		t.Fatal(err)
	}
	if again := rendered(t, JSON(&back)); again != text {
		t.Errorf("read back it is %s", again)
	}
}

func TestKneeCSV(t *testing.T) {
	r := knees(t)["not-offered"]
	text := rendered(t, KneeCSV(r))
	golden(t, "knee-csv", text)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + len(r.Loads[0].Steps); len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
}

func TestKneeWriterErrors(t *testing.T) {
	broken := errors.New("broken")
	r := searched(t, 0, &simulated{name: "a", capacity: 3000})
	for name, renderer := range map[string]Renderer{"text": KneeText(r, false), "json": JSON(r), "csv": KneeCSV(r)} {
		if err := renderer(brokenWriter{broken}); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
