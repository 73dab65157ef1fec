package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime/pprof"
	"runtime/trace"

	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/tps"
)

// output is a file that a run writes, or nothing.
type output struct {
	file *os.File
	made bool // by this run
}

func (o output) Write(p []byte) (int, error) {
	if o.file == nil {
		return len(p), nil
	}
	return o.file.Write(p)
}

func (o output) Close() error {
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

// abandon closes the file when there is no result to write.
func (o output) abandon() error {
	err := o.Close()
	if o.made {
		err = errors.Join(err, os.Remove(o.file.Name()))
	}
	return err
}

// openOutput opens the file of a flag before the run, so that a long one is not in
// vain. What is there is kept when the file is one of lines that can be added to,
// and else replaced.
func openOutput(flag, path string, add bool) (output, error) {
	if path == "" {
		return output{}, nil
	}
	how := os.O_CREATE | os.O_WRONLY
	if add {
		how |= os.O_APPEND
	} else {
		how |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, how|os.O_EXCL, 0o666)
	if err == nil {
		return output{f, true}, nil
	}
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, how, 0o666)
	}
	if err != nil {
		return output{}, fmt.Errorf("cannot write to %s %s: %w: choose another file", flag, path, errors.Unwrap(err))
	}
	return output{f, false}, nil
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

	result, series, logFile, cpuProfile, trace output
}

// open opens the files that were asked for. seed makes the sample of the log
// repeatable.
func (f *fileFlags) open(seed uint64) (r *resultFiles, err error) {
	if math.IsNaN(f.logSample) || f.logSample <= 0 || f.logSample > 1 {
		return nil, usagef("--log-sample %v: it must be above 0 and at most 1", f.logSample)
	}
	if f.log == "" && f.logSample != 1 {
		return nil, usagef("--log-sample needs --log: it says how much of the transactions that gets")
	}
	r = &resultFiles{}
	for _, file := range []struct {
		flag, path string
		add        bool
		to         *output
	}{
		{"-o", f.result, true, &r.result},
		{"--series", f.series, false, &r.series},
		{"--log", f.log, false, &r.logFile},
		{"--cpuprofile", f.cpuProfile, false, &r.cpuProfile},
		{"--trace", f.trace, false, &r.trace},
	} {
		if *file.to, err = openOutput(file.flag, file.path, file.add); err != nil {
			return nil, errors.Join(err, r.abandon())
		}
	}
	if f.log != "" {
		r.log = tps.NewTxLog(r.logFile, f.logSample, seed)
	}
	return r, nil
}

// all returns the files in the order in which they were opened.
func (r *resultFiles) all() []output {
	return []output{r.result, r.series, r.logFile, r.cpuProfile, r.trace}
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

// startProfiles starts the profiles that were asked for.
func (r *resultFiles) startProfiles() error {
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
