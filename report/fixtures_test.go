package report

import (
	"time"

	"github.com/tpssim/tpssim/tps"
)

// latency is a summary with round numbers.
func latency(n int64, p50 time.Duration) tps.Latency {
	return tps.Latency{Count: n, Mean: p50 + p50/10, P50: p50, P90: 2 * p50, P99: 3 * p50, P999: 4 * p50, Max: 5 * p50}
}

// burst is a result of the load that people run first.
func burst() *tps.Result {
	const n = 100_000
	return &tps.Result{
		Schema:    tps.Schema,
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Argv:      []string{"run", "-n", "100000"},
		Scenario:  "savepoint",
		Engine:    "sqlite",
		Load: tps.Load{
			Mode: tps.Burst, Transactions: n, RandomSeed: 1, Dist: "pareto", Layout: "clustered", Rows: 1_000_000, Cache: "as-is",
			Stages: []tps.Stage{}, Scripts: []string{},
		},
		Settings: tps.Settings{
			JournalMode: "wal", Synchronous: "full", PageSize: 4096, CacheSize: -65536, Checkpoint: "pages:4000",
			MaxBatch: 10_000, Queue: 1 << 20, Savepoints: "each", Readers: 2,
		},
		Runs: []tps.Round{
			{TPS: 210_000, Elapsed: 476 * time.Millisecond, Cold: true, Acknowledged: n},
			{TPS: 272_480, Elapsed: 367 * time.Millisecond, Acknowledged: n},
			{TPS: 250_000, Elapsed: 400 * time.Millisecond, Acknowledged: n},
			{TPS: 280_000, Elapsed: 357 * time.Millisecond, Acknowledged: n},
		},
		Acknowledged: n, Errors: map[string]int64{},
		Elapsed: 367 * time.Millisecond, Spawn: 61 * time.Millisecond,
		TPS: 272_480, TPSLow: 250_000, TPSHigh: 280_000, TPSSettled: 261_000,
		Latency: latency(n, 180*time.Millisecond), Service: latency(n, 179*time.Millisecond),
		Stages: tps.Stages{
			Lag: latency(n, 20*time.Millisecond), Queue: latency(n, 120*time.Millisecond), Turn: latency(n, 9*time.Millisecond),
			Execute: latency(n, 2*time.Microsecond), Hold: latency(n, 8900*time.Microsecond), Commit: latency(n, 3*time.Millisecond),
			Wake: latency(n, 999_600*time.Nanosecond),
		},
		Writer: tps.Writer{
			Batches: 12, BatchSize: tps.BatchSize{Mean: 8333.3, P50: 10_000, Max: 10_000}, BusyFraction: 0.962, Commits: 12,
			Checkpoints: 1, CheckpointTime: 9720 * time.Microsecond, WALBytes: 30 << 20, WALPendingBytes: 6 << 20,
			BatchSizes: []tps.Bucket{},
		},
		Locality: tps.Locality{AccountsTouched: 61_804, LeafPagesTouched: 2200, LeafPages: 3181},
		Series:   []tps.Sample{},
		Verify:   tps.Verify{Checked: true, OK: true, AccountsChecked: 61_804, Conserved: true},
		Env: tps.Env{
			OS: "linux", Kernel: "6.1.0", Filesystem: "ext4", CPU: "AMD EPYC", CPUs: 2, GOMAXPROCS: 2, GOGC: 100,
			MemoryBytes: 24 << 30, DBBytes: 13_078_528, Go: "go1.26.0", SQLite: "3.46.1", Version: "v1.0.0", Commit: "0123abc",
		},
		LatencyHistogram: []tps.Bucket{}, Statements: []tps.Statement{}, Thresholds: []tps.Outcome{},
		Warnings:        []string{},
		BytesPerWaiting: 3500,
	}
}

