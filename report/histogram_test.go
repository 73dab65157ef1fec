package report

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/tps"
)

// Nothing that was counted is invisible, a bar is as long as its count, and it
// all fits.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 1e9)), 0, 40).Draw(t, "counts")
		var buckets []tps.Bucket
		var most int64
		for k, n := range counts {
			buckets = append(buckets, tps.Bucket{Upto: 1 << k, Count: n})
			most = max(most, n)
		}
		p := &page{}
		p.histogram("latency up to", "transactions", buckets, count)
		text := strings.Trim(p.String(), "\n")
		if most == 0 {
			if text != "" {
				t.Fatalf("nothing was drawn as %q", text)
			}
			return
		}
		first := 0
		for counts[first] == 0 {
			first++
		}
		lines := strings.Split(text, "\n")[1:]
		if len(lines) > len(counts)-first {
			t.Fatalf("%d lines of %d buckets", len(lines), len(counts)-first)
		}
		for k, n := range counts[first:] {
			if k >= len(lines) { // the tail
				if n != 0 {
					t.Fatalf("%d counted in a bucket that is not drawn", n)
				}
				continue
			}
			if utf8.RuneCountInString(lines[k]) > columns {
				t.Fatalf("too wide: %q", lines[k])
			}
			bar := strings.Count(lines[k], "#")
			if (bar == 0) != (n == 0) || n > 0 && math.Abs(float64(bar)-barColumns*float64(n)/float64(most)) > 1 {
				t.Fatalf("a bar of %d for %d of at most %d", bar, n, most)
			}
		}
		if !strings.HasSuffix(lines[len(lines)-1], "#") {
			t.Fatal("an empty tail is drawn")
		}
	})
}

// Without the option nothing is drawn.
func TestNoHistogram(t *testing.T) {
	with, without := rendered(t, Text(everything(), TextOptions{Histograms: true})), rendered(t, Text(everything(), TextOptions{}))
	if !strings.Contains(with, "####") || strings.Contains(without, "####") {
		t.Error("the option does not decide")
	}
}

func TestClip(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{{"", 5, ""}, {"abcde", 5, "abcde"}, {"abcdef", 5, "abcd…"}, {"a\n\tb", 5, "a b"}, {"abc def", 5, "abc…"}, {"µµµµµµ", 5, "µµµµ…"}} {
		if got := clip(test.text, test.width); got != test.want {
			t.Errorf("%q: %q, want %q", test.text, got, test.want)
		}
	}
}
