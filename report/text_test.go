package report

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/tps"
)

func TestShort(t *testing.T) {
	for _, test := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0 ns"}, {1, "1 ns"}, {999, "999 ns"},
		{1000, "1.00 µs"}, {1004, "1.00 µs"}, {1005, "1.01 µs"}, {9994, "9.99 µs"}, {9995, "10.0 µs"}, {99_949, "99.9 µs"}, {99_950, "100 µs"},
		{999_499, "999 µs"}, {999_500, "1.00 ms"}, {1_234_567, "1.23 ms"}, {12_345_678, "12.3 ms"}, {123_456_789, "123 ms"},
		{999_500_000, "1.00 s"}, {90 * time.Second, "90.0 s"}, {600 * time.Second, "600 s"}, {time.Hour, "3600 s"},
	} {
		if got := short(test.d); got != test.want {
			t.Errorf("%d ns: %q, want %q", test.d, got, test.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{rate(0), "0.0"}, {rate(0.04), "0.0"}, {rate(12.34), "12.3"}, {rate(99.94), "99.9"}, {rate(99.97), "100"},
		{rate(100), "100"}, {rate(999.5), "1,000"}, {rate(272_479.6), "272,480"},
		{mean(1), "1.0"}, {mean(6.98), "7.0"}, {mean(9.96), "10"}, {mean(46.2), "46"}, {mean(8333.3), "8,333"},
		{percent(0, 60), "0 %"}, {percent(60, 60), "100 %"}, {percent(59, 60), "98 %"}, {percent(9999, 10_000), "over 99 %"},
		{percent(1, 1_000_000), "0.0001 %"}, {percent(72, 3181), "2.3 %"}, {percent(99, 1000), "9.9 %"}, {percent(1, 10), "10 %"},
		{plural(0, "client"), "0 clients"}, {plural(1, "client"), "1 client"}, {plural(2000, "client"), "2,000 clients"},
		{size(-1), "0 B"}, {size(1 << 20), "1.0 MiB"},
		{seconds(367 * time.Millisecond), "0.367 s"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}

func TestLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		30 * time.Second: "30 s", 50 * time.Millisecond: "50 ms", 1500 * time.Millisecond: "1.5 s", 90 * time.Second: "90 s", 2 * time.Minute: "2m",
		time.Hour: "1h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 10*time.Minute + 30*time.Second: "10m30s", 250 * time.Microsecond: "250 µs",
		20 * time.Minute: "20m", 100 * time.Hour: "100h", 0: "0 µs",
	} {
		if got := length(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestCompact(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 9999: "9999", 10_000: "10.0k", 99_949: "99.9k", 99_950: "100k", 999_499: "999k", 999_500: "1.00m", 9_994_999: "9.99m", 9_995_000: "10.0m",
		1_000_000_000: "1.00b", 1_500_000_000_000: "1.50t", math.MaxInt64: "9.22E",
	} {
		if got := compact(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if text := compact(rapid.Int64Min(0).Draw(t, "n")); len(text) > 5 {
			t.Fatal(text)
		}
	})
}

func TestRoundRate(t *testing.T) {
	for _, test := range []struct {
		rate float64
		want int64
	}{{0, 1}, {0.3, 1}, {1, 1}, {1.6, 2}, {9.4, 9}, {27.6, 28}, {99.6, 100}, {136_240, 140_000}, {27_610, 28_000}, {1e9, 1_000_000_000}} {
		if got := roundRate(test.rate); got != test.want {
			t.Errorf("%v: %d, want %d", test.rate, got, test.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1, 1e9).Draw(t, "rate")
		got := float64(roundRate(rate))
		if got < 1 || math.Abs(got-rate) > max(0.05*rate, 0.5) {
			t.Fatalf("%v became %v", rate, got)
		}
	})
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"one two three", 6, []string{"one", "two", "three"}},
		{"a-word-that-is-too-long b", 5, []string{"a-word-that-is-too-long", "b"}},
		{"µµµ µµµ", 7, []string{"µµµ µµµ"}},
		{"  spread   out ", 20, []string{"spread out"}},
	} {
		if got := wrap(test.text, test.width); !slices.Equal(got, test.want) {
			t.Errorf("%q at %d: %q, want %q", test.text, test.width, got, test.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-zµ]{1,12}`)).Draw(t, "words")
		width := rapid.IntRange(1, 30).Draw(t, "width")
		lines := wrap(strings.Join(words, " "), width)
		if got := strings.Fields(strings.Join(lines, " ")); !slices.Equal(got, words) {
			t.Fatalf("the words became %q", got)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > width && strings.Contains(line, " ") {
				t.Fatalf("%q is wider than %d", line, width)
			}
		}
	})
}

func TestSuggestion(t *testing.T) {
	for _, test := range []struct {
		argv string
		want string
	}{
		{"", "tpssim run funds -R 500 -d 30s"},
		{"run", "tpssim run -R 500 -d 30s"},
		{"run mixed -n 100k --runs 3", "tpssim run mixed -R 500 -d 30s"},
		{"run -n100k -q", "tpssim run -R 500 -d 30s"},
		{"run --transactions=5 --concurrency 3 --warmup=1s --db x.db", "tpssim run --db x.db -R 500 -d 30s"},
		{"run -c 8 -d 10 --dist uniform", "tpssim run --dist uniform -R 500 -d 30s"},
		{"run --db $HOME/it's.db -n 5", `tpssim run --db '$HOME/it'\''s.db' -R 500 -d 30s`},
		{"run -n", "tpssim run -R 500 -d 30s"},
		{"run -R20 --stage 10s:5 --stage=1s:5->6 --arrival poisson --burst-size 3 --max-in-flight 9 --warmup 1s -L 50 -P 1", "tpssim run -L 50 -R 500 -d 30s"},
		{"run --rate 5 --threshold p99<5ms -d10", "tpssim run -R 500 -d 30s"},
		{"run -rn 1000 --sync normal", "tpssim run --sync normal -R 500 -d 30s"},
		{"run -qn1000", "tpssim run -R 500 -d 30s"},
		{"run -qrn=1000 funds", "tpssim run funds -R 500 -d 30s"},
		{"run -rq --db x.db", "tpssim run --db x.db -R 500 -d 30s"},
		{"run -r=true -q=false -c8", "tpssim run -R 500 -d 30s"},
		{"run -rL 50 -qL60 -L=70", "tpssim run -L 50 -L60 -L=70 -R 500 -d 30s"},
		{"run -qf a.sql@2 -b tpcb-like -rD n=5 -Dm=6", "tpssim run -f a.sql@2 -b tpcb-like -D n=5 -Dm=6 -R 500 -d 30s"},
		{"run -qD -n5 --db -c", "tpssim run -D -n5 --db -c -R 500 -d 30s"}, // values, whatever they look like
		{"-q --config x.toml run -n 5 -o -n", "tpssim --config x.toml run -R 500 -d 30s"},
		{"run -o x.json -oy.json --output=z --series s.csv --log l.csv --log-sample 0.5 --cpuprofile c --trace t --format json -P1 --progress 2", "tpssim run -R 500 -d 30s"},
		{"run --abort-on-fail --threshold=a --histograms --statements --quiet --pin-reader 5 --no-color --allow-foreign pool", "tpssim run --no-color --allow-foreign pool -R 500 -d 30s"},
		{"run --cache cold --think 5ms -d 5 -- funds", "tpssim run --cache cold --think 5ms funds -R 500 -d 30s"},
	} {
		res := &tps.Result{Scenario: "funds", TPS: 1000, Argv: strings.Fields(test.argv)}
		if got := Command(suggestion(res)...); got != test.want {
			t.Errorf("%q: %q, want %q", test.argv, got, test.want)
		}
	}
	if got := Command("a", "", "b c", "d"); got != "a '' 'b c' d" {
		t.Errorf("%q", got)
	}
}

// A command on several lines is the same command to a shell.
func TestCommandLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z$µ -]{1,20}`), 1, 12).Draw(t, "words")
		width := rapid.IntRange(5, 80).Draw(t, "width")
		lines := commandLines(width, words...)
		if got, want := strings.Join(lines, "\n"), Command(words...); strings.ReplaceAll(got, " \\\n  ", " ") != want {
			t.Fatalf("%q became\n%s", want, got)
		}
		for k, line := range lines {
			one := strings.TrimSuffix(strings.TrimPrefix(line, "  "), ` \`)
			long := slices.ContainsFunc(words, func(word string) bool { return Command(word) == one })
			if utf8.RuneCountInString(line) > width && !long {
				t.Fatalf("line %d has more than %d columns: %q", k, width, line)
			}
		}
	})
}

func TestArrivals(t *testing.T) {
	stage := func(length time.Duration, from, to float64) tps.Stage {
		return tps.Stage{Duration: length, From: from, To: to}
	}
	for _, test := range []struct {
		load tps.Load
		want string
	}{
		{tps.Load{Rate: 1}, "1 arrival a second"},
		{tps.Load{Rate: 1, Arrival: tps.PoissonArrival}, "1 Poisson arrival a second"},
		{tps.Load{Rate: 5}, "5 arrivals a second"},
		{tps.Load{Rate: 0.5}, "0.5 arrivals a second"},
		{tps.Load{Rate: 20_000, BurstSize: 10}, "20,000 arrivals a second in bursts of 10"},
		{tps.Load{Stages: []tps.Stage{stage(time.Second, 0, 0)}}, "no arrivals for 1 s"},
		{tps.Load{Stages: []tps.Stage{stage(time.Second, 0, 0), stage(2*time.Second, 0, 0), stage(5*time.Second, 9, 9), stage(time.Second, 0, 0)}, BurstSize: 3},
			"no arrivals for 1 s, then no arrivals for 2 s, then 9 arrivals a second in bursts of 3 for 5 s, then none for 1 s"},
		{tps.Load{Stages: []tps.Stage{stage(time.Second, 1, 1), stage(0, 1, 1)}}, "1 arrival a second for 1 s, then 1"},
		{tps.Load{Stages: []tps.Stage{stage(time.Second, 0, 1), stage(time.Minute, 1, 0)}}, "0 to 1 arrivals a second over 1 s, then 1 to 0 over 60 s"},
	} {
		if got := arrivals(test.load); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestDurability(t *testing.T) {
	for _, test := range []struct{ journal, sync, fs, want string }{
		{"wal", "full", "ext4", "yes"}, {"wal", "extra", "ext4", "yes"}, {"delete", "full", "ext4", "mostly"}, {"delete", "extra", "ext4", "yes"},
		{"truncate", "full", "ext4", "yes"}, {"persist", "full", "ext4", "yes"},
		{"wal", "normal", "ext4", "partly"}, {"delete", "normal", "ext4", "mostly"},
		{"wal", "off", "ext4", "NO"}, {"memory", "full", "ext4", "NO"}, {"off", "full", "ext4", "NO"}, {"wal", "full", "tmpfs", "NO"},
	} {
		res := burst()
		res.Settings.JournalMode, res.Settings.Synchronous, res.Env.Filesystem = test.journal, test.sync, test.fs
		promise, color := durability(res.Settings, res.Env)
		if word, _, _ := strings.Cut(promise, ":"); word != test.want || (color == plain) != (word == "yes") {
			t.Errorf("%+v: %q in colour %q", test, promise, color)
		}
	}
}
