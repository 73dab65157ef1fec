package sqlite

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// childPath names the database that this test binary writes to instead of running
// tests: the other process of TestForeignWrites.
const childPath = "TPSSIM_TEST_CHILD_PATH"

func init() {
	path := os.Getenv(childPath)
	if path == "" {
		return
	}
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	if err == nil {
		err = errors.Join(c.Exec("UPDATE account SET balance = balance + 1 WHERE id = 7"), c.Close())
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// ending is a context that ends with an error of its own when done is closed.
type ending struct {
	context.Context
	done chan struct{}
}

var errEnded = errors.New("ended")

func (c ending) Done() <-chan struct{} { return c.done }

func (c ending) Err() error {
	select {
	case <-c.done:
		return errEnded
	default:
		return nil
	}
}

func TestForeignWrites(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, path string){
		"another process": func(t *testing.T, path string) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childPath+"="+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		},
		"another connection": func(t *testing.T, path string) {
			raw(t, path, "UPDATE account SET balance = balance + 1 WHERE id = 7")
		},
	} {
		t.Run(name, func(t *testing.T) {
			opt := copyOf(t, accounts.SchemaRowid)
			e := start(t, opt, engine.Needs{})
			if err := e.Update(t.Context(), nil, add(7, 1)); err != nil {
				t.Fatal(err)
			}
			if foreign, err := e.ForeignWrites(t.Context()); foreign || err != nil {
				t.Fatalf("before: %v, %v", foreign, err)
			}
			write(t, opt.Path)
			for range 2 {
				if foreign, err := e.ForeignWrites(t.Context()); !foreign || err != nil {
					t.Errorf("afterwards: %v, %v", foreign, err)
				}
			}
			balance := make([]int64, 1)
			if err := e.Balances(t.Context(), []int64{7}, balance, nil); err != nil || balance[0] != 1002 {
				t.Errorf("the account holds %d (%v), want 1002", balance[0], err)
			}
		})
	}
}

// One of this program at a time, whichever way in.
func TestInUse(t *testing.T) {
	both(t, func(t *testing.T, first engine.Needs) {
		both(t, func(t *testing.T, second engine.Needs) {
			opt := copyOf(t, accounts.SchemaRowid)
			e, err := Open(t.Context(), opt, first)
			if err != nil {
				t.Fatal(err)
			}
			if other, err := Open(t.Context(), opt, second); !errors.Is(err, writer.ErrInUse) {
				t.Errorf("a second engine: %v, want ErrInUse", err)
				if err == nil {
					other.Close()
				}
			}
			if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
				t.Errorf("the first engine: %v", err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			start(t, opt, second)
		})
	})
}

// An Open whose context has ended leaves nothing open.
func TestOpenEndedContext(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		opt := copyOf(t, accounts.SchemaRowid)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if e, err := Open(ctx, opt, needs); !errors.Is(err, context.Canceled) {
			t.Errorf("Open: %v", err)
			if err == nil {
				e.Close()
			}
		}
		start(t, opt, needs)
	})
}

// A lock that another program holds for too long: nothing ran, and that is said.
func TestBusy(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		opt := copyOf(t, accounts.SchemaRowid)
		opt.busyTimeout = 20 * time.Millisecond
		e := start(t, opt, needs)
		other := connect(t, opt.Path)
		if err := other.Exec("BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		never := func(engine.Tx) error { t.Error("it ran without the lock"); return nil }
		errs := []error{e.Update(t.Context(), nil, never)}
		if b, ok := e.(engine.Batcher); ok {
			errs = append(errs, b.Batch(t.Context(), make([]error, 3), func(_ int, tx engine.Tx) error { return never(tx) }))
		}
		for _, err := range errs {
			if err == nil || e.Classify(err) != "busy" {
				t.Errorf("%v is classified as %q, want busy", err, e.Classify(err))
			}
			if _, doubt := e.InDoubt(err); doubt {
				t.Errorf("%v is in doubt", err)
			}
		}
		if err := errors.Join(other.Exec("ROLLBACK"), other.Close()); err != nil {
			t.Fatal(err)
		}
		if err := e.Update(t.Context(), nil, add(1, 1)); err != nil {
			t.Errorf("when the lock is free again: %v", err)
		}
	})
}

