package tps

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseThreshold(t *testing.T) {
	for in, want := range map[string]string{
		"p99<20ms":               "p99<20ms",
		" P99 <= 20 ":            "p99<=20ms",
		"latency.p999>1.5s":      "p99.9>1.5s",
		"p99.9 < 1m30s":          "p99.9<1m30s",
		"service.p99.9<=500us":   "service.p99.9<=500µs",
		"commit.max<0.25":        "commit.max<250µs",
		"checkpoint.mean==0":     "checkpoint.mean==0s",
		"retry.p50 != 0s":        "retry.p50!=0s",
		"tps>50k":                "tps>50000",
		"tps_settled>=1.5m":      "tps_settled>=1500000",
		"tps_low > 2e3":          "tps_low>2000",
		"acknowledged>=1b":       "acknowledged>=1000000000",
		"acknowledged<1t":        "acknowledged<1000000000000",
		"retries<1g":             "retries<1000000000",
		"failed==0":              "failed==0",
		"late<100":               "late<100",
		"tries.mean<1.3":         "tries.mean<1.3",
		"tries.max <= 9":         "tries.max<=9",
		"error_rate<1%":          "error_rate<0.01",
		"error_rate <= 0.5 %":    "error_rate<=0.005",
		"error_rate<0.00001":     "error_rate<1e-05",
		"acknowledged<1e18":      "acknowledged<1e+18",
		"failed<+1":              "failed<1",
		"latency.mean<1e-7":      "mean<0s",
		"acknowledged>-0":        "acknowledged>0",
		"tps<99.5":               "tps<99.5",
		"latency.max<100000h":    "max<100000h0m0s",
		"reads.p90<100000000000": "reads.p90<27777h46m40s",
	} {
		got, err := ParseThreshold(in)
		if err != nil || got.String() != want {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestParseThresholdErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "there is no comparison",
		"p99":                  "write it like p99<20ms",
		"p99=5":                "< <= > >= == !=",
		"p99!5":                "< <= > >= == !=",
		"<5ms":                 "use tps",
		"p98<5ms":              "did you mean p9",
		"laency.p99<5ms":       "did you mean latency.p99?",
		"tps_setled>5":         "did you mean tps_settled?",
		"everything.p99<5ms":   "use tps, tps_settled",
		"banana<5ms":           "mean, p50, p90, p95, p99, p99.9, max, which may follow one of latency, service, reads, lag",
		"latency.tps>5":        "no metric",
		"tries.p90<3":          "did you mean tries.p",
		"p99<":                 `"" is not a time`,
		"p99<-5ms":             "is not a time",
		"p99<5k":               "is not a time such as 500us",
		"p99<nan":              "is not a time",
		"p99<0x10":             "is not a time",
		"p99<1e400":            "is not a time",
		"p99<1e13":             "is not a time",
		"p99<<5ms":             "is not a time",
		"tps>5ms":              "is not a count such as",
		"tps>":                 "is not a count",
		"tps>k":                "is not a count",
		"tps>inf":              "is not a count",
		"tps>1e19":             "is not a count",
		"tps>1e16k":            "is not a count",
		"failed==-1":           "is not a count",
		"error_rate<2":         "is not a share such as 0.01 or 1%",
		"error_rate<101%":      "is not a share",
		"error_rate<%":         "is not a share",
		"failed==1%":           "is not a count",
		"p99<5ms and tps>5000": "is not a time",
	} {
		got, err := ParseThreshold(in)
		if err == nil || !strings.Contains(err.Error(), want) || got != (Threshold{}) {
			t.Errorf("%q: %q, %v; want an error with %q", in, got, err, want)
			continue
		}
		if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "threshold ") {
			t.Errorf("%q: not one line, or without its name: %v", in, err)
		}
	}
}

// measured is a result in which every figure that a threshold can name differs.
func measured() *Result {
	next := time.Duration(0)
	latency := func() Latency {
		next += 10 * time.Millisecond
		return Latency{Count: int64(next), Mean: next, P50: next + 1, P90: next + 2, P99: next + 3, P999: next + 4, Max: next + 5}
	}
	pointer := func() *Latency { l := latency(); return &l }
	return &Result{
		Elapsed: time.Second, TPS: 1000.5, TPSLow: 900.5, TPSSettled: 800.5,
		Acknowledged: 1000, Failed: 24, Dropped: 3, Skipped: 4, Late: 5, Retries: 6,
		Tries:   Tries{Mean: 1.25, P50: 1, P99: 4, Max: 9},
		Load:    Load{LatencyLimit: time.Second},
		Latency: latency(), Service: latency(), Reads: Reads{Latency: latency()},
		Stages: Stages{
			Lag: latency(), Queue: latency(), Turn: latency(), Execute: latency(), Hold: latency(), Commit: latency(), Wake: latency(),
			Checkpoint: pointer(), Think: pointer(), Retry: pointer(),
		},
	}
}

