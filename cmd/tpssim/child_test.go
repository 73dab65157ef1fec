package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tpssim/tpssim/internal/sqlconn"
)

// Tests that need another process run this test binary again: as the program, or
// as somebody who locks a database.
const (
	asLocker = "TPSSIM_TEST_LOCK"
	lockMode = "TPSSIM_TEST_LOCK_WITH"
)

// program is a started tpssim.
type program struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// command prepares the program in a process of its own.
func command(args ...string) *program {
	p := &program{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(os.Environ(), asProgram+"=1")
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	return p
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := command(args...)
	p.start(t)
	return p
}

func (p *program) start(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			p.Process.Kill()
			p.Wait()
		}
	})
}

// code waits for the end and returns the exit code, -1 after a signal.
func (p *program) code(t *testing.T) int {
	t.Helper()
	if err := p.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return p.ProcessState.ExitCode()
}

// await waits until something has happened.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it never happened", what)
		}
	}
}

// awaitFile waits until a file has at least so many bytes.
func awaitFile(t *testing.T, path string, size int64) {
	t.Helper()
	await(t, path, func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() >= size
	})
}

// lockedBy starts a process that holds the database at path locked until release
// is called.
func lockedBy(t *testing.T, path, statements string) (release func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asLocker+"="+path, lockMode+"="+statements)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the locker said %q, %v", line, err)
	}
	return func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// locker is the other end of lockedBy.
func locker(path, statements string) int {
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	for part := range strings.SplitSeq(statements, "; ") {
		if err == nil {
			err = c.Exec(part)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("locked")
	io.Copy(io.Discard, os.Stdin)
	if err := errors.Join(c.Exec("ROLLBACK"), c.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