// commits are the ways to a COMMIT.
var commits = map[string]struct {
	access engine.Access
	run    func(context.Context, engine.Engine) error
}{
	"queued": {engine.Queued, func(ctx context.Context, e engine.Engine) error { return e.Update(ctx, nil, add(1, 1)) }},
	"pooled": {engine.Pooled, func(ctx context.Context, e engine.Engine) error { return e.Update(ctx, nil, add(1, 1)) }},
	"direct": {engine.Queued, func(ctx context.Context, e engine.Engine) error {
		return e.(engine.Batcher).Batch(ctx, make([]error, 1), func(_ int, tx engine.Tx) error { return tx.Add(1, 1) })
	}},
}

// A COMMIT that could not be synced is in doubt, and the engine is over: it says so
// to everything until the database is opened again, which tells what it holds.
func TestStorageFailure(t *testing.T) {
	for name, way := range commits {
		for effect, want := range map[writertest.Effect]int64{writertest.RollBack: 1000, writertest.Keep: 1001} {
			t.Run(name+" "+map[bool]string{true: "kept", false: "lost"}[effect == writertest.Keep], func(t *testing.T) {
				faults := &writertest.Faults{}
				opt := copyOf(t, accounts.SchemaRowid)
				opt.Open = faults.Open
				e, err := Open(t.Context(), opt, engine.Needs{Access: way.access})
				if err != nil {
					t.Fatal(err)
				}
				faults.Add(writertest.Rule{SQL: "COMMIT", Code: sqliteh.SQLITE_IOERR_FSYNC, Effect: effect})
				err = way.run(t.Context(), e)
				if group, doubt := e.InDoubt(err); !doubt || group == nil {
					t.Errorf("%v is not in doubt", err)
				}
				if class := e.Classify(err); class != "in doubt" || errors.Is(err, engine.ErrStopped) {
					t.Errorf("%v is classified as %q", err, class)
				}
				wantStopped(t, e, way.run)
				opt.Open = nil
				again := start(t, opt, engine.Needs{Access: way.access})
				balance := make([]int64, 1)
				if err := again.Balances(t.Context(), []int64{1}, balance, nil); err != nil || balance[0] != want {
					t.Errorf("the account holds %d (%v), want %d", balance[0], err, want)
				}
				if err := way.run(t.Context(), again); err != nil {
					t.Errorf("after it was opened again: %v", err)
				}
			})
		}
	}
}

// wantStopped fails t unless everything that e does returns ErrStopped. It closes e.
func wantStopped(t *testing.T, e engine.Engine, run func(context.Context, engine.Engine) error) {
	t.Helper()
	ctx := t.Context()
	_, foreign := e.ForeignWrites(ctx)
	for name, err := range map[string]error{
		"Update":        e.Update(ctx, nil, func(engine.Tx) error { t.Error("Update ran"); return nil }),
		"View":          e.View(ctx, func(engine.Rx) error { t.Error("View ran"); return nil }),
		"the same":      run(ctx, e),
		"Settle":        e.Settle(ctx),
		"Reset":         e.Reset(ctx),
		"ForeignWrites": foreign,
		"Cold":          e.(engine.Cacher).Cold(ctx),
		"Close":         e.Close(),
		"second Close":  e.Close(),
	} {
		if !errors.Is(err, engine.ErrStopped) {
			t.Errorf("%s: %v, want ErrStopped", name, err)
			continue
		}
		if _, doubt := e.InDoubt(err); doubt || e.Classify(err) != "stopped" {
			t.Errorf("%s: %v is classified as %q, in doubt: %v", name, err, e.Classify(err), doubt)
		}
	}
}

// Other failures of a COMMIT: what is in doubt says so, and the engine goes on.
func TestCommitFails(t *testing.T) {
	for name, way := range commits {
		for code, doubtful := range map[sqliteh.Code]bool{sqliteh.SQLITE_FULL: true, sqliteh.SQLITE_BUSY: false} {
			t.Run(name+" "+code.String(), func(t *testing.T) {
				faults := &writertest.Faults{}
				opt := copyOf(t, accounts.SchemaRowid)
				opt.Open = faults.Open
				e := start(t, opt, engine.Needs{Access: way.access})
				faults.Add(writertest.Rule{SQL: "COMMIT", Code: code})
				err := way.run(t.Context(), e)
				if err == nil || faults.Injected() != 1 {
					t.Fatalf("%v after %d faults", err, faults.Injected())
				}
				if _, doubt := e.InDoubt(err); doubt != doubtful {
					t.Errorf("%v: in doubt is %v", err, doubt)
				}
				if class := e.Classify(err); class != map[bool]string{true: "in doubt", false: "commit failed"}[doubtful] {
					t.Errorf("%v is classified as %q", err, class)
				}
				if err := way.run(t.Context(), e); err != nil {
					t.Errorf("the next one: %v", err)
				}
				balance := make([]int64, 1)
				if err := e.Balances(t.Context(), []int64{1}, balance, nil); err != nil || balance[0] != 1001 {
					t.Errorf("the account holds %d (%v), want 1001: only the second was committed", balance[0], err)
				}
			})
		}
	}
}