func TestThresholdReads(t *testing.T) {
	r := measured()
	ns := func(l Latency, d time.Duration) Outcome { return Outcome{Value: float64(d), Samples: l.Count} }
	for name, want := range map[string]Outcome{
		"tps":          {Value: 1000.5, Samples: 1024},
		"tps_settled":  {Value: 800.5, Samples: 1024},
		"tps_low":      {Value: 900.5, Samples: 1024},
		"acknowledged": {Value: 1000, Samples: 1024},
		"failed":       {Value: 24, Samples: 1024},
		"retries":      {Value: 6, Samples: 1024},
		"dropped":      {Value: 3, Samples: 1031},
		"skipped":      {Value: 4, Samples: 1031},
		"late":         {Value: 5, Samples: 1000},
		"error_rate":   {Value: 24. / 1024, Samples: 1024},
		"tries.mean":   {Value: 1.25, Samples: 1000},
		"tries.p50":    {Value: 1, Samples: 1000},
		"tries.p99":    {Value: 4, Samples: 1000},
		"tries.max":    {Value: 9, Samples: 1000},

		"mean":            ns(r.Latency, r.Latency.Mean),
		"p50":             ns(r.Latency, r.Latency.P50),
		"latency.p90":     ns(r.Latency, r.Latency.P90),
		"p99":             ns(r.Latency, r.Latency.P99),
		"p99.9":           ns(r.Latency, r.Latency.P999),
		"max":             ns(r.Latency, r.Latency.Max),
		"service.p99":     ns(r.Service, r.Service.P99),
		"reads.p99":       ns(r.Reads.Latency, r.Reads.Latency.P99),
		"lag.p99":         ns(r.Stages.Lag, r.Stages.Lag.P99),
		"queue.p99":       ns(r.Stages.Queue, r.Stages.Queue.P99),
		"turn.p99":        ns(r.Stages.Turn, r.Stages.Turn.P99),
		"execute.p99":     ns(r.Stages.Execute, r.Stages.Execute.P99),
		"hold.p99":        ns(r.Stages.Hold, r.Stages.Hold.P99),
		"commit.p99":      ns(r.Stages.Commit, r.Stages.Commit.P99),
		"wake.p99":        ns(r.Stages.Wake, r.Stages.Wake.P99),
		"checkpoint.p99":  ns(*r.Stages.Checkpoint, r.Stages.Checkpoint.P99),
		"think.p99":       ns(*r.Stages.Think, r.Stages.Think.P99),
		"retry.p99.9":     ns(*r.Stages.Retry, r.Stages.Retry.P999),
		"checkpoint.mean": ns(*r.Stages.Checkpoint, r.Stages.Checkpoint.Mean),
	} {
		want.OK, want.Threshold = true, name+">=0"
		threshold, err := ParseThreshold(want.Threshold)
		if err != nil {
			t.Error(err)
			continue
		}
		want.Threshold = threshold.String()
		if got := threshold.Check(r); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		// Of nothing, nothing holds, whatever it compares.
		for _, op := range []string{"<", "<=", ">", ">=", "==", "!="} {
			threshold, err := ParseThreshold(name + op + "1")
			if err != nil {
				t.Fatal(err)
			}
			got := threshold.Check(&Result{})
			if got != (Outcome{Threshold: threshold.String()}) {
				t.Errorf("%s of an empty result: %+v", name, got)
			}
		}
	}
}

func TestThresholdCompares(t *testing.T) {
	r := &Result{Elapsed: 1, Acknowledged: 10, Failed: 3}
	for op, want := range map[string][3]bool{ // 3 compared with 2, 3 and 4
		"<": {false, false, true}, "<=": {false, true, true}, ">": {true, false, false},
		">=": {true, true, false}, "==": {false, true, false}, "!=": {true, false, true},
	} {
		var got [3]bool
		for k, limit := range []string{"2", "3", "4"} {
			threshold, err := ParseThreshold("failed" + op + limit)
			if err != nil {
				t.Fatal(err)
			}
			got[k] = threshold.Check(r).OK
		}
		if got != want {
			t.Errorf("3 %s 2, 3, 4: %v, want %v", op, got, want)
		}
	}
}

