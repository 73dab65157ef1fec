package tps

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// logged parses what a log wrote: its rows without the header, as maps.
func logged(t *testing.T, text string) (rows []map[string]string) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records[1:] {
		row := map[string]string{}
		for k, name := range records[0] {
			row[name] = record[k]
		}
		rows = append(rows, row)
	}
	return rows
}

func TestTxLogLine(t *testing.T) {
	var out bytes.Buffer
	log := NewTxLog(&out, 1, 5)
	log.Record(7, &Trace{
		Intended: 100, Called: 110, Done: 1000,
		Timing: Timing{Accepted: 120, Begun: 220, Started: 250, Ended: 300, Committing: 400, Committed: 900, Checkpointing: 30},
	}, "")
	log.Record(8, &Trace{Intended: 100, Called: 110, Done: 200}, `application, "own"`)
	log.Record(9, &Trace{Intended: 100}, ClassSkipped)
	if out.Len() > 0 {
		t.Error("it does not buffer")
	}
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	const header = "number,intended_ns,called_ns,done_ns,latency_ns,service_ns,lag_ns,queue_ns,checkpoint_ns,turn_ns,execute_ns,hold_ns,commit_ns,wake_ns,reads_ns,think_ns,retry_ns,retries,outcome\n"
	if !strings.HasPrefix(out.String(), header) {
		t.Errorf("header: %s", out.String())
	}
	rows := logged(t, out.String())
	want := map[string]string{
		"number": "7", "intended_ns": "100", "called_ns": "110", "done_ns": "1000", "latency_ns": "900", "service_ns": "890",
		"lag_ns": "20", "queue_ns": "70", "checkpoint_ns": "30", "turn_ns": "30", "execute_ns": "50", "hold_ns": "100", "commit_ns": "500",
		"wake_ns": "100", "reads_ns": "0", "think_ns": "0", "retry_ns": "0", "retries": "0", "outcome": "acknowledged",
	}
	if !reflect.DeepEqual(rows[0], want) {
		t.Errorf("%v, want %v", rows[0], want)
	}
	if rows[1]["outcome"] != `application, "own"` || rows[1]["execute_ns"] != "90" {
		t.Errorf("%v", rows[1])
	}
	if rows[2]["outcome"] != "skipped" || rows[2]["latency_ns"] != "0" {
		t.Errorf("%v", rows[2])
	}
	for _, row := range rows {
		sum := 0
		for _, column := range logStages {
			ns, err := strconv.Atoi(row[column.name])
			if err != nil || ns < 0 {
				t.Errorf("%s of %v", column.name, row)
			}
			sum += ns
		}
		if strconv.Itoa(sum) != row["latency_ns"] {
			t.Errorf("the stages of %v add up to %d", row, sum)
		}
	}
}

// Every stage has a column.
func TestTxLogStages(t *testing.T) {
	var seen [stageCount]bool
	for _, column := range logStages {
		if seen[column.stage] {
			t.Errorf("%s is there twice", column.name)
		}
		seen[column.stage] = true
	}
	for stage, ok := range seen {
		if !ok {
			t.Errorf("stage %d has no column", stage)
		}
	}
}

func TestTxLogSample(t *testing.T) {
	const n = 200_000
	for _, share := range []float64{0.5, 0.1, 0.01} {
		for _, seed := range []uint64{0, 1, 12345} {
			log := NewTxLog(io.Discard, share, seed)
			kept := 0
			for i := range uint64(n) {
				if log.keeps(i) {
					kept++
				}
			}
			// Six standard deviations: one run in a thousand million is outside.
			if off := math.Abs(float64(kept) - share*n); off > 6*math.Sqrt(share*(1-share)*n) {
				t.Errorf("seed %d, %v: %d of %d", seed, share, kept, n)
			}
		}
	}
	all, none, other, same := NewTxLog(io.Discard, 1, 3), NewTxLog(io.Discard, 0, 3), NewTxLog(io.Discard, 0.5, 4), NewTxLog(io.Discard, 0.5, 3)
	half := NewTxLog(io.Discard, 0.5, 3)
	differ := 0
	for i := range uint64(1000) {
		if !all.keeps(i) || none.keeps(i) {
			t.Fatalf("%d: not all, or not none", i)
		}
		if half.keeps(i) != same.keeps(i) {
			t.Fatalf("%d: the same seed keeps others", i)
		}
		if half.keeps(i) != other.keeps(i) {
			differ++
		}
	}
	if differ < 400 || differ > 600 {
		t.Errorf("another seed changes %d of 1000", differ)
	}
}

func TestTxLogConcurrently(t *testing.T) {
	var out bytes.Buffer
	log := NewTxLog(&out, 1, 0)
	var group sync.WaitGroup
	const callers, each = 8, 500
	for c := range callers {
		group.Go(func() {
			for k := range each {
				log.Record(uint64(c*each+k), &Trace{Intended: 1, Called: 2, Done: 3}, "")
			}
		})
	}
	group.Wait()
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range logged(t, out.String()) {
		seen[row["number"]] = true
	}
	if len(seen) != callers*each {
		t.Errorf("%d different lines", len(seen))
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestTxLogError(t *testing.T) {
	first := errors.New("the disk is full")
	w := &failingWriter{first}
	log := NewTxLog(w, 1, 0)
	for i := range uint64(10_000) { // more than a buffer
		log.Record(i, &Trace{}, "")
	}
	w.err = errors.New("another")
	for range 2 {
		if err := log.Flush(); !errors.Is(err, first) {
			t.Errorf("%v, want %v", err, first)
		}
	}
}

func TestTxLogAllocates(t *testing.T) {
	tr := &Trace{Intended: 1, Called: int64(time.Second), Done: int64(time.Minute)}
	for name, log := range map[string]*TxLog{"unsampled": NewTxLog(io.Discard, 0, 1), "sampled": NewTxLog(io.Discard, 1, 1)} {
		if n := testing.AllocsPerRun(1000, func() { log.Record(9, tr, "") }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkTxLog(b *testing.B) {
	log := NewTxLog(io.Discard, 1, 1)
	tr := &Trace{Intended: 1, Called: int64(time.Second), Done: int64(time.Minute)}
	b.ReportAllocs()
	for b.Loop() {
		log.Record(9, tr, "")
	}
}
