package writer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// Some tests need a second process: to kill, or to hold a lock against. It is this
// test binary once more, running TestChild in a role that the environment names.
const (
	envRole    = "WRITER_TEST_ROLE"
	envPath    = "WRITER_TEST_DB"
	envTrigger = "FAIL_SYNC_WHEN" // also read by testdata/failsync.c
	// childMark begins each line that a child has to say, to tell it from the
	// test framework's own.
	childMark = "child: "
)

// say sends a line to the parent at once.
func say(args ...any) { fmt.Print(childMark + fmt.Sprintln(args...)) }

// TestChild is what a child process does. It ends when its standard input does.
func TestChild(t *testing.T) {
	path := os.Getenv(envPath)
	switch role := os.Getenv(envRole); role {
	case "":
		t.Skip("only for processes that other tests start")
	case "burst":
		childBurst(t, path)
	case "fsync":
		childFsync(t, path)
	case "lock":
		childLock(t, path)
	case "open":
		childOpen(t, path)
	default:
		t.Fatalf("no role %q", role)
	}
}

// child is a process in one of TestChild's roles.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

// startChild starts a child on the database at path.
func startChild(t *testing.T, role, path string, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(exe, "-test.run=^TestChild$", "-test.count=1")}
	c.cmd.Env = append(os.Environ(), append(env, envRole+"="+role, envPath+"="+path)...)
	c.cmd.Stderr = os.Stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(stdout)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// line returns the next line that the child said; ok is false at the end.
func (c *child) line() (text string, ok bool) {
	for c.out.Scan() {
		if text, ok := strings.CutPrefix(c.out.Text(), childMark); ok {
			return text, true
		}
		c.t.Logf("from the child process: %s", c.out.Text())
	}
	return "", false
}

// want fails t unless the child's next line is text.
func (c *child) want(text string) {
	c.t.Helper()
	if got, ok := c.line(); got != text {
		c.t.Fatalf("the child said %q (%t), want %q", got, ok, text)
	}
}

// kill ends the child as kill -9 does.
func (c *child) kill() {
	c.cmd.Process.Kill() // an error means that it has ended already
	c.wait()
}

// wait lets the child come to its end.
func (c *child) wait() {
	c.stdin.Close()
	c.cmd.Wait()
}

// Ledger: each transaction of a child moves money and says so in a row of its own.

const crashAccounts, crashBalance = 100, 1000

// openLedger opens the database of the crash tests.
func openLedger(t *testing.T, path string) (*writer.Writer, *writertest.Bank) {
	t.Helper()
	w := writertest.OpenPath(t, path, writer.Options{Init: func(c *writer.Conn) error {
		_, err := c.Exec(`CREATE TABLE IF NOT EXISTS ledger (id INTEGER PRIMARY KEY,
			src INTEGER NOT NULL, dst INTEGER NOT NULL, amount INTEGER NOT NULL)`)
		return err
	}})
	return w, writertest.NewBank(t, w, crashAccounts, crashBalance)
}

// entry returns a transfer between accounts drawn from id, with its ledger row.
func entry(id int64) func(*writer.Tx) error {
	rng := rand.New(rand.NewPCG(1, uint64(id)))
	src, dst := 1+rng.Int64N(crashAccounts), 1+rng.Int64N(crashAccounts)
	return func(tx *writer.Tx) error {
		if err := writertest.Move(tx, src, dst, 1); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO ledger VALUES (?, ?, ?, 1)", id, src, dst)
		return err
	}
}

// checkLedger fails t unless each balance follows from the ledger, and returns the
// ids in it.
func checkLedger(t *testing.T, w *writer.Writer) map[int64]bool {
	t.Helper()
	ids := make(map[int64]bool)
	err := w.View(context.Background(), func(rx *writer.Rx) error {
		for row, err := range rx.Query("SELECT id FROM ledger") {
			var id int64
			if err := errors.Join(err, row.Scan(&id)); err != nil {
				return err
			}
			ids[id] = true
		}
		var wrong int
		err := rx.QueryRow(`SELECT count(*) FROM account WHERE balance <> ?
			- (SELECT coalesce(sum(amount), 0) FROM ledger WHERE src = account.id)
			+ (SELECT coalesce(sum(amount), 0) FROM ledger WHERE dst = account.id)`, crashBalance).Scan(&wrong)
		if wrong != 0 {
			t.Errorf("%d balances do not follow from the ledger", wrong)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// childBurst commits without end, and says each id once Do has returned.
func childBurst(t *testing.T, path string) {
	w, _ := openLedger(t, path)
	var next atomic.Int64
	for id := range checkLedger(t, w) {
		next.Store(max(next.Load(), id))
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				id := next.Add(1)
				if err := w.Do(context.Background(), entry(id)); err != nil {
					say(err)
					return
				}
				say(id)
			}
		})
	}
	wg.Wait()
}

// TestContract01KillLosesNothing kills a process in the middle of a burst, again
// and again: each acknowledged transaction is there afterwards, whole, and the
// lock file that the dead process left is no obstacle.
func TestContract01KillLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	acknowledged := make(map[int64]bool)
	for round := range 3 {
		c := startChild(t, "burst", path)
		for n := 0; ; n++ {
			line, ok := c.line()
			if !ok {
				if n < 1000 {
					t.Fatalf("round %d: the child ended by itself", round)
				}
				break
			}
			id, err := strconv.ParseInt(line, 10, 64)
			if err != nil {
				t.Fatalf("the child said %q", line)
			}
			acknowledged[id] = true
			if n == 1000 {
				c.cmd.Process.Kill() // what it said before is still in the pipe
			}
		}
		c.wait()
		if _, err := os.Stat(path + "-lock"); err != nil {
			t.Fatalf("the killed process left no lock file: %v", err)
		}
	}
	w, _ := openLedger(t, path)
	ids := checkLedger(t, w)
	for id := range acknowledged {
		if !ids[id] {
			t.Errorf("transaction %d was acknowledged and is lost", id)
		}
	}
	t.Logf("%d acknowledged, %d found", len(acknowledged), len(ids))
}

