package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/scenarios"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// sweptLines reads the file of a sweep: its runs as "phase/round/cell", and the seeds
// that they ran with.
func sweptLines(t *testing.T, path string) (text string, runs []string, seeds []uint64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var run trials.SweepRun
		if !strings.HasSuffix(line, "\n") {
			t.Errorf("a line without an end: %.80q", line)
		} else if err := json.Unmarshal([]byte(line), &run); err != nil {
			t.Errorf("%v: %.80q", err, line)
		} else if run.Schema == trials.SweepRunSchema {
			runs = append(runs, fmt.Sprintf("%s/%d/%d", run.Phase, run.Round, run.Cell))
			seeds = append(seeds, run.Result.Load.RandomSeed)
		}
	}
	return string(data), runs, seeds
}

// kill -9 in the middle of a sweep: what was kept stands as it was, a torn line is
// dropped, and the sweep goes on with the very next run. Nothing is lost, nothing is
// run twice.
func TestSweepKilled(t *testing.T) {
	t.Parallel()
	path := seeded(t)
	file := filepath.Join(t.TempDir(), "sweep.jsonl")
	args := strings.Fields("sweep --db " + path + " --dist uniform --sync off -n 200 --runs 2 --random-seed 100 --param max-batch=1,10,10 --slo p99<1m -o " + file)
	// What is to be run, as an undisturbed sweep does it, but for the finalists.
	var grid []string
	for round := 1; round <= 2; round++ {
		for _, k := range trials.Order(3, round) {
			grid = append(grid, fmt.Sprintf("grid/%d/%d", round, k+1))
		}
	}
	kept := 0
	for kills := 1; kills <= 3; kills++ {
		p := start(t, append(args, "--resume")[:len(args)+min(kills-1, 1)]...)
		// A run more than the last time, at least.
		await(t, "a run", func() bool {
			text, err := os.ReadFile(file)
			return err == nil && bytes.Count(text, []byte("\n")) > kept+1
		})
		p.Process.Kill()
		p.Wait()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		whole := text[:bytes.LastIndexByte(text, '\n')+1]
		if kept = bytes.Count(whole, []byte("\n")) - 1; kept >= len(grid)+2*trials.FinalRounds {
			t.Fatalf("it was too fast to be killed: %d runs", kept)
		}
		// As if the kill had met a write half way.
		if err := os.WriteFile(file, append(slices.Clone(whole), `{"schema":"tpssim.sweeprun/1","cell":2,"rou`...), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := os.ReadFile(file)
	before = before[:bytes.LastIndexByte(before, '\n')+1]
	code, stdout, stderr := invoke(t, append(args, "--resume")...)
	if code != exitOK || !strings.Contains(stdout, "held in 6 of 6 rounds") || !strings.Contains(stderr, fmt.Sprintf("%d runs are done already", kept)) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	text, runs, seeds := sweptLines(t, file)
	if !strings.HasPrefix(text, string(before)) {
		t.Error("what was kept was changed")
	}
	if len(runs) != len(grid)+2*trials.FinalRounds || !slices.Equal(runs[:len(grid)], grid) {
		t.Errorf("it ran %v", runs)
	}
	sorted := slices.Sorted(slices.Values(runs))
	if len(slices.Compact(sorted)) != len(runs) {
		t.Errorf("something ran twice: %v", runs)
	}
	for k, run := range runs {
		var phase string
		var round, cell uint64
		fmt.Sscanf(strings.ReplaceAll(run, "/", " "), "%s %d %d", &phase, &round, &cell)
		if phase == trials.FinalPhase {
			round += 2
		}
		if seeds[k] != 100+round {
			t.Errorf("%s ran with the seed %d", run, seeds[k])
		}
	}
	whole(t, path)
}

// Ctrl-C prints what was measured and says how to go on.
func TestSweepInterrupted(t *testing.T) {
	t.Parallel()
	path := seeded(t)
	file := filepath.Join(t.TempDir(), "sweep.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr bytes.Buffer
	lines := writerFunc(func(p []byte) (int, error) {
		if strings.HasPrefix(string(p), "grid round 1 of 2: cell 2") {
			cancel()
		}
		return stderr.Write(p)
	})
	args := strings.Fields("sweep --db " + path + " --dist uniform --sync off -n 200 --runs 2 --param max-batch=1,10,100 -o " + file)
	code := run(ctx, args, &stdout, lines)
	if code != exitInterrupted || !strings.Contains(stdout.String(), "Nothing is recommended yet: not all was measured, as it was interrupted") ||
		!strings.Contains(stderr.String(), "with --resume goes on behind it") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
	if _, runs, _ := sweptLines(t, file); !slices.Equal(runs, []string{"grid/1/1", "grid/1/2"}) {
		t.Errorf("kept %v", runs)
	}
	whole(t, path)

	// Before the first run there is nothing to print.
	stdout.Reset()
	stderr.Reset()
	code = run(ctx, args[:len(args)-2], &stdout, &stderr)
	if code != exitInterrupted || stdout.Len() > 0 || !strings.Contains(stderr.String(), "tpssim: interrupted: nothing was measured\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Each preset is a sweep that could be run, explains itself in few words, and is what
// --help promises.
func TestPresets(t *testing.T) {
	code, help, _ := invoke(t, "sweep", "--help")
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, p := range presets {
		a := &app{quiet: true, typedFlags: map[string]bool{}}
		f := &sweepFlags{}
		flags := pflag.NewFlagSet("sweep", pflag.ContinueOnError)
		f.add(flags)
		f.preset = p.name
		cells, cfg, err := a.sweepConfig(f, flags)
		if err != nil || len(cells) < 2 || len(cfg.Cells) != len(cells) {
			t.Errorf("%s: %d cells, %v", p.name, len(cells), err)
			continue
		}
		var length time.Duration
		for _, c := range cells {
			length += c.estimate
		}
		if length *= time.Duration(cfg.Rounds); length > 20*time.Minute {
			t.Errorf("%s takes %v", p.name, length)
		}
		if p.summary == "" || p.explanation == "" || !strings.Contains(help, p.name+" ") || !strings.Contains(help, p.summary) || !strings.Contains(help, firstFlag(p)) {
			t.Errorf("%s: not explained", p.name)
		}
		if found, err := findPreset(p.name); err != nil || found.name != p.name {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	for line := range strings.Lines(presetList()) {
		if len(line) > 90 {
			t.Errorf("too long: %s", line)
		}
	}
}

// firstFlag is the beginning of what a preset stands for, up to a place where --help may
// break the line.
func firstFlag(p preset) string {
	flag := "--param "
	if len(p.params) > 0 {
		flag += p.params[0]
	} else {
		flag = "--arm '" + strings.Fields(p.arms[0])[0]
	}
	return flag[:min(len(flag), 30)]
}

// sweepLayout lays out the grid of a command line without running it: the flags that
// were typed, and what stderr was told.
func sweepLayout(t *testing.T, args ...string) (cells []sweepCell, stderr string, err error) {
	t.Helper()
	var told bytes.Buffer
	a, f := &app{stderr: &told, typedFlags: map[string]bool{}}, &sweepFlags{}
	flags := pflag.NewFlagSet("sweep", pflag.ContinueOnError)
	f.add(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	flags.Visit(func(flag *pflag.Flag) { a.typedFlags[flag.Name] = true })
	cells, _, err = a.sweepConfig(f, flags)
	return cells, told.String(), err
}

// A batch window means nothing in a burst, so that it is given a rate too, unless the
// load was chosen. Loads are outermost, the last flag changes fastest.
func TestSweepLayout(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string // loads and what is set beside them
		told bool
	}{
		{"--param sync=normal,full --param queue=5,6", []string{": sync=normal,queue=5", ": sync=normal,queue=6", ": sync=full,queue=5", ": sync=full,queue=6"}, false},
		{"--param batch-window=0", []string{"n=100k: batch-window=0", rateLoad + ": batch-window=0"}, true},
		{"--param batch-window=0 -n 5k", []string{"n=5000: batch-window=0", rateLoad + ": batch-window=0"}, true},
		{"--param batch-window=0 -c 8 -n 5k", []string{": batch-window=0"}, false},
		{"--param batch-window=0 -R 100 -d 1", []string{": batch-window=0"}, false},
		{"--param batch-window=0 --param R=100,200 -d 1", []string{": batch-window=0,rate=100", ": batch-window=0,rate=200"}, false},
		{"--param batch-window=0 --load n=5", []string{"n=5: batch-window=0"}, false},
		{"--param queue=5 --load n=5 --load R=5,d=1", []string{"n=5: queue=5", "R=5,d=1: queue=5"}, false},
		{"--preset checkpoint --param checkpoint=off", []string{"n=100k: checkpoint=off", rateLoad + ": checkpoint=off"}, false},
		{"--preset checkpoint --param checkpoint=off --load n=7", []string{"n=7: checkpoint=off"}, false},
		{"--preset batch-window --max-batch 7 -R 50 -d 1", []string{": batch-window=0", ": batch-window=100us", ": batch-window=1ms", ": batch-window=5ms"}, false},
		{"--preset key-layout --param sync=off --param layout=clustered", []string{"n=100k: layout=clustered,cache-size=2MiB,sync=off", "n=100k: layout=clustered,cache-size=64MiB,sync=off", "n=100k: layout=clustered,cache-size=64MiB,sync=off"}, false},
		{"--arm name=a,sync=off,queue=5 --arm name=b --param cache-size=1MiB,2MiB --load n=5", []string{
			"n=5: arm=a,sync=off,queue=5,cache-size=1MiB", "n=5: arm=a,sync=off,queue=5,cache-size=2MiB", "n=5: arm=b,cache-size=1MiB", "n=5: arm=b,cache-size=2MiB"}, false},
		{"--preset storage --arm sync=off --arm sync=full --load n=5", []string{"n=5: arm=sync=off,sync=off", "n=5: arm=sync=full,sync=full"}, false},
		{`--param pragma="temp_store=2",temp_store=0 --param checkpoint="off"`, []string{": pragma=temp_store=2,checkpoint=off", ": pragma=temp_store=0,checkpoint=off"}, false},
	} {
		cells, stderr, err := sweepLayout(t, strings.Fields(c.args)...)
		var got []string
		for _, cell := range cells {
			got = append(got, cell.load+": "+settingsText(cell.swept))
		}
		if err != nil || !slices.Equal(got, c.want) || c.told != strings.Contains(stderr, "a batch window means nothing in a burst") {
			t.Errorf("%s: %q, %v, told %q", c.args, got, err, stderr)
		}
	}
	// The load of the flags is not mixed with that of a cell.
	cells, _, err := sweepLayout(t, "--param", "batch-window=0", "-n", "5k")
	if err != nil || cells[0].cfg.Load.Transactions != 5000 || cells[1].cfg.Load.Transactions != 0 || cells[1].cfg.Load.Mode() != tps.OpenLoop {
		t.Errorf("%+v, %v", cells, err)
	}
}

func TestEstimate(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		load tps.Config
		want time.Duration
	}{
		{tps.Config{Transactions: 100_000}, 4500 * time.Millisecond}, // one warms up
		{tps.Config{Transactions: 100_000, Concurrency: 5}, 2500 * time.Millisecond},
		{tps.Config{Duration: 3 * second, Warmup: second}, 4500 * time.Millisecond},
		{tps.Config{Rate: 1000, Duration: 3 * second}, 3500 * time.Millisecond},
		{tps.Config{Rate: 1000, Duration: 3 * second, Transactions: 1000}, 1500 * time.Millisecond},
		{tps.Config{Rate: 1000, Transactions: 2000}, 2500 * time.Millisecond},
		{tps.Config{Stages: []tps.Stage{{Duration: second, From: 5, To: 5}, {Duration: 2 * second, From: 5, To: 9}}}, 3500 * time.Millisecond},
	} {
		c.load.Op = func(context.Context, uint64, *tps.Trace) error { return nil }
		if got := estimate(scenarios.Config{Load: c.load}); got != c.want {
			t.Errorf("%+v: %v", c.load, got)
		}
	}
}

// Every preset has a cell twice in each load, which is how large its noise is.
func TestPresetsShowNoise(t *testing.T) {
	for _, p := range presets {
		cells, _, err := sweepLayout(t, "--preset", p.name)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		doubled := map[string]bool{}
		seen := map[string]bool{}
		for _, cell := range cells {
			doubled[cell.load] = doubled[cell.load] || seen[cell.name]
			seen[cell.name] = true
		}
		for load, twice := range doubled {
			if !twice {
				t.Errorf("%s: no cell of %q is there twice", p.name, load)
			}
		}
	}
}
