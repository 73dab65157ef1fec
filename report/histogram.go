package report

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// barColumns is the length of the longest bar: what a count of a thousand million
// leaves.
const barColumns = 32

// histograms draws the latencies and the sizes of the batches.
func (p *page) histograms(r *tps.Result) {
	p.histogram("latency up to", "transactions", r.LatencyHistogram, func(ns int64) string { return short(time.Duration(ns)) })
	if r.Load.Mode != tps.Direct {
		p.histogram("batch of up to", "batches", r.Writer.BatchSizes, count)
	}
}

// histogram draws a bar for each bucket, from the first to the last that holds
// anything.
func (p *page) histogram(what, counted string, buckets []tps.Bucket, upto func(int64) string) {
	holds := func(b tps.Bucket) bool { return b.Count > 0 }
	first := slices.IndexFunc(buckets, holds)
	if first < 0 {
		return
	}
	last := len(buckets) - 1
	for !holds(buckets[last]) {
		last--
	}
	buckets = buckets[first : last+1]
	var total, most int64
	for _, b := range buckets {
		total += b.Count
		most = max(most, b.Count)
	}
	p.WriteByte('\n')
	t := tabwriter.NewWriter(p, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\t%s\tshare\t\n", what, counted)
	for _, b := range buckets {
		line := fmt.Sprintf("%s\t%s\t%s\t", upto(b.Upto), count(b.Count), percent(b.Count, total))
		if b.Count > 0 { // anything is seen
			line += "  " + strings.Repeat("#", max(1, int(float64(b.Count)/float64(most)*barColumns+0.5)))
		}
		fmt.Fprintln(t, line)
	}
	t.Flush()
}
