//go:build unix

package main

import (
	"os"
	"strings"
	"testing"
)

// Another program holds the database: one line, and the data set as it was.
func TestLockedByAnotherProgram(t *testing.T) {
	for name, statement := range map[string]string{
		"writing":   "BEGIN IMMEDIATE",
		"exclusive": "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := seeded(t)
			release := lockedBy(t, path, statement)
			code, stdout, stderr := invoke(t, "run", "-q", "--db", path, "--dist", "uniform", "-n", "10", "--runs", "1")
			if wrong := complaint(stdout, stderr); code != exitError || wrong != "" {
				t.Errorf("exit code %d: %s", code, wrong)
			}
			if !strings.Contains(stderr, "another process has it locked: wait for it or end it, then try again") {
				t.Errorf("stderr %q", stderr)
			}
			release()
			whole(t, path)
		})
	}
}

// A second tpssim on the same file: nobody waits, nobody is disturbed.
func TestInUse(t *testing.T) {
	t.Parallel()
	path := seeded(t)
	p := start(t, "run", "--db", path, "--dist", "uniform", "-c", "2", "-d", "10m")
	awaitFile(t, path+"-wal", 100_000)
	for _, args := range [][]string{
		{"run", "--db", path, "--dist", "uniform", "-n", "10"},
		{"run", "pool", "--db", path, "--dist", "uniform", "-n", "10"},
		{"check", "--db", path},
		{"seed", "--db", path, "--rows", "2000", "--balance", "1000"},
	} {
		code, stdout, stderr := invoke(t, args...)
		if wrong := complaint(stdout, stderr); code != exitError || wrong != "" {
			t.Errorf("%s: exit code %d: %s", args[0], code, wrong)
		}
		if want := "tpssim: " + path + " is in use by another tpssim: wait for it or end it, then try again\n"; stderr != want {
			t.Errorf("%s: stderr %q", args[0], stderr)
		}
	}
	p.Process.Signal(os.Interrupt)
	if code := p.code(t); code != exitInterrupted || !strings.Contains(p.stdout.String(), "proof       ok") {
		t.Errorf("the first: exit code %d, stdout %q, stderr %q", code, &p.stdout, &p.stderr)
	}
	whole(t, path)
}
