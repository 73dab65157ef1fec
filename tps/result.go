package tps

import "time"

// Schema names the format of [Result] as JSON. A reader of result files
// compares it before it trusts the rest.
const Schema = "tpssim.run/1"

// Result is what one run measured, in the order and with the names of the JSON
// object that tpssim prints. Every duration is nanoseconds in JSON, and no
// list or map is ever null.
//
// [Run] fills what the harness itself observes: StartedAt, the counted part of
// Load, and everything from Runs to Stages, Interrupted, BytesPerWaiting and
// its own Warnings. Argv, Scenario, Engine, Settings, Writer, Locality, Verify,
// Env and the rest of Load belong to the caller.
//
// When a burst was repeated, every figure from Acknowledged to Stages is that
// of one run, the median one, so that the stages belong to the TPS that stands
// beside them; TPSLow and TPSHigh span all runs that count.
type Result struct {
	Schema    string    `json:"schema"`
	StartedAt time.Time `json:"started_at"`
	Argv      []string  `json:"argv"`
	Scenario  string    `json:"scenario"`
	Engine    string    `json:"engine"`

	Load     Load     `json:"load"`
	Settings Settings `json:"settings"`
	Runs     []Round  `json:"runs"`

	// Acknowledged transactions are the only ones that TPS counts. Failed ones
	// returned an error; Errors splits them by class. Dropped ones were due in an
	// open loop but never started, because MaxInFlight was reached or the
	// generator could not keep up. Skipped ones were not worth starting any more:
	// LatencyLimit had passed before their turn came. Late ones were
	// acknowledged, but after LatencyLimit. Retries counts attempts after the
	// first, and Tries is their distribution.
	Acknowledged int64            `json:"acknowledged"`
	Failed       int64            `json:"failed"`
	Dropped      int64            `json:"dropped"`
	Skipped      int64            `json:"skipped"`
	Late         int64            `json:"late"`
	Retries      int64            `json:"retries"`
	Tries        Tries            `json:"tries"`
	Errors       map[string]int64 `json:"errors"`
	// ErrorExamples are the text of the first error of each class, in all rounds.
	ErrorExamples map[string]string `json:"error_examples"`
	Interrupted   bool              `json:"interrupted"`
	// Stopped says why Config.Interim ended the load before its bounds did.
	Stopped string `json:"stopped"`

	// Schedule is how an open loop kept to its arrivals; nil for other loads.
	Schedule *Kept `json:"schedule,omitempty"`

	// Elapsed runs from the start of the load until the last caller is awake.
	// Spawn is the part of a burst that passed before its last goroutine had
	// been started; zero for every other load.
	Elapsed time.Duration `json:"elapsed_ns"`
	Spawn   time.Duration `json:"spawn_ns"`

	// TPS is Acknowledged over Elapsed. TPSSettled adds the time that
	// Config.Settle took to Elapsed, so that work put off is paid for.
	TPS        float64 `json:"tps"`
	TPSLow     float64 `json:"tps_low"`
	TPSHigh    float64 `json:"tps_high"`
	TPSSettled float64 `json:"tps_settled"`

	Reads Reads `json:"reads"`

	// Latency counts from the intended start of a transaction, Service from the
	// moment its Op was called; both end when the Op has returned. Both, and
	// Stages, hold acknowledged transactions only: an error that comes back at
	// once would flatter them.
	Latency Latency `json:"latency"`
	Service Latency `json:"service"`
	Stages  Stages  `json:"stages"`

	// LatencyHistogram counts the latencies in buckets that double in width.
	LatencyHistogram []Bucket `json:"latency_histogram"`
	// Statements are the times of each statement, when they were asked for.
	Statements []Statement `json:"statements"`

	Writer     Writer    `json:"writer"`
	Locality   Locality  `json:"locality"`
	Growth     []Growth  `json:"growth"` // of a load that fills a table, else empty
	Series     []Sample  `json:"series"`
	Steady     Steady    `json:"steady"`
	Thresholds []Outcome `json:"thresholds"`
	Verify     Verify    `json:"verify"`
	Env        Env       `json:"env"`
	Warnings   []string  `json:"warnings"`

	// BytesPerWaiting is the largest growth of heap and stacks during the cold
	// burst over the largest number of transactions that waited at once. It is an
	// upper bound: garbage not yet collected is in it. Zero when it was not
	// measured: another load than a burst, or never a thousand waiting at once.
	BytesPerWaiting int64 `json:"bytes_per_waiting"`

	// MedianRun is the index in Runs of the run whose figures are shown. It is
	// the number that Config.BeforeRun and Config.AfterRun were given for it.
	MedianRun int `json:"-"`
}

