package tps

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"sync"
)

// TxLog writes a line for each transaction, or for a sample of them, as CSV with
// a header: its number, the three instants of [Trace] on the clock of Config.Now,
// its latency and service time, its stages, its retries and its outcome, which is
// "acknowledged", "skipped" or the class of its failure. Times are nanoseconds.
// The stages add up to the latency; those of a transaction that did not get to
// its commit are as far as it came.
//
// Its method Record has the signature of Config.Record. It is safe for concurrent
// use. The order of the lines is that of the calls, not of the numbers.
type TxLog struct {
	sample float64
	seed   uint64

	mu sync.Mutex
	w  *bufio.Writer // keeps its first error
}

// outcomeAcknowledged is the log's word for a transaction that has no class.
const outcomeAcknowledged = "acknowledged"

// logBuffer is large, as a write is under the mutex that all callers share.
const logBuffer = 256 << 10

// logStages are the columns of the stages, in the order in which a transaction
// passes through them.
var logStages = [...]struct {
	name  string
	stage int
}{
	{"lag_ns", stageLag}, {"queue_ns", stageQueue}, {"checkpoint_ns", stageCheckpoint}, {"turn_ns", stageTurn},
	{"execute_ns", stageExecute}, {"hold_ns", stageHold}, {"commit_ns", stageCommit}, {"wake_ns", stageWake},
	{"reads_ns", stageReads}, {"think_ns", stageThink}, {"retry_ns", stageRetry},
}

// NewTxLog returns a log that writes to w. sample is the share of the
// transactions that it keeps: all of them from 1, none at 0. Which ones follows
// from their numbers and seed alone, so that two runs keep the same.
func NewTxLog(w io.Writer, sample float64, seed uint64) *TxLog {
	l := &TxLog{sample: sample, seed: mix(seed), w: bufio.NewWriterSize(w, logBuffer)}
	line := append(l.w.AvailableBuffer(), "number,intended_ns,called_ns,done_ns,latency_ns,service_ns"...)
	for _, column := range logStages {
		line = append(append(line, ','), column.name...)
	}
	l.w.Write(append(line, ",retries,outcome\n"...)) // an error stays in l.w
	return l
}

// Record writes a line for transaction i if it is in the sample. A write error
// is kept for Flush.
func (l *TxLog) Record(i uint64, tr *Trace, class string) {
	if !l.keeps(i) {
		return
	}
	if class == "" {
		class = outcomeAcknowledged
	}
	spans := tr.stages()
	l.mu.Lock()
	defer l.mu.Unlock()
	line := strconv.AppendUint(l.w.AvailableBuffer(), i, 10)
	// A transaction that was skipped was never called, and perhaps never done.
	for _, ns := range [...]int64{tr.Intended, tr.Called, tr.Done, max(tr.Done-tr.Intended, 0), max(tr.Done-tr.Called, 0)} {
		line = strconv.AppendInt(append(line, ','), ns, 10)
	}
	for _, column := range logStages {
		line = strconv.AppendInt(append(line, ','), max(spans[column.stage], 0), 10)
	}
	line = strconv.AppendInt(append(line, ','), int64(tr.retries), 10)
	line = appendCSV(append(line, ','), class)
	l.w.Write(append(line, '\n')) // an error stays in l.w
}

// Flush writes what is buffered, and returns the first error of all writes since
// the log was made. What Record is given afterwards needs another Flush.
func (l *TxLog) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Flush()
}

// keeps tells whether transaction i is in the sample.
func (l *TxLog) keeps(i uint64) bool {
	const scale = 1.0 / (1 << 53)
	return float64(mix(i^l.seed)>>11)*scale < l.sample
}

// mix makes a number of which every bit depends on every bit of x: the output
// step of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014), after its increment, so that 0 does not stay 0.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// appendCSV appends a field, in quotes where it needs them (RFC 4180).
func appendCSV(line []byte, field string) []byte {
	if !strings.ContainsAny(field, ",\"\r\n") {
		return append(line, field...)
	}
	line = append(line, '"')
	line = append(line, strings.ReplaceAll(field, `"`, `""`)...)
	return append(line, '"')
}
