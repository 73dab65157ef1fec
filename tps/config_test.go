package tps

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	op := func(context.Context, uint64, *Trace) error { return nil }
	batchOp := func(context.Context, uint64, []error) error { return nil }
	for _, tt := range []struct {
		name string
		cfg  Config
		mode Mode   // if valid
		want string // else the error
	}{
		{"burst", Config{Op: op, Transactions: 1}, Burst, ""},
		{"burst, runs", Config{Op: op, Transactions: 1, Runs: 3}, Burst, ""},
		{"closed by count", Config{Op: op, Transactions: 10, Concurrency: 4}, ClosedLoop, ""},
		{"closed by time", Config{Op: op, Duration: 1}, ClosedLoop, ""},
		{"closed by both", Config{Op: op, Duration: 1, Transactions: 5, Concurrency: 2, Warmup: 1}, ClosedLoop, ""},
		{"open by time", Config{Op: op, Duration: 1, Rate: 10, MaxInFlight: 3}, OpenLoop, ""},
		{"open by count", Config{Op: op, Transactions: 1, Rate: 10}, OpenLoop, ""},
		{"direct", Config{BatchOp: batchOp, BatchSize: 10, Transactions: 100, Runs: 2}, Direct, ""},
		{"direct by time", Config{BatchOp: batchOp, BatchSize: 10, Duration: 100, Warmup: 3}, Direct, ""},
		{"open, poisson", Config{Op: op, Duration: 1, Rate: 10, Arrival: PoissonArrival, BurstSize: 5, LatencyLimit: 7}, OpenLoop, ""},
		{"stages", Config{Op: op, Stages: []Stage{{time.Second, 0, 10}, {time.Second, 10, 10}}, Transactions: 3, Warmup: 1}, OpenLoop, ""},
		{"just fits", Config{Op: op, Transactions: 256, MemoryBytes: 1 << 20}, Burst, ""},

		{"no op", Config{Transactions: 1}, "", "tps: exactly one of Op and BatchOp must be set"},
		{"two ops", Config{Op: op, BatchOp: batchOp, Transactions: 1}, "", "tps: exactly one of Op and BatchOp must be set"},
		{"nothing", Config{Op: op}, "", "-n must be 1 or more"},
		{"negative n", Config{Op: op, Transactions: -1}, "", "-n must be 1 or more"},
		{"negative d", Config{Op: op, Duration: -1}, "", "-d must be longer than 0"},
		{"negative c", Config{Op: op, Transactions: 1, Concurrency: -1}, "", "-c must be 1 or more"},
		{"huge c", Config{Op: op, Transactions: 1, Concurrency: MaxGoroutines + 1}, "", "-c must be 268435456 or less"},
		{"negative R", Config{Op: op, Duration: 1, Rate: -1}, "", "-R must be above 0 and at most 1000000000 a second"},
		{"NaN R", Config{Op: op, Duration: 1, Rate: math.NaN()}, "", "-R must be above 0 and at most 1000000000 a second"},
		{"infinite R", Config{Op: op, Duration: 1, Rate: math.Inf(1)}, "", "-R must be above 0 and at most 1000000000 a second"},
		{"c with R", Config{Op: op, Duration: 1, Rate: 1, Concurrency: 1}, "", "-c cannot be used with -R: an open loop starts transactions on schedule whoever waits; use --max-in-flight to bound it"},
		{"endless R", Config{Op: op, Rate: 1}, "", "-R needs an end: give -d or -n"},
		{"endless c", Config{Op: op, Concurrency: 1}, "", "-c needs an end: give -n or -d"},
		{"in flight without R", Config{Op: op, Transactions: 1, MaxInFlight: 1}, "", "--max-in-flight needs -R: only an open loop can run ahead"},
		{"negative in flight", Config{Op: op, Duration: 1, Rate: 1, MaxInFlight: -1}, "", "--max-in-flight must be 1 or more"},
		{"runs of a loop", Config{Op: op, Duration: 1, Runs: 2}, "", "--runs repeats a burst: it cannot be used with -c, -d or -R"},
		{"negative runs", Config{Op: op, Transactions: 1, Runs: -2}, "", "--runs must be 1 or more"},
		{"warm burst", Config{Op: op, Transactions: 1, Warmup: 1}, "", "--warmup needs -c, -d or -R: a burst has its cold run instead"},
		{"negative warm-up", Config{Op: op, Duration: 1, Warmup: -1}, "", "--warmup must not be negative"},
		{"negative limit", Config{Op: op, Duration: 1, LatencyLimit: -1}, "", "-L must be longer than 0"},
		{"negative memory", Config{Op: op, Duration: 1, MemoryBytes: -1}, "", "tps: MemoryBytes must not be negative"},
		{"unknown arrival", Config{Op: op, Duration: 1, Rate: 1, Arrival: "now and then"}, "", `--arrival "now and then" is none of constant, poisson`},
		{"arrival of a burst", Config{Op: op, Transactions: 1, Arrival: PoissonArrival}, "", "--arrival and --burst-size need -R: they shape the arrivals of an open loop"},
		{"bursts of a loop", Config{Op: op, Duration: 1, BurstSize: 2}, "", "--arrival and --burst-size need -R: they shape the arrivals of an open loop"},
		{"negative burst", Config{Op: op, Duration: 1, Rate: 1, BurstSize: -2}, "", "--burst-size must be 1 or more"},
		{"negative sample", Config{Op: op, Duration: 1, SampleEvery: -2}, "", "-P must be longer than 0"},
		{"stages and R", Config{Op: op, Rate: 1, Stages: []Stage{{1, 1, 1}}}, "", "--stage takes the place of -R and -d: give stages alone"},
		{"stages and d", Config{Op: op, Duration: 1, Stages: []Stage{{1, 1, 1}}}, "", "--stage takes the place of -R and -d: give stages alone"},
		{"stages and c", Config{Op: op, Concurrency: 1, Stages: []Stage{{time.Second, 1, 1}}}, "", "-c cannot be used with -R: an open loop starts transactions on schedule whoever waits; use --max-in-flight to bound it"},
		{"endless stage", Config{Op: op, Stages: []Stage{{0, 1, 1}}}, "", "--stage: each stage must be longer than 0"},
		{"negative stage", Config{Op: op, Stages: []Stage{{1, 1, -1}}}, "", "--stage: a rate must be 0 or more and at most 1000000000 a second"},
		{"NaN stage", Config{Op: op, Stages: []Stage{{1, math.NaN(), 1}}}, "", "--stage: a rate must be 0 or more and at most 1000000000 a second"},
		{"idle stages", Config{Op: op, Stages: []Stage{{time.Second, 0, 0}}}, "", "--stage: no transaction is ever due: give a rate above 0"},
		{"direct in stages", Config{BatchOp: batchOp, BatchSize: 1, Stages: []Stage{{time.Second, 1, 1}}}, "", "-R cannot be used here: this scenario runs one batch after the other on one goroutine; use -n or -d"},
		{"direct without batch", Config{BatchOp: batchOp, Transactions: 1}, "", "--max-batch must be 1 or more"},
		{"direct at a rate", Config{BatchOp: batchOp, BatchSize: 1, Duration: 1, Rate: 1}, "", "-R cannot be used here: this scenario runs one batch after the other on one goroutine; use -n or -d"},
		{"direct with clients", Config{BatchOp: batchOp, BatchSize: 1, Duration: 1, Concurrency: 2}, "", "-c cannot be used here: this scenario runs on one goroutine; use -n or -d"},
		{"burst beyond memory", Config{Op: op, Transactions: 257, MemoryBytes: 1 << 20}, "", "a burst of -n 257 needs about 2 MiB, 1 MiB are there: use -c to bound the goroutines"},
		{"clients beyond memory", Config{Op: op, Transactions: 1, Concurrency: 257, MemoryBytes: 1 << 20}, "", "-c 257 needs about 2 MiB, 1 MiB are there: use a smaller -c"},
		{"burst beyond all", Config{Op: op, Transactions: math.MaxInt64}, "", "-n 9223372036854775807 is too many goroutines for one burst (at most 268435456): use -c to bound them"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if tt.want == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				if got := tt.cfg.Mode(); got != tt.mode {
					t.Errorf("mode %q, want %q", got, tt.mode)
				}
				return
			}
			var refused ConfigError
			if !errors.As(err, &refused) || err.Error() != tt.want {
				t.Errorf("error %q, want ConfigError %q", err, tt.want)
			}
			if _, err := Run(t.Context(), tt.cfg); err == nil || err.Error() != tt.want {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

func TestExpected(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		cfg  Config
		want float64
	}{
		"burst":               {Config{Transactions: 7}, 7},
		"closed by time":      {Config{Duration: s}, 0},
		"rate by time":        {Config{Rate: 10, Duration: 2 * s}, 20},
		"rate by count":       {Config{Rate: 10, Transactions: 5}, 5},
		"rate by both":        {Config{Rate: 10, Duration: 2 * s, Transactions: 50}, 20},
		"with a warm-up":      {Config{Rate: 10, Transactions: 5, Warmup: s}, 15},
		"stages":              {Config{Stages: []Stage{{s, 0, 10}, {s, 10, 10}}}, 15},
		"stages, warmed up":   {Config{Stages: []Stage{{s, 4, 10}}, Warmup: s}, 11},
		"stages, from nought": {Config{Stages: []Stage{{s, 0, 0}, {s, 0, 10}}, Warmup: s}, 15},
		"bursts":              {Config{Rate: 10, Duration: s, BurstSize: 4}, 12},
		"poisson":             {Config{Rate: 10, Duration: s, BurstSize: 4, Arrival: PoissonArrival}, 10},
	} {
		if got := tt.cfg.Expected(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestClockStartsAboveZero(t *testing.T) {
	now := NewClock()
	first := now()
	if second := now(); first < 1 || second < first {
		t.Errorf("clock read %d, then %d", first, second)
	}
}

func TestSleeper(t *testing.T) {
	s, err := NewSleeper()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s.Sleep(t.Context(), 3*time.Millisecond)
	if slept := time.Since(start); slept < 3*time.Millisecond {
		t.Errorf("slept %v, want 3 ms or more", slept)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	s.Sleep(ctx, time.Hour)  // ends by ctx
	s.Sleep(ctx, time.Hour)  // has ended already
	s.Sleep(t.Context(), 0)  // nothing to wait for
	s.Sleep(t.Context(), -1) // nor here
	start = time.Now()
	s.Sleep(t.Context(), 3*time.Millisecond) // the cancelled one left nothing behind
	if slept := time.Since(start); slept < 3*time.Millisecond {
		t.Errorf("slept %v after a cancelled sleep, want 3 ms or more", slept)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
