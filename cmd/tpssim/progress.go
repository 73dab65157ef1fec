package main

import (
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// status is what a person who waits is told.
type status struct {
	label string // what is being done; "" while something else tells of it
	note  string // how far, where no count says it
	unit  string // what is counted; "B" for bytes
	done  int64
	total int64 // 0 when unknown
	size  int64 // bytes of the total, 0 when they do not matter
}

const (
	drawInterval = 200 * time.Millisecond
	lineInterval = 5 * time.Second
	// A speed over less than this, or less than this part of the whole, is mostly
	// chance.
	speedAfter = time.Second
	speedShare = 1000
)

// watch shows on stderr what poll returns, until the function that it returns is
// called: a bar that is redrawn in place on a terminal, now and then a plain line
// elsewhere, nothing with -q.
func (a *app) watch(poll func() status) (stop func()) {
	if a.quiet {
		return func() {}
	}
	show, clear := lines(a.stderr)
	if isTerminal(a.stderr) {
		show, clear = drawn(a.stderr, terminalWidth(a.stderr.(*os.File)))
	}
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(drawInterval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				clear()
				return
			case <-ticker.C:
				if s := poll(); s.label != "" {
					show(s)
				} else {
					clear()
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-stopped
	}
}

// lines shows a status as a line of its own, at most every lineInterval.
func lines(w io.Writer) (show func(status), clear func()) {
	var p pace
	printed := time.Now()
	show = func(s status) {
		head, share, tail := p.describe(s, time.Now())
		if time.Since(printed) >= lineInterval {
			printed = time.Now()
			fmt.Fprintln(w, head+share+tail)
		}
	}
	return show, func() {}
}

// barWidth is the width of a bar, and barRoom what it takes with its percentage.
const (
	barWidth = 20
	barRoom  = barWidth + len(" 100% ||  ")
)

// drawn shows a status on one line of a terminal: as a bar where there is room,
// else as text that is cut to fit. It needs nothing of the terminal but a carriage
// return.
func drawn(w io.Writer, width func() int) (show func(status), clear func()) {
	var p pace
	var bar *progressbar.ProgressBar
	shown := 0 // characters of text on the line
	clear = func() {
		if bar != nil {
			bar.Clear()
		}
		if shown > 0 {
			fmt.Fprintf(w, "\r%*s\r", shown, "")
		}
		bar, shown = nil, 0
	}
	show = func(s status) {
		room := max(width()-1, 0) // the last column would wrap on some terminals
		head, share, tail := p.describe(s, time.Now())
		if text := head + tail; s.total > 0 && utf8.RuneCountInString(text)+barRoom <= room {
			if bar == nil || bar.GetMax64() != s.total {
				clear()
				bar = newBar(w, s.total)
			}
			bar.Describe(text)
			bar.Set64(min(s.done, s.total-1)) // at its maximum it would end itself
			return
		}
		clear()
		text := []rune(head + share + tail)
		text = text[:min(len(text), room)]
		fmt.Fprintf(w, "\r%s", string(text))
		shown = len(text)
	}
	return show, clear
}

// newBar returns a bar without the library's own figures: pace has better ones.
func newBar(w io.Writer, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(barWidth),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionUseANSICodes(false),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "#", SaucerPadding: ".", BarStart: "|", BarEnd: "|"}),
	)
}

// terminalWidth returns a function that tells how wide the terminal is now.
func terminalWidth(f *os.File) func() int {
	return func() int {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}
}

// pace measures how fast what carries one label advances.
type pace struct {
	label string
	since time.Time
	from  int64
	last  int64
}

// describe returns the status in three parts: what is done, the share that is done
// or its amount, and the speed with the time left.
func (p *pace) describe(s status, now time.Time) (head, share, tail string) {
	if s.label != p.label || s.done < p.last {
		p.label, p.since, p.from = s.label, now, s.done
	}
	p.last = s.done
	head = s.label
	if s.note != "" {
		head += " " + s.note
	}
	switch {
	case s.total > 0:
		share = fmt.Sprintf(", %.0f %%", 100*min(float64(s.done)/float64(s.total), 1))
	case s.done > 0:
		share = ", " + amount(s.done, s.unit)
	}
	elapsed, advanced := now.Sub(p.since), s.done-p.from
	if elapsed < speedAfter || advanced < max(s.total/speedShare, 1) {
		return head, share, ""
	}
	speed := float64(advanced) / elapsed.Seconds()
	tail = fmt.Sprintf(", %s/s", amount(int64(speed), s.unit))
	if s.size > 0 && s.total > 0 {
		tail += fmt.Sprintf(", %s/s", humanize.IBytes(uint64(speed*float64(s.size)/float64(s.total))))
	}
	if s.total > 0 {
		left := time.Duration(float64(max(s.total-s.done, 0)) / speed * float64(time.Second))
		tail += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return head, share, tail
}

// amount is a number of units.
func amount(n int64, unit string) string {
	if unit == "B" {
		return humanize.IBytes(uint64(max(n, 0)))
	}
	return humanize.Comma(n) + " " + unit
}