func TestThresholdSpecialCases(t *testing.T) {
	check := func(s string, r *Result) Outcome {
		t.Helper()
		threshold, err := ParseThreshold(s)
		if err != nil {
			t.Fatal(err)
		}
		return threshold.Check(r)
	}
	if o := check("late==0", &Result{Acknowledged: 5}); o.OK || o.Samples != 0 {
		t.Errorf("nobody looked for late ones: %+v", o)
	}
	if o := check("tps<5", &Result{Acknowledged: 5, TPS: 1}); o.OK {
		t.Errorf("no time had passed: %+v", o)
	}
	if o := check("failed==0", &Result{Acknowledged: 5}); !o.OK || o.Samples != 5 {
		t.Errorf("%+v", o)
	}
	if o := check("dropped>0", &Result{Dropped: 5}); !o.OK || o.Samples != 5 {
		t.Errorf("%+v", o)
	}
	if o := (Threshold{}).Check(measured()); o != (Outcome{}) || (Threshold{}).String() != "" || (Threshold{}).IsTime() {
		t.Errorf("the zero threshold: %+v", o)
	}
	text, err := json.Marshal(check("p99<5ms", &Result{Latency: Latency{Count: 7, P99: time.Millisecond}}))
	if want := `{"threshold":"p99\u003c5ms","value":1000000,"samples":7,"ok":true}`; err != nil || string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// metricNames are all names that a threshold may begin with.
func metricNames() (names []string) {
	for _, f := range thresholdFields {
		names = append(names, f.name)
	}
	for _, m := range append(thresholdMetrics, timeMetric{name: "p999"}) {
		names = append(names, m.name)
		for _, s := range thresholdScopes {
			names = append(names, s.name+"."+m.name)
		}
	}
	return names
}

// Whatever is accepted has a text that means the same.
func TestThresholdRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join([]string{
			rapid.SampledFrom(metricNames()).Draw(t, "metric"),
			rapid.SampledFrom([]string{"<", "<=", ">", ">=", "==", "!="}).Draw(t, "op"),
			rapid.StringMatching(`[0-9]{1,9}(\.[0-9]{1,9})?(e-?[0-9])?`).Draw(t, "number") +
				rapid.SampledFrom([]string{"", "", "ns", "us", "ms", "s", "m", "h", "k", "b", "%"}).Draw(t, "unit"),
		}, rapid.SampledFrom([]string{"", " "}).Draw(t, "blank"))
		checkRoundTrip(t, text)
	})
}

// checkRoundTrip fails unless text is refused in one line, or read again from
// what it was read as.
func checkRoundTrip(t interface{ Fatalf(string, ...any) }, text string) {
	first, err := ParseThreshold(text)
	if err != nil {
		if strings.Contains(err.Error(), "\n") {
			t.Fatalf("%q: more than a line: %v", text, err)
		}
		return
	}
	again, err := ParseThreshold(first.String())
	if err != nil || again != first {
		t.Fatalf("%q became %q became %q, %v", text, first, again, err)
	}
}

func FuzzParseThreshold(f *testing.F) {
	for _, seed := range []string{"p99<20ms", "service.p99.9 <= 5", "tps>50k", "failed==0", "error_rate<1%", "tries.mean!=1e0", "", "<", "p99<1e-9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { checkRoundTrip(t, text) })
}

// A threshold that is crossed early is hopeless but for counts that still grow.
func TestHopeless(t *testing.T) {
	res := &Result{Acknowledged: 50, Failed: 3, TPS: 40, Elapsed: time.Second, Latency: Latency{Count: 50, P99: time.Second}}
	for text, want := range map[string]bool{
		"acknowledged>=100": false, "acknowledged==100": false, "acknowledged==50": false, "acknowledged!=50": false, "acknowledged<40": true, "acknowledged==40": true,
		"failed==0": true, "failed<=2": true, "failed<4": false, "failed>5": false,
		"tps>50": true, "tps>30": false, "p99<1ms": true, "p99<2s": false, "error_rate<1%": true,
		"tries.mean>=1": false, "late<5": false, "retry.p99<1ms": false, // without samples
	} {
		threshold, err := ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := threshold.Hopeless(threshold.Check(res)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
