//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tpssim/tpssim/tps"
)

// Ctrl-C during a run: what was measured is printed and proved.
func TestInterruptedRun(t *testing.T) {
	for _, load := range []string{"-c 4 -d 10m", "-R 2000 -d 10m", "-n 5000 --max-batch 1 --think 10ms", "direct -d 10m"} {
		t.Run(load, func(t *testing.T) {
			t.Parallel()
			path := seeded(t)
			p := start(t, append([]string{"run", "--db", path, "--dist", "uniform"}, strings.Fields(load)...)...)
			awaitFile(t, path+"-wal", 100_000)
			p.Process.Signal(os.Interrupt)
			if code := p.code(t); code != exitInterrupted {
				t.Errorf("exit code %d: %s", code, &p.stderr)
			}
			out := p.stdout.String()
			for _, says := range []string{"lasted ", "interrupted", " acknowledged\n", "proof       ok: "} {
				if !strings.Contains(out, says) {
					t.Errorf("the report does not say %q:\n%s", says, out)
				}
			}
			whole(t, path)
		})
	}
}

// Ctrl-C before the load has begun.
func TestInterruptedBeforeTheLoad(t *testing.T) {
	path := seeded(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"run", "--db", path, "--dist", "uniform", "-n", "100"}, &stdout, &stderr)
	if want := "tpssim: interrupted: nothing was measured\n"; code != exitInterrupted || stdout.Len() > 0 || stderr.String() != want {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
	whole(t, path)
}

func TestInterruptedRunAsJSON(t *testing.T) {
	t.Parallel()
	path := seeded(t)
	out := filepath.Join(t.TempDir(), "results.jsonl")
	p := start(t, "run", "--db", path, "--dist", "uniform", "-c", "4", "-d", "10m", "--format", "json", "-o", out)
	awaitFile(t, path+"-wal", 100_000)
	p.Process.Signal(syscall.SIGTERM)
	if code := p.code(t); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, &p.stderr)
	}
	line, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{p.stdout.String(), string(line)} {
		var res tps.Result
		if err := json.Unmarshal([]byte(text), &res); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if !res.Interrupted || !res.Verify.OK || res.Acknowledged == 0 {
			t.Errorf("interrupted %v, ok %v, %d acknowledged", res.Interrupted, res.Verify.OK, res.Acknowledged)
		}
	}
	whole(t, path)
}

// Ctrl-C during seed and check: the next seed goes on, a check leaves nothing.
func TestInterruptedSeedAndCheck(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	seed := []string{"seed", "--method", "sql", "--rows", "3m", "--db", path}
	p := start(t, seed...)
	awaitFile(t, path+"-journal", 1)
	p.Process.Signal(os.Interrupt)
	if code := p.code(t); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, &p.stderr)
	}
	if wrong := complaint(p.stdout.String(), p.stderr.String()); wrong != "" {
		t.Error(wrong)
	}
	if !strings.Contains(p.stderr.String(), " of 3,000,000 accounts are in "+path+"; the same command goes on behind them") {
		t.Errorf("stderr %q", &p.stderr)
	}
	alone(t, path)

	if code, stdout, stderr := invoke(t, append(seed, "-q")...); code != exitOK || !strings.Contains(stdout, "3,000,000 accounts in ") {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	alone(t, path)

	p = start(t, "check", "--db", path)
	awaitFile(t, path+"-lock", 0)
	p.Process.Signal(os.Interrupt)
	if code := p.code(t); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, &p.stderr)
	}
	if got := p.stderr.String(); got != "tpssim: interrupted: nothing was proved\n" {
		t.Errorf("stderr %q", got)
	}
	whole(t, path)
}

// Ctrl-C while the data set is written by pages leaves nothing, unless it came too
// late.
func TestInterruptedSeedByPages(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	p := start(t, "seed", "--rows", "20m", "--db", path)
	awaitFile(t, path+"-lock", 0)
	p.Process.Signal(os.Interrupt)
	switch code := p.code(t); code {
	case exitInterrupted:
		if got := p.stderr.String(); got != "tpssim: interrupted: nothing was left; the same command begins anew\n" {
			t.Errorf("stderr %q", got)
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) > 0 {
			t.Errorf("left %v, %v", entries, err)
		}
	case exitOK:
		alone(t, path)
	default:
		t.Errorf("exit code %d: %s", code, &p.stderr)
	}
}

