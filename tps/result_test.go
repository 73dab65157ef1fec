package tps

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The JSON of a run: names, order, types. Time in a bubble is exact, so that the
// whole object can be compared.
func TestResultJSONGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := NewClock()
		res := mustRun(t, t.Context(), Config{
			Transactions: 20, Runs: 3, Now: now, LatencyLimit: 150 * time.Millisecond,
			Op: func(_ context.Context, i uint64, tr *Trace) error {
				for k, at := range []*int64{&tr.Accepted, &tr.Begun, &tr.Started, &tr.Ended, &tr.Committing, &tr.Committed} {
					time.Sleep(time.Duration(k+1) * (time.Millisecond + time.Duration(i)*100*time.Microsecond))
					*at = now()
				}
				before := now()
				time.Sleep(5 * time.Millisecond)
				tr.Read(now() - before)
				time.Sleep(time.Millisecond)
				if i%20 == 7 {
					return errFake
				}
				return nil
			},
			Settle: func(context.Context) error { time.Sleep(time.Second); return nil },
		})
		res.Argv = []string{"tpssim", "run", "-n", "20"}
		res.Scenario, res.Engine = "mixed", "sqlite"
		res.Load.DistParameters, res.Load.Schema, res.Load.PayloadBytes, res.Load.Indexes = "r=5", "rowid", 7, 1
		res.Load.RandomSeed, res.Load.Dist, res.Load.Layout, res.Load.Rows, res.Load.ReadsPerTx = 1, "pareto", "clustered", 1_000_000, 1
		res.Load.Cache = "as-is"
		res.Settings = Settings{JournalMode: "wal", Synchronous: "full", PageSize: 4096, CacheSize: -64000, Checkpoint: "pages:4000",
			MaxBatch: 10_000, Queue: 1 << 20, Savepoints: "each", Readers: 2}
		res.Writer = Writer{Batches: 2, BatchSize: BatchSize{Mean: 10, P50: 10, Max: 12}, BusyFraction: 0.8, Commits: 2}
		res.Verify = Verify{OK: true, AccountsChecked: 40, Conserved: true}
		res.Env = Env{OS: "linux", CPUs: 2, GOMAXPROCS: 2, GOGC: 100, Go: "go1.26", SQLite: "3.46.1"}

		var got bytes.Buffer
		enc := json.NewEncoder(&got)
		enc.SetIndent("", "  ")
		if err := enc.Encode(res); err != nil {
			t.Fatal(err)
		}
		const golden = "testdata/result.golden.json"
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("differs from %s (go test -update writes it anew):\n%s", golden, got.String())
		}
		var back Result
		if err := json.Unmarshal(want, &back); err != nil {
			t.Fatalf("cannot be read back: %v", err)
		}
		if back.Latency != res.Latency || *back.Stages.Reads != *res.Stages.Reads || !reflect.DeepEqual(back.Writer, res.Writer) {
			t.Error("read back differently")
		}
	})
}

func TestResultWithoutReadsHasNoReadsStage(t *testing.T) {
	out, err := json.Marshal(emptyResult())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out, []byte("null")) {
		t.Errorf("null in %s", out)
	}
	if bytes.Count(out, []byte(`"reads":`)) != 1 {
		t.Errorf("a reads stage in %s", out)
	}
}

func TestGeneratorBound(t *testing.T) {
	const second, ms = time.Second, time.Millisecond
	for _, tt := range []struct {
		name string
		kept Kept
		want bool
	}{
		{"5 ms late, which matters", Kept{Length: second, LateP99: 5*ms + 1}, true},
		{"quiet", Kept{Length: 100 * second, Behind: second, LateP99: 10 * ms}, false},
		{"1 % behind", Kept{Length: 100 * second, Behind: second + 1}, true},
		{"10 ms of a short one", Kept{Length: 100 * ms, Behind: 10 * ms}, false},
		{"late starts", Kept{Length: second, LateP99: 10*ms + 1}, true},
	} {
		matters := map[bool]time.Duration{true: 10 * ms}[strings.HasSuffix(tt.name, "which matters")]
		if got := tt.kept.late(matters); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	slow := newTally(0)
	slow.add(&Trace{Intended: 1, Called: int64(20 * time.Millisecond), Done: int64(21 * time.Millisecond)}, 1)
	clamped := newTally(0)
	clamped.add(&Trace{Intended: 1, Called: 1, Done: 2 * maxLatency}, 3)
	for _, tt := range []struct {
		name string
		o    outcome
		t    *tally
		want int
	}{
		{"quiet", outcome{}, newTally(0), 0},
		{"late starts of a burst are its nature", outcome{}, slow, 0},
		{"sustained", outcome{kept: &Kept{Arrivals: 100, Backlog: 5}}, newTally(0), 0},
		{"not sustained", outcome{kept: &Kept{Arrivals: 100, Backlog: 6}}, newTally(0), 1},
		{"above an hour", outcome{}, clamped, 1},
	} {
		if got := tt.o.warnings(tt.t); len(got) != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	if got := pauseWarnings(50*time.Millisecond, time.Second); got != nil {
		t.Errorf("5 %% paused: %q", got)
	}
	if got := pauseWarnings(51*time.Millisecond, time.Second); len(got) != 1 {
		t.Errorf("5.1 %% paused: %q", got)
	}
}
