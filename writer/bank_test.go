package writer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"
	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/writer"
)

const bankAccounts, bankBalance = 5, 100

// bank is a writer beside the model of what its database must hold.
type bank struct {
	t     *testing.T
	w     *writer.Writer
	path  string
	opt   writer.Options
	model map[int]int
}

// order is one transfer and how it is meant to end.
type order struct {
	from, to, amount int
	at               int    // the step before which it fails; 2 is the end
	how              string // "", "error", "panic", "Goexit", "handled"
}

func drawOrder(t *rapid.T) order {
	account := rapid.IntRange(1, bankAccounts)
	return order{
		from:   account.Draw(t, "from"),
		to:     account.Draw(t, "to"),
		amount: rapid.IntRange(1, bankBalance).Draw(t, "amount"),
		at:     rapid.IntRange(0, 2).Draw(t, "at"),
		how:    rapid.SampledFrom([]string{"", "", "", "error", "panic", "Goexit", "handled"}).Draw(t, "how"),
	}
}

// run is the order's function. When funds are short the CHECK on the balance
// fails its first UPDATE.
func (o order) run(tx *writer.Tx) error {
	for step, change := range []struct{ id, amount int }{{o.from, -o.amount}, {o.to, o.amount}} {
		if err := o.fail(tx, step); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE account SET balance = balance + ? WHERE id = ?", change.amount, change.id); err != nil {
			return err
		}
	}
	return o.fail(tx, 2)
}

func (o order) fail(tx *writer.Tx, step int) error {
	if step != o.at {
		return nil
	}
	switch o.how {
	case "error":
		return errOwn
	case "panic":
		panic(o)
	case "Goexit":
		runtime.Goexit()
	case "handled":
		// Of these rows some are updated before the statement fails: SQLite must
		// undo those, and only those.
		_, err := tx.Exec("UPDATE account SET balance = CASE id WHEN ? THEN -1 ELSE balance + 7 END", bankAccounts)
		if writer.Primary(err) != sqliteh.SQLITE_CONSTRAINT {
			return fmt.Errorf("want a failed constraint, got %w", err)
		}
	}
	return nil
}

// apply does to the model what o must do to the database, and checks o's outcome.
func (b *bank) apply(o order, err error) {
	short := b.model[o.from] < o.amount
	reached := !short || o.at == 0 // the failure on purpose comes before the CHECK's
	switch {
	case o.how == "error" && reached:
		if err != errOwn {
			b.t.Errorf("%+v: %v, want its own error", o, err)
		}
	case (o.how == "panic" || o.how == "Goexit") && reached:
		if !isPanic(err) {
			b.t.Errorf("%+v: %v, want a PanicError", o, err)
		}
	case short:
		if writer.Primary(err) != sqliteh.SQLITE_CONSTRAINT {
			b.t.Errorf("%+v with %d in the account: %v, want a failed constraint", o, b.model[o.from], err)
		}
	default:
		if err != nil {
			b.t.Errorf("%+v: %v, want nil", o, err)
		}
		b.model[o.from] -= o.amount
		b.model[o.to] += o.amount
	}
}

func (b *bank) open() {
	w, err := writer.Open(context.Background(), b.path, b.opt)
	if err != nil {
		b.t.Fatal(err)
	}
	b.w = w
}

func (b *bank) close() {
	if err := b.w.Close(); err != nil {
		b.t.Errorf("Close: %v", err)
	}
}

// check compares the database with the model.
func (b *bank) check(t *rapid.T) {
	if got := balances(b.t, b.w); !maps.Equal(got, b.model) {
		t.Fatalf("the database holds %v, the model %v", got, b.model)
	}
}

func (b *bank) one(t *rapid.T) {
	o := drawOrder(t)
	b.apply(o, b.w.Do(context.Background(), o.run))
}

// batch runs several orders in one transaction, in a known order.
func (b *bank) batch(t *rapid.T) {
	orders := rapid.SliceOfN(rapid.Custom(drawOrder), 1, 6).Draw(t, "orders")
	release := hold(b.t, b.w)
	l := line{t: b.t, w: b.w}
	for _, o := range orders {
		l.add(o.run)
	}
	release()
	for i, err := range l.wait() {
		b.apply(orders[i], err)
	}
}

