package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// rowid returns a Spec that Pages can make.
func rowid(rows, balance int64, payload, pageSize int) accounts.Spec {
	return accounts.Spec{Rows: rows, Balance: balance, Schema: accounts.SchemaRowid, Payload: payload, PageSize: pageSize}
}

// onlyHas checks that a folder holds these files and nothing else.
func onlyHas(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}

// sameByBothMethods makes a data set by pages and by SQL and compares what can be
// compared.
func sameByBothMethods(dir string, spec accounts.Spec) error {
	byPages, bySQL := filepath.Join(dir, "pages.DB"), filepath.Join(dir, "sql.DB")
	defer os.Remove(byPages)
	defer os.Remove(bySQL)
	for path, method := range map[string]Method{byPages: Pages, bySQL: SQL} {
		report, err := Seed(context.Background(), path, spec, Options{Method: method})
		if err != nil {
			return err
		}
		want := Report{Path: path, Rows: spec.Rows, Inserted: spec.Rows, Complete: true, Method: method, Elapsed: report.Elapsed, Bytes: report.Bytes}
		info, err := Inspect(path)
		if err != nil || report != want || info.Spec != spec || info.Seeded != spec.Rows || !info.Complete || info.Bytes() != report.Bytes {
			return fmt.Errorf("%s: report %+v, info %+v, error %v", method, report, info, err)
		}
		checked, err := Check(context.Background(), path, Options{})
		if err != nil || !checked.OK() || checked.Total != spec.Rows*spec.Balance {
			return fmt.Errorf("%s: check %+v, error %v", method, checked, err)
		}
	}
	if err := sameRows(byPages, bySQL, spec); err != nil {
		return err
	}
	return samePages(byPages, bySQL, spec)
}