// Load describes what was asked for. The harness fills Mode to Rate, the caller
// the rest.
type Load struct {
	Mode         Mode          `json:"mode"`
	Transactions int64         `json:"transactions"` // 0: bounded by Duration only
	Duration     time.Duration `json:"duration_ns"`  // 0: bounded by Transactions only
	Concurrency  int           `json:"concurrency"`  // clients of a closed loop, else 0
	Arrival      Arrival       `json:"arrival"`      // of an open loop, else ""
	Rate         float64       `json:"rate"`         // arrivals a second in an open loop without stages, else 0
	BurstSize    int           `json:"burst_size"`   // arrivals at one instant of an open loop, else 0
	Stages       []Stage       `json:"stages"`       // of an open loop whose rate changes, else empty
	MaxInFlight  int64         `json:"max_in_flight"`
	Warmup       time.Duration `json:"warmup_ns"`
	LatencyLimit time.Duration `json:"latency_limit_ns"` // 0: none
	RandomSeed   uint64        `json:"random_seed"`
	Dist         string        `json:"dist"`
	// DistParameters are those of Dist, as in "theta=0.99"; empty when it has
	// none, or only the article's.
	DistParameters string        `json:"dist_parameters"`
	Layout         string        `json:"layout"`
	Rows           int64         `json:"rows"`
	Schema         string        `json:"schema"`
	PayloadBytes   int           `json:"payload_bytes"` // in each row
	Indexes        int           `json:"indexes"`       // beside the key
	ReadsPerTx     int           `json:"reads_per_tx"`
	Think          time.Duration `json:"think_ns"`
	// ThinkBound is the most transactions a second that can be done when Think
	// holds the writer, whatever else is tuned; 0 when it does not.
	ThinkBound float64       `json:"think_bound_tps"`
	MaxTries   int           `json:"max_tries"`     // of a scenario that retries, else 0
	PinReader  time.Duration `json:"pin_reader_ns"` // a reader's snapshot was held open for so long
	Cache      string        `json:"cache"`
	Keys       string        `json:"keys"`    // of a load on a table of its own, else ""
	Scripts    []string      `json:"scripts"` // of a workload from files, as FILE@WEIGHT
}

// Kept says how well an open loop kept to its schedule.
type Kept struct {
	Arrivals int64         `json:"arrivals"`  // due; started, dropped and skipped ones together
	Length   time.Duration `json:"length_ns"` // until the last of them was due, or until Config.Duration
	// Behind is how late the last arrival was started, LateP99 how late arrivals
	// were in 99 of 100 cases, LateMax how late one of them was: the load
	// generator's own delay.
	Behind  time.Duration `json:"behind_ns"`
	LateP99 time.Duration `json:"late_p99_ns"`
	LateMax time.Duration `json:"late_max_ns"`
	// Backlog is how many transactions were unfinished when the schedule was over,
	// BacklogMax the most that ever were.
	Backlog    int64 `json:"backlog"`
	BacklogMax int64 `json:"backlog_max"`
	// GeneratorBound tells that this machine could not offer the load evenly, so
	// that the latencies are the generator's and not the database's.
	GeneratorBound bool `json:"generator_bound"`
}

// Tries is how many attempts the acknowledged transactions needed; all zero
// when none was acknowledged.
type Tries struct {
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	P99  int64   `json:"p99"`
	Max  int64   `json:"max"`
}

// Bucket counts the values above the bucket before it and up to Upto.
type Bucket struct {
	Upto  int64 `json:"upto"` // nanoseconds for times, transactions for batches
	Count int64 `json:"count"`
}

// Statement is how long one statement of the transactions took, each execution
// counted, on the goroutine that ran it.
type Statement struct {
	Name    string  `json:"name"`
	Latency Latency `json:"latency"`
}

// Settings are the effective settings of the engine and the writer, as they
// were read back. Sizes are bytes, except that CacheSize keeps SQLite's meaning:
// pages when positive, KiB when negative.
type Settings struct {
	JournalMode  string        `json:"journal_mode"`
	Synchronous  string        `json:"synchronous"`
	PageSize     int64         `json:"page_size"`
	CacheSize    int64         `json:"cache_size"`
	MmapSize     int64         `json:"mmap_size"`
	Checkpoint   string        `json:"checkpoint"`
	MaxBatch     int           `json:"max_batch"`
	MaxBatchTime time.Duration `json:"max_batch_time_ns"`
	BatchWindow  time.Duration `json:"batch_window_ns"`
	Queue        int           `json:"queue"`
	Savepoints   string        `json:"savepoints"`
	Readers      int           `json:"readers"`
	Prefetch     int           `json:"prefetch"`
}

// Round is one measured run of the load: a burst has several, every other load
// one.
type Round struct {
	TPS          float64       `json:"tps"`
	Elapsed      time.Duration `json:"elapsed_ns"`
	Cold         bool          `json:"cold"`
	Acknowledged int64         `json:"acknowledged"`
	Failed       int64         `json:"failed"`
	Interrupted  bool          `json:"interrupted"`
}

