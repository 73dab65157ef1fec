package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func TestDescribe(t *testing.T) {
	start := time.Unix(0, 0)
	var p pace
	for _, test := range []struct {
		after time.Duration
		status
		want string
	}{
		{0, status{label: "preparing"}, "preparing"},
		{0, status{label: "seeding: accounts", unit: "rows", total: 1000}, "seeding: accounts, 0 %"},
		{500 * time.Millisecond, status{label: "seeding: accounts", unit: "rows", done: 100, total: 1000}, "seeding: accounts, 10 %"},
		{2 * time.Second, status{label: "seeding: accounts", unit: "rows", done: 200, total: 1000}, "seeding: accounts, 20 %, 100 rows/s, 8s left"},
		{4 * time.Second, status{label: "seeding: accounts", unit: "rows", done: 1000, total: 1000}, "seeding: accounts, 100 %, 250 rows/s, 0s left"},
		// Each label has a speed of its own, and each start of one.
		{5 * time.Second, status{label: "index", unit: "rows", done: 1000, total: 9000}, "index, 11 %"},
		{7 * time.Second, status{label: "index", unit: "rows", done: 3000, total: 9000}, "index, 33 %, 1,000 rows/s, 6s left"},
		{8 * time.Second, status{label: "index", unit: "rows", done: 0, total: 9000}, "index, 0 %"},
		// What hardly moves has no speed that means anything.
		{9 * time.Second, status{label: "checking", unit: "B", done: 5 << 20, total: 10 << 20}, "checking, 50 %"},
		{11 * time.Second, status{label: "checking", unit: "B", done: 5<<20 + 100, total: 10 << 20}, "checking, 50 %"},
		{13 * time.Second, status{label: "checking", unit: "B", done: 9 << 20, total: 10 << 20}, "checking, 90 %, 1.0 MiB/s, 1s left"},
		// Without a total, and beyond it.
		{20 * time.Second, status{label: "run", note: "0s of 5s", unit: "tx"}, "run 0s of 5s"},
		{22 * time.Second, status{label: "run", note: "2s of 5s", unit: "tx", done: 4000}, "run 2s of 5s, 4,000 tx, 2,000 tx/s"},
		{23 * time.Second, status{label: "over", unit: "B", done: 20, total: 10}, "over, 100 %"},
	} {
		head, share, tail := p.describe(test.status, start.Add(test.after))
		if got := head + share + tail; got != test.want {
			t.Errorf("after %v: %q, want %q", test.after, got, test.want)
		}
	}
}

// On a terminal of any width a line is never longer than it, and nothing is left.
func TestDrawn(t *testing.T) {
	for _, width := range []int{0, 1, 9, 40, 80, 200} {
		var out bytes.Buffer
		show, clear := drawn(&out, func() int { return width })
		clear() // before there is anything
		for i := range int64(20) {
			show(status{label: strings.Repeat("µ", int(20-i)), unit: "rows", done: i, total: 20})
		}
		clear()
		for _, line := range strings.Split(out.String(), "\r") {
			if n := utf8.RuneCountInString(line); n > max(width-1, 0) {
				t.Errorf("width %d: %q has %d characters", width, line, n)
			}
		}
		if !strings.HasSuffix(out.String(), "\r") && width > 1 {
			t.Errorf("width %d: the cursor is left behind %q", width, out.String())
		}
	}
}

// Where there is room there is a bar.
func TestBar(t *testing.T) {
	var out bytes.Buffer
	show, clear := drawn(&out, func() int { return 80 })
	show(status{label: "seeding", unit: "rows", done: 50, total: 100})
	if want := "seeding  50% |##########..........|"; !strings.Contains(out.String(), want) {
		t.Errorf("%q does not show %q", out.String(), want)
	}
	clear()
}

// Elsewhere than on a terminal there is a plain line now and then, and with -q
// nothing.
func TestWatch(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			a := &app{stderr: &out, quiet: quiet}
			begin := time.Now()
			stop := a.watch(func() status {
				return status{label: "counting", unit: "sheep", done: int64(time.Since(begin) / time.Second), total: 100}
			})
			time.Sleep(12 * time.Second)
			stop()
			want := "counting, 5 %, 1 sheep/s, 1m31s left\ncounting, 10 %, 1 sheep/s, 1m28s left\n"
			if quiet {
				want = ""
			}
			if out.String() != want {
				t.Errorf("quiet %v: %q", quiet, out.String())
			}
		})
	}
}
