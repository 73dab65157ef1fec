package script

import (
	"math"
	"strings"
	"testing"
)

func TestParseFlag(t *testing.T) {
	for _, tt := range []struct {
		value, file string
		weight      int64
		says        string
	}{
		{"a.sql", "a.sql", 1, ""}, {"a.sql@3", "a.sql", 3, ""}, {"a@b.sql@0", "a@b.sql", 0, ""}, {"tpcb-like@2147483647", "tpcb-like", math.MaxInt32, ""},
		{"", "", 0, "names no file"}, {"@3", "", 0, "names no file"}, {"a.sql@", "", 0, `"" is no weight`}, {"a@b.sql", "", 0, `"b.sql" is no weight`},
		{"a@-1", "", 0, "is no weight"}, {"a@2147483648", "", 0, "is no weight"}, {"a@1.5", "", 0, "is no weight"},
	} {
		file, weight, err := ParseFlag(tt.value)
		if file != tt.file || weight != tt.weight || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %q, %d, %v", tt.value, file, weight, err)
		}
	}
}

func TestMix(t *testing.T) {
	s := mustParse(t, "SELECT 1")
	weights := []float64{3, 0, 1, 6}
	var scripts []Weighted
	for _, w := range weights {
		scripts = append(scripts, Weighted{s, int64(w)})
	}
	m, err := NewMix(9, scripts...)
	if err != nil {
		t.Fatal(err)
	}
	counts, differ := make([]float64, len(weights)), 0
	other, err := NewMix(10, scripts...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(50_000) {
		k := m.Pick(i)
		counts[k]++
		if k != m.Pick(i) {
			t.Fatal("the choice is not repeatable")
		}
		if k != other.Pick(i) {
			differ++
		}
	}
	if counts[1] != 0 {
		t.Errorf("a script of weight 0 ran %v times", counts[1])
	}
	chiSquare(t, "mix", counts, weights)
	if differ < 20_000 {
		t.Errorf("with another seed only %d choices differ", differ)
	}
	single, err := NewMix(1, Weighted{s, 5})
	if err != nil || single.Pick(17) != 0 {
		t.Errorf("a single script: %v", err)
	}
}

func TestMixErrors(t *testing.T) {
	s := mustParse(t, "SELECT 1")
	for _, tt := range []struct {
		scripts []Weighted
		says    string
	}{
		{nil, "all weights are 0"}, {[]Weighted{{s, 0}, {s, 0}}, "all weights are 0"}, {[]Weighted{{nil, 1}}, "nil script"}, {[]Weighted{{s, -1}}, "test.sql: the weight -1"}, {[]Weighted{{s, 1 << 31}}, "the weight 2147483648"},
	} {
		if _, err := NewMix(1, tt.scripts...); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v, want %q", err, tt.says)
		}
	}
}
