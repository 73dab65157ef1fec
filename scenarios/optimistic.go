package scenarios

import (
	"errors"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/tps"
)

// errLost means that an account no longer held what had been read.
var errLost = errors.New("scenarios: another transaction was faster")

// optimistic is a transfer that holds nothing while it thinks: it reads both
// balances in one read transaction, thinks, and then asks the writer to put the new
// balances in place of the old ones. Every value that the decision rests on is
// compared, so it does not matter whether an account changed and changed back
// meanwhile: the decision would be the same. Who loses reads again and tries again.
func optimistic(w *work, i uint64, tr *tps.Trace) error {
	for try := 1; ; try++ {
		c := &call{w: w, i: i, intended: tr.Intended}
		err := c.outcome(c.compareAndSet(tr))
		switch {
		case try > 1 && errors.Is(err, tps.ErrSkipped): // it was begun, and is late for another try
			return ErrGaveUp
		case !errors.Is(err, errLost):
			return err
		case try >= w.MaxTries:
			return ErrGaveUp
		}
		tr.Retry(w.engine.Now())
	}
}

// compareAndSet is one attempt.
func (c *call) compareAndSet(tr *tps.Trace) error {
	w := c.w
	_, t, amount := w.pool.At(c.i)
	var from, to int64
	start := w.engine.Now()
	err := w.engine.View(w.endless, func(rx engine.Rx) (err error) {
		if from, err = rx.Balance(t.From); err == nil {
			to, err = rx.Balance(t.To)
		}
		return err
	})
	if err != nil {
		return err
	}
	read := w.engine.Now()
	tr.Read(read - start)
	if err := w.think(); err != nil {
		return err
	}
	if w.Think > 0 {
		thought := w.engine.Now() - read
		tr.Think(thought)
		c.intended += thought // which was meant to pass
	}
	if t.From == t.To { // the second statement meets what the first has left
		to = from - amount
	}
	return w.engine.Update(w.endless, (*engine.Timing)(&tr.Timing), func(tx engine.Tx) error {
		return c.run(func() error {
			tx := w.timed(tx)
			if err := swap(tx, t.From, from, from-amount); err != nil {
				return err
			}
			if err := w.fail(c.i); err != nil {
				return err
			}
			return swap(tx, t.To, to, to+amount)
		})
	})
}

// swap puts balance in the place of old, or returns errLost.
func swap(tx engine.Tx, id, old, balance int64) error {
	swapped, err := tx.Swap(id, old, balance)
	if err == nil && !swapped {
		err = errLost
	}
	return err
}
