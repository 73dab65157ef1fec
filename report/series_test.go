package report

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/tps"
)

func TestSeriesLine(t *testing.T) {
	lines := []string{SeriesHeader}
	for _, sample := range series() {
		lines = append(lines, SeriesLine(sample))
	}
	golden(t, "series", strings.Join(lines, "\n")+"\n")
}

// Each column of a line ends where its name ends.
func TestSeriesLineColumns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.Int64Range(0, int64(time.Hour))
		number := rapid.Int64Range(0, 1e15)
		s := tps.Sample{
			At: time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "at")), TPS: rapid.Float64Range(0, 1e9).Draw(t, "tps"),
			P50: time.Duration(duration.Draw(t, "p50")), P99: time.Duration(duration.Draw(t, "p99")), InFlight: number.Draw(t, "in flight"), Queued: number.Draw(t, "queued"),
			BatchMean: rapid.Float64Range(0, 1e9).Draw(t, "batch"), WALFileBytes: number.Draw(t, "wal"), Checkpoints: rapid.Int64Range(0, 9999).Draw(t, "checkpoints"),
			Failed: number.Draw(t, "failed"),
		}
		line := []rune(SeriesLine(s))
		if len(line) > 79 {
			t.Fatalf("%d columns: %q", len(line), string(line))
		}
		for k := range line {
			// Behind each name come two blanks, in the lines as well.
			if k > 0 && k < len(SeriesHeader)-1 && SeriesHeader[k:k+2] == "  " && SeriesHeader[k-1] != ' ' && line[k] != ' ' {
				t.Fatalf("column %d:\n%s\n%s", k, SeriesHeader, string(line))
			}
		}
	})
	if n := utf8.RuneCountInString(SeriesHeader); n > 79 {
		t.Errorf("the header has %d columns", n)
	}
}

// The CSV holds what the JSON holds, under the same names.
func TestSeriesCSV(t *testing.T) {
	res := everything()
	text := rendered(t, SeriesCSV(res))
	golden(t, "series-csv", text)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+len(res.Series) {
		t.Fatalf("%d rows", len(rows))
	}
	for k, sample := range res.Series {
		object, err := json.Marshal(sample)
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(strings.NewReader(string(object)))
		dec.UseNumber()
		var fields map[string]json.Number
		if err := dec.Decode(&fields); err != nil {
			t.Fatal(err)
		}
		if len(fields) != len(rows[0]) {
			t.Errorf("%d fields, %d columns", len(fields), len(rows[0]))
		}
		for column, name := range rows[0] {
			if got, want := rows[1+k][column], fields[name].String(); got != want {
				t.Errorf("%s of sample %d: %s, want %s", name, k, got, want)
			}
		}
	}
	res.Series = nil
	if got := rendered(t, SeriesCSV(res)); got != strings.Join(rows[0], ",")+"\n" {
		t.Errorf("without samples: %q", got)
	}
}
