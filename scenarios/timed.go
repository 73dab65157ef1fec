package scenarios

import (
	"fmt"

	"github.com/tpssim/tpssim/engine"
)

// timed returns tx, or a tx that times each of its statements when that was asked
// for.
func (w *work) timed(tx engine.Tx) engine.Tx {
	if !w.Statements {
		return tx
	}
	return &timedTx{w: w, tx: tx}
}

// timedTx times the statements of one transaction. Their names say what they do
// and where in the transaction they stand.
type timedTx struct {
	w  *work
	tx engine.Tx
	n  int
}

// time returns the function that ends a statement that begins now.
func (t *timedTx) time(what string) func() {
	t.n++
	start := t.w.engine.Now()
	return func() { t.w.statements.Record(t.n, fmt.Sprintf("%d %s", t.n, what), t.w.engine.Now()-start) }
}

// Balance implements engine.Rx.
func (t *timedTx) Balance(id int64) (int64, error) {
	defer t.time("SELECT account")()
	return t.tx.Balance(id)
}

// Add implements engine.Tx.
func (t *timedTx) Add(id, delta int64) error {
	defer t.time("UPDATE account")()
	return t.tx.Add(id, delta)
}

// Swap implements engine.Tx.
func (t *timedTx) Swap(id, old, balance int64) (bool, error) {
	defer t.time("UPDATE account if unchanged")()
	return t.tx.Swap(id, old, balance)
}

// Record implements engine.Tx.
func (t *timedTx) Record(from, to, amount int64) error {
	defer t.time("INSERT transfer")()
	return t.tx.Record(from, to, amount)
}