// sameRows compares every table of two data sets in both directions: the accounts
// by their ids, as that is fast, and that one has no more than the other.
func sameRows(a, b string, spec accounts.Spec) (err error) {
	c, err := sqlconn.Open(nil, a, sqlconn.Existing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if mode, err := c.Text("PRAGMA journal_mode"); err != nil || mode != "wal" {
		return fmt.Errorf("journal mode %q, error %v", mode, err)
	}
	if err := c.Exec("ATTACH ?1 AS other", b); err != nil {
		return err
	}
	differs := "there.id IS NULL OR typeof(here.balance) <> typeof(there.balance) OR here.balance <> there.balance"
	if spec.Payload > 0 {
		differs += " OR typeof(here.payload) <> typeof(there.payload) OR here.payload <> there.payload"
	}
	for _, query := range []string{
		"SELECT count(*) FROM main.account here LEFT JOIN other.account there USING(id) WHERE " + differs,
		"SELECT (SELECT count(*) FROM main.account) - (SELECT count(*) FROM other.account)",
	} {
		if n, err := c.Integer(query); err != nil || n != 0 {
			return fmt.Errorf("%s: %d, error %v", query, n, err)
		}
	}
	for _, rows := range []string{
		"SELECT * FROM %s.transfer",
		"SELECT key, value, typeof(value) FROM %s.tpssim",
		"SELECT type, name, tbl_name, sql FROM %s.sqlite_schema",
	} {
		here, there := fmt.Sprintf(rows, "main"), fmt.Sprintf(rows, "other")
		for _, query := range []string{here + " EXCEPT " + there, there + " EXCEPT " + here} {
			if n, err := c.Integer("SELECT count(*) FROM (" + query + ")"); err != nil || n != 0 {
				return fmt.Errorf("%d rows of %s, error %v", n, query, err)
			}
		}
	}
	return nil
}

// samePages compares the headers of two data sets but for what counts pages and
// commits, and, as long as no page number is in them, the leaves of the accounts.
func samePages(a, b string, spec accounts.Spec) error {
	var leaves [2][][]byte
	var headers [2][]byte
	spills := false
	for i, path := range []string{a, b} {
		c, err := sqlconn.Open(nil, path, sqlconn.Immutable)
		if err != nil {
			return err
		}
		root, err := c.Integer("SELECT rootpage FROM sqlite_schema WHERE name = 'account'")
		if err := errors.Join(err, c.Close()); err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		headers[i] = bytes.Clone(content[:100])
		for _, counted := range [][2]int{{24, 32}, {92, 96}} {
			clear(headers[i][counted[0]:counted[1]])
		}
		leaves[i] = leavesBelow(content, root, int64(spec.PageSize))
		spills = spec.RowBytes(1) < spec.Payload
	}
	if !bytes.Equal(headers[0], headers[1]) {
		return fmt.Errorf("header %x by pages, %x by SQL", headers[0], headers[1])
	}
	if n := len(leaves[0]); n != len(leaves[1]) || int64(n) != spec.LeafPages() {
		return fmt.Errorf("%d leaves by pages, %d by SQL, %d by the forecast", n, len(leaves[1]), spec.LeafPages())
	}
	for i := range leaves[0] {
		if !spills && !bytes.Equal(leaves[0][i], leaves[1][i]) {
			return fmt.Errorf("leaf %d: %x by pages, %x by SQL", i, leaves[0][i], leaves[1][i])
		}
	}
	return nil
}

// leavesBelow returns the leaves of a tree in the order of their ids.
func leavesBelow(content []byte, n, size int64) [][]byte {
	page := content[(n-1)*size : n*size]
	if page[0] == 13 {
		return [][]byte{page}
	}
	var leaves [][]byte
	for i := range int(binary.BigEndian.Uint16(page[3:])) {
		cell := page[binary.BigEndian.Uint16(page[12+2*i:]):]
		leaves = append(leaves, leavesBelow(content, int64(binary.BigEndian.Uint32(cell)), size)...)
	}
	return append(leaves, leavesBelow(content, int64(binary.BigEndian.Uint32(page[8:])), size)...)
}

func TestPagesAndSQLMakeTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	defer onlyHas(t, dir)
	rapid.Check(t, func(t *rapid.T) {
		spec := rowid(1, 0, 0, 512<<rapid.IntRange(0, 7).Draw(t, "page"))
		spec.Payload = rapid.OneOf(
			rapid.Just(0),
			rapid.IntRange(1, 300),
			rapid.IntRange(spec.PageSize-60, spec.PageSize+20), // where a row begins to spill
			rapid.IntRange(1, 3*spec.PageSize),
		).Draw(t, "payload")
		spec.Rows = rapid.Int64Range(1, int64(1<<20/(spec.Payload+20))).Draw(t, "rows")
		balance := rapid.OneOf(
			rapid.SampledFrom([]int64{0, 1, 127, 128, 1<<15 - 1, 1 << 15, 1<<23 - 1, 1 << 23, 1<<31 - 1, 1 << 31, 1<<47 - 1, 1 << 47}),
			rapid.Int64Range(0, accounts.MaxTotalBalance),
		).Draw(t, "balance")
		spec.Balance = min(balance, accounts.MaxTotalBalance/spec.Rows)
		if err := sameByBothMethods(dir, spec); err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
	})
}

// The same where a leaf, a level, or a varint has just become too small.
func TestPagesAndSQLAtBoundaries(t *testing.T) {
	specs := []accounts.Spec{
		// A row a leaf: 63 children are a full page of 512 bytes.
		rowid(2, 1, 440, 512), rowid(63*63, 1, 440, 512), rowid(63*63+1, 1, 440, 512),
		rowid(127, 1, 0, 512), rowid(128, 1, 0, 512), rowid(129, 1, 30, 512),
		rowid(1<<14-1, 1e9, 0, 1024), rowid(1<<14, 1e9, 0, 1024), rowid(1<<14+1, 1e9, 0, 1024),
		rowid(3, 1<<60, accounts.MaxPayload, 512), rowid(2, 0, 65536-40, 65536),
	}
	for size := accounts.MinPageSize; size <= accounts.MaxPageSize; size *= 2 {
		leaves := rowid(1<<20, 5, 0, size).Leaves()
		specs = append(specs, rowid(leaves.End(0), 5, 0, size), rowid(leaves.End(0)+1, 5, 0, size))
	}
	if !testing.Short() {
		specs = append(specs, rowid(1<<21+300, 1, 0, 8192)) // ids of four bytes
	}
	for _, spec := range specs {
		t.Run(fmt.Sprintf("%+v", spec), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := sameByBothMethods(dir, spec); err != nil {
				t.Error(err)
			}
			onlyHas(t, dir)
		})
	}
}

