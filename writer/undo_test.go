package writer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailscale/sqlite/sqliteh"
	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/writer"
)

// world is what the tables account and audit should hold.
type world struct {
	balance map[int64]int64
	audited int // updates that a trigger counted
}

func (w world) clone() world { return world{maps.Clone(w.balance), w.audited} }

// op is one statement of a random function.
type op struct {
	kind  string
	id, n int64
}

// add is one update of the model. It returns whether the row's constraint allows it.
func (w *world) add(id, n int64) bool {
	if w.balance[id]+n < 0 {
		return false
	}
	w.balance[id] += n
	w.audited++
	return true
}

// apply does to the model what run does to the database. The number of changed rows
// of a statement that fails is not looked at.
func (o op) apply(w *world) (changed int64, ok bool) {
	_, exists := w.balance[o.id]
	switch o.kind {
	case "add", "returning", "literal":
		if !exists {
			return 0, true
		}
		return 1, w.add(o.id, o.n)
	case "text":
		if !exists {
			return 0, true
		}
		w.balance[o.id] = max(o.n, 0)
		w.audited++
		return 1, true
	case "delete":
		delete(w.balance, o.id)
		if exists {
			changed = 1
		}
		return changed, true
	case "insert":
		if exists {
			return 0, false
		}
		w.balance[o.id] = max(o.n, 0)
		return 1, true
	case "fail", "ignore":
		for _, id := range slices.Sorted(maps.Keys(w.balance)) {
			switch {
			case w.add(id, o.n):
				changed++
			case o.kind == "fail":
				return 0, false
			}
		}
		return changed, true
	}
	return 0, true
}

// run executes the statement and returns how many rows it changed.
func (o op) run(tx *writer.Tx) (changed int64, err error) {
	switch o.kind {
	case "add":
		return tx.Stmt("UPDATE account SET balance = balance + ? WHERE id = ?").BindInt64(1, o.n).BindInt64(2, o.id).Exec()
	case "returning":
		return tx.Exec("UPDATE account SET balance = balance + ? WHERE id = ? RETURNING balance", o.n, o.id)
	case "literal": // many texts
		return tx.Exec(fmt.Sprintf("UPDATE account SET balance = balance + %d WHERE id = %d", o.n, o.id))
	case "text":
		return tx.Exec("UPDATE account SET balance = ? WHERE id = ?", fmt.Sprint(max(o.n, 0)), o.id)
	case "delete":
		return tx.Exec("DELETE FROM account WHERE id = ?", o.id)
	case "insert":
		return tx.Exec("INSERT INTO account VALUES (?, ?)", o.id, max(o.n, 0))
	case "fail":
		return tx.Exec("UPDATE OR FAIL account SET balance = balance + ?", o.n)
	case "ignore":
		return tx.Exec("UPDATE OR IGNORE account SET balance = balance + ?", o.n)
	case "index":
		_, err = tx.Exec("CREATE INDEX IF NOT EXISTS by_balance ON account(balance)")
	case "cursor":
		_, err = tx.Stmt("SELECT * FROM account").Step() // left open
	}
	return 0, err
}

// read returns what the tables hold.
func read(rx *writer.Rx) (world, error) {
	got := world{balance: make(map[int64]int64)}
	for row, err := range rx.Query("SELECT id, balance FROM account") {
		var id, balance int64
		if err := errors.Join(err, row.Scan(&id, &balance)); err != nil {
			return got, err
		}
		got.balance[id] = balance
	}
	return got, rx.QueryRow("SELECT count(*) FROM audit").Scan(&got.audited)
}

// program is a random function.
type program struct {
	ops    []op
	strict bool // a statement's error is its own
	end    ending

	runs     int
	findings []string
	last     [2]int64 // the last audited row and its random number, as it saw them
}

