package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tpssim/tpssim/internal/sqlconn"
)

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":    scriptCode,
			"refused": scriptRefused,
			"sql":     scriptSQL,
			"cut":     scriptCut,
			"spoil":   scriptSpoil,
			"alone":   scriptAlone,
		},
	})
}

// scriptCode is "code N program args...": the program ends with that exit code.
func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program args...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if want, err := strconv.Atoi(args[0]); err != nil || got != want {
		ts.Fatalf("exit code %d, want %s; stderr:\n%s", got, args[0], ts.ReadFile("stderr"))
	}
}

// scriptRefused is "refused N args...": tpssim ends with exit code N, says why in
// one line, and has changed no file.
func scriptRefused(ts *testscript.TestScript, neg bool, args []string) {
	before, err := contents(ts.Getenv("WORK"))
	ts.Check(err)
	scriptCode(ts, neg, append([]string{args[0], "tpssim"}, args[1:]...))
	if wrong := complaint(ts.ReadFile("stdout"), ts.ReadFile("stderr")); wrong != "" {
		ts.Fatalf("%s", wrong)
	}
	after, err := contents(ts.Getenv("WORK"))
	ts.Check(err)
	if !maps.Equal(before, after) {
		ts.Fatalf("the files changed: %v before, %v after", before, after)
	}
}

// scriptSQL is "sql file statement...".
func scriptSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: sql file statement...")
	}
	c, err := sqlconn.Open(nil, ts.MkAbs(args[0]), sqlconn.Create)
	ts.Check(err)
	for _, statement := range args[1:] {
		err = errors.Join(err, c.Exec(statement))
	}
	ts.Check(errors.Join(err, c.Close()))
}

// scriptCut is "cut file bytes": only the first bytes are left.
func scriptCut(ts *testscript.TestScript, neg bool, args []string) {
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

// scriptSpoil is "spoil file offset": some bytes from there on are others.
func scriptSpoil(ts *testscript.TestScript, neg bool, args []string) {
	offset, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	_, err = f.WriteAt([]byte("this is not what a page looks like"), offset)
	ts.Check(errors.Join(err, f.Close()))
}

// scriptAlone is "alone file...": no journal and no lock lies beside it.
func scriptAlone(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args {
		for _, suffix := range []string{"-wal", "-shm", "-journal", "-lock"} {
			if _, err := os.Stat(ts.MkAbs(file) + suffix); err == nil {
				ts.Fatalf("%s%s is left", file, suffix)
			}
		}
	}
}
