package tps

// Timing holds the six instants inside the engine that split a transaction's
// life into stages. All are nanoseconds on the clock of Config.Now. Zero means
// that the instant was not observed; its stage is then empty and the next one
// holds the time.
//
//	lag      intended start → Accepted    the generator, and the way into the queue
//	queue    Accepted  → Begun            until a batch begins with it or takes it in
//	turn     Begun     → Started          batch-mates before it
//	execute  Started   → Ended            its own statements
//	hold     Ended     → Committing       batch-mates after it
//	commit   Committing → Committed       COMMIT, with its sync
//	wake     Committed → Op returned      until the caller runs again
//
// Committed is zero for a transaction that never ran or whose batch did not
// commit.
//
// Checkpointing is how long of the queue stage the writer was held by
// checkpoints. It becomes a stage of its own.
type Timing struct {
	Accepted, Begun, Started, Ended, Committing, Committed int64
	Checkpointing                                          int64
}

// MaxReads is how many reads of one transaction keep their own latency. Further
// reads are still counted and their time still goes to the reads stage, but
// they are missing from the histogram of read latency.
const MaxReads = 8

// Trace is the record of one transaction. The harness sets Intended, Called and
// Done; an Op may set the embedded Timing and call Read, Think and Retry. A Trace
// belongs to one goroutine and must not be kept after the Op has returned.
//
// It holds no pointers and is never allocated by an Op: a burst keeps one for
// each transaction in a single slice that the garbage collector need not scan.
type Trace struct {
	// Intended is when the transaction should have started: the beginning of a
	// burst, the pacer's schedule at a constant rate, the call itself in a
	// closed loop. Called is when its Op was called, Done when it had returned.
	// Nanoseconds on the clock of Config.Now.
	Intended, Called int64
	Timing
	Done int64

	state     traceState
	retries   int32
	readCount int32
	readTime  int64
	earlyTime int64 // of it, before the transaction was handed over
	thinkTime int64
	retryTime int64
	reads     [MaxReads]int64
}

// traceState says how far a transaction of a burst came. The zero value is one
// that never ran, because the load was cancelled first.
type traceState uint8

const (
	traceUnused traceState = iota
	traceAcknowledged
	traceFailed
)

// Read records a point read that the transaction waited for, outside the six
// instants of Timing, and that took d nanoseconds. Reads have a stage and a
// histogram of their own.
func (t *Trace) Read(d int64) {
	if t.readCount < MaxReads {
		t.reads[t.readCount] = d
	}
	t.readCount++
	t.readTime += d
	if t.Accepted == 0 {
		t.earlyTime += d
	}
}

// Think records d nanoseconds in which the caller thought between its reads and
// its update, holding nothing.
func (t *Trace) Think(d int64) { t.thinkTime += d }

// Retry records that what was done until now, an instant on the clock of
// Config.Now, was in vain, and that the transaction begins again. All of that time
// becomes the retry stage; Timing is that of the last attempt.
func (t *Trace) Retry(now int64) {
	t.retries++
	t.retryTime = now - t.Called
	t.readTime, t.earlyTime, t.thinkTime = 0, 0, 0
	t.Timing = Timing{}
}

// Retries returns how many attempts there were after the first one.
func (t *Trace) Retries() int { return int(t.retries) }

// The stages in the order in which a transaction passes through them, and then
// what has no fixed place among them.
const (
	stageLag = iota
	stageQueue
	stageTurn
	stageExecute
	stageHold
	stageCommit
	stageWake
	stageCheckpoint
	stageReads
	stageThink
	stageRetry
	stageCount
)

// stages divides Done-Intended into its stages, in nanoseconds. They add up to
// exactly that whatever was stamped: a missing or backward stamp counts as the
// one before it, a late one as Done. An Op that stamped nothing has spent its
// time in execute, and its lag is the time until it was called.
func (t *Trace) stages() (spans [stageCount]int64) {
	stamps := t.Timing
	if stamps == (Timing{}) {
		begun := t.Called + t.retryTime + t.thinkTime + t.readTime
		stamps = Timing{Accepted: begun, Begun: begun, Started: begun, Ended: t.Done, Committing: t.Done, Committed: t.Done}
	}
	at := t.Intended
	for k, stamp := range [...]int64{stamps.Accepted, stamps.Begun, stamps.Started,
		stamps.Ended, stamps.Committing, stamps.Committed, t.Done} {
		stamp = min(max(stamp, at), t.Done)
		spans[k] = stamp - at
		at = stamp
	}
	carve := func(d int64, into int, from ...int) {
		for _, k := range from {
			taken := min(max(d, 0), spans[k])
			spans[k] -= taken
			spans[into] += taken
			d -= taken
		}
	}
	carve(stamps.Checkpointing, stageCheckpoint, stageQueue)
	carve(t.retryTime, stageRetry, stageLag)
	carve(t.thinkTime, stageThink, stageLag, stageWake)
	// Reads are awaited before the transaction is handed over or after the commit.
	carve(t.earlyTime, stageReads, stageLag)
	carve(t.readTime-t.earlyTime, stageReads, stageWake, stageLag)
	return spans
}
