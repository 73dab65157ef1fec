package tps

import (
	"math"
	"time"
)

// Sample is what happened in one interval of a load, a second long unless
// Config.SampleEvery says otherwise; the last one of a load can be shorter. [Run]
// fills the fields up to InFlight, Config.OnSample the rest. Counts and times
// are those of the interval, sizes and lengths those at its end. In JSON every
// duration is nanoseconds and every size bytes.
type Sample struct {
	At           time.Duration `json:"at_ns"` // the end of the interval, from the start of the load
	Interval     time.Duration `json:"interval_ns"`
	TPS          float64       `json:"tps"` // acknowledged transactions a second
	Acknowledged int64         `json:"acknowledged"`
	Failed       int64         `json:"failed"`
	Dropped      int64         `json:"dropped"`
	Skipped      int64         `json:"skipped"`
	// P50, P99 and Max are of the latencies of the transactions acknowledged in
	// the interval. In a burst they are filled in when it is over.
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
	// InFlight is how many transactions were started and not finished.
	InFlight int64 `json:"in_flight"`

	Queued      int64         `json:"queued"` // waiting for the writer
	OldestWait  time.Duration `json:"oldest_wait_ns"`
	Batches     int64         `json:"batches"`
	BatchMean   float64       `json:"batch_mean"` // transactions to a batch
	Checkpoints int64         `json:"checkpoints"`
	// CheckpointTime is how long the writer was held by checkpoints,
	// CheckpointPages what they moved into the database.
	CheckpointTime  time.Duration `json:"checkpoint_ns"`
	CheckpointPages int64         `json:"checkpoint_pages"`
	WALBytes        int64         `json:"wal_bytes"`         // written to the WAL
	WALPendingBytes int64         `json:"wal_pending_bytes"` // of it not in the database yet
	DBFileBytes     int64         `json:"db_file_bytes"`
	WALFileBytes    int64         `json:"wal_file_bytes"`
	SHMFileBytes    int64         `json:"shm_file_bytes"`

	RSSBytes int64         `json:"rss_bytes"` // memory of this process
	CPU      time.Duration `json:"cpu_ns"`    // processor time of this process, all CPUs together
	GCs      int64         `json:"gcs"`       // garbage collections
	GCPause  time.Duration `json:"gc_pause_ns"`
}

// Steady is the throughput of the whole intervals of a load but the first one, in
// which it gets going, and those in which it only drains.
type Steady struct {
	Samples int     `json:"samples"`
	Mean    float64 `json:"tps_mean"`
	StdDev  float64 `json:"tps_stddev"` // of the samples (n-1); 0 for fewer than two
}

// steady summarises the steady part of a series of a load that was offered for
// length; 0: until its end.
func steady(series []Sample, every, length time.Duration) Steady {
	// A ticker that fires late makes one interval longer and the next shorter.
	tolerance := every / 10
	var rates []float64
	for k, sample := range series {
		if k > 0 && sample.Interval >= every-tolerance && (length == 0 || sample.At <= length+tolerance) {
			rates = append(rates, sample.TPS)
		}
	}
	s := Steady{Samples: len(rates)}
	var sum, squares float64
	for _, rate := range rates {
		sum += rate
	}
	if s.Samples == 0 {
		return s
	}
	s.Mean = sum / float64(s.Samples)
	for _, rate := range rates {
		squares += (rate - s.Mean) * (rate - s.Mean)
	}
	if s.Samples > 1 {
		s.StdDev = math.Sqrt(squares / float64(s.Samples-1))
	}
	return s
}
