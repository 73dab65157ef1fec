package main

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
)

// status is what a person who waits is told.
type status struct {
	label string // what is being done
	unit  string // what is counted
	done  int64
	total int64 // 0 when unknown
}

const (
	barInterval  = 200 * time.Millisecond
	lineInterval = 5 * time.Second
)

// watch shows on stderr what poll returns, until the function that it returns is
// called: a bar on a terminal, now and then a plain line elsewhere, nothing with
// -q.
func (a *app) watch(poll func() status) (stop func()) {
	if a.quiet {
		return func() {}
	}
	show, interval := a.lines(), lineInterval
	clear := func() {}
	if isTerminal(a.stderr) {
		show, clear = a.bar()
		interval = barInterval
	}
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				clear()
				return
			case <-ticker.C:
				show(poll())
			}
		}
	}()
	return func() {
		close(quit)
		<-stopped
	}
}

// bar shows a status as a bar that is redrawn in place.
func (a *app) bar() (show func(status), clear func()) {
	var bar *progressbar.ProgressBar
	var shown status
	clear = func() {
		if bar != nil {
			bar.Clear()
		}
	}
	show = func(s status) {
		if bar == nil || s.label != shown.label || s.total != shown.total || s.done < shown.done {
			clear()
			total := s.total
			if total <= 0 {
				total = -1
			}
			bar = progressbar.NewOptions64(total,
				progressbar.OptionSetWriter(a.stderr),
				progressbar.OptionSetDescription(s.label),
				progressbar.OptionSetItsString(s.unit),
				progressbar.OptionShowIts(),
				progressbar.OptionShowCount(),
				progressbar.OptionSetWidth(20),
				progressbar.OptionUseANSICodes(false),
				progressbar.OptionEnableColorCodes(false),
				progressbar.OptionSetPredictTime(s.total > 0),
			)
		}
		shown = s
		bar.Set64(s.done)
	}
	return show, clear
}

// lines shows a status as a line of its own.
func (a *app) lines() func(status) {
	start, label := time.Now(), ""
	var from int64
	return func(s status) {
		if s.label != label {
			start, label, from = time.Now().Add(-lineInterval), s.label, 0
		}
		elapsed := time.Since(start)
		speed := float64(s.done-from) / elapsed.Seconds()
		text := fmt.Sprintf("%s: %d %s, %.0f %s/s", s.label, s.done, s.unit, speed, s.unit)
		if s.total > 0 {
			text += fmt.Sprintf(", %.0f %%", 100*float64(s.done)/float64(s.total))
			if speed > 0 {
				left := time.Duration(float64(s.total-s.done) / speed * float64(time.Second))
				text += fmt.Sprintf(", %v left", left.Round(time.Second))
			}
		}
		fmt.Fprintln(a.stderr, text)
	}
}
