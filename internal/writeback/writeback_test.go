package writeback

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/internal/driversym"
)

// db is a connection to a new database in WAL mode that checkpoints when it is told to.
type db struct {
	t *testing.T
	sqliteh.DB
}

func newDB(t *testing.T) db {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the disk can be told to begin on Linux only")
	}
	c, err := cgosqlite.Open(filepath.Join(t.TempDir(), "t.db"), sqliteh.OpenFlagsDefault, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	Install()
	find, err := driversym.Find("sqlite3_vfs_find")
	if err != nil || !calls.Install(find) { // a second time must not make it call itself
		t.Fatalf("SQLite does not write through here: %v", err)
	}
	d := db{t, c}
	d.number("PRAGMA journal_mode=wal")
	d.number("CREATE TABLE t(id INTEGER PRIMARY KEY, filler)")
	if err := c.AutoCheckpoint(0); err != nil {
		t.Fatal(err)
	}
	return d
}

// number runs a statement to its end and returns the number in its last row.
func (d db) number(sql string) (n int64) {
	d.t.Helper()
	stmt, _, err := d.Prepare(sql, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	defer stmt.Finalize()
	for {
		row, err := stmt.Step(nil)
		if err != nil {
			d.t.Fatal(err)
		}
		if !row {
			return n
		}
		n = stmt.ColumnInt64(0)
	}
}

// begun returns how often the disk was told to begin during do.
func begun(do func()) uint64 {
	before := Begun()
	do()
	return Begun() - before
}

const fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 1000) INSERT INTO t SELECT i, zeroblob(3000) FROM n"

// A COMMIT of 4 MB, and the checkpoint of as much, are begun 15 times or so, and what
// they wrote is all there.
func TestLarge(t *testing.T) {
	d := newDB(t)
	if n := begun(func() { d.number(fill) }); n < 10 || n > 20 {
		t.Errorf("a COMMIT of 4 MB was begun %d times", n)
	}
	n := begun(func() {
		if _, _, err := d.Checkpoint("main", sqliteh.SQLITE_CHECKPOINT_TRUNCATE); err != nil {
			t.Fatal(err)
		}
	})
	if n < 10 || n > 20 {
		t.Errorf("a checkpoint of 4 MB was begun %d times", n)
	}
	if got, want := d.number("SELECT sum(id * (length(filler) = 3000)) FROM t"), int64(1000*1001/2); got != want {
		t.Errorf("%d, want %d", got, want)
	}
	if d.number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") != 1 {
		t.Error("the database is not in order")
	}
}

// A small COMMIT is left to its sync.
func TestSmall(t *testing.T) {
	d := newDB(t)
	n := begun(func() {
		for range 5 {
			d.number("INSERT INTO t(filler) VALUES(zeroblob(3000))")
		}
	})
	if n != 0 {
		t.Errorf("5 small COMMITs were begun %d times", n)
	}
}

// What SQLite sorts in a temporary file is not worth the disk's time.
func TestTemporary(t *testing.T) {
	d := newDB(t)
	d.number(fill)
	d.number("PRAGMA temp_store=file")
	d.number("PRAGMA cache_size=10")
	n := begun(func() {
		d.number("CREATE TEMP TABLE copy AS SELECT filler FROM t")
		d.number("CREATE INDEX temp.sorted ON copy(filler)")
	})
	if n != 0 {
		t.Errorf("temporary files were begun %d times", n)
	}
}