// results are the cases that the golden files show.
func results() map[string]*tps.Result {
	closed := burst()
	closed.Argv = []string{"run", "--db", "my data.db", "--dist=uniform", "-rc8", "-d", "10s", "--warmup", "1s", "--cache", "warm", "--random-seed", "7", "--pragma", "temp_store=2"}
	closed.Load = tps.Load{Mode: tps.ClosedLoop, Concurrency: 8, Duration: 10 * time.Second, Rows: 20_000, Dist: "uniform", Layout: "clustered", RandomSeed: 7, Cache: "warm"}
	closed.Runs, closed.Elapsed, closed.TPS, closed.Acknowledged = closed.Runs[1:2], 10*time.Second, 6212, 62_120
	closed.Writer.Batches, closed.Writer.BatchSize = 8900, tps.BatchSize{Mean: 6.98, P50: 8, Max: 8}
	closed.Writer.Checkpoints, closed.Writer.CheckpointTime = 0, 0
	closed.Locality = tps.Locality{AccountsTouched: 20_000, LeafPagesTouched: 60, LeafPages: 60}
	closed.BytesPerWaiting = 0

	open := burst()
	open.Load.Mode, open.Load.Rate, open.Load.Arrival, open.Load.MaxInFlight = tps.OpenLoop, 3000, tps.ConstantArrival, tps.DefaultMaxInFlight
	open.Load.Transactions, open.Load.Duration = 0, 30*time.Second
	open.Elapsed, open.TPS, open.Acknowledged, open.Dropped = 30*time.Second, 2999.8, 89_994, 6
	open.Runs = open.Runs[1:2]
	open.Latency, open.Service = latency(89_994, 800*time.Microsecond), latency(89_994, 600*time.Microsecond)
	open.Settings.Synchronous, open.Settings.BatchWindow = "normal", 2*time.Millisecond
	open.Warnings = []string{"6 arrivals were due but never started: too many were unfinished, or the rate is beyond the generator"}

	direct := burst()
	direct.Scenario, direct.Load.Mode, direct.Load.Dist, direct.Load.Layout = "direct", tps.Direct, "zipfian", "scattered"
	direct.Settings.Synchronous, direct.Settings.JournalMode = "off", "delete"
	direct.Writer.WALBytes, direct.Writer.WALPendingBytes = 0, 0

	filled := burst()
	filled.Scenario, filled.Argv = "insert", []string{"run", "insert", "-n", "3m", "--growth", "1m"}
	filled.Load = tps.Load{Mode: tps.Direct, Transactions: 3_000_000, RandomSeed: 1, Keys: "uuid7 without rowid, sorted"}
	filled.Writer, filled.Locality, filled.BytesPerWaiting = tps.Writer{}, tps.Locality{}, 0
	filled.Verify = tps.Verify{Checked: true, OK: true, RowsChecked: 3_000_000}
	filled.Growth = []tps.Growth{
		{Rows: 1_000_000, Elapsed: time.Second, SinceBegin: time.Second, TPS: 1_000_000, Batch: latency(100, 9*time.Millisecond), DBBytes: 40 << 20, WALBytes: 4 << 20, SHMBytes: 32768, RSSBytes: 90 << 20},
		{Rows: 3_000_000, Elapsed: 4 * time.Second, SinceBegin: 5 * time.Second, TPS: 500_000, Batch: latency(200, 19*time.Millisecond), DBBytes: 120 << 20, WALBytes: 4 << 20, SHMBytes: 32768},
	}
	read := burst()
	read.Scenario, read.Load = "points", tps.Load{Mode: tps.Direct, Transactions: 3_000_000, RandomSeed: 1, Rows: 50_000, Keys: "integer"}
	read.Writer, read.Locality, read.BytesPerWaiting = tps.Writer{}, tps.Locality{}, 0
	read.Verify = tps.Verify{Checked: true, OK: true, RowsChecked: 50_000}

	mixed := burst()
	mixed.Scenario, mixed.Load.ReadsPerTx = "mixed", 3
	mixed.Load.Dist, mixed.Load.DistParameters = "zipfian", "theta=0.99"
	mixed.Load.Schema, mixed.Load.PayloadBytes, mixed.Load.Indexes = "article", 200, 2
	mixed.Argv = []string{"run", "mixed", "-n", "100k"}
	mixed.Failed, mixed.Errors = 30, map[string]int64{"application": 9, "busy": 9, "the disk is full": 10, "batch failed at commit": 2}
	mixed.Reads = tps.Reads{Acknowledged: 300_000, TPS: 817_000, Latency: latency(300_000, 40*time.Microsecond)}
	reads := latency(100_000, 150*time.Microsecond)
	mixed.Stages.Reads = &reads
	mixed.Env.CPU, mixed.Env.CPUs, mixed.Env.Filesystem = "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz with a very long name", 1, "tmpfs"
	mixed.Settings.MmapSize = 1 << 30

	interrupted := burst()
	interrupted.Interrupted = true
	interrupted.Runs = []tps.Round{{TPS: 0.5, Elapsed: 2 * time.Second, Cold: true, Acknowledged: 1, Interrupted: true}}
	interrupted.TPS, interrupted.Elapsed, interrupted.Acknowledged = 0.5, 2*time.Second, 1
	interrupted.Verify.AccountsChecked, interrupted.Locality.AccountsTouched, interrupted.Locality.LeafPagesTouched = 1, 1, 1
	interrupted.Failed, interrupted.Errors = 99_999, map[string]int64{tps.ClassCancelled: 99_999}

	nothing := burst() // interrupted in its warm-up
	nothing.Load.Mode, nothing.Load.Concurrency, nothing.Load.Transactions, nothing.Load.Duration, nothing.Load.Warmup = tps.ClosedLoop, 64, 0, 30*time.Second, 5*time.Second
	nothing.Interrupted, nothing.Acknowledged, nothing.Elapsed, nothing.TPS, nothing.TPSSettled = true, 0, 0, 0, 0
	nothing.Runs, nothing.Latency, nothing.Stages, nothing.Writer, nothing.Locality = nil, tps.Latency{}, tps.Stages{}, tps.Writer{}, tps.Locality{}
	nothing.Thresholds = []tps.Outcome{{Threshold: "p99<20ms"}}
	nothing.Warnings = []string{"a cgroup quota stopped this process 3 times, for 120ms in all"}

	lost := burst() // the disk was full
	lost.Runs = []tps.Round{{Elapsed: 367 * time.Millisecond, Cold: true, Failed: lost.Acknowledged}}
	lost.Failed, lost.Errors = lost.Acknowledged, map[string]int64{"commit failed": lost.Acknowledged}
	lost.ErrorExamples = map[string]string{"commit failed": "sqlite: database or disk is full (SQLITE_FULL) in \"COMMIT\""}
	lost.Acknowledged, lost.TPS, lost.TPSSettled, lost.Latency, lost.Service, lost.Stages = 0, 0, 0, tps.Latency{}, tps.Latency{}, tps.Stages{}
	lost.Writer.WALPendingBytes = 0

	ahead := openLoop(20_000) // its table is larger than memory
	ahead.Settings.Prefetch, ahead.Writer.Touched, ahead.Writer.TouchMisses = 32, 598_213, 571_040
	held10 := openLoop(20_000) // a reader that kept nobody from emptying the WAL
	held10.Load.PinReader = 10 * time.Second
	heldLong := openLoop(20_000) // and one that was to be held for longer than the load
	heldLong.Load.PinReader = time.Minute
	heldLong.Elapsed = 30_012_345 * time.Microsecond

	failed := burst()
	failed.Verify = tps.Verify{Checked: true, AccountsChecked: 61_804, Detail: "account 17 holds 1000000005 instead of 1000000000; account 18 holds 999999990 instead of 999999995; and 3 more"}
	failed.Warnings = []string{
		"generator-bound: the writer was idle 55 % of the time; more callers would get more out of it",
		"the whole data set was in memory: a larger one would have to read from the disk",
	}
	return map[string]*tps.Result{
		"burst": burst(), "closed": closed, "open": open, "direct": direct, "mixed": mixed, "filled": filled, "points": read,
		"interrupted": interrupted, "nothing": nothing, "failed": failed,
		"everything": everything(), "stages": stages(), "held": held(), "optimistic": optimistic(),
		"script": script(), "idle": idle(), "pinned": pinned(),
		"lost": lost, "prefetch": ahead, "reader": held10, "reader-long": heldLong,
	}
}