// A statement that fails undoes its transaction, also where SQLite has rolled it
// back by itself.
func TestStatementFails(t *testing.T) {
	for name, way := range commits {
		for _, effect := range []writertest.Effect{writertest.AsSQLite, writertest.Leave} {
			t.Run(name+map[bool]string{true: " rolled back", false: ""}[effect == writertest.AsSQLite], func(t *testing.T) {
				faults := &writertest.Faults{}
				opt := copyOf(t, accounts.SchemaRowid)
				opt.Open = faults.Open
				e := start(t, opt, engine.Needs{Access: way.access})
				if err := way.run(t.Context(), e); err != nil {
					t.Fatal(err)
				}
				faults.Add(writertest.Rule{SQL: "UPDATE", Nth: 2, Code: sqliteh.SQLITE_NOMEM, Effect: effect})
				var err error
				twice := func(tx engine.Tx) error {
					if err := tx.Add(2, 1); err != nil {
						return err
					}
					return tx.Add(3, 1)
				}
				if name == "direct" {
					errs := make([]error, 1)
					err = e.(engine.Batcher).Batch(t.Context(), errs, func(_ int, tx engine.Tx) error { return twice(tx) })
					err = errors.Join(err, errs[0])
				} else {
					err = e.Update(t.Context(), nil, twice)
				}
				if err == nil || faults.Injected() != 1 {
					t.Fatalf("%v after %d faults", err, faults.Injected())
				}
				if class := e.Classify(err); class == "" || class == "error" || strings.Count(class, " ") > 1 {
					t.Errorf("%v is classified as %q", err, class)
				}
				balances := make([]int64, 3)
				if err := e.Balances(t.Context(), []int64{1, 2, 3}, balances, nil); err != nil || balances[1] != 1000 || balances[2] != 1000 {
					t.Errorf("the accounts hold %d (%v), nothing of the transaction should be left", balances, err)
				}
				if err := way.run(t.Context(), e); err != nil {
					t.Errorf("the next one: %v", err)
				}
			})
		}
	}
}

// A read that fails is an error, not a balance.
func TestBalancesFail(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		faults := &writertest.Faults{}
		opt := copyOf(t, accounts.SchemaRowid)
		opt.Open = faults.Open
		e := start(t, opt, needs)
		ids := make([]int64, rows)
		for i := range ids {
			ids[i] = int64(i + 1)
		}
		for _, rule := range []writertest.Rule{
			{SQL: "SELECT id", AfterRows: 5000, Code: sqliteh.SQLITE_IOERR_READ},
			{SQL: "SELECT id", Prepare: true, Code: sqliteh.SQLITE_CORRUPT},
		} {
			rule.On = writertest.OnReaders
			faults.Add(rule)
			if err := e.Balances(t.Context(), ids, make([]int64, len(ids)), nil); writer.Code(err) != rule.Code {
				t.Errorf("Balances: %v, want %v", err, rule.Code)
			}
			faults.Clear()
		}
		if err := e.Balances(t.Context(), ids, make([]int64, len(ids)), nil); err != nil {
			t.Errorf("without a fault: %v", err)
		}
	})
}

// The ledger holds a row for each recorded transfer that was committed, until
// Reset.
func TestLedger(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		opt := copyOf(t, accounts.SchemaRowid)
		e := start(t, opt, needs)
		fail := errors.New("on purpose")
		for i := range int64(6) {
			err := e.Update(t.Context(), nil, func(tx engine.Tx) error {
				if err := tx.Record(i+1, i+2, 10*i); err != nil {
					return err
				}
				if i%3 == 2 {
					return fail
				}
				return nil
			})
			if err != nil && err != fail {
				t.Fatal(err)
			}
		}
		const rows = "SELECT group_concat(source || '-' || target || ':' || amount) FROM (SELECT * FROM transfer ORDER BY id)"
		if got, want := raw(t, opt.Path, rows), "1-2:0,2-3:10,4-5:30,5-6:40"; got != want {
			t.Errorf("the ledger holds %q, want %q", got, want)
		}
		if err := e.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := raw(t, opt.Path, rows); got != "" {
			t.Errorf("after Reset the ledger holds %q", got)
		}
	})
}
