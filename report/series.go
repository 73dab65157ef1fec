package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/tpssim/tpssim/tps"
)

// SeriesHeader names the columns of [SeriesLine].
const SeriesHeader = "second      TPS      p50      p99  flight  queued  batch  WAL file  ckpt   fail"

// SeriesLine shows a sample in less than 80 columns, without a line's end: the
// second at which it ends, the TPS, p50 and p99 of the latency where they are
// known, transactions in flight and waiting for the writer, the mean size of the
// batches, the WAL file's size, the number of checkpoints, and the number of
// transactions that failed, were dropped or were skipped.
func SeriesLine(s tps.Sample) string {
	speed := rate(s.TPS)
	if s.TPS >= 999_999.5 {
		speed = compact(int64(math.Round(s.TPS)))
	}
	batch := compact(int64(math.Round(s.BatchMean)))
	if s.BatchMean < 9.95 {
		batch = mean(s.BatchMean)
	}
	fail := ""
	if n := s.Failed + s.Dropped + s.Skipped; n > 0 {
		fail = compact(n)
	}
	at := s.At.Round(100 * time.Millisecond)
	if at >= 1000*time.Second {
		at = at.Round(time.Second)
	}
	line := fmt.Sprintf("%6s  %7s  %7s  %7s  %6s  %6s  %5s  %8s  %4s  %5s",
		strconv.FormatFloat(at.Seconds(), 'f', -1, 64), speed, known(s.P50), known(s.P99), compact(s.InFlight), compact(s.Queued), batch, size(s.WALFileBytes), compact(s.Checkpoints), fail)
	return strings.TrimRight(line, " ")
}

// known shows a duration, and a dash for one that nobody measured.
func known(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return short(d)
}

// SeriesCSV renders the samples of a result as CSV, a row each, under the names
// that their fields have in the JSON.
func SeriesCSV(r *tps.Result) Renderer {
	return func(w io.Writer) error {
		out := csv.NewWriter(w)
		kind := reflect.TypeFor[tps.Sample]()
		row := make([]string, kind.NumField())
		for k := range row {
			row[k], _, _ = strings.Cut(kind.Field(k).Tag.Get("json"), ",")
		}
		out.Write(row) // an error stays in out
		for _, sample := range r.Series {
			fields := reflect.ValueOf(sample)
			for k := range row {
				row[k] = number(fields.Field(k))
			}
			out.Write(row)
		}
		out.Flush()
		return out.Error()
	}
}

// number shows a number in full.
func number(v reflect.Value) string {
	if v.CanFloat() {
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return strconv.FormatInt(v.Int(), 10)
}
