package writertest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

// A test of your own code: it gets a database that is checked at the end, and
// makes COMMIT fail to see what the code does then.
func Example() {
	_ = func(t *testing.T) { // func TestTransferIsRetried(t *testing.T) {
		faults := &writertest.Faults{}
		w := writertest.Open(t, writer.Options{Open: faults.Open})
		bank := writertest.NewBank(t, w, 10, 1000)

		faults.Add(writertest.Rule{SQL: "BEGIN", Code: sqliteh.SQLITE_BUSY})
		err := bank.Transfer(context.Background(), 1, 2, 10)
		if batch, ok := errors.AsType[*writer.BatchError](err); !ok || batch.Op != "begin" {
			t.Errorf("the first try: %v", err)
		}
		if err := bank.Transfer(context.Background(), 1, 2, 10); err != nil {
			t.Errorf("the second try: %v", err)
		}
	}
}

// Functions that meet in one batch: the second one's failure leaves the first
// alone.
func ExampleBatch() {
	_ = func(t *testing.T) { // func TestMates(t *testing.T) {
		w := writertest.Open(t)
		writertest.NewBank(t, w, 2, 100)
		errs := writertest.Batch(t, w,
			func(tx *writer.Tx) error { return writertest.Move(tx, 1, 2, 100) },
			func(tx *writer.Tx) error { return writertest.Move(tx, 1, 2, 100) },
		)
		if errs[0] != nil || !errors.Is(errs[1], writertest.ErrFunds) {
			t.Errorf("got %v", errs)
		}
	}
}
