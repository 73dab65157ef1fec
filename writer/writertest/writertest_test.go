package writertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"
	"go.uber.org/goleak"

	"github.com/tpssim/tpssim/writer"
	"github.com/tpssim/tpssim/writer/writertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a testing.TB that notes failures instead of failing, and runs its
// cleanups when told.
type recorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) finish() []string {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r.failures
}

func TestBatchMeetsInOneBatchInOrder(t *testing.T) {
	w := writertest.Open(t)
	b := writertest.NewBank(t, w, 3, 100)
	before := w.Stats()
	own := errors.New("own")
	var order []int
	errs := writertest.Batch(t, w,
		func(tx *writer.Tx) error { order = append(order, 1); return writertest.Move(tx, 1, 2, 60) },
		func(tx *writer.Tx) error { order = append(order, 2); return writertest.Move(tx, 1, 3, 60) },
		func(tx *writer.Tx) error { order = append(order, 3); return own },
	)
	if errs[0] != nil || !errors.Is(errs[1], writertest.ErrFunds) || errs[2] != own {
		t.Errorf("got %v", errs)
	}
	if !slices.Equal(order, []int{1, 2, 3}) {
		t.Errorf("order %v", order)
	}
	if err := w.Exclusive(t.Context(), func(*writer.Conn) error { return nil }); err != nil { // the batch is counted
		t.Fatal(err)
	}
	if d := w.Stats().Sub(before); d.Batches != 1 || d.Transactions != 3 {
		t.Errorf("%d batches of %d transactions, want 1 of 3", d.Batches, d.Transactions)
	}
	if got, err := b.Balance(t.Context(), 1); got != 40 || err != nil {
		t.Errorf("account 1 holds %d (%v), want 40", got, err)
	}
	if got, err := b.Total(t.Context()); got != 300 || err != nil {
		t.Errorf("the total is %d (%v), want 300", got, err)
	}
}

func TestCleanupFindsLostMoney(t *testing.T) {
	r := &recorder{TB: t}
	b := writertest.NewBank(r, writertest.Open(r), 2, 100)
	if err := b.W.Do(t.Context(), func(tx *writer.Tx) error {
		_, err := tx.Exec("UPDATE account SET balance = balance - 1 WHERE id = 1")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := r.finish(); len(got) != 1 {
		t.Errorf("reported %q, want one failure", got)
	}
}

func TestCleanupFindsWhatIsLeft(t *testing.T) {
	r := &recorder{TB: t}
	path := filepath.Join(t.TempDir(), "test.db")
	w := writertest.OpenPath(r, path)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+"-lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.finish(); len(got) != 1 {
		t.Errorf("reported %q, want the lock file", got)
	}
}

func TestCleanupFindsCorruption(t *testing.T) {
	r := &recorder{TB: t}
	path := filepath.Join(t.TempDir(), "test.db")
	w := writertest.OpenPath(r, path)
	writertest.NewBank(t, w, 1000, 100)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := slices.Clone(whole)
	clear(broken[len(broken)-100:]) // the last cells of a leaf page
	if err := os.WriteFile(path, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.finish(); len(got) == 0 {
		t.Error("a page of zeros was not reported")
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCleanupRecoversAfterAnInjectedFailure lets COMMIT fail while the batch is
// in the file: it is there after recovery.
func TestCleanupRecoversAfterAnInjectedFailure(t *testing.T) {
	faults := &writertest.Faults{}
	path := filepath.Join(t.TempDir(), "test.db")
	r := &recorder{TB: t}
	b := writertest.NewBank(r, writertest.OpenPath(r, path, writer.Options{Open: faults.Open}), 2, 100)
	faults.Add(writertest.Rule{SQL: "COMMIT", Code: sqliteh.SQLITE_IOERR_FSYNC, Effect: writertest.Keep})
	err := b.Transfer(context.Background(), 1, 2, 10)
	if be, ok := errors.AsType[*writer.BatchError](err); !ok || !be.InDoubt {
		t.Fatalf("got %v, want a BatchError in doubt", err)
	}
	if got := r.finish(); len(got) != 0 {
		t.Errorf("reported %q", got)
	}
	w := writertest.OpenPath(t, path)
	if got, err := writertest.NewBank(t, w, 2, 100).Balance(t.Context(), 1); got != 90 || err != nil {
		t.Errorf("account 1 holds %d (%v), want 90", got, err)
	}
}
