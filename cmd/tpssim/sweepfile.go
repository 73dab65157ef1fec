package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/tpssim/tpssim/history"
	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/trials"
)

// keptSweep is the file that keeps a sweep, or nothing: the head in its first line, and
// each run in one of its own behind it. A line is written at once and synced before the
// next run begins, so that whatever ends the program loses one line at most, the last.
type keptSweep struct {
	*output
	head  trials.SweepHead
	done  []trials.SweepRun // what was there
	whole int64             // bytes of it
	begun bool              // the head was written
}

// openSweep opens the file of -o for a sweep. What is in it must be the same sweep,
// and only with resume. Nothing is changed before begin.
func openSweep(path string, taken []string, resume bool, head trials.SweepHead) (k *keptSweep, err error) {
	k = &keptSweep{output: &output{}, head: head}
	switch info, statErr := os.Stat(path); {
	case path == "" && resume:
		return nil, usagef("--resume needs -o FILE, with the file of the sweep to go on with")
	case path == "":
		return k, nil
	case resume && errors.Is(statErr, fs.ErrNotExist):
		return nil, usagef("--resume: %s is not there: leave --resume out to begin", path)
	case !resume && statErr == nil && info.Mode().IsRegular() && info.Size() > 0:
		return nil, usagef("-o %s: something is in it already: add --resume to go on with the sweep there, or choose another file", path)
	case resume && statErr == nil && !info.Mode().IsRegular():
		return nil, usagef("--resume: %s is no file that could be read again", path)
	}
	for _, other := range taken {
		if other != "" && sameFile(path, other) { // before it is read
			return nil, usagef("-o %s: that file is used for something else here (%s): choose another", path, other)
		}
	}
	if resume {
		if err := k.read(path); err != nil {
			return nil, err
		}
	}
	k.output, err = openOutput("-o", path, taken)
	return k, err
}

// read reads the sweep that the file has kept, and checks that it is this one.
func (k *keptSweep) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // a line without an end was not written whole
	records, err := history.Read(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("--resume: %s: %w", path, err)
	}
	for n, r := range records {
		switch {
		case n == 0 && r.SweepHead != nil:
			if differs := headDiffers(*r.SweepHead, k.head); differs != "" {
				return usagef("--resume: %s is another sweep: %s; begin a new one in another file", path, differs)
			}
			k.head = *r.SweepHead // when it began, and as what
		case n > 0 && r.SweepRun != nil:
			k.done = append(k.done, *r.SweepRun)
		default:
			return usagef("--resume: line %d of %s is no part of a sweep: choose the file that sweep -o wrote", r.Line, path)
		}
	}
	k.whole, k.begun = int64(len(text)), len(records) > 0
	return nil
}

// headDiffers names what makes two sweeps unlike; "" when they are the same.
func headDiffers(was, is trials.SweepHead) string {
	unlike := func(what, was, is string) string {
		return fmt.Sprintf("%s was %s there, and is %s here", what, shown(was), shown(is))
	}
	value := func(list []trials.Setting, name string) string {
		for _, s := range list {
			if s.Name == name {
				return s.Value
			}
		}
		return ""
	}
	for _, s := range slices.Concat(is.Base, was.Base) {
		if a, b := value(was.Base, s.Name), value(is.Base, s.Name); a != b {
			return unlike("--"+s.Name, a, b)
		}
	}
	switch {
	case was.Rounds != is.Rounds:
		return unlike("--runs", fmt.Sprint(was.Rounds), fmt.Sprint(is.Rounds))
	case was.RandomSeed != is.RandomSeed:
		return unlike("--random-seed", fmt.Sprint(was.RandomSeed), fmt.Sprint(is.RandomSeed))
	case !slices.Equal(was.SLO, is.SLO):
		return unlike("--slo", fmt.Sprint(was.SLO), fmt.Sprint(is.SLO))
	}
	for n := range min(len(was.Cells), len(is.Cells)) {
		if a, b := cellText(was.Cells[n]), cellText(is.Cells[n]); a != b {
			return unlike(fmt.Sprintf("cell %d", n+1), a, b)
		}
	}
	if len(was.Cells) != len(is.Cells) {
		return unlike("the number of cells", fmt.Sprint(len(was.Cells)), fmt.Sprint(len(is.Cells)))
	}
	return ""
}

// shown is a value that may not have been given.
func shown(value string) string {
	if value == "" {
		return "not given"
	}
	return value
}

// cellText names a cell by its load and its settings.
func cellText(c trials.SweepHeadCell) string {
	text := settingsText(c.Settings)
	if c.Load != "" {
		text += " at " + c.Load
	}
	return text
}

// begin drops what was not written whole, and writes the head of a new sweep.
func (k *keptSweep) begin() error {
	if k.file == nil {
		return nil
	}
	if info, err := k.file.Stat(); err != nil {
		return err
	} else if info.Mode().IsRegular() {
		if err := k.file.Truncate(k.whole); err != nil {
			return err
		}
	}
	if k.begun {
		return nil
	}
	k.begun = true
	return k.line(k.head)
}

// abandon closes the file when nothing was measured; it removes one that was made now
// and holds nothing.
func (k *keptSweep) abandon() error {
	if k.begun {
		return k.Close()
	}
	return k.output.abandon()
}

// save keeps a run.
func (k *keptSweep) save(run trials.SweepRun) error { return k.line(run) }

// line writes a line at once, and returns when it is on the disk.
func (k *keptSweep) line(v any) error {
	var text bytes.Buffer
	if err := report.JSONLine(v)(&text); err != nil {
		return err
	}
	if _, err := k.Write(text.Bytes()); err != nil {
		return fmt.Errorf("cannot keep the sweep: %w: make room, then go on with --resume", err)
	}
	if k.file == nil {
		return nil
	}
	info, err := k.file.Stat()
	if err != nil || !info.Mode().IsRegular() { // a pipe has nothing to sync
		return err
	}
	return k.file.Sync()
}
