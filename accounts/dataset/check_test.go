package dataset

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// wide has rows that spread over many pages, and room for a flipped byte.
var wide = accounts.Spec{Rows: 4000, Balance: 1_000_000, Schema: accounts.SchemaRowid, Payload: 100, Indexes: 1, PageSize: 4096}

func TestCheckFinds(t *testing.T) {
	for _, test := range []struct {
		name string
		harm []string // statements
		says string   // in one of the problems
	}{
		{"nothing", nil, ""},
		{"a transfer", []string{"UPDATE account SET balance = balance + CASE id WHEN 7 THEN 3 ELSE -3 END WHERE id IN (7, 8)"}, ""},
		{"a ledger", []string{"INSERT INTO transfer VALUES(1, 2, 3, 4)"}, ""},
		{"money", []string{"UPDATE account SET balance = balance + 1 WHERE id = 7"}, "off by 1"},
		{"a missing row", []string{"DELETE FROM account WHERE id = 7"}, "3999 with ids 1 to 4000"},
		{"a row too many", []string{"INSERT INTO account VALUES(4001, 0, 0, x'')"}, "4001 with ids 1 to 4001"},
		{"a moved row", []string{"UPDATE account SET id = 0 WHERE id = 7"}, "ids 0 to 4000"},
		{"text for money", []string{"UPDATE account SET balance = 'much' WHERE id = 7"}, "1 with an id or balance that is not a whole number"},
		{"money without end", []string{"UPDATE account SET balance = 9223372036854775807 WHERE id < 3"}, "integer overflow"},
		{"a wrong key", []string{"UPDATE account SET k1 = k1 + 1 WHERE id = 7"}, "1 with a wrong value in k1"},
		{"a wrong payload", []string{"UPDATE account SET payload = x'00' WHERE id < 7"}, "6 with a wrong payload"},
		{"a dropped index", []string{"DROP INDEX account_k1"}, "account_k1 is missing"},
		{"another index", []string{"CREATE INDEX mine ON account(balance)"}, "mine does not belong"},
		{"another table", []string{"CREATE TABLE mine(x)"}, "mine does not belong"},
		{"another column", []string{"ALTER TABLE account ADD COLUMN x"}, "account is missing or changed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := place(t)
			mustSeed(t, path, wide)
			if test.harm != nil {
				change(t, path, test.harm...)
			}
			report, err := Check(t.Context(), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(report.Problems, func(p string) bool { return strings.Contains(p, test.says) })
			if report.OK() != (test.says == "") || !report.OK() && !found {
				t.Errorf("problems %q, want %q", report.Problems, test.says)
			}
		})
	}
}

// Every byte that says something is seen when it changes: the bytes at the
// places below are a tree's pointers, a row's length, its balance, its payload.
func TestCheckFindsAFlippedByte(t *testing.T) {
	whole := place(t)
	mustSeed(t, whole, wide)
	clean, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	page := wide.PageSize
	leaf := 40 * page // some leaf of the table
	if clean[leaf] != 13 {
		t.Fatalf("page 41 is of type %d, not a table's leaf", clean[leaf])
	}
	places := map[string]int{"page type": leaf, "cell count": leaf + 4, "cell pointer": leaf + 8}
	for _, back := range []int{1, 50, 100, 103, 104, 105, 106, 107, 108} {
		places[strings.Repeat("-", back)] = leaf + page - back // the page's first cell is at its end
	}
	for name, at := range places {
		path := place(t)
		harmed := slices.Clone(clean)
		harmed[at] ^= 0x10
		write(t, path, string(harmed))
		report, err := Check(t.Context(), path, Options{})
		if err == nil && report.OK() || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s (byte %d): report %+v, error %v", name, at, report, err)
		}
		if len(report.Problems) > maxProblems {
			t.Errorf("%d problems", len(report.Problems))
		}
	}
}

// What a process that died had committed to the -wal counts, and the -wal is
// gone afterwards.
func TestHotWAL(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(path string) error{
		"inspect": func(path string) error { _, err := Inspect(path); return err },
		"check": func(path string) error {
			report, err := Check(t.Context(), path, Options{})
			if !report.OK() {
				t.Errorf("problems %q", report.Problems)
			}
			return err
		},
		"seed": func(path string) error { _, err := Seed(t.Context(), path, wide, Options{}); return err },
	} {
		path := place(t)
		mustSeed(t, path, wide)
		if err := startChild(t, "crash", path).Wait(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
			t.Fatalf("the child left no -wal: %v", err)
		}
		if err := look(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c, err := sqlconn.Open(nil, path, sqlconn.Immutable)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Integer("SELECT balance FROM account WHERE id = 2"); err != nil || n != wide.Balance+5 {
			t.Errorf("%s: balance %d, error %v", name, n, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckStopsAndTells(t *testing.T) {
	path := place(t)
	mustSeed(t, path, wide)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	// The statements may be through before the interrupt reaches them, as on
	// any small file; then the report is whole.
	report, err := Check(stopped, path, Options{})
	if err != nil && !errors.Is(err, context.Canceled) || err == nil && report.Rows != wide.Rows {
		t.Errorf("report %+v, error %v", report, err)
	}
	last, end := int64(-1), int64(-1)
	report, err = Check(t.Context(), path, Options{Progress: func(done, total int64) {
		if done < last || done > total {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last, end = done, total
	}})
	if err != nil || !report.OK() || last != end || last < 0 {
		t.Errorf("report %+v, error %v, progress %d of %d", report, err, last, end)
	}
}