// fsyncReport is what childFsync saw.
type fsyncReport struct {
	Before  string   // the error before fsync failed
	Op      []string // of the batch whose fsync failed
	InDoubt []bool
	Codes   []string
	Failed  map[string]bool // afterwards: ErrFailed?
}

// childFsync commits once, makes fsync fail, commits a batch, and kills itself.
func childFsync(t *testing.T, path string) {
	w, _ := openLedger(t, path)
	var r fsyncReport
	if err := w.Do(t.Context(), entry(1)); err != nil {
		r.Before = err.Error()
	}
	if err := os.WriteFile(os.Getenv(envTrigger), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, err := range writertest.Batch(t, w,
		entry(2), entry(3), entry(4),
		func(tx *writer.Tx) error { return errors.Join(entry(5)(tx), errRefused) },
		func(tx *writer.Tx) error { panic(entry(6)(tx)) },
	) {
		be, ok := errors.AsType[*writer.BatchError](err)
		if !ok {
			be = &writer.BatchError{Op: fmt.Sprint(err)}
		}
		r.Op = append(r.Op, be.Op)
		r.InDoubt = append(r.InDoubt, be.InDoubt)
		r.Codes = append(r.Codes, writer.Code(err).String())
	}
	r.Failed = make(map[string]bool)
	for name, err := range map[string]error{
		"Do":         w.Do(t.Context(), entry(7)),
		"View":       w.View(t.Context(), func(*writer.Rx) error { return nil }),
		"Checkpoint": w.Checkpoint(t.Context(), sqliteh.SQLITE_CHECKPOINT_PASSIVE),
	} {
		r.Failed[name] = errors.Is(err, writer.ErrFailed)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	say(string(text))
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self.Kill()
	select {}
}

// TestContract07FsyncFails lets a real fsync fail at COMMIT, kills the process and
// looks at what the file holds.
func TestContract07FsyncFails(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("LD_PRELOAD is for Linux")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	shim := filepath.Join(dir, "failsync.so")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", shim, "testdata/failsync.c", "-ldl").CombinedOutput(); err != nil {
		t.Skipf("cannot build the shim: %v: %s", err, out)
	}
	path := filepath.Join(dir, "test.db")
	c := startChild(t, "fsync", path, "LD_PRELOAD="+shim, envTrigger+"="+filepath.Join(dir, "trigger"))
	line, ok := c.line()
	if !ok {
		t.Fatal("the child ended before its report")
	}
	c.wait()
	var r fsyncReport
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if r.Before != "" || len(r.Op) != 5 {
		t.Fatalf("before fsync failed: %q; %d outcomes, want 5", r.Before, len(r.Op))
	}
	for i := range r.Op {
		if r.Op[i] != "commit" || !r.InDoubt[i] || r.Codes[i] != sqliteh.SQLITE_IOERR_FSYNC.String() {
			t.Errorf("function %d: op %q, in doubt %t, %s; want a commit in doubt with SQLITE_IOERR_FSYNC", i, r.Op[i], r.InDoubt[i], r.Codes[i])
		}
	}
	for name, failed := range r.Failed {
		if !failed {
			t.Errorf("%s did not return ErrFailed after the failed fsync", name)
		}
	}
	w, _ := openLedger(t, path)
	ids := checkLedger(t, w)
	if !ids[1] {
		t.Error("the acknowledged transaction is lost")
	}
	if ids[2] != ids[3] || ids[2] != ids[4] {
		t.Errorf("the batch in doubt is there in part: %v", ids)
	}
	if ids[5] || ids[6] || ids[7] {
		t.Errorf("a function that failed, or never ran, is there: %v", ids)
	}
	if err := w.Do(t.Context(), entry(8)); err != nil {
		t.Errorf("after reopening: %v", err)
	}
}

// childLock holds SQLite's write lock, without a Writer, until its input ends.
func childLock(t *testing.T, path string) {
	db, err := cgosqlite.Open(path, sqliteh.OpenFlagsDefault, "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, sql := range []string{"BEGIN IMMEDIATE", "ROLLBACK"} {
		stmt, _, err := db.Prepare(sql, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, _, err = stmt.StepResult()
		stmt.Finalize()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if sql == "BEGIN IMMEDIATE" {
			say("locked")
			io.Copy(io.Discard, os.Stdin)
		}
	}
}

// childOpen opens a Writer, says how that went, and closes it when its input ends.
func childOpen(t *testing.T, path string) {
	w, err := writer.Open(t.Context(), path, writer.Options{})
	if err != nil {
		say("in use:", errors.Is(err, writer.ErrInUse))
		return
	}
	say("open")
	io.Copy(io.Discard, os.Stdin)
	say("closed:", w.Close())
}