// run is the function: it follows the model, and keeps its changes to that only if
// they are to stay.
func (p *program) run(tx *writer.Tx, model *world, audits bool) error {
	p.runs++
	mine := model.clone()
	for _, o := range p.ops {
		changed, err := o.run(tx)
		want, ok := o.apply(&mine)
		switch {
		case ok && err != nil, !ok && writer.Primary(err) != sqliteh.SQLITE_CONSTRAINT, ok && changed != want:
			p.findings = append(p.findings, fmt.Sprintf("%v changed %d rows (%v), want %d, success %t", o, changed, err, want, ok))
		case !ok && p.strict:
			p.end = ending{name: "Refused", ok: func(got error) bool { return got == err }}
			return err
		}
	}
	if !audits {
		mine.audited = 0
	}
	if got, err := read(tx.Rx); err != nil || !maps.Equal(got.balance, mine.balance) || got.audited != mine.audited {
		p.findings = append(p.findings, fmt.Sprintf("it sees %v (%v), want %v", got, err, mine))
	}
	if err := tx.QueryRow("SELECT rowid, n FROM audit ORDER BY rowid DESC").Scan(&p.last[0], &p.last[1]); err != nil && err != writer.ErrNoRows {
		p.findings = append(p.findings, err.Error())
	}
	if p.end.kept {
		*model = mine
	}
	return p.end.end()
}

// drawProgram draws a function, most of which succeed and can be repeated.
func drawProgram(t *rapid.T) *program {
	kinds := []string{"add", "add", "add", "add", "literal", "literal", "returning", "delete", "ignore"}
	if rapid.IntRange(0, 3).Draw(t, "any") == 0 {
		kinds = append(kinds, "text", "insert", "fail", "index", "cursor")
	}
	ends := endings()
	p := &program{strict: rapid.Bool().Draw(t, "strict"), end: ends[0]}
	for range rapid.IntRange(0, 5).Draw(t, "ops") {
		p.ops = append(p.ops, op{
			kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			id:   rapid.Int64Range(1, 6).Draw(t, "id"),
			n:    rapid.Int64Range(-40, 60).Draw(t, "n"),
		})
	}
	if rapid.IntRange(0, 5).Draw(t, "fails") == 0 {
		p.end = rapid.SampledFrom(ends[1:]).Draw(t, "end")
	}
	return p
}

// A batch of random functions leaves what a model holds that knows of those that
// succeeded only; each of them runs once and sees those before it.
func TestUndoProperty(t *testing.T) {
	for name, setup := range map[string]string{
		"Plain":       "CREATE TABLE other(a)",
		"Trigger":     "CREATE TRIGGER audited AFTER UPDATE ON account BEGIN INSERT INTO audit(n) VALUES (random()); END",
		"TempTrigger": "CREATE TEMP TRIGGER audited AFTER UPDATE ON main.account BEGIN INSERT INTO audit(n) VALUES (random()); END",
	} {
		t.Run(name, func(t *testing.T) {
			w := openTest(t, writer.Options{Pragmas: noSync})
			exclusive(t, w, "CREATE TABLE audit(n)", setup)
			rapid.Check(t, func(rt *rapid.T) {
				limit := rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(rt, "limit")
				programs := make([]*program, rapid.IntRange(2, 20).Draw(rt, "functions"))
				for i := range programs {
					programs[i] = drawProgram(rt) // all before the writer is held: a draw may panic
				}
				tune(t, w, writer.ForgetDoubt)
				tune(t, w, func(c *writer.Conn) { writer.LimitLog(c, limit) })
				exclusive(t, w, "DROP INDEX IF EXISTS by_balance", "DELETE FROM audit", "DELETE FROM account",
					"INSERT INTO account VALUES (1, 100), (2, 100), (3, 20), (4, 0)")
				model := world{balance: map[int64]int64{1: 100, 2: 100, 3: 20, 4: 0}}
				runPrograms(t, rt, w, programs, &model, name != "Plain")
			})
		})
	}
}

