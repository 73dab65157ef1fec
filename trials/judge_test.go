package trials

import (
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/tps"
)

func threshold(t testing.TB, s string) tps.Threshold {
	t.Helper()
	parsed, err := tps.ParseThreshold(s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// goodStep is a step at 2,000 a second that lacks nothing.
func goodStep() *tps.Result {
	return &tps.Result{
		Load:         tps.Load{Mode: tps.OpenLoop, Rate: 2000},
		Settings:     tps.Settings{JournalMode: "wal", Checkpoint: "pages:4000"},
		Schedule:     &tps.Kept{Arrivals: 10_000, Length: 10 * time.Second, Backlog: 20},
		Acknowledged: 10_000,
		Elapsed:      10 * time.Second,
		TPS:          2000,
		Latency:      tps.Latency{Count: 10_000, P50: time.Millisecond, P99: 4 * time.Millisecond, P999: 9 * time.Millisecond},
		Service:      tps.Latency{Count: 10_000, P50: time.Millisecond, P99: 3 * time.Millisecond, P999: 8 * time.Millisecond},
		Writer:       tps.Writer{Checkpoints: 2},
		Warnings:     []string{},
	}
}

// inFlight is a series with so many unfinished at the end of each second.
func inFlight(n ...int64) (series []tps.Sample) {
	for k, v := range n {
		series = append(series, tps.Sample{At: time.Duration(k+1) * time.Second, InFlight: v})
	}
	return series
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*tps.Result)
		want   Decision
		reason string
		note   string
	}{
		"good": {func(r *tps.Result) {}, Pass, "", ""},
		"no schedule": {func(r *tps.Result) { r.Schedule = nil }, Fail,
			"nothing was due: this was no load at a rate", ""},
		"nothing was due": {func(r *tps.Result) { r.Schedule.Arrivals = 0 }, Fail,
			"nothing was due: this was no load at a rate", ""},
		"99 % kept":       {func(r *tps.Result) { r.Schedule.Arrivals, r.Acknowledged = 20_000, 19_800 }, Pass, "", ""},
		"one less kept":   {func(r *tps.Result) { r.Schedule.Arrivals, r.Acknowledged = 20_000, 19_799 }, Fail, "kept 98.99 % of its schedule, not 99 %", ""},
		"5 % backlog":     {func(r *tps.Result) { r.Schedule.Backlog = 500 }, Pass, "", ""},
		"one more behind": {func(r *tps.Result) { r.Schedule.Backlog = 501 }, Fail, "a backlog of 5.01 % of its arrivals, above 5 %", ""},
		"too slow":        {func(r *tps.Result) { r.Latency.P99 = 50 * time.Millisecond }, Fail, "p99<50ms is crossed: 50ms", ""},
		"failures":        {func(r *tps.Result) { r.Acknowledged, r.Failed = 9999, 1 }, Fail, "failed==0 is crossed: 1", ""},
		"nothing measured": {func(r *tps.Result) { r.Latency = tps.Latency{}; r.Acknowledged = 0 }, Fail,
			"p99<50ms has no samples; failed==0 has no samples; kept 0 % of its schedule, not 99 %", "0 of 10000 samples"},
		"the generator": {func(r *tps.Result) {
			r.Schedule.GeneratorBound, r.Schedule.LateP99, r.Schedule.Behind = true, 12*time.Millisecond, 80*time.Millisecond
			r.Latency.P99 = time.Second
		}, GeneratorBound, "this machine was late with its arrivals: p99 12ms, the last one 80ms", ""},
		"late, and slow besides": {func(r *tps.Result) {
			r.Schedule.GeneratorBound, r.Schedule.LateMax = true, 100*time.Millisecond
			r.Latency.P99, r.Service.P99 = time.Second, 150*time.Millisecond
		}, Fail, "p99<50ms is crossed: 1s", ""},
		"the queue behind a stall of the generator": {func(r *tps.Result) {
			r.Schedule.GeneratorBound, r.Schedule.LateP99, r.Schedule.LateMax = true, 800*time.Millisecond, time.Second
			r.Latency.P99, r.Service.P99 = 900*time.Millisecond, 451*time.Millisecond
		}, GeneratorBound, "this machine was late with its arrivals: p99 800ms, the last one 0s", ""},
		"late, but it holds": {func(r *tps.Result) { r.Schedule.GeneratorBound = true }, Pass, "", ""},
		"late, and arrivals are lost": {func(r *tps.Result) {
			r.Schedule.GeneratorBound, r.Schedule.LateP99, r.Schedule.Behind = true, time.Second, 2*time.Second
			r.Schedule.Arrivals = 20_000
		}, GeneratorBound, "this machine was late with its arrivals: p99 1s, the last one 2s", ""},
		"samples that failed count": {func(r *tps.Result) {
			r.Schedule.Arrivals, r.Acknowledged, r.Failed = 10_000, 9_950, 50
		}, Fail, "failed==0 is crossed: 50", ""},
		"few samples":     {func(r *tps.Result) { r.Schedule.Arrivals, r.Acknowledged = 9_999, 9_999 }, Pass, "", "9999 of 10000 samples"},
		"few checkpoints": {func(r *tps.Result) { r.Writer.Checkpoints = 1 }, Pass, "", "1 of 2 checkpoints"},
		"checkpoints by sample": {func(r *tps.Result) {
			r.Writer.Checkpoints = 0
			r.Series = []tps.Sample{{Checkpoints: 1}, {Checkpoints: 1}}
		}, Pass, "", ""},
		"checkpoints are off": {func(r *tps.Result) { r.Writer.Checkpoints, r.Settings.Checkpoint = 0, "off" }, Pass, "", ""},
		"no WAL":              {func(r *tps.Result) { r.Writer.Checkpoints, r.Settings.JournalMode = 0, "delete" }, Pass, "", ""},
		"an overrun": {func(r *tps.Result) {
			r.Series = inFlight(1000, 3000, 4001)
			r.Acknowledged = 9_990
			r.Schedule.Arrivals = 9_990
		}, Fail,
			"4001 unfinished after 3s and ever more", ""},
		"an overrun before":  {func(r *tps.Result) { r.Series = inFlight(1000, 3000, 4001, 0, 0) }, Fail, "4001 unfinished after 3s and ever more", ""},
		"two seconds' worth": {func(r *tps.Result) { r.Series = inFlight(1000, 3000, 4000) }, Pass, "", ""},
		"a stall that ends":  {func(r *tps.Result) { r.Series = inFlight(1000, 4500, 4500, 4400, 1000) }, Pass, "", ""},
		"two growing only":   {func(r *tps.Result) { r.Series = inFlight(3000, 3000, 4500) }, Pass, "", ""},
		"a few at a low rate": {func(r *tps.Result) { r.Load.Rate = 3; r.Series = inFlight(98, 99, 100) },
			Pass, "", ""},
		"many at a low rate": {func(r *tps.Result) { r.Load.Rate = 3; r.Series = inFlight(99, 100, 101) },
			Fail, "101 unfinished after 3s and ever more", ""},
	} {
		t.Run(name, func(t *testing.T) {
			res := goodStep()
			c.change(res)
			want := Verdict{c.want, c.reason, c.note}
			if got := Judge(res, []tps.Threshold{threshold(t, "p99<50ms"), threshold(t, "failed==0")}); got != want {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		})
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 3: "3", 353.6: "353.6", 49_999.967: "50000", 2e-5: "2e-05", 1e6: "1000000", 1_234_567.8: "1234568"} {
		if got := digits(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
}

func TestEnough(t *testing.T) {
	const done = "it has its samples and checkpoints"
	for name, c := range map[string]struct {
		change func(*tps.Result)
		want   string
	}{
		"good":                    {func(r *tps.Result) {}, done},
		"finished by its series":  {func(r *tps.Result) { r.Elapsed, r.Series = 0, inFlight(1, 1, 1, 1, 1) }, done},
		"too short":               {func(r *tps.Result) { r.Elapsed = 5*time.Second - 1 }, ""},
		"few samples":             {func(r *tps.Result) { r.Acknowledged = 9_999 }, ""},
		"few checkpoints":         {func(r *tps.Result) { r.Writer.Checkpoints = 1 }, ""},
		"an unknown journal":      {func(r *tps.Result) { r.Writer.Checkpoints, r.Settings = 0, tps.Settings{} }, ""},
		"checkpoints are off":     {func(r *tps.Result) { r.Writer.Checkpoints, r.Settings.Checkpoint = 0, "off" }, done},
		"no WAL":                  {func(r *tps.Result) { r.Writer.Checkpoints, r.Settings.JournalMode = 0, "persist" }, done},
		"hopeless":                {func(r *tps.Result) { r.Elapsed, r.Series = 3*time.Second, inFlight(1500, 3000, 4500) }, "hopeless: 4500 unfinished after 3s and ever more"},
		"1 % of 20 s is lost":     {func(r *tps.Result) { r.Elapsed, r.Dropped, r.Failed, r.Skipped = time.Second, 200, 100, 100 }, ""},
		"more than that is lost":  {func(r *tps.Result) { r.Elapsed, r.Dropped, r.Failed, r.Skipped = time.Second, 200, 100, 101 }, "hopeless: 401 failed, dropped or skipped already"},
		"lost, but also finished": {func(r *tps.Result) { r.Failed = 400 }, done},
	} {
		t.Run(name, func(t *testing.T) {
			res := goodStep()
			c.change(res)
			if got := Enough(res); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What Enough ends as hopeless, Judge must not let pass, whatever the objective.
func TestHopelessStepsFail(t *testing.T) {
	lax := []tps.Threshold{threshold(t, "p99<1h")}
	for name, change := range map[string]func(*tps.Result){
		"overrun": func(r *tps.Result) {
			r.Series = inFlight(1500, 3000, 4500)
			r.Schedule.Arrivals, r.Schedule.Backlog, r.Acknowledged = 200_000, 4500, 200_000
		},
		"lost": func(r *tps.Result) { r.Schedule.Arrivals, r.Acknowledged, r.Dropped = 80_000, 79_199, 801 },
	} {
		res := goodStep()
		change(res)
		why := Enough(res)
		if v := Judge(res, lax); !strings.HasPrefix(why, "hopeless") || v.Decision != Fail {
			t.Errorf("%s: %q, %+v", name, why, v)
		}
	}
}

func TestLength(t *testing.T) {
	for _, c := range []struct {
		rate         float64
		length, most time.Duration
	}{
		{1e9, 5 * time.Second, 20 * time.Second},
		{2000, 5 * time.Second, 20 * time.Second},
		{1000, 10 * time.Second, 40 * time.Second},
		{50, 200 * time.Second, 600 * time.Second},
		{10, 600 * time.Second, 600 * time.Second},
		{1, 600 * time.Second, 600 * time.Second},
		{0, 600 * time.Second, 600 * time.Second},
	} {
		if length, most := Length(c.rate); length != c.length || most != c.most {
			t.Errorf("%g: %v and %v, want %v and %v", c.rate, length, most, c.length, c.most)
		}
	}
}