// openLoop is a result of an open loop that went well.
func openLoop(rate float64) *tps.Result {
	r := burst()
	r.Argv = []string{"run", "-R", "20000", "-d", "30s"}
	r.Load.Mode, r.Load.Rate, r.Load.Arrival, r.Load.MaxInFlight = tps.OpenLoop, rate, tps.ConstantArrival, tps.DefaultMaxInFlight
	r.Load.Transactions, r.Load.Duration = 0, 30*time.Second
	r.Acknowledged = int64(30 * rate)
	r.Elapsed, r.TPS, r.Runs, r.Spawn, r.BytesPerWaiting = 30*time.Second, rate, r.Runs[1:2], 0, 0
	r.Latency, r.Service = latency(r.Acknowledged, 2300*time.Microsecond), latency(r.Acknowledged, 2200*time.Microsecond)
	r.Stages = tps.Stages{
		Lag: latency(r.Acknowledged, 100*time.Microsecond), Queue: latency(r.Acknowledged, time.Millisecond), Turn: latency(r.Acknowledged, 90*time.Microsecond),
		Execute: latency(r.Acknowledged, 2*time.Microsecond), Hold: latency(r.Acknowledged, 88*time.Microsecond), Commit: latency(r.Acknowledged, time.Millisecond),
		Wake: latency(r.Acknowledged, 20*time.Microsecond),
	}
	r.Schedule = &tps.Kept{
		Arrivals: r.Acknowledged, Length: 30 * time.Second, Behind: 80 * time.Microsecond, LateP99: 310 * time.Microsecond, LateMax: 1200 * time.Microsecond, Backlog: 44, BacklogMax: 2150,
	}
	r.Steady = tps.Steady{Samples: 28, Mean: rate + 13, StdDev: 210}
	r.Warnings = []string{}
	return r
}

