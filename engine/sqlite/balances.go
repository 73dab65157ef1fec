package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

const (
	// parallelReads is the number of connections that read balances together:
	// accounts that are not in memory cost a random read each, and a disk answers
	// many at once in hardly more time than one.
	parallelReads = 16
	// chunkAccounts is what one of them takes at a time.
	chunkAccounts = 10_000
	// scanGap is how far apart two ids may lie for the rows between them to be
	// read along: stepping over a few rows costs less than a new lookup.
	scanGap = 4
)

// Balances implements engine.Engine. ids ascend, so that each connection reads
// its pages in order, and neighbours in one scan. Nobody may write meanwhile.
func (f *file) Balances(ctx context.Context, ids, balances []int64, progress func(done int)) error {
	chunks := (len(ids) + chunkAccounts - 1) / chunkAccounts
	var next, done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(parallelReads, chunks) {
		group.Go(func() error {
			r, err := f.newBalanceReader()
			if err != nil {
				return err
			}
			for {
				from := int(next.Add(1)-1) * chunkAccounts
				if from >= len(ids) || ctx.Err() != nil {
					return errors.Join(ctx.Err(), r.close())
				}
				to := min(from+chunkAccounts, len(ids))
				if err := r.read(ids[from:to], balances[from:to]); err != nil {
					return errors.Join(err, r.close())
				}
				if n := done.Add(int64(to - from)); progress != nil {
					progress(int(n))
				}
			}
		})
	}
	return group.Wait()
}

// balanceReader is a read-only connection with the query for balances.
type balanceReader struct {
	conn  *sqlconn.Conn
	query sqliteh.Stmt
}

func (f *file) newBalanceReader() (*balanceReader, error) {
	c, err := sqlconn.Open(f.connect, f.path, sqlconn.ReadOnly)
	if err != nil {
		return nil, err
	}
	query, err := c.Prepare("SELECT id, balance FROM account WHERE id BETWEEN ?1 AND ?2 ORDER BY id")
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &balanceReader{c, query}, nil
}

func (r *balanceReader) close() error {
	r.query.Finalize() // repeats the last step's error, which was returned
	return r.conn.Close()
}

// read reads the accounts ids.
func (r *balanceReader) read(ids, balances []int64) error {
	for i := 0; i < len(ids); {
		end := i + 1
		for end < len(ids) && ids[end]-ids[end-1] <= scanGap {
			end++
		}
		if err := r.scan(ids[i:end], balances[i:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// scan reads ids with one query from the first to the last of them.
func (r *balanceReader) scan(ids, balances []int64) error {
	defer r.query.ResetAndClear()
	r.query.BindInt64(1, ids[0])
	r.query.BindInt64(2, ids[len(ids)-1])
	for next := 0; next < len(ids); {
		row, err := r.query.Step(nil)
		if err != nil {
			return sqlconn.Wrap(r.conn.DB, err)
		}
		if !row || r.query.ColumnInt64(0) > ids[next] {
			return fmt.Errorf("account %d is not there: %w; look at the data set with tpssim check", ids[next], engine.ErrNoAccount)
		}
		if r.query.ColumnInt64(0) == ids[next] {
			balances[next] = r.query.ColumnInt64(1)
			next++
		}
	}
	return nil
}