// Full leaves below full pages: SQLite has to split what it finds.
func TestSQLiteWorksOnPages(t *testing.T) {
	for _, spec := range []accounts.Spec{
		rowid(30_000, 100, 0, 512), rowid(63*63, 100, 440, 512), rowid(30_000, 1, 0, 4096),
		rowid(2_000, 100, 1300, 512), rowid(9_000, 1<<40, 20, 65536), rowid(5, 100, 0, 4096),
	} {
		t.Run(fmt.Sprintf("%+v", spec), func(t *testing.T) {
			t.Parallel()
			path := place(t)
			mustSeedBy(t, Pages, path, spec)
			c, err := sqlconn.Open(nil, path, sqlconn.Existing)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}()
			value := ""
			if spec.Payload > 0 {
				value = fmt.Sprintf(", zeroblob(%d)", spec.Payload)
			}
			series := func(first, last int64) string {
				return fmt.Sprintf("WITH RECURSIVE s(i) AS (VALUES(%d) UNION ALL SELECT i+1 FROM s WHERE i < %d)", first, last)
			}
			for _, step := range []struct {
				statement string
				rows      int64
			}{
				{"UPDATE account SET balance = balance + 1000000000000 WHERE id % 3 = 0", spec.Rows}, // rows that grow
				{series(spec.Rows+1, spec.Rows+1000) + " INSERT INTO account SELECT i, 7" + value + " FROM s", spec.Rows + 1000},
				{"DELETE FROM account WHERE id % 5 > 1", -1},
				{series(1, spec.Rows) + " INSERT OR IGNORE INTO account SELECT i, 7" + value + " FROM s", -1},
				{"INSERT INTO transfer VALUES(1, 2, 3, 4)", -1},
				{"VACUUM", -1},
				{"DELETE FROM account", 0},
				{series(1, 500) + " INSERT INTO account SELECT -i, 7" + value + " FROM s", 500},
			} {
				if err := c.Exec(step.statement); err != nil {
					t.Fatalf("%s: %v", step.statement, err)
				}
				if ok, err := c.Text("PRAGMA integrity_check"); err != nil || ok != "ok" {
					t.Fatalf("after %s: %s, %v", step.statement, ok, err)
				}
				if n, err := c.Integer("SELECT count(*) FROM account"); err != nil || step.rows >= 0 && n != step.rows {
					t.Fatalf("after %s: %d rows instead of %d, %v", step.statement, n, step.rows, err)
				}
			}
		})
	}
}

// A program that shares no code with this one, nor its build of SQLite.
func TestShellOpensPages(t *testing.T) {
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("the shell sqlite3 is not installed")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "shell.DB")
	mustSeedBy(t, Pages, path, rowid(50_000, 1000, 10, 4096))
	out, err := exec.Command(shell, path, "PRAGMA integrity_check; PRAGMA journal_mode; SELECT count(*), max(id), sum(balance), min(hex(payload)) FROM account;").CombinedOutput()
	if want := "ok\nwal\n50000|50000|50000000|" + strings.Repeat("A5", 10) + "\n"; err != nil || string(out) != want {
		t.Errorf("it said %q (%v), want %q", out, err, want)
	}
	onlyHas(t, dir, "shell.DB")
}

