package tps

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range and precision of every histogram: a longer latency counts as one of
// maxLatency, and a warning says how many there were.
const (
	maxLatency        = int64(time.Hour)
	significantDigits = 3
)

// histogram is an HdrHistogram with an exact mean and maximum: the buckets alone
// would move the mean by up to 0.1 %, and the means of the stages would no
// longer add up to that of the latency. It is not safe for concurrent use.
type histogram struct {
	buckets *hdrhistogram.Histogram
	// sum is a float64 because nanoseconds of many waiting transactions can
	// exceed an int64; below 2^53 ns (104 days in sum) it is exact.
	sum     float64
	count   int64
	max     int64
	clamped int64
}

func newHistogram() *histogram {
	return &histogram{buckets: hdrhistogram.New(1, maxLatency, significantDigits)}
}

// record adds n values of d nanoseconds. Negative ones count as zero.
func (h *histogram) record(d, n int64) {
	d = max(d, 0)
	if d > maxLatency {
		d = maxLatency
		h.clamped += n
	}
	if err := h.buckets.RecordValues(d, n); err != nil {
		// Cannot happen: d was brought into the range just above.
		panic(fmt.Sprintf("tps: histogram refused %d ns: %v", d, err))
	}
	h.sum += float64(d) * float64(n)
	h.count += n
	h.max = max(h.max, d)
}

// merge adds what other holds to h.
func (h *histogram) merge(other *histogram) {
	if other.count == 0 {
		return
	}
	h.buckets.Merge(other.buckets) // drops nothing: both have the same range
	h.sum += other.sum
	h.count += other.count
	h.max = max(h.max, other.max)
	h.clamped += other.clamped
}

// reset empties h.
func (h *histogram) reset() {
	if h.count > 0 {
		h.buckets.Reset()
		*h = histogram{buckets: h.buckets}
	}
}

// doubling returns the counts in buckets that double in width, from the first to
// the last that is not empty.
func (h *histogram) doubling() []Bucket {
	list := []Bucket{}
	for _, bar := range h.buckets.Distribution() {
		if bar.Count == 0 {
			continue
		}
		upto := int64(1) << bits.Len64(uint64(max(bar.From, 1)-1))
		for len(list) > 0 && list[len(list)-1].Upto < upto/2 {
			list = append(list, Bucket{Upto: 2 * list[len(list)-1].Upto})
		}
		if len(list) == 0 || list[len(list)-1].Upto < upto {
			list = append(list, Bucket{Upto: upto})
		}
		list[len(list)-1].Count += bar.Count
	}
	return list
}

// summary returns the figures that a Result shows.
func (h *histogram) summary() Latency {
	if h.count == 0 {
		return Latency{}
	}
	q := h.buckets.ValueAtPercentilesSlice([]float64{50, 90, 95, 99, 99.9})
	// A bucket's upper bound may lie above the largest value in it.
	at := func(k int) time.Duration { return time.Duration(min(q[k], h.max)) }
	return Latency{
		Count: h.count,
		Mean:  time.Duration(h.sum / float64(h.count)),
		P50:   at(0), P90: at(1), P95: at(2), P99: at(3), P999: at(4),
		Max: time.Duration(h.max),
	}
}