// cancelled abandons an order among others.
func (b *bank) cancelled(t *rapid.T) {
	o, lost := drawOrder(t), drawOrder(t)
	release := hold(b.t, b.w)
	l := line{t: b.t, w: b.w}
	ctx, cancel := context.WithCancel(context.Background())
	l.addCtx(ctx, lost.run)
	l.add(o.run)
	cancel()
	if err := <-l.errs[0]; err != context.Canceled {
		b.t.Errorf("the abandoned order got %v", err)
	}
	release()
	b.apply(o, <-l.errs[1])
}

// exclusive runs an order in a transaction of its own making, or leaves it open.
func (b *bank) exclusive(t *rapid.T) {
	amount, open := rapid.IntRange(0, 10).Draw(t, "amount"), rapid.Bool().Draw(t, "left open")
	err := b.w.Exclusive(context.Background(), func(c *writer.Conn) error {
		for _, sql := range []string{"BEGIN", "UPDATE account SET balance = balance + ?"} {
			var args []any
			if sql != "BEGIN" {
				args = []any{amount}
			}
			if _, err := c.Exec(sql, args...); err != nil {
				return err
			}
		}
		if open {
			return nil
		}
		return second(c.Exec("COMMIT"))
	})
	switch {
	case open && !errors.Is(err, writer.ErrOpenTx):
		b.t.Errorf("a transaction left open gave %v", err)
	case !open && err != nil:
		b.t.Error(err)
	case !open:
		for id := range b.model {
			b.model[id] += amount
		}
	}
}

func (b *bank) checkpoint(t *rapid.T) {
	mode := rapid.SampledFrom([]sqliteh.Checkpoint{
		sqliteh.SQLITE_CHECKPOINT_PASSIVE, sqliteh.SQLITE_CHECKPOINT_FULL, sqliteh.SQLITE_CHECKPOINT_RESTART, sqliteh.SQLITE_CHECKPOINT_TRUNCATE,
	}).Draw(t, "mode")
	if err := b.w.Checkpoint(context.Background(), mode); err != nil {
		b.t.Error(err)
	}
}

// viewAcross holds a snapshot while an order commits.
func (b *bank) viewAcross(t *rapid.T) {
	o, before := drawOrder(t), maps.Clone(b.model)
	if err := b.w.View(context.Background(), func(rx *writer.Rx) error {
		var first, then int
		const sql = "SELECT balance FROM account WHERE id = ?"
		err := rx.QueryRow(sql, o.from).Scan(&first)
		b.apply(o, b.w.Do(context.Background(), o.run))
		err = errors.Join(err, rx.QueryRow(sql, o.from).Scan(&then))
		if first != before[o.from] || then != first {
			b.t.Errorf("a snapshot read %d and then %d, want %d", first, then, before[o.from])
		}
		return err
	}); err != nil {
		b.t.Error(err)
	}
}

// TestBank runs random histories against a model.
func TestBank(t *testing.T) {
	dir, runs := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		b := &bank{t: t, path: filepath.Join(dir, fmt.Sprint(runs, ".db")), model: make(map[int]int)}
		b.opt = writer.Options{
			MaxBatch:   rapid.SampledFrom([]int{1, 3, 100}).Draw(rt, "MaxBatch"),
			Savepoints: rapid.SampledFrom([]writer.Savepoints{writer.SavepointEach, writer.SavepointOnFailure}).Draw(rt, "Savepoints"),
			Checkpoint: writer.Checkpoint{Pages: rapid.SampledFrom([]int{1, 10, 1000}).Draw(rt, "Checkpoint.Pages")},
			Readers:    2,
			Pragmas:    noSync,
			Init:       createTables,
		}
		b.open()
		defer func() {
			b.close()
			checkFile(t, b.path)
		}()
		for id := 1; id <= bankAccounts; id++ {
			b.model[id] = bankBalance
			do(t, b.w, func(tx *writer.Tx) error {
				return second(tx.Exec("INSERT INTO account VALUES (?, ?)", id, bankBalance))
			})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"one":        b.one,
			"batch":      b.batch,
			"cancelled":  b.cancelled,
			"exclusive":  b.exclusive,
			"checkpoint": b.checkpoint,
			"viewAcross": b.viewAcross,
			"reopen":     func(*rapid.T) { b.close(); b.open() },
			"":           b.check,
		})
	})
}