// runPrograms runs a batch of random functions and compares.
func runPrograms(t *testing.T, rt *rapid.T, w *writer.Writer, programs []*program, model *world, audits bool) {
	before := batches(t, w)
	release := hold(t, w)
	l := line{t: t, w: w}
	for _, p := range programs {
		l.add(func(tx *writer.Tx) error { return p.run(tx, model, audits) })
	}
	release()
	for i, err := range l.wait() {
		p := programs[i]
		if !p.end.ok(err) || p.runs != 1 || len(p.findings) > 0 {
			rt.Errorf("function %d, %s, ran %d times and ended with %v: %v", i, p.end.name, p.runs, err, p.findings)
		}
	}
	if got := batches(t, w) - before; got != 1 {
		rt.Errorf("%d batches, want one", got)
	}
	if err := w.View(context.Background(), func(rx *writer.Rx) error {
		got, err := read(rx)
		if !maps.Equal(got.balance, model.balance) || got.audited != model.audited {
			rt.Errorf("the tables hold %v, want %v", got, *model)
		}
		for i, p := range programs {
			if p.end.kept && p.last[0] != 0 && rx.QueryRow("SELECT 1 FROM audit WHERE rowid = ? AND n = ?", p.last[0], p.last[1]).Scan() != nil {
				rt.Errorf("what the trigger wrote for function %d, %v, is not there any more: it was done again", i, p.last)
			}
		}
		return err
	}); err != nil {
		rt.Error(err)
	}
}

// tune changes something of the writer's own between two batches.
func tune(t *testing.T, w *writer.Writer, fn func(*writer.Conn)) {
	t.Helper()
	if err := w.Exclusive(t.Context(), func(c *writer.Conn) error { fn(c); return nil }); err != nil {
		t.Fatal(err)
	}
}

// batches returns how many batches there were. A batch is counted after its callers
// were told, so that it waits for the writer.
func batches(t *testing.T, w *writer.Writer) uint64 {
	t.Helper()
	tune(t, w, func(*writer.Conn) {})
	return w.Stats().Batches
}

// openShared is openTest with four accounts that hold 100 each.
func openShared(t *testing.T, opt writer.Options) *writer.Writer {
	t.Helper()
	opt.Pragmas = noSync
	w := openTest(t, opt)
	exclusive(t, w, "INSERT INTO account VALUES (1, 100), (2, 100), (3, 100), (4, 100)")
	return w
}

// batchOf runs functions as one batch and returns the savepoint that each saw at its
// end, and their outcomes.
func batchOf(t *testing.T, w *writer.Writer, fns ...func(*writer.Tx) error) ([]writer.Savepoint, []error) {
	t.Helper()
	seen := make([]writer.Savepoint, len(fns))
	before := batches(t, w)
	release := hold(t, w)
	l := line{t: t, w: w}
	for i, fn := range fns {
		l.add(func(tx *writer.Tx) error {
			defer func() { seen[i] = writer.SavepointOf(tx) }()
			return fn(tx)
		})
	}
	release()
	errs := l.wait()
	if got := batches(t, w) - before; got != 1 {
		t.Fatalf("%d batches, want one", got)
	}
	return seen, errs
}

// own returns a function that updates an account and then fails.
func own(id int64) func(*writer.Tx) error {
	return func(tx *writer.Tx) error { return errors.Join(update(tx, id, 50), errOwn) }
}

// pay returns a function that updates an account.
func pay(id, n int64) func(*writer.Tx) error {
	return func(tx *writer.Tx) error { return update(tx, id, n) }
}

