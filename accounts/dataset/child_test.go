package dataset

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/tpssim/tpssim/internal/sqlconn"
)

// Tests that need another process run this test binary again, with what to do
// and the path to do it to in the environment.
const (
	childWork = "TPSSIM_TEST_CHILD"
	childPath = "TPSSIM_TEST_PATH"
)

var children = map[string]func(path string) int{
	"seed":  childSeeds,
	"lock":  childLocks,
	"crash": childCrashes,
	"begin": childBegins,
	"pages": childWritesPages,
	"dies":  childDies,
	"peak":  childPeaks,
	"idle":  childIdles,
}

type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(t *testing.T, work, path string) child {
	t.Helper()
	c := child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), childWork+"="+work, childPath+"="+path)
	c.Stderr = os.Stderr
	var err error
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// childLocks holds the database locked until its stdin ends.
func childLocks(path string) int {
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	if err == nil {
		err = c.Exec("PRAGMA locking_mode = EXCLUSIVE")
	}
	if err == nil {
		err = c.Exec("BEGIN EXCLUSIVE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("locked")
	io.Copy(io.Discard, os.Stdin)
	if err := c.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childIdles keeps the database open after a read until its stdin ends, which in WAL
// mode no writing would meet.
func childIdles(path string) int {
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	if err == nil {
		_, err = c.Integer("SELECT count(*) FROM account")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("open")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// childBegins dies in the first transaction of a database, which is still empty,
// with a journal beside it.
func childBegins(path string) int {
	c, err := sqlconn.Open(nil, path, sqlconn.Create)
	for _, statement := range []string{"PRAGMA journal_mode = DELETE", "BEGIN", "CREATE TABLE mine(x)"} {
		if err == nil {
			err = c.Exec(statement)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0 // the process ends here
}

// childCrashes commits a transfer to the -wal and dies with the database open.
func childCrashes(path string) int {
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	if err == nil {
		err = c.Exec("UPDATE account SET balance = balance + CASE id WHEN 1 THEN -5 ELSE 5 END WHERE id IN (1, 2)")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0 // the process ends here
}