// Reads are the point reads that transactions waited for, counted apart from
// the transactions themselves. Latency can hold fewer than Acknowledged: see
// [MaxReads].
type Reads struct {
	Acknowledged int64   `json:"acknowledged"`
	TPS          float64 `json:"tps"`
	Latency      Latency `json:"latency"`
}

// Latency summarises a histogram of durations. Count, Mean and Max are exact;
// the percentiles are correct to three significant digits.
type Latency struct {
	Count int64         `json:"count"`
	Mean  time.Duration `json:"mean_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P95   time.Duration `json:"p95_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Stages divides the latency of the acknowledged transactions into the parts of
// a transaction's life; see [Timing] for where each begins and ends. The means
// add up to the mean of the latency; percentiles do not add up. The last four
// are nil when no transaction had such a part.
type Stages struct {
	Lag     Latency `json:"lag"`
	Queue   Latency `json:"queue"`
	Turn    Latency `json:"turn"`
	Execute Latency `json:"execute"`
	Hold    Latency `json:"hold"`
	Commit  Latency `json:"commit"`
	Wake    Latency `json:"wake"`

	Checkpoint *Latency `json:"checkpoint,omitempty"` // else part of queue
	Reads      *Latency `json:"reads,omitempty"`
	Think      *Latency `json:"think,omitempty"`
	Retry      *Latency `json:"retry,omitempty"` // attempts that lost, all of their time
}

// Writer is what the single writer did during the run that is shown.
type Writer struct {
	Batches         int64         `json:"batches"`
	BatchSize       BatchSize     `json:"batch_size"`
	BusyFraction    float64       `json:"busy_fraction"` // 0 to 1
	Commits         int64         `json:"commits"`
	RolledBack      int64         `json:"rolled_back"`
	Checkpoints     int64         `json:"checkpoints"`
	CheckpointTime  time.Duration `json:"checkpoint_ns"`
	WALBytes        int64         `json:"wal_bytes"`
	WALPendingBytes int64         `json:"wal_pending_bytes"`
	// WALBlocked is how long the WAL could not be emptied because a reader held
	// an old snapshot, WALFileMax the largest that its file was seen.
	WALBlocked time.Duration `json:"wal_blocked_ns"`
	WALFileMax int64         `json:"wal_file_max_bytes"`
	// Touched counts the transactions whose accounts were read before their turn
	// came, TouchMisses those of them whose reads were as slow as from the disk.
	Touched     int64    `json:"touched"`
	TouchMisses int64    `json:"touch_misses"`
	BatchSizes  []Bucket `json:"batch_sizes"`
}

// BatchSize summarises how many transactions shared one COMMIT.
type BatchSize struct {
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	Max  int64   `json:"max"`
}

// Locality is how much of the table the load touched.
type Locality struct {
	AccountsTouched  int64 `json:"accounts_touched"`
	LeafPagesTouched int64 `json:"leaf_pages_touched"`
	LeafPages        int64 `json:"leaf_pages"`
}

// Growth is one part of a load that fills a table: from the end of the part before it
// until the table had Rows.
type Growth struct {
	Rows       int64         `json:"rows"`
	Elapsed    time.Duration `json:"elapsed_ns"`
	SinceBegin time.Duration `json:"since_begin_ns"` // of the first part
	TPS        float64       `json:"tps"`            // rows a second
	Batch      Latency       `json:"batch"`          // transactions, COMMIT included
	Failed     int64         `json:"failed"`         // rows
	DBBytes    int64         `json:"db_bytes"`
	WALBytes   int64         `json:"wal_bytes"`
	SHMBytes   int64         `json:"shm_bytes"`
	RSSBytes   int64         `json:"rss_bytes"` // of the whole program; 0: unknown
}

// Verify is the outcome of the proof that the database holds exactly what was
// acknowledged. Detail says what differs when OK is false. Checked is false for a
// workload that nothing can be proved of; OK is false then too.
type Verify struct {
	Checked         bool   `json:"checked"`
	OK              bool   `json:"ok"`
	AccountsChecked int64  `json:"accounts_checked"`
	RowsChecked     int64  `json:"rows_checked"` // of a table of its own
	Conserved       bool   `json:"conserved"`
	Detail          string `json:"detail"`
}

// Env is the machine and the build that produced the result.
type Env struct {
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	Filesystem  string `json:"filesystem"`
	CPU         string `json:"cpu"`
	CPUs        int    `json:"cpus"`
	GOMAXPROCS  int    `json:"gomaxprocs"`
	GOGC        int    `json:"gogc"` // percent, -1 when collection is off
	MemoryBytes int64  `json:"memory_bytes"`
	DBBytes     int64  `json:"db_bytes"`
	Go          string `json:"go"`
	SQLite      string `json:"sqlite"`
	Version     string `json:"version"`
	Commit      string `json:"commit"`
}
