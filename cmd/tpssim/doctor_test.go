package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tpssim/tpssim/doctor"
	"github.com/tpssim/tpssim/writer"
)

// examine runs doctor on the database at path and returns its report.
func examine(t *testing.T, path string, wantCode int, flags ...string) doctor.Report {
	t.Helper()
	code, stdout, stderr := invoke(t, append([]string{"doctor", "-d", "10ms", "--format", "json", "--db", path}, flags...)...)
	if code != wantCode || stderr != "" {
		t.Errorf("exit code %d, want %d; stderr %q", code, wantCode, stderr)
	}
	var r doctor.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return r
}

// found fails the test unless a check has a status and says something.
func found(t *testing.T, r doctor.Report, name string, status doctor.Status, says string) {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name != name {
			continue
		}
		if c.Status != status || !strings.Contains(c.Finding, says) {
			t.Errorf("%s: %s %q, want %s with %q", name, c.Status, c.Finding, status, says)
		}
		return
	}
	t.Errorf("there is no check %s", name)
}

func TestDoctorOfADatabase(t *testing.T) {
	path := seeded(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r := examine(t, path, exitOK)
	found(t, r, "database", doctor.OK, "journal_mode=wal, page_size=4096, nothing beside it, not locked")
	found(t, r, "sqlite", doctor.OK, "THREADSAFE=2")
	found(t, r, "sqlite", doctor.OK, "DEFAULT_WAL_SYNCHRONOUS=1")
	found(t, r, "wal_reset", doctor.OK, "immune")
	if r.DataBytes != info.Size() || r.Env.SQLite == "" {
		t.Errorf("%d bytes of data, want %d; SQLite %q", r.DataBytes, info.Size(), r.Env.SQLite)
	}
	// What is asked for outweighs what is there.
	if r := examine(t, path, exitOK, "--rows", "1m"); r.DataBytes < 10<<20 || r.DataBytes > 20<<20 {
		t.Errorf("a million rows take %d bytes", r.DataBytes)
	}
	whole(t, path)
}

func TestDoctorOfADatabaseInUse(t *testing.T) {
	path := seeded(t)
	release, err := writer.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	found(t, examine(t, path, exitError), "database", doctor.Fail, "another tpssim is writing to it")
	if err := release(); err != nil {
		t.Fatal(err)
	}
	unlock := lockedBy(t, path, "BEGIN IMMEDIATE; UPDATE account SET balance = balance WHERE id = 1")
	found(t, examine(t, path, exitError), "database", doctor.Fail, "another process has it locked")
	unlock()
	whole(t, path)
}

// A -wal that somebody left or has open is told of, and left as it is.
func TestDoctorBesideAWAL(t *testing.T) {
	path := seeded(t)
	letGo := lockedBy(t, path, "UPDATE account SET balance = balance + 1 WHERE id = 1; UPDATE account SET balance = balance - 1 WHERE id = 1; BEGIN")
	before, err := os.ReadFile(path + "-wal")
	if err != nil || len(before) == 0 {
		t.Fatalf("%d bytes in the -wal, %v", len(before), err)
	}
	found(t, examine(t, path, exitOK), "database", doctor.Warn, "a -wal of ")
	if after, err := os.ReadFile(path + "-wal"); err != nil || string(after) != string(before) {
		t.Errorf("the -wal has changed: %d bytes, %v", len(after), err)
	}
	letGo()
	whole(t, path)
}

// A -journal is not opened: SQLite would roll it back.
func TestDoctorBesideAJournal(t *testing.T) {
	path := seeded(t)
	if err := os.WriteFile(path+"-journal", []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	found(t, examine(t, path, exitOK), "database", doctor.Warn, "not read; a -journal of 10 B")
	if text, err := os.ReadFile(path + "-journal"); err != nil || string(text) != "somebody's" {
		t.Errorf("the -journal is %q, %v", text, err)
	}
}

func TestDoctorOfNoDatabase(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("This is a letter. ", 300)), 0o600); err != nil {
		t.Fatal(err)
	}
	found(t, examine(t, text, exitError), "database", doctor.Fail, "it is not a SQLite database")
	found(t, examine(t, filepath.Join(dir, "new.db"), exitOK), "database", doctor.OK, "there is none yet")
	found(t, examine(t, filepath.Join(dir, "no", "new.db"), exitError), "folder", doctor.Fail, "does not exist")
	found(t, examine(t, dir, exitError), "database", doctor.Fail, "is not a file")
	found(t, examine(t, filepath.Join(text, "new.db"), exitError), "folder", doctor.Fail, "is no folder")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// Ctrl-C: what was found is printed, and nothing is left.
func TestInterruptedDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "doctor", "--db", filepath.Join(dir, "new.db"), "-d", "1m")
	await(t, "a temporary file", func() bool {
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) > 0
	})
	p.Process.Signal(os.Interrupt)
	if code := p.code(t); code != exitInterrupted || p.stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, &p.stderr)
	}
	for _, says := range []string{"\n  ok    cpus ", "\n  interrupted: this is what was found until then\n"} {
		if out := strings.ReplaceAll(p.stdout.String(), "warn  ", "ok    "); !strings.Contains(out, says) {
			t.Errorf("the report does not say %q:\n%s", says, out)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}
