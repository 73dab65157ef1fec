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
	// returned an error; Errors splits them by class. Dropped ones were due at a
	// constant rate but never started, because MaxInFlight was reached or the
	// generator could not keep up. Late ones were acknowledged, but after
	// LatencyLimit. Retries counts attempts after the first.
	Acknowledged int64            `json:"acknowledged"`
	Failed       int64            `json:"failed"`
	Dropped      int64            `json:"dropped"`
	Late         int64            `json:"late"`
	Retries      int64            `json:"retries"`
	Errors       map[string]int64 `json:"errors"`
	Interrupted  bool             `json:"interrupted"`

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

	Writer   Writer     `json:"writer"`
	Locality Locality   `json:"locality"`
	Series   []struct{} `json:"series"` // reserved for samples over time: always empty
	Verify   Verify     `json:"verify"`
	Env      Env        `json:"env"`
	Warnings []string   `json:"warnings"`

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
	Arrival      string        `json:"arrival"`      // "constant" in an open loop, else ""
	Rate         float64       `json:"rate"`         // arrivals a second in an open loop, else 0
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
	Cache          string        `json:"cache"`
}

// Settings are the effective settings of the engine and the writer, as they
// were read back. Sizes are bytes, except that CacheSize keeps SQLite's meaning:
// pages when positive, KiB when negative.
type Settings struct {
	JournalMode string        `json:"journal_mode"`
	Synchronous string        `json:"synchronous"`
	PageSize    int64         `json:"page_size"`
	CacheSize   int64         `json:"cache_size"`
	MmapSize    int64         `json:"mmap_size"`
	Checkpoint  string        `json:"checkpoint"`
	MaxBatch    int           `json:"max_batch"`
	BatchWindow time.Duration `json:"batch_window_ns"`
	Queue       int           `json:"queue"`
	Savepoints  string        `json:"savepoints"`
	Readers     int           `json:"readers"`
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
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Stages divides the latency of the acknowledged transactions into the parts of
// a transaction's life; see [Timing] for where each begins and ends. The means
// add up to the mean of the latency; percentiles do not add up. Reads is nil
// when no transaction recorded a read.
type Stages struct {
	Lag     Latency  `json:"lag"`
	Queue   Latency  `json:"queue"`
	Turn    Latency  `json:"turn"`
	Execute Latency  `json:"execute"`
	Hold    Latency  `json:"hold"`
	Commit  Latency  `json:"commit"`
	Wake    Latency  `json:"wake"`
	Reads   *Latency `json:"reads,omitempty"`
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

// Verify is the outcome of the proof that the database holds exactly what was
// acknowledged. Detail says what differs when OK is false.
type Verify struct {
	OK              bool   `json:"ok"`
	AccountsChecked int64  `json:"accounts_checked"`
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
