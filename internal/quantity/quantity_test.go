package quantity

import (
	"testing"
	"time"
)

func TestCount(t *testing.T) {
	for in, want := range map[string]int64{
		"1": 1, "0": 0, "-5": -5, "100000": 100000, "100_000": 100000, "100k": 100000, "1.5m": 1500000,
		"1e9": 1e9, "1b": 1e9, "2G": 2e9, "1E3": 1000, "9007199254740992": 1 << 53, "9223372036854775807": 1<<63 - 1,
	} {
		if got, err := Count(in); err != nil || got != want {
			t.Errorf("Count(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "k", "x", "1.5", "1e30", "1e99999999", "9223372036854775808", "1/2", "0x10", "nan", "inf", "1kk", "e9"} {
		if got, err := Count(in); err == nil {
			t.Errorf("Count(%q) = %d; want an error", in, got)
		}
	}
}

func FuzzCount(f *testing.F) {
	f.Add("1e9")
	f.Add("12.5k")
	f.Fuzz(func(t *testing.T, s string) { Count(s) }) // must neither panic nor hang
}

func TestSize(t *testing.T) {
	for in, want := range map[string]int64{"4096": 4096, "64KiB": 65536, "64MiB": 64 << 20, "1GB": 1e9} {
		if got, err := Size(in); err != nil || got != want {
			t.Errorf("Size(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-1", "MiB", "64XB"} {
		if got, err := Size(in); err == nil {
			t.Errorf("Size(%q) = %d; want an error", in, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"60": time.Minute, "1.5": 1500 * time.Millisecond, "30s": 30 * time.Second, "1m30s": 90 * time.Second} {
		if got, err := Duration(in, time.Second); err != nil || got != want {
			t.Errorf("Duration(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "x", "1e300", "NaN", "5 s"} {
		if got, err := Duration(in, time.Second); err == nil {
			t.Errorf("Duration(%q) = %v; want an error", in, got)
		}
	}
}
