// Package scenarios holds the named workloads: each is a few lines of application
// code over an engine's transaction, run by package tps and proved by package
// accounts.
package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/nearest"
	"github.com/tpssim/tpssim/tps"
)

// Scenario is a named workload.
type Scenario struct {
	Name    string
	Summary string // one line
	// Needs is what it asks of the engine whatever the user's settings.
	Needs engine.Needs
	// Direct runs on one goroutine, a batch at a time, nobody waiting for anybody.
	Direct bool
	// Reads is how many point reads each transaction's caller awaits after it.
	Reads int
	// Readers is how many read-only connections it wants when the user does not say;
	// 0: the writer's default.
	Readers int
	// Retries tells that it tries again when another transaction was faster.
	Retries bool
	// ThinksOutside tells that it thinks before it asks for the writer, and so does
	// not hold it meanwhile.
	ThinksOutside bool
	// Fills tells that it fills a table of its own, which is empty before each round;
	// others that have one read what was inserted before.
	Fills bool
	// op is one transaction as its caller sees it.
	op func(w *work, i uint64, tr *tps.Trace) error
	// body is what of it runs inside the database's transaction.
	body func(w *work, tx engine.Tx, i uint64, t accounts.Transfer, amount int64) error
	// table is so many transactions on a table of its own, or one that inserts so many
	// entries.
	table func(t *tableRun, ctx context.Context, first uint64, errs []error) error
}

// Touches tells whether its transactions can be read ahead, by an engine.Toucher: they
// wait in a queue, and what they change is known before.
func (s Scenario) Touches() bool {
	return s.body != nil && !s.Direct && s.Needs.Access != engine.Pooled
}

// Default is the scenario that runs when none is named.
const Default = "savepoint"

// All lists the scenarios.
var All = []Scenario{
	{
		Name:    "savepoint",
		Summary: "transfers through the batching writer, each in a savepoint of its own",
		body:    transfer,
	}, {
		Name:    "batch",
		Summary: "the same without savepoints: one failure fails its whole batch",
		Needs:   engine.Needs{Savepoints: "none"},
		body:    transfer,
	}, {
		Name:    "unbatched",
		Summary: "the same with a COMMIT for each transaction",
		Needs:   engine.Needs{MaxBatch: 1, Savepoints: "none"},
		body:    transfer,
	}, {
		Name:    "direct",
		Summary: "the same transfers on one goroutine without a queue, --max-batch to a COMMIT",
		Direct:  true,
		body:    transfer,
	}, {
		Name:    "mixed",
		Summary: "each transfer is followed by three awaited point reads on the read-only pool",
		Reads:   3,
		body:    transfer,
	}, {
		Name:    "ledger",
		Summary: "each transfer also inserts a row into the transfer table",
		body:    ledger,
	}, {
		Name:    "funds",
		Summary: "reads the balance first and refuses when funds are short, which one in ten is",
		body:    funds,
	}, {
		Name:    "pool",
		Summary: "connections that fight for the lock: busy_timeout, BEGIN IMMEDIATE, a COMMIT each",
		Needs:   engine.Needs{Access: engine.Pooled},
		body:    transfer,
	}, {
		Name:    "optimistic",
		Summary: "reads on the read-only pool, thinks there, and submits a compare-and-set; loses and tries again",
		// One reader lets no more through than the writer takes: who has to wait then
		// waits before its reads, not behind them, where what it read grows old.
		Readers:       1,
		Retries:       true,
		ThinksOutside: true,
		op:            optimistic,
	}, {
		Name:    "insert",
		Summary: "fills a fresh table on one goroutine, --max-batch entries to a COMMIT",
		Direct:  true,
		Fills:   true,
		table:   insertOp,
	}, {
		Name:    "points",
		Summary: "reads single entries of a fresh table of --rows by their key, on one goroutine",
		Needs:   engine.Needs{MaxBatch: 1},
		Direct:  true,
		table:   pointOp,
	}, {
		Name:    "scan",
		Summary: "reads all entries of a fresh table of --rows each time, on one goroutine",
		Needs:   engine.Needs{MaxBatch: 1},
		Direct:  true,
		table:   scanOp,
	},
}

// Scripted is the scenario of Config.Scripts. It is not in All, as it is nothing
// without them.
var Scripted = Scenario{
	Name:    "script",
	Summary: "scripts that users write, through the batching writer",
	op:      scripted,
}

// Find returns the scenario called name. The error names the nearest one.
func Find(name string) (Scenario, error) {
	var names []string
	for _, s := range All {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	hint := ""
	if meant := nearest.Word(strings.ToLower(name), max(2, len(name)/2), names); meant != "" {
		hint = fmt.Sprintf(": did you mean %q?", meant)
	}
	return Scenario{}, fmt.Errorf("unknown scenario %q%s (tpssim scenarios lists them)", name, hint)
}

// Errors that the application code of a scenario returns.
var (
	// ErrApplication is what --fail-rate makes application code return.
	ErrApplication = errors.New("scenarios: the application code failed, as --fail-rate asked")
	// ErrFunds is the refusal of the scenario funds.
	ErrFunds = errors.New("scenarios: funds are short")
	// ErrGaveUp means that a transaction of the scenario optimistic lost as often as
	// --max-tries allows.
	ErrGaveUp = errors.New("scenarios: other transactions were faster each time")
)

// transfer moves money between two accounts, with application code in between.
func transfer(w *work, tx engine.Tx, i uint64, t accounts.Transfer, amount int64) error {
	if err := tx.Add(t.From, -amount); err != nil {
		return err
	}
	if err := w.think(); err != nil {
		return err
	}
	if err := w.fail(i); err != nil {
		return err
	}
	return tx.Add(t.To, amount)
}

// ledger is transfer with a record of it.
func ledger(w *work, tx engine.Tx, i uint64, t accounts.Transfer, amount int64) error {
	if err := transfer(w, tx, i, t, amount); err != nil {
		return err
	}
	return tx.Record(t.From, t.To, amount)
}

// shortEvery is how many transfers of funds there are for each that asks for more
// than its account holds.
const shortEvery = 10

// funds is transfer behind a look at the balance. Every tenth asks for more than
// the account holds and is refused.
func funds(w *work, tx engine.Tx, i uint64, t accounts.Transfer, amount int64) error {
	balance, err := tx.Balance(t.From)
	if err != nil {
		return err
	}
	asked := amount
	if i%shortEvery == 0 {
		asked += max(balance, 0)
	}
	if asked > balance {
		return ErrFunds
	}
	return transfer(w, tx, i, t, amount)
}
