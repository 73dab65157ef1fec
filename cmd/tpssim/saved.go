package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// savedRuns are the runs of one file.
type savedRuns struct {
	path     string
	runs     []*tps.Result
	warnings []string // about what was left out
}

// loadRuns reads the runs of a file that count.
func loadRuns(path string) (savedRuns, error) {
	s := savedRuns{path: path}
	records, err := readResults(path)
	if err != nil {
		return s, err
	}
	others, interrupted := 0, 0
	for _, r := range records {
		switch {
		case r.Run == nil:
			others++
		case r.Run.Interrupted:
			interrupted++
		default:
			s.runs = append(s.runs, r.Run)
		}
	}
	if len(s.runs) == 0 {
		return s, fmt.Errorf("%s holds no whole run that could be compared: save some with %s", path, report.Command("tpssim", "run", "-o", path))
	}
	if others > 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("%s holds %s, left out here", path, english.Plural(others, "result that is no run", "results that are no runs")))
	}
	if interrupted > 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("%s holds %s, left out here", path, english.Plural(interrupted, "interrupted run", "")))
	}
	return s, nil
}

// compareSaved compares the runs of the first file with those of each other one.
func compareSaved(paths []string, figure string) ([]*trials.CompareResult, error) {
	var files []savedRuns
	var warnings []string
	for _, path := range paths {
		file, err := loadRuns(path)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		warnings = append(warnings, file.warnings...)
	}
	groups, without := grouped(files)
	if len(groups) == 0 {
		return nil, fmt.Errorf("%s hold no runs that can be compared (%s): run both with the same scenario, load and flags",
			english.WordSeries(paths, "and"), strings.Join(without, "; "))
	}
	if len(without) > 0 {
		warnings = append(warnings, "left out, as not every file holds such runs: "+strings.Join(without, "; "))
	}
	var results []*trials.CompareResult
	for _, group := range groups {
		res, err := trials.CompareRuns(paths, group, figure)
		if err != nil {
			return nil, err
		}
		res.Warnings = append(res.Warnings, warnings...)
		results = append(results, res)
	}
	return results, nil
}

// grouped divides the runs of files into groups that are compared, each with the runs
// of every file, and tells which runs have no counterpart. Where each file knows only
// one way of running a kind of load, these are a group, whatever they differ by. Where
// one knows several, runs are a group with those that were run in the same way.
func grouped(files []savedRuns) (groups [][][]*tps.Result, without []string) {
	for _, kind := range keysOf(files, kindOf) {
		ofKind := matching(files, kindOf, kind)
		of, say := kindOf, "%s is only in %s"
		if slices.ContainsFunc(ofKind, func(f savedRuns) bool { return len(keysOf([]savedRuns{f}, wayOf)) > 1 }) {
			of, say = wayOf, "%s as it was run in %s"
		}
		for _, key := range keysOf(ofKind, of) {
			var group [][]*tps.Result
			var in []string
			for _, file := range matching(ofKind, of, key) {
				group = append(group, file.runs)
				if len(file.runs) > 0 {
					in = append(in, file.path)
				}
			}
			if len(in) == len(files) {
				groups = append(groups, group)
			} else if text := fmt.Sprintf(say, kind, english.WordSeries(in, "and")); !slices.Contains(without, text) {
				without = append(without, text)
			}
		}
	}
	return groups, without
}

// keysOf returns the keys of the runs, each once, in the order in which they come.
func keysOf(files []savedRuns, of func(*tps.Result) string) (keys []string) {
	for _, file := range files {
		for _, r := range file.runs {
			if key := of(r); !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// matching returns the files with the runs that have a key.
func matching(files []savedRuns, of func(*tps.Result) string, key string) (list []savedRuns) {
	for _, file := range files {
		file.runs = slices.DeleteFunc(slices.Clone(file.runs), func(r *tps.Result) bool { return of(r) != key })
		list = append(list, file)
	}
	return list
}

// kindOf is what runs must have in common to be compared at all.
func kindOf(r *tps.Result) string {
	return fmt.Sprintf("%s (%s, %s)", r.Scenario, r.Engine, r.Load.Mode)
}

// wayOf is how a run was run, but for the random numbers.
func wayOf(r *tps.Result) string {
	load := r.Load
	load.RandomSeed = 0
	return fmt.Sprintf("%s %+v %+v", kindOf(r), load, r.Settings)
}