func TestMethods(t *testing.T) {
	plain := rowid(100, 1, 0, 512)
	article, indexed := plain, plain
	article.Schema, indexed.Indexes = accounts.SchemaArticle, 1
	for _, test := range []struct {
		method Method
		spec   accounts.Spec
		begun  bool
		want   Method
		says   string // of the error, when there is no method
	}{
		{"", plain, false, Pages, ""},
		{Auto, plain, false, Pages, ""},
		{Pages, plain, false, Pages, ""},
		{SQL, plain, false, SQL, ""},
		{"", plain, true, SQL, ""},
		{Auto, plain, true, SQL, ""},
		{Pages, plain, true, "", "it was begun through SQL and goes on only so: use the method sql or auto"},
		{SQL, plain, true, SQL, ""},
		{Auto, article, false, SQL, ""},
		{Auto, article, true, SQL, ""},
		{Pages, article, false, "", "only the rowid schema without indexes can be written by pages: use the method sql or auto"},
		{SQL, article, false, SQL, ""},
		{Auto, indexed, false, SQL, ""},
		{Pages, indexed, false, "", "only the rowid schema without indexes"},
		{"page", plain, false, "", `the method "page" is none of auto, pages, sql`},
		{"PAGES", plain, true, "", `the method "PAGES" is none of auto, pages, sql`},
	} {
		t.Run(fmt.Sprintf("%s %s %d %v", test.method, test.spec.Schema, test.spec.Indexes, test.begun), func(t *testing.T) {
			path := place(t)
			if test.begun {
				mustSeedBy(t, SQL, path, test.spec)
				change(t, path, "UPDATE tpssim SET value = 0 WHERE key = 'complete'", "DELETE FROM account WHERE id > 50")
			}
			report, err := Seed(t.Context(), path, test.spec, Options{Method: test.method})
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) || report.Method != "" || report.Complete {
					t.Errorf("report %+v, error %v, want %q", report, err, test.says)
				}
				oneLine(t, err)
				if !test.begun {
					onlyHas(t, filepath.Dir(path))
				}
				return
			}
			if err != nil || report.Method != test.want || !report.Complete || report.Rows != test.spec.Rows {
				t.Fatalf("report %+v, error %v, want %s", report, err, test.want)
			}
			if again, err := Seed(t.Context(), path, test.spec, Options{Method: test.method}); err != nil || !again.Existed || again.Method != "" {
				t.Errorf("again: report %+v, error %v", again, err)
			}
		})
	}
}

func TestPagesProgress(t *testing.T) {
	for _, spec := range []accounts.Spec{rowid(1, 1, 0, 512), rowid(1_000_003, 1, 0, 4096)} {
		var stages []string
		last, calls := int64(-1), 0
		report, err := Seed(t.Context(), place(t), spec, Options{
			Method: Pages,
			Stage:  func(name string) { stages = append(stages, name) },
			Progress: func(done, total int64) {
				if done < last || total != spec.Rows {
					t.Errorf("progress %d of %d after %d", done, total, last)
				}
				last, calls = done, calls+1
			},
		})
		if err != nil || report.Inserted != spec.Rows || !slices.Equal(stages, []string{"accounts", "finishing"}) {
			t.Errorf("report %+v, stages %q, error %v", report, stages, err)
		}
		if last != spec.Rows || spec.Rows > 1 && calls < 10 {
			t.Errorf("the last of %d calls said %d of %d", calls, last, spec.Rows)
		}
	}
}

// All pages are all rows, however many, and fewer pages are never more rows.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(1, accounts.MaxRows).Draw(t, "rows")
		pages := rapid.Int64Range(1, 1<<32-2).Draw(t, "pages")
		n := rapid.Int64Range(0, pages-1).Draw(t, "written")
		if share(total, 0, pages) != 0 || share(total, pages, pages) != total || share(total, n, pages) > share(total, n+1, pages) {
			t.Errorf("%d, %d, %d, %d", share(total, 0, pages), share(total, n, pages), share(total, n+1, pages), share(total, pages, pages))
		}
	})
	if got := share(10_000_000_019, 1, 3); got != 3_333_333_339 {
		t.Errorf("a third is %d", got)
	}
}