// everything is a result with something in every field.
func everything() *tps.Result {
	r := openLoop(20_000)
	l := &r.Load
	l.Arrival, l.BurstSize, l.Warmup, l.LatencyLimit, l.MaxInFlight = tps.PoissonArrival, 10, 5*time.Second, 50*time.Millisecond, 5000
	l.Think, l.ThinkBound, l.MaxTries, l.PinReader, l.ReadsPerTx = 5*time.Millisecond, 200, 10, 10*time.Second, 2
	r.Failed, r.Dropped, r.Skipped, r.Late, r.Retries = 12, 40, 87, 312, 180_000
	r.Errors = map[string]int64{classGaveUp: 12}
	r.ErrorExamples = map[string]string{"constraint": "bench.sql:3: UNIQUE constraint failed:\n\tpgbench_branches.bid (SQLITE_CONSTRAINT_PRIMARYKEY)"}
	r.Tries = tps.Tries{Mean: 1.3, P50: 1, P99: 4, Max: 9}
	r.Schedule.GeneratorBound, r.Schedule.Behind, r.Schedule.LateP99, r.Schedule.LateMax = true, 1300*time.Millisecond, 870*time.Millisecond, 1450*time.Millisecond
	r.Stopped = "p99<20ms was crossed"
	part := latency(r.Acknowledged, 12_300*time.Microsecond)
	r.Stages.Checkpoint, r.Stages.Reads, r.Stages.Think, r.Stages.Retry = &part, &part, &part, &part
	r.Reads = tps.Reads{Acknowledged: 1_200_000, TPS: 40_000, Latency: latency(1_200_000, 40*time.Microsecond)}
	r.LatencyHistogram = []tps.Bucket{
		{Upto: 1 << 18}, {Upto: 1 << 19, Count: 12}, {Upto: 1 << 20, Count: 24_000}, {Upto: 1 << 21, Count: 300_000},
		{Upto: 1 << 22, Count: 260_000}, {Upto: 1 << 23, Count: 15_000}, {Upto: 1 << 24}, {Upto: 1 << 25, Count: 988}, {Upto: 1 << 26},
	}
	r.Writer.BatchSizes = []tps.Bucket{{Upto: 1, Count: 40}, {Upto: 16, Count: 5000}, {Upto: 10_000, Count: 3}}
	r.Statements = []tps.Statement{
		{Name: "debit", Latency: latency(600_000, 900*time.Nanosecond)},
		{Name: "UPDATE pgbench_branches\n\tSET bbalance = bbalance + :delta", Latency: latency(600_000_000, 999*time.Millisecond)},
	}
	r.Writer.WALBlocked, r.Writer.WALFileMax = 10*time.Second, 120<<20
	r.Thresholds = []tps.Outcome{
		{Threshold: "p99<20ms", Value: 6.9e6, Samples: 600_000, OK: true},
		{Threshold: "max<11.5ms", Value: 11_500_001, Samples: 600_000},
		{Threshold: "tps>50000", Value: 49_999.96, Samples: 600_012},
		{Threshold: "failed==0", Value: 12, Samples: 600_012},
		{Threshold: "error_rate<0.01", Value: 12. / 600_012, Samples: 600_012, OK: true},
		{Threshold: "tries.mean<=1.5", Value: 1.3, Samples: 600_000, OK: true},
		{Threshold: "hold.max<1s"},
	}
	r.Series = series()
	return r
}

