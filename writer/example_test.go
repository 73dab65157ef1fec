package writer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/tpssim/tpssim/writer"
)

// exampleDB returns the path of a database in a folder that remove deletes.
func exampleDB() (path string, remove func()) {
	dir, err := os.MkdirTemp("", "writer")
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "bank.db"), func() { os.RemoveAll(dir) }
}

// schema is the Init of the examples.
func schema(c *writer.Conn) error {
	for _, sql := range []string{
		"CREATE TABLE IF NOT EXISTS account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)",
		"INSERT OR IGNORE INTO account(id, balance) VALUES (1, 1000), (2, 1000)",
	} {
		if _, err := c.Exec(sql); err != nil {
			return err
		}
	}
	return nil
}

// exampleWriter opens a writer on a database of its own.
func exampleWriter() (w *writer.Writer, done func()) {
	path, remove := exampleDB()
	w, err := writer.Open(context.Background(), path, writer.Options{Init: schema})
	if err != nil {
		log.Fatal(err)
	}
	return w, func() {
		if err := w.Close(); err != nil {
			log.Print(err)
		}
		remove()
	}
}

// A thousand goroutines transfer money at once and share a few commits.
func Example() {
	path, remove := exampleDB()
	defer remove()
	ctx := context.Background()
	w, err := writer.Open(ctx, path, writer.Options{Init: schema})
	if err != nil {
		log.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			err := w.Do(ctx, func(tx *writer.Tx) error {
				if _, err := tx.Exec("UPDATE account SET balance = balance - ? WHERE id = ?", 1, 1); err != nil {
					return err
				}
				_, err := tx.Exec("UPDATE account SET balance = balance + ? WHERE id = ?", 1, 2)
				return err
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	wg.Wait()
	err = w.View(ctx, func(rx *writer.Rx) error {
		for row, err := range rx.Query("SELECT id, balance FROM account ORDER BY id") {
			var id, balance int
			if err := errors.Join(err, row.Scan(&id, &balance)); err != nil {
				return err
			}
			fmt.Println(id, balance)
		}
		return nil
	})
	if err := errors.Join(err, w.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 0
	// 2 2000
}

// A function may return a value as well as an error.
func ExampleValue() {
	w, done := exampleWriter()
	defer done()
	id, err := writer.Value(context.Background(), w, func(tx *writer.Tx) (int64, error) {
		_, err := tx.Exec("INSERT INTO account(balance) VALUES (?)", 50)
		return tx.LastInsertID(), err
	})
	fmt.Println(id, err)
	// Output: 3 <nil>
}

func ExampleWriter_View() {
	w, done := exampleWriter()
	defer done()
	var total int64
	err := w.View(context.Background(), func(rx *writer.Rx) error {
		return rx.QueryRow("SELECT sum(balance) FROM account").Scan(&total)
	})
	fmt.Println(total, err)
	// Output: 2000 <nil>
}

// A function's own error comes back as it is, and undoes its changes alone.
func ExampleWriter_Do() {
	w, done := exampleWriter()
	defer done()
	errShort := errors.New("funds are short")
	err := w.Do(context.Background(), func(tx *writer.Tx) error {
		if _, err := tx.Exec("UPDATE account SET balance = balance - 5000 WHERE id = 1"); err != nil {
			return err
		}
		var left int64
		if err := tx.QueryRow("SELECT balance FROM account WHERE id = 1").Scan(&left); err != nil {
			return err
		}
		if left < 0 {
			return errShort
		}
		return nil
	})
	fmt.Println(err == errShort)
	// Output: true
}

// The hot path: no allocation for a statement, and no conversion of arguments.
func ExampleStmt() {
	w, done := exampleWriter()
	defer done()
	err := w.Do(context.Background(), func(tx *writer.Tx) error {
		const update = "UPDATE account SET balance = balance + ? WHERE id = ?"
		if _, err := tx.Stmt(update).BindInt64(1, -10).BindInt64(2, 1).Exec(); err != nil {
			return err
		}
		changed, err := tx.Stmt(update).BindInt64(1, 10).BindInt64(2, 2).Exec()
		if err != nil {
			return err
		}
		s := tx.Stmt("SELECT balance FROM account WHERE id = ?").BindInt64(1, 2)
		if _, err := s.Step(); err != nil {
			return err
		}
		fmt.Println(changed, s.Int64(0))
		return nil
	})
	if err != nil {
		log.Print(err)
	}
	// Output: 1 1010
}

// A migration runs between two batches, in a transaction of its own making.
func ExampleWriter_Exclusive() {
	w, done := exampleWriter()
	defer done()
	err := w.Exclusive(context.Background(), func(c *writer.Conn) error {
		for _, sql := range []string{
			"BEGIN",
			"ALTER TABLE account ADD COLUMN owner TEXT",
			"PRAGMA user_version = 2",
			"COMMIT",
			"VACUUM",
		} {
			if _, err := c.Exec(sql); err != nil {
				return err // a transaction that is still open is rolled back
			}
		}
		return nil
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleWriter_Backup() {
	w, done := exampleWriter()
	defer done()
	dst, remove := exampleDB()
	defer remove()
	fmt.Println(w.Backup(context.Background(), dst))
	c, err := writer.Open(context.Background(), dst, writer.Options{NoCreate: true})
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(c.Close())
	// Output:
	// <nil>
	// <nil>
}

// Two readings and their difference give the figures of an interval.
func ExampleWriter_Stats() {
	w, done := exampleWriter()
	defer done()
	before := w.Stats()
	for range 3 {
		if err := w.Do(context.Background(), func(tx *writer.Tx) error {
			_, err := tx.Exec("UPDATE account SET balance = balance + 1")
			return err
		}); err != nil {
			log.Print(err)
		}
	}
	// A batch is counted after its callers were woken; what Exclusive runs comes
	// later.
	if err := w.Exclusive(context.Background(), func(*writer.Conn) error { return nil }); err != nil {
		log.Print(err)
	}
	s := w.Stats().Sub(before)
	fmt.Println(s.Transactions, "transactions in", s.Commits, "commits; largest batch", s.BatchSizes.Quantile(1))
	// Output: 3 transactions in 3 commits; largest batch 1
}

// What to do about a batch that failed as a whole: try again, unless it was this
// function's doing or nobody knows whether it was committed.
func ExampleBatchError() {
	w, done := exampleWriter()
	defer done()
	transfer := func(tx *writer.Tx) error {
		_, err := tx.Exec("UPDATE account SET balance = balance + 1 WHERE id = 1")
		return err
	}
	var err error
	for range 3 {
		err = w.Do(context.Background(), transfer)
		batch, failed := errors.AsType[*writer.BatchError](err)
		if !failed || batch.Culprit || batch.InDoubt {
			break
		}
	}
	fmt.Println(err)
	// Output: <nil>
}
