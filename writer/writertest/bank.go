package writertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
)

// ErrFunds is returned by [Move] when the paying account holds less than the
// amount.
var ErrFunds = errors.New("writertest: insufficient funds")

// Bank is a table account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL) with
// ids from 1, whose total no transfer may change.
type Bank struct {
	W        *writer.Writer
	Accounts int64
	Sum      int64 // what all balances must add up to
}

// NewBank makes accounts with the given balance each in w's database; those that
// it holds already stay as they are. When t ends it closes w, and fails t unless
// the balances in the file add up to accounts x balance.
func NewBank(t testing.TB, w *writer.Writer, accounts, balance int64) *Bank {
	t.Helper()
	b := &Bank{W: w, Accounts: accounts, Sum: accounts * balance}
	var path string
	err := w.Exclusive(context.Background(), func(c *writer.Conn) error {
		if _, err := c.Exec("CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)"); err != nil {
			return err
		}
		_, err := c.Exec(`WITH RECURSIVE ids(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < ?)
			INSERT OR IGNORE INTO account SELECT id, ? FROM ids`, accounts, balance)
		if err != nil {
			return err
		}
		return c.QueryRow("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path)
	})
	if err != nil {
		t.Fatalf("writertest.NewBank: %v", err)
	}
	t.Cleanup(func() {
		w.Close() // Open's cleanup reports the error, which is the same each time
		CheckBank(t, path, b.Sum)
	})
	return b
}

// CheckBank fails t unless the balances in the database at path add up to sum. No
// Writer may have it open.
func CheckBank(t testing.TB, path string, sum int64) {
	t.Helper()
	withDB(t, path, func(db sqliteh.DB) {
		if got := rows(t, db, "SELECT sum(balance) FROM account")[0]; got != strconv.FormatInt(sum, 10) {
			t.Errorf("writertest: the balances in %s add up to %s, want %d: money was made or lost", path, got, sum)
		}
	})
}

// Move moves amount between two accounts inside a transaction. It returns
// ErrFunds, after the first of its two updates, when that leaves the payer below
// zero: only the caller's savepoint can undo it.
func Move(tx *writer.Tx, from, to, amount int64) error {
	const update = "UPDATE account SET balance = balance + ?1 WHERE id = ?2"
	for _, side := range []struct{ id, change int64 }{{from, -amount}, {to, amount}} {
		switch n, err := tx.Exec(update, side.change, side.id); {
		case err != nil:
			return err
		case n != 1:
			return fmt.Errorf("writertest.Move: account %d does not exist", side.id)
		case side.change > 0:
			continue
		}
		var left int64
		if err := tx.QueryRow("SELECT balance FROM account WHERE id = ?", side.id).Scan(&left); err != nil {
			return err
		}
		if left < 0 {
			return ErrFunds
		}
	}
	return nil
}

// Transfer runs [Move] in a transaction of its own.
func (b *Bank) Transfer(ctx context.Context, from, to, amount int64) error {
	return b.W.Do(ctx, func(tx *writer.Tx) error { return Move(tx, from, to, amount) })
}

// Balance returns an account's committed balance.
func (b *Bank) Balance(ctx context.Context, id int64) (balance int64, err error) {
	err = b.W.View(ctx, func(rx *writer.Rx) error {
		return rx.QueryRow("SELECT balance FROM account WHERE id = ?", id).Scan(&balance)
	})
	return balance, err
}

// Total returns the sum of all committed balances.
func (b *Bank) Total(ctx context.Context) (total int64, err error) {
	err = b.W.View(ctx, func(rx *writer.Rx) error {
		return rx.QueryRow("SELECT sum(balance) FROM account").Scan(&total)
	})
	return total, err
}
