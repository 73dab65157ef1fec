// Package doctor examines what a machine will do to a measurement, before one
// begins: how long a sync takes and whether it plausibly reaches the disk, what
// the disk of the database's folder can do, whether there is room and memory for
// the data set, and who else takes processor time.
//
// What is measured and what is read are plain numbers; a judgement turns them
// into a [Check], which says what was found and, when that is bad, what to do.
// The package knows no database: what is to be said of SQLite is found out by
// the caller.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/tps"
)

// Schema names the format of [Report] as JSON.
const Schema = "tpssim.doctor/1"

// Status is a check's verdict.
type Status string

// The verdicts.
const (
	OK   Status = "ok"   // nothing stands in the way
	Warn Status = "warn" // a measurement is possible, but see the advice
	Fail Status = "fail" // a measurement is not possible, or worth nothing
)

// Check is one thing that was examined.
type Check struct {
	Name    string `json:"name"` // a word with underscores: sync, random_read, …
	Status  Status `json:"status"`
	Finding string `json:"finding"` // with its numbers, for people
	Advice  string `json:"advice"`  // what to do; empty when Status is OK
	// Values are the numbers behind the finding; names end in their unit (_ns,
	// _bytes, _iops, …). What could not be found out is not among them. Never nil.
	Values map[string]float64 `json:"values"`
}

// Report is everything that was examined, in the order and with the names of the
// JSON object that tpssim prints.
//
// A check that could not begin is not in the list: the check that says why is.
type Report struct {
	Schema    string        `json:"schema"`
	StartedAt time.Time     `json:"started_at"`
	Elapsed   time.Duration `json:"elapsed_ns"`
	// Path is the database's, absolute and with links followed; it need not exist.
	Path        string  `json:"path"`
	DataBytes   int64   `json:"data_bytes"` // of the data set that was asked about
	Interrupted bool    `json:"interrupted"`
	Checks      []Check `json:"checks"`
	Env         tps.Env `json:"env"`
}

// Count returns how many checks have a status.
func (r *Report) Count(s Status) (n int) {
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

// The bounds of Config.Duration, and its default.
const (
	MinDuration     = 10 * time.Millisecond
	MaxDuration     = time.Minute
	DefaultDuration = time.Second
)

// Config says what to examine.
type Config struct {
	// Path is the database file. It need not exist, and is never opened here:
	// closing any descriptor of a database drops the locks that SQLite holds on it
	// in the same process.
	Path string
	// DataBytes is the size that the data set has or shall have.
	DataBytes int64
	// Duration is how long each disk measurement lasts, MinDuration to
	// MaxDuration; 0 means DefaultDuration. All of them together take about nine
	// times as long.
	Duration time.Duration
	// SQLite and Database are judged as the caller found them. A nil Database is
	// one that does not exist yet.
	SQLite   SQLite
	Database *Database
	// Stage, if not nil, is told what is measured next.
	Stage func(name string)
}

func (c Config) validate() error {
	switch {
	case c.Path == "":
		return errors.New("doctor: the path is empty: name a database file")
	case c.DataBytes < 0:
		return fmt.Errorf("doctor: a data set of %d bytes: choose 0 or more", c.DataBytes)
	case c.Duration < MinDuration || c.Duration > MaxDuration:
		return fmt.Errorf("doctor: a duration of %v: choose %v to %v", c.Duration, MinDuration, MaxDuration)
	}
	return nil
}

func (c Config) stage(name string) {
	if c.Stage != nil {
		c.Stage(name)
	}
}

// Run examines the machine. What it finds amiss is in the report, never an error:
// the error is that of a Config out of its limits, or that of ctx. When ctx ends,
// the report holds what was found until then.
//
// It writes a file of at most 1 GiB, and never more than a tenth of what is free,
// to the database's folder. The file is gone when Run returns, and while it is
// large it has no name, so that even a process that is killed leaves little. For
// the deep part of the random work GOMAXPROCS is raised, so nothing else should be
// measured in the process meanwhile.
func Run(ctx context.Context, c Config) (Report, error) {
	if c.Duration == 0 {
		c.Duration = DefaultDuration
	}
	if err := c.validate(); err != nil {
		return Report{}, err
	}
	path, err := resolve(c.Path)
	if err != nil {
		return Report{}, fmt.Errorf("doctor: %s: %w", c.Path, err)
	}
	r := Report{Schema: Schema, StartedAt: time.Now(), Path: path, DataBytes: c.DataBytes, Env: machine.Read(path)}
	r.Env.SQLite = c.SQLite.Version

	c.stage("how busy the machine is")
	host := readHost(ctx, c.Duration)
	before := readTaken()
	folder := readFolder(path, mayWrite)
	d := disk{}
	if folder.err == nil {
		d = measureDisk(ctx, filepath.Dir(path), folder.freeBytes, c)
	}
	host.taken = readTaken().sub(before)

	r.Checks = append(r.Checks, judgeFolder(folder, d.createErr, r.Env.Filesystem))
	if folder.err == nil {
		r.Checks = append(r.Checks, judgeSpace(folder, c.DataBytes))
	}
	r.Checks = append(r.Checks, judgeDisk(d, r.Env.Filesystem)...)
	r.Checks = append(r.Checks, judgeHost(host, r.Env, c.DataBytes)...)
	r.Checks = append(r.Checks, judgeSQLite(c.SQLite), judgeWALReset(c.SQLite.Version), judgeDatabase(c.Database, folder))
	r.Elapsed = time.Since(r.StartedAt)
	r.Interrupted = ctx.Err() != nil
	return r, ctx.Err()
}

// resolve returns path absolute and with links followed, as SQLite does before it
// names the journals: the folder that is measured is the one that it will use.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		return resolved, nil
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs)), nil
	}
	return abs, nil
}

// folderFacts are what stat and statfs tell of the database and its folder.
type folderFacts struct {
	path      string // the folder
	err       error  // why nothing can be there
	freeBytes int64
	haveBytes int64 // of the database that is there
	database  string
	writeErr  error // why that may not be written to
}

// readFolder examines the folder of the database at path; mayWrite tells why a file
// may not be written to.
func readFolder(path string, mayWrite func(string) error) folderFacts {
	f := folderFacts{path: filepath.Dir(path), database: path}
	info, err := os.Stat(f.path)
	if err == nil && !info.IsDir() {
		err = errNotFolder
	}
	if f.err = err; err != nil {
		return f
	}
	free, err := machine.FreeBytes(f.path)
	f.freeBytes, f.err = int64(min(free, math.MaxInt64)), err
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		f.haveBytes, f.writeErr = info.Size(), mayWrite(path)
	}
	return f
}

// errNotFolder is why a path below a file is none.
var errNotFolder = errors.New("not a folder")

// check makes a Check; values are pairs of name and number.
func check(name string, status Status, finding, advice string, values map[string]float64) Check {
	if values == nil {
		values = map[string]float64{}
	}
	if status == OK {
		advice = ""
	}
	return Check{Name: name, Status: status, Finding: finding, Advice: advice, Values: values}
}