// series has a first sample without a latency, one of every day, and one in
// which everything goes wrong.
func series() []tps.Sample {
	return []tps.Sample{
		{At: time.Second, Interval: time.Second, WALFileBytes: 4096},
		{
			At: 2 * time.Second, Interval: time.Second, TPS: 20_013.4, Acknowledged: 20_013, P50: 2300 * time.Microsecond, P99: 6900 * time.Microsecond, Max: 11 * time.Millisecond,
			InFlight: 44, Queued: 31, OldestWait: time.Millisecond, Batches: 430, BatchMean: 46.5, Checkpoints: 2, CheckpointTime: 19 * time.Millisecond,
			CheckpointPages: 7100, WALBytes: 31 << 20, WALPendingBytes: 3 << 20, DBFileBytes: 13_078_528, WALFileBytes: 16 << 20, SHMFileBytes: 32 << 10,
			RSSBytes: 90 << 20, CPU: 1400 * time.Millisecond, GCs: 3, GCPause: 210 * time.Microsecond,
		},
		{
			At: 12_345_678 * time.Millisecond, Interval: 100 * time.Millisecond, TPS: 1_234_567, P50: 999 * time.Millisecond, P99: time.Hour, InFlight: 99_999, Queued: 999_999,
			BatchMean: 10_000, Checkpoints: 9999, WALFileBytes: 1023 << 20, Failed: 99_000, Dropped: 999, Skipped: 5,
		},
	}
}

// stages is a result of an open loop whose rate changes.
func stages() *tps.Result {
	r := openLoop(9000)
	r.Load.Rate, r.Load.Arrival, r.Load.BurstSize, r.Load.Warmup, r.Settings.MaxBatch = 0, tps.PoissonArrival, 4, time.Second, 1
	r.Load.Stages = []tps.Stage{
		{Duration: 10 * time.Second, From: 5000, To: 5000}, {Duration: 30 * time.Second, From: 5000, To: 20_000},
		{Duration: 90 * time.Minute}, {From: 100, To: 100},
	}
	return r
}

// held is a result of thinking that holds the writer.
func held() *tps.Result {
	r := openLoop(190)
	r.Load.Mode, r.Load.Concurrency, r.Load.Arrival, r.Load.Rate, r.Schedule = tps.ClosedLoop, 64, "", 0, nil
	r.Load.Think, r.Load.ThinkBound = 5*time.Millisecond, 200
	r.Load.LatencyLimit = 1500 * time.Millisecond
	r.Argv = []string{"run", "-c", "64", "-d", "30s", "--think", "5ms", "-L", "1500"}
	r.Stages.Execute = latency(r.Acknowledged, 5*time.Millisecond)
	return r
}

// optimistic is a result of thinking that does not, with transactions that lost.
func optimistic() *tps.Result {
	r := openLoop(52_000)
	r.Scenario = "optimistic"
	r.Load.Think, r.Load.MaxTries = 5*time.Millisecond, 20
	r.Failed, r.Errors, r.Retries = 12, map[string]int64{classGaveUp: 12}, 170_031
	r.Tries = tps.Tries{Mean: 1.109, P50: 1, P99: 4, Max: 20}
	think, retry, reads := latency(r.Acknowledged, 5*time.Millisecond), latency(r.Acknowledged, 400*time.Microsecond), latency(r.Acknowledged, 60*time.Microsecond)
	r.Stages.Think, r.Stages.Retry, r.Stages.Reads = &think, &retry, &reads
	return r
}

// script is a result of a workload of which nothing can be proved.
func script() *tps.Result {
	r := openLoop(4000)
	r.Scenario = "script"
	r.Load.Rows, r.Load.Dist, r.Load.Layout, r.Load.Cache, r.Load.Scripts = 0, "", "", "", []string{"transfer.sql@3", "balance.sql@1"}
	r.Locality, r.Verify = tps.Locality{}, tps.Verify{}
	r.Statements = []tps.Statement{{Name: "UPDATE accounts SET balance = balance - :amount WHERE id = :id", Latency: latency(120_000, 900*time.Nanosecond)}}
	return r
}

// idle is a result of a load that nothing came of, of one script.
func idle() *tps.Result {
	r := script()
	r.Load.Scripts, r.Load.Rate, r.Load.BurstSize = r.Load.Scripts[:1], 0.5, 2
	r.Acknowledged, r.TPS, r.Latency, r.Service, r.Stages = 0, 0, tps.Latency{}, tps.Latency{}, tps.Stages{}
	r.Schedule, r.Steady, r.Retries, r.Statements = &tps.Kept{Arrivals: 1}, tps.Steady{Samples: 2}, 1, nil
	r.Thresholds = []tps.Outcome{{Threshold: "p99<20ms"}}
	r.Verify.Detail = "the database was made by another program"
	return r
}

// pinned is a result with a reader that nobody asked for.
func pinned() *tps.Result {
	r := openLoop(20_000)
	r.Writer.WALBlocked, r.Writer.WALFileMax = 2340*time.Millisecond, 31<<20
	r.Load.Scripts, r.Verify = nil, tps.Verify{Detail: "there was no time for it"}
	return r
}
