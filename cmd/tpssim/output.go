package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/pprof"
	"runtime/trace"

	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/tps"
)

// output is a file that a run writes, or nothing.
type output struct {
	file   *os.File
	made   bool // by this run
	failed error
}

func (o *output) Write(p []byte) (n int, err error) {
	if o.file == nil {
		return len(p), nil
	}
	if n, err = o.file.Write(p); err != nil && o.failed == nil {
		o.failed = err
	}
	return n, err
}

// Close closes the file and returns the first error since it was opened: profiles
// tell nobody of theirs.
func (o *output) Close() error {
	if o.file == nil {
		return nil
	}
	return cmp.Or(o.failed, o.file.Close())
}

// empty removes what is in the file. A device or a pipe has nothing to remove.
func (o *output) empty() error {
	if o.file == nil {
		return nil
	}
	info, err := o.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return o.file.Truncate(0)
}

// abandon closes the file when there is no result to write.
func (o *output) abandon() error {
	err := o.Close()
	if o.made {
		err = errors.Join(err, os.Remove(o.file.Name()))
	}
	return err
}

// openOutput opens the file of a flag before the run, so that a long one is not in
// vain. It must be none of the files that are taken: writing to the database, or
// opening and closing it beside SQLite, would be the end of it. What is in the file
// stays there for now.
func openOutput(flag, path string, taken []string) (*output, error) {
	if path == "" {
		return &output{}, nil
	}
	for _, other := range taken {
		if other != "" && sameFile(path, other) {
			return nil, usagef("%s %s: that file is used for something else here (%s): choose another", flag, path, other)
		}
	}
	const how = os.O_CREATE | os.O_APPEND | os.O_WRONLY
	f, err := os.OpenFile(path, how|os.O_EXCL, 0o666)
	if err == nil {
		return &output{file: f, made: true}, nil
	}
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, how, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write to %s %s: %w: choose another file", flag, path, errors.Unwrap(err))
	}
	return &output{file: f}, nil
}

// sameFile tells whether two paths name one file, there already or not.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil { // a device such as /dev/null takes what any number write
		return infoA.Mode().IsRegular() && os.SameFile(infoA, infoB)
	}
	fullA, errA := filepath.Abs(a)
	fullB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && fullA == fullB
}

// filesOf returns the files that belong to the database at path.
func filesOf(path string) []string {
	paths := []string{path}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		paths = append(paths, resolved)
	}
	var files []string
	for _, p := range paths {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal", "-lock"} {
			files = append(files, p+suffix)
		}
	}
	return files
}

// fileFlags are the files that a run writes.
type fileFlags struct {
	result, series, log string
	logSample           float64
	cpuProfile, trace   string
}

func (f *fileFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&f.result, "output", "o", "", "append the result to this `file`, a JSON object a line")
	flags.StringVar(&f.series, "series", "", "write the samples, one a second, to this `file` as CSV")
	flags.StringVar(&f.log, "log", "", "write a line for each transaction to this `file` as CSV")
	numberVar(flags, &f.logSample, "log-sample", 1, "the share of the transactions that --log gets")
	flags.StringVar(&f.cpuProfile, "cpuprofile", "", "write a CPU profile to this `file`, for go tool pprof")
	flags.StringVar(&f.trace, "trace", "", "write an execution trace to this `file`, for go tool trace")
}

// resultFiles are the open files of fileFlags.
type resultFiles struct {
	log *tps.TxLog // nil: none

	result, series, logFile, cpuProfile, trace *output
}

// open opens the files that were asked for, none of which may be one of taken. seed
// makes the sample of the log repeatable.
func (f *fileFlags) open(seed uint64, taken []string) (r *resultFiles, err error) {
	if math.IsNaN(f.logSample) || f.logSample <= 0 || f.logSample > 1 {
		return nil, usagef("--log-sample %v: it must be above 0 and at most 1", f.logSample)
	}
	if f.log == "" && f.logSample != 1 {
		return nil, usagef("--log-sample needs --log: it says how much of the transactions that gets")
	}
	none := &output{}
	r = &resultFiles{result: none, series: none, logFile: none, cpuProfile: none, trace: none}
	for _, file := range []struct {
		flag, path string
		to         **output
	}{
		{"-o", f.result, &r.result},
		{"--series", f.series, &r.series},
		{"--log", f.log, &r.logFile},
		{"--cpuprofile", f.cpuProfile, &r.cpuProfile},
		{"--trace", f.trace, &r.trace},
	} {
		opened, err := openOutput(file.flag, file.path, taken)
		if err != nil {
			return nil, errors.Join(err, r.abandon())
		}
		*file.to = opened
		taken = append(taken, file.path)
	}
	if f.log != "" {
		r.log = tps.NewTxLog(r.logFile, f.logSample, seed)
	}
	return r, nil
}

// all returns the files in the order in which they were opened, the one that grows
// first.
func (r *resultFiles) all() []*output {
	return []*output{r.result, r.series, r.logFile, r.cpuProfile, r.trace}
}

// abandon closes the files when there is no result, and removes those that hold
// nothing but what this run put there.
func (r *resultFiles) abandon() error {
	var errs []error
	for _, o := range r.all() {
		errs = append(errs, o.abandon())
	}
	return errors.Join(errs...)
}

// write writes what is known when the run is over, and closes the files.
func (r *resultFiles) write(res *tps.Result) error {
	errs := []error{report.JSONLine(res)(r.result), report.SeriesCSV(res)(r.series)}
	if r.log != nil {
		errs = append(errs, r.log.Flush())
	}
	for _, o := range r.all() {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}

// begin empties the files that do not grow from run to run, now that there will be
// something to put there, and starts the profiles.
func (r *resultFiles) begin() error {
	for _, o := range r.all()[1:] {
		if err := o.empty(); err != nil {
			return err
		}
	}
	if r.cpuProfile.file != nil {
		if err := pprof.StartCPUProfile(r.cpuProfile); err != nil {
			return fmt.Errorf("--cpuprofile: %w", err)
		}
	}
	if r.trace.file != nil {
		if err := trace.Start(r.trace); err != nil {
			return fmt.Errorf("--trace: %w", err)
		}
	}
	return nil
}

// stopProfiles ends them.
func (r *resultFiles) stopProfiles() {
	if r.cpuProfile.file != nil {
		pprof.StopCPUProfile()
	}
	if r.trace.file != nil {
		trace.Stop()
	}
}
