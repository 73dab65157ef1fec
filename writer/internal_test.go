package writer

import (
	"strings"
	"testing"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"
	"pgregory.net/rapid"
)

func TestHistogramBuckets(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Count() != 0 {
		t.Error("an empty histogram must answer 0")
	}
	for i := range h {
		if bucket(upper(i)) != i {
			t.Errorf("the end of bucket %d, %d, is in bucket %d", i, upper(i), bucket(upper(i)))
		}
		if i+1 < len(h) && bucket(upper(i)+1) != i+1 {
			t.Errorf("%d, behind bucket %d, is in bucket %d", upper(i)+1, i, bucket(upper(i)+1))
		}
	}
	for size := 1; size <= 8; size++ {
		if upper(bucket(size)) != size {
			t.Errorf("%d is not exact", size)
		}
	}
	if i := bucket(1 << 62); i != len(h)-1 {
		t.Errorf("an enormous size is in bucket %d, not in the last", i)
	}
}

func TestHistogramQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.IntRange(1, 1<<30), 1, 200).Draw(t, "sizes")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h Histogram
		largest := 0
		for _, size := range list {
			h.add(size)
			largest = max(largest, size)
			if u := upper(bucket(size)); u < size || u > size+size/4 {
				t.Errorf("%d counts as %d, more than a quarter away", size, u)
			}
		}
		if h.Count() != uint64(len(list)) {
			t.Errorf("%d were counted, want %d", h.Count(), len(list))
		}
		if got := h.Quantile(1); got != upper(bucket(largest)) {
			t.Errorf("Quantile(1) is %d, want the maximum's bucket end %d", got, upper(bucket(largest)))
		}
		got, atMost := h.Quantile(q), 0
		for _, size := range list {
			if size <= got {
				atMost++
			}
		}
		if float64(atMost) < q*float64(len(list))-0.5 {
			t.Errorf("Quantile(%v) is %d, which only %d of %d do not exceed", q, got, atMost, len(list))
		}
	})
}

func TestHistogramYieldsItsBuckets(t *testing.T) {
	var h Histogram
	for range h.Buckets() {
		t.Error("an empty histogram has no buckets")
	}
	sizes := []int{1, 1, 5, 12, 13, 1000}
	for _, size := range sizes {
		h.add(size)
	}
	var counted uint64
	last := 0
	for upto, count := range h.Buckets() {
		if upto <= last || count == 0 {
			t.Errorf("bucket up to %d with %d follows the one up to %d", upto, count, last)
		}
		var want uint64
		for _, size := range sizes {
			if size > last && size <= upto {
				want++
			}
		}
		if count != want {
			t.Errorf("%d of %v are above %d and up to %d, counted are %d", want, sizes, last, upto, count)
		}
		counted, last = counted+count, upto
	}
	if counted != h.Count() {
		t.Errorf("%d of %d are in buckets", counted, h.Count())
	}
	for range h.Buckets() {
		break // must not go on
	}
}

func TestClassify(t *testing.T) {
	for sql, want := range map[string]kind{
		"":                                      kindWrite,
		"SELECT 1":                              kindRead,
		"sElEcT(1)":                             kindRead,
		"select*from t":                         kindRead,
		"VALUES(1)":                             kindRead,
		"SELECT * FROM Pragma_optimize(-1)":     kindWrite,
		"EXPLAIN SELECT 1":                      kindRead,
		"explain query plan delete from t":      kindRead,
		"EXPLAIN /* x */ PRAGMA cache_size = 1": kindControl,
		"EXPLAIN QUERY -- x\n PLAN ATTACH 'a' AS a": kindControl,
		"WITH x AS (SELECT 1) SELECT 1":             kindWrite,
		"REPLACE INTO t VALUES (1)":                 kindWrite,
		"INSERT INTO t VALUES ('BEGIN')":            kindWrite,
		"VACUUM":                                    kindWrite,
		"-- SELECT\nDELETE FROM t":                  kindWrite,
		"-- DELETE":                                 kindWrite,
		"/* unclosed SELECT":                        kindWrite,
		"/**/--\n/*/**/;;BEGIN":                     kindControl,
		"begin;":                                    kindControl,
		"END":                                       kindControl,
		"end/**/transaction":                        kindControl,
		"ROLLBACK;":                                 kindControl,
		"pragma(1)":                                 kindControl,
		"BEGINNING":                                 kindWrite,
		"1":                                         kindWrite,
	} {
		if got := classify(sql); got != want {
			t.Errorf("classify(%q) is %d, want %d", sql, got, want)
		}
	}
}

// FuzzClassify looks for a text that SQLite takes as transaction control and the
// writer does not, or that makes the writer step a statement that is not there.
func FuzzClassify(f *testing.F) {
	for _, sql := range []string{
		"BEGIN", ";\ufeff/**/begin", "--\nCOMMIT", "/*/ */ SAVEPOINT a", "\x00BEGIN", "/*\x00*/BEGIN", "SELECT 1", " ROLLBACK -- x",
		"EXPLAIN BEGIN", "BEGIN\x00", "\vBEGIN", "\u00a0BEGIN", "WITH", "--\r\nEND", "SELECT 1;", ";;;", "RELEASE[tx]", "savepoint\"a\"",
	} {
		f.Add(sql)
	}
	db, err := cgosqlite.Open("file:"+f.TempDir()+"/fuzz.db", sqliteh.OpenFlagsDefault, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.Close() })
	c := &conn{db: db, stmts: make(map[string]*prepared), log: 1}
	f.Fuzz(func(t *testing.T, sql string) {
		if strings.Contains(strings.ToUpper(sql), "ATTACH") {
			t.Skip("it makes files")
		}
		p, err := c.prepare(sql, false)
		if err != nil {
			return
		}
		for _, begin := range []string{"BEGIN", "SAVEPOINT probe"} {
			if err := c.exec(begin); err != nil {
				t.Fatal(err)
			}
		}
		before := c.inTransaction()
		p.stmt.StepResult() // whatever it answers
		if err := c.exec("RELEASE probe"); err != nil {
			t.Errorf("after %q the savepoint around it is gone: %v (transaction open before: %v)", sql, err, before)
		}
		if _, err := c.endOpen(); err != nil {
			t.Fatal(err)
		}
	})
}

// A View that saw no failure yet, but comes for a reader when they are gone, must
// not wait for one: nobody may ever call Close.
func TestContract07ViewAfterTheReadersEnded(t *testing.T) {
	opt, err := Options{Readers: 2}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/test.db"
	w, err := Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rs, err := openReaders(opt, path)
	if err != nil {
		t.Fatal(err)
	}
	defer rs.close()
	rs.drain(ErrFailed)
	never := func(*Rx) error { t.Error("a View ran"); return nil }
	if err := rs.view(t.Context(), make(chan struct{}), never); err != ErrFailed {
		t.Errorf("got %v, want ErrFailed", err)
	}
}