// What can be repeated is behind one savepoint; each function that did something else
// has the next one begin.
func TestFunctionsShareASavepoint(t *testing.T) {
	w := openShared(t, writer.Options{})
	depth := 0
	seen, errs := batchOf(t, w,
		pay(1, 1), // 0
		func(tx *writer.Tx) error { return errors.Join(update(tx, 1, 1), update(tx, 2, 1)) },
		execSQL("DELETE FROM account WHERE id = ?", 4),
		func(tx *writer.Tx) error { return tx.QueryRow("SELECT 1 FROM account").Scan() },
		execSQL("UPDATE account SET balance = balance + ? WHERE id = ? RETURNING id", 1, 3),
		insert(1), // 5: not repeatable
		pay(1, 1),
		pay(1, 1),
		execSQL("UPDATE account SET balance = ? WHERE id = 2", "7"), // 8: neither
		pay(1, 1),
		func(tx *writer.Tx) error { depth = writer.Depth(tx); return nil },
	)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	first := seen[0].Number
	for i, want := range []writer.Savepoint{
		{first, 1, true}, {first, 3, true}, {first, 4, true}, {first, 4, true}, {first, 5, true},
		{first, 5, true}, {first + 1, 1, true}, {first + 1, 2, true},
		{first + 1, 2, true}, {first + 2, 1, true},
	} {
		if seen[i] != want {
			t.Errorf("function %d saw %+v, want %+v", i, seen[i], want)
		}
	}
	if depth != 1 {
		t.Errorf("%d savepoints were open at once, want 1", depth)
	}
}

// After a failure that others had to be repeated for, functions have a savepoint each;
// after one that nobody shared the savepoint with, they go on sharing.
func TestSharingAfterAFailure(t *testing.T) {
	w := openShared(t, writer.Options{})
	seen, errs := batchOf(t, w, own(1), pay(1, 1), pay(1, 2), own(2), pay(1, 4), pay(1, 8), own(3))
	for i, err := range errs {
		if want := i == 0 || i == 3 || i == 6; want != errors.Is(err, errOwn) || !want && err != nil {
			t.Errorf("function %d: %v", i, err)
		}
	}
	if seen[1].Number != seen[2].Number || !seen[2].Shared || seen[2].Logged != 2 {
		t.Errorf("after the first failed, the others saw %+v and %+v, want one savepoint", seen[1], seen[2])
	}
	if seen[4].Number == seen[5].Number || seen[5].Shared || seen[5].Logged != 0 {
		t.Errorf("after a failure among those that share they saw %+v and %+v, want a savepoint each", seen[4], seen[5])
	}
	for id, want := range []int{115, 100, 100, 100} {
		if got := number(t, w, "SELECT balance FROM account WHERE id = ?", id+1); got != want {
			t.Errorf("account %d holds %d, want %d", id+1, got, want)
		}
	}
	if seen, _ := batchOf(t, w, pay(1, 1), pay(1, 1)); seen[1].Shared {
		t.Error("the next batch shares a savepoint although one has just failed")
	}
	tune(t, w, writer.ForgetDoubt)
	if seen, _ := batchOf(t, w, pay(1, 1), pay(1, 1)); !seen[1].Shared || seen[1].Logged != 2 {
		t.Errorf("long after the failure they do not share: %+v", seen[1])
	}
}

