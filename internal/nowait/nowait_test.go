package nowait

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/engine/sqlite/pagecache"
)

// sum is the sum of the 500 ids of the test's table, of which each lies on a page of its
// own.
const sum = 500 * 501 / 2

// sumSQL reads every page of the table.
const sumSQL = "SELECT sum(id) FROM t WHERE length(filler) > 0"

// query runs a statement and returns the number in its first row, if it has one.
func query(t *testing.T, db sqliteh.DB, sql string) (n int64, err error) {
	t.Helper()
	stmt, _, err := db.Prepare(sql, 0)
	if err != nil {
		return 0, err // the schema is read from the file too
	}
	defer stmt.Finalize()
	row, err := stmt.Step(nil)
	if row {
		n = stmt.ColumnInt64(0)
	}
	return n, err
}

// atOnce runs a query that must find everything without a failure.
func atOnce(t *testing.T, db sqliteh.DB) {
	t.Helper()
	if n, err := query(t, db, sumSQL); n != sum || err != nil {
		t.Errorf("%d, %v; want %d", n, err, sum)
	}
}

// cold is a database that can be dropped from the kernel's page cache.
type cold struct {
	t     *testing.T
	path  string
	cache *pagecache.File
}

// newCold makes one. Where the system cannot drop what it has read, as on tmpfs, the
// test is skipped.
func newCold(t *testing.T) *cold {
	if runtime.GOOS != "linux" {
		t.Skip("reads can be made to fail on Linux only")
	}
	c := &cold{t: t, path: filepath.Join(t.TempDir(), "cold.db")}
	if err := os.WriteFile(c.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.cache, err = pagecache.Open(c.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cache.Close() }) // after all connections, see there
	db := c.open(sqliteh.OpenFlagsDefault)
	for _, sql := range []string{
		"CREATE TABLE t(id INTEGER PRIMARY KEY, filler)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500) INSERT INTO t SELECT i, zeroblob(3000) FROM n",
	} {
		if _, err := query(t, db, sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c.drop()
	return c
}

// open opens a connection. It must be closed before the test ends.
func (c *cold) open(flags sqliteh.OpenFlags) sqliteh.DB {
	c.t.Helper()
	db, err := cgosqlite.Open(c.path, flags, "")
	if err != nil {
		c.t.Fatal(err)
	}
	return db
}

// reader opens a connection whose reads can be made to fail.
func (c *cold) reader() (db sqliteh.DB, file *File) {
	c.t.Helper()
	if file = Open(func() { db = c.open(sqliteh.SQLITE_OPEN_READONLY) }); file == nil {
		c.t.Fatal("the file of the connection was not seen")
	}
	return db, file
}

// drop empties the cache of it.
func (c *cold) drop() {
	c.t.Helper()
	if err := c.cache.Drop(); err != nil {
		c.t.Fatal(err)
	}
	if left, err := c.cache.Resident(); err != nil || left > 0 {
		c.t.Skipf("this system keeps %d bytes in memory that it was asked to drop (%v)", left, err)
	}
}

// A read that would wait fails, counts, and has the page fetched; and nobody else's does.
func TestEnable(t *testing.T) {
	c := newCold(t)
	db, file := c.reader()
	defer db.Close()
	other := c.open(sqliteh.SQLITE_OPEN_READONLY)
	defer other.Close()

	file.Enable(true)
	defer file.Enable(false)
	failures := 0
	for start := time.Now(); ; failures++ {
		misses := file.Misses()
		n, err := query(t, db, sumSQL)
		if err == nil {
			if n != sum || file.Misses() != misses {
				t.Errorf("%d, want %d; %d misses in a query that succeeded", n, sum, file.Misses()-misses)
			}
			break
		}
		if code, ok := err.(sqliteh.ErrCode); !ok || sqliteh.Code(code)&0xff != sqliteh.SQLITE_IOERR || file.Misses() != misses+1 {
			t.Fatalf("%v, %d misses", err, file.Misses()-misses)
		}
		if time.Since(start) > time.Minute {
			t.Fatal("what a read has missed is not fetched")
		}
	}
	if failures == 0 {
		t.Error("nothing was in memory, and no read has failed")
	}

	misses := file.Misses()
	c.drop()
	atOnce(t, other)
	c.drop()
	file.Enable(false)
	atOnce(t, db)
	if n := file.Misses(); n != misses {
		t.Errorf("%d misses of those whose reads wait", n-misses)
	}
}

// A connection that gets the descriptor of an earlier one waits as every other.
func TestEnableEndsWithTheConnection(t *testing.T) {
	c := newCold(t)
	db, file := c.reader()
	file.Enable(true)
	file.Enable(false)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, again := c.reader()
	defer db.Close()
	if *again != *file {
		t.Skip("it got another descriptor")
	}
	c.drop()
	atOnce(t, db)
}

// What opens nothing has no file, and no file is one whose reads wait.
func TestNoFile(t *testing.T) {
	file := Open(func() {})
	if file != nil {
		t.Errorf("%v was opened by nobody", *file)
	}
	file.Enable(true)
	if n := file.Misses(); n != 0 {
		t.Errorf("%d misses of no file", n)
	}
}

// A panic ends the watch: what the thread opens afterwards is nobody's.
func TestOpenPanics(t *testing.T) {
	c := newCold(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	func() {
		defer func() { recover() }()
		Open(func() { panic("own") })
	}()
	stray := c.open(sqliteh.SQLITE_OPEN_READONLY)
	defer stray.Close()
	db, file := c.reader()
	defer db.Close()
	file.Enable(true)
	defer file.Enable(false)
	atOnce(t, stray)
	if file.Misses() != 0 {
		t.Error("another connection's reads were counted")
	}
}