// Ctrl-C while a run makes its data set: the same run goes on with it.
func TestInterruptedImpliedSeed(t *testing.T) {
	t.Parallel()
	// The article's schema is seeded through SQL, which leaves something to go on with.
	args := []string{"run", "--schema", "article", "--rows", "3m", "-n", "100", "--runs", "1"}
	p := command(args...)
	p.Dir = t.TempDir()
	p.start(t)
	path := filepath.Join(p.Dir, defaultDB)
	awaitFile(t, path+"-journal", 1)
	p.Process.Signal(os.Interrupt)
	if code := p.code(t); code != exitInterrupted || p.stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &p.stdout, &p.stderr)
	}
	if !strings.Contains(p.stderr.String(), "\ntpssim: interrupted: ") {
		t.Errorf("stderr %q", &p.stderr)
	}
	alone(t, path)

	again := command(args...)
	again.Dir = p.Dir
	again.start(t)
	if code := again.code(t); code != exitOK || !strings.Contains(again.stdout.String(), "proof       ok") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &again.stdout, &again.stderr)
	}
	alone(t, path)
}

// The orderly end would take an hour; a second Ctrl-C does not wait for it, and
// what was acknowledged survives.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	path := seeded(t)
	for range 100 { // a signal that comes before the transaction ends the program in order
		state := interruptUntilEnd(t, path)
		status, ok := state.Sys().(syscall.WaitStatus)
		if ok && status.Signaled() && status.Signal() == syscall.SIGINT {
			if code, stdout, stderr := invoke(t, "check", "-q", "--db", path); code != exitOK {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			whole(t, path)
			return
		}
		if state.ExitCode() != exitInterrupted {
			t.Fatalf("it ended with %v", state)
		}
	}
	t.Error("the second signal never ended it")
}

// interruptUntilEnd starts a transaction that takes an hour and sends signals until
// the program has ended.
func interruptUntilEnd(t *testing.T, path string) *os.ProcessState {
	p := start(t, "run", "--db", path, "--dist", "uniform", "-n", "1", "--think", "1h")
	awaitFile(t, path+"-wal", 0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Wait()
	}()
	await(t, "the end", func() bool {
		p.Process.Signal(os.Interrupt)
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	return p.ProcessState
}

// closedPipe returns the writing end of a pipe that nobody reads.
func closedPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() { w.Close() })
	return w
}

// Who reads stdout has had enough: that is no reason to leave a mess.
func TestStdoutClosed(t *testing.T) {
	t.Parallel()
	path := seeded(t)
	out := filepath.Join(t.TempDir(), "results.jsonl")
	for _, args := range [][]string{
		{"run", "--db", path, "--dist", "uniform", "-n", "100", "--runs", "1", "-o", out},
		{"scenarios"},
		{"version"},
	} {
		p := command(args...)
		p.Stdout = closedPipe(t)
		p.start(t)
		if code := p.code(t); code != exitError || p.stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, stderr %q", args[0], code, &p.stderr)
		}
	}
	if line, err := os.ReadFile(out); err != nil || !json.Valid(line) {
		t.Errorf("the result file holds %q, %v", line, err)
	}
	whole(t, path)
}

// Nobody reads the progress: the result counts.
func TestStderrClosed(t *testing.T) {
	t.Parallel()
	p := command("run", "--rows", "2000", "--dist", "uniform", "-n", "100", "--runs", "1")
	p.Dir, p.Stderr = t.TempDir(), closedPipe(t)
	p.start(t)
	if code := p.code(t); code != exitOK || !strings.Contains(p.stdout.String(), "proof       ok") {
		t.Errorf("exit code %d, stdout %q", code, &p.stdout)
	}
	whole(t, filepath.Join(p.Dir, defaultDB))
}