// Neither many texts nor many statements make the log, or the cache, grow for long.
func TestTheLogIsBounded(t *testing.T) {
	const limit = 700
	w := openShared(t, writer.Options{})
	tune(t, w, func(c *writer.Conn) { writer.LimitLog(c, limit) })
	texts := func(n, from int) func(*writer.Tx) error {
		return func(tx *writer.Tx) error {
			for i := range n {
				if _, err := tx.Exec(fmt.Sprintf("UPDATE account SET balance = balance + 1 WHERE id = 1 AND %d", from+i)); err != nil {
					return err
				}
				if got := writer.Cached(tx); got > 520 {
					return fmt.Errorf("%d statements are prepared", got)
				}
			}
			return nil
		}
	}
	many := func(tx *writer.Tx) error {
		for range 2000 {
			if err := update(tx, 2, 1); err != nil {
				return err
			}
		}
		return nil
	}
	fns := []func(*writer.Tx) error{texts(1500, 1), many, pay(3, 1)}
	for i := range 30 {
		fns = append(fns, texts(25, 10_000+25*i))
	}
	seen, errs := batchOf(t, w, append(fns, own(4))...)
	for i, s := range seen {
		if s.Logged > limit {
			t.Errorf("%d statements were logged when function %d ended, want at most %d", s.Logged, i, limit)
		}
	}
	if err := errors.Join(errs[:len(fns)]...); err != nil || errs[len(fns)] == nil {
		t.Errorf("%v, and the one that fails: %v", err, errs[len(fns)])
	}
	// Fewer than the limit but more than are kept prepared: those in the log must be.
	tune(t, w, writer.ForgetDoubt)
	if _, errs := batchOf(t, w, texts(600, 50_000), own(4)); errs[0] != nil || !errors.Is(errs[1], errOwn) {
		t.Error(errs)
	}
	fns = fns[:0]
	for i := range 24 {
		fns = append(fns, texts(25, 60_000+25*i))
	}
	tune(t, w, writer.ForgetDoubt)
	if _, errs = batchOf(t, w, append(fns, own(4))...); errors.Join(errs[:len(fns)]...) != nil || !errors.Is(errs[len(fns)], errOwn) {
		t.Error(errs)
	}
	for id, want := range []int{100 + 1500 + 30*25 + 600 + 24*25, 100 + 2000, 101, 100} {
		if got := number(t, w, "SELECT balance FROM account WHERE id = ?", id+1); got != want {
			t.Errorf("account %d holds %d, want %d", id+1, got, want)
		}
	}
}

// A repetition that does not do what the statement did, and one that SQLite refuses,
// end the batch; the writer goes on.
func TestRepeatThatFails(t *testing.T) {
	for name, spoil := range map[string][2]int64{"Differs": {0, 1}, "Refused": {-1000, 0}} {
		t.Run(name, func(t *testing.T) {
			w := openShared(t, writer.Options{})
			_, errs := batchOf(t, w, pay(1, 1), pay(2, 1), func(tx *writer.Tx) error {
				writer.SpoilLog(tx, spoil[0], spoil[1])
				return own(3)(tx)
			})
			for i, err := range errs {
				be, ok := errors.AsType[*writer.BatchError](err)
				if !ok || be.Op != "abort" || be.Culprit != (i == 2) || errors.Is(err, errOwn) != (i == 2) {
					t.Errorf("function %d: %v", i, err)
				}
			}
			if name == "Differs" && !strings.Contains(errs[0].Error(), "when it was repeated") {
				t.Errorf("the error does not tell why: %v", errs[0])
			}
			if err := w.Do(t.Context(), pay(4, 1)); err != nil {
				t.Error(err)
			}
			if got := number(t, w, "SELECT sum(balance) FROM account"); got != 401 {
				t.Errorf("the accounts hold %d, want 401", got)
			}
		})
	}
}

// A function that is interrupted for its time does not take the others' writes along.
func TestUndoAfterTxTimeout(t *testing.T) {
	w := openShared(t, writer.Options{TxTimeout: 20 * time.Millisecond})
	_, errs := batchOf(t, w, pay(1, 1), func(tx *writer.Tx) error {
		if err := update(tx, 2, 1); err != nil {
			return err
		}
		return tx.QueryRow("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT count(*) FROM n").Scan()
	}, func(tx *writer.Tx) error {
		cursor := tx.Stmt("SELECT id FROM account")
		if _, err := cursor.Step(); err != nil {
			return err
		}
		if err := update(tx, 3, 1); err != nil {
			return err
		}
		return tx.QueryRow("SELECT count(*) FROM n").Scan() // no such table
	}, pay(4, 1))
	if errs[0] != nil || !errors.Is(errs[1], writer.ErrTxTimeout) || errs[2] == nil || errs[3] != nil {
		t.Errorf("outcomes are %v", errs)
	}
	for id, want := range []int{101, 100, 100, 101} {
		if got := number(t, w, "SELECT balance FROM account WHERE id = ?", id+1); got != want {
			t.Errorf("account %d holds %d, want %d", id+1, got, want)
		}
	}
}
