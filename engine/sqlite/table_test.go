package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/tailscale/sqlite/sqliteh"
	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/writer/writertest"
)

// openTable opens a table in a folder of the test's own, which must be empty again when
// the test ends.
func openTable(t testing.TB, opt Options, spec engine.TableSpec) engine.Table {
	t.Helper()
	dir := t.TempDir()
	table, err := OpenTable(context.Background(), dir, opt, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(table.Close(), table.Close()); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
	return table
}

// entryAt is entry i: its value is i, its key follows from it.
func entryAt(spec engine.TableSpec, i int) engine.Entry {
	if spec.BlobKeys {
		return engine.Entry{Key: engine.Key{Blob: binary.LittleEndian.AppendUint64(nil, uint64(i))}, Value: int64(i)}
	}
	return engine.Entry{Key: engine.Key{Integer: int64(i) + 1}, Value: int64(i)}
}

func wantEntries(t *testing.T, table engine.Table, entries int) {
	t.Helper()
	want := int64(entries) * int64(entries-1) / 2
	for name, count := range map[string]func(context.Context) (int64, int64, error){"count": table.Count, "scan": table.Scan} {
		if n, sum, err := count(t.Context()); err != nil || n != int64(entries) || sum != want {
			t.Errorf("%s: %d entries with the sum %d (%v), want %d with %d", name, n, sum, err, entries, want)
		}
	}
}

// Whatever its keys are like, a table holds what was inserted, finds each by its key,
// and is empty after Reset.
func TestTable(t *testing.T) {
	for _, journal := range []string{"wal", "delete", "truncate", "persist"} {
		for _, spec := range []engine.TableSpec{
			{}, {WithoutRowid: true}, {BlobKeys: true}, {BlobKeys: true, WithoutRowid: true, Payload: 30, PageSize: 1024},
		} {
			t.Run(fmt.Sprintf("%s %+v", journal, spec), func(t *testing.T) {
				table := openTable(t, Options{Pragmas: map[string]string{"journal_mode": journal, "synchronous": "off"}}, spec)
				for range 2 {
					done := 0
					for _, n := range []int{1, 2, 1500} {
						from := done
						if err := table.Insert(t.Context(), n, func(k int) engine.Entry { return entryAt(spec, from+k) }); err != nil {
							t.Fatal(err)
						}
						done += n
						wantEntries(t, table, done)
					}
					for _, i := range []int{0, 1, 2, 700, done - 1} {
						if v, err := table.Value(entryAt(spec, i).Key); err != nil || v != int64(i) {
							t.Errorf("entry %d: %d, %v", i, v, err)
						}
					}
					if _, err := table.Value(entryAt(spec, done).Key); !errors.Is(err, engine.ErrNoEntry) {
						t.Errorf("what is not there: %v", err)
					}
					if err := table.Settle(t.Context()); err != nil {
						t.Error(err)
					}
					if s := table.Stats(); s.DBBytes < 20_000 || s.WALFileBytes != 0 {
						t.Errorf("sizes after Settle: %+v", s)
					}
					s := table.Settings()
					if s.JournalMode != journal || s.Synchronous != "off" || spec.PageSize > 0 && s.PageSize != int64(spec.PageSize) || s.Checkpoint != DefaultTableCheckpoint {
						t.Errorf("settings %+v", s)
					}
					if err := table.Reset(t.Context()); err != nil {
						t.Fatal(err)
					}
					wantEntries(t, table, 0)
				}
			})
		}
	}
}

// An insert is whole or not at all: when an entry is refused, when ctx ends, and when a
// statement or COMMIT fails wherever that is.
func TestTableInsertIsAtomic(t *testing.T) {
	spec := engine.TableSpec{}
	rapid.Check(t, func(rt *rapid.T) {
		faults := &writertest.Faults{}
		table := openTable(t, Options{Open: faults.Open, Pragmas: map[string]string{"synchronous": "off"}}, spec)
		const before = 10
		insert := func(ctx context.Context, n int, repeat int) error {
			return table.Insert(ctx, n, func(k int) engine.Entry {
				if k == repeat {
					return entryAt(spec, 0)
				}
				return entryAt(spec, before+k)
			})
		}
		if err := table.Insert(t.Context(), before, func(k int) engine.Entry { return entryAt(spec, k) }); err != nil {
			t.Fatal(err)
		}
		n := rapid.SampledFrom([]int{1, 2, 50}).Draw(rt, "n")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		repeat, want := -1, ""
		switch kind := rapid.SampledFrom([]string{"repeated", "cancelled", "INSERT", "COMMIT", "BEGIN"}).Draw(rt, "kind"); {
		case kind == "repeated":
			repeat, want = rapid.IntRange(0, n-1).Draw(rt, "at"), "constraint"
		case kind == "cancelled" && n > 1:
			cancel()
			want = "cancelled"
		case kind == "INSERT" || n > 1 && kind != "cancelled":
			faults.Add(writertest.Rule{SQL: kind, Code: sqliteh.SQLITE_NOMEM})
			want = "sqlite nomem"
			if kind == "COMMIT" {
				want = "commit failed"
			}
		default:
			return
		}
		err := insert(ctx, n, repeat)
		if got := table.Classify(err); err == nil || got != want {
			rt.Fatalf("%v is classified as %q, want %q", err, got, want)
		}
		faults.Clear()
		wantEntries(t, table, before)
		if err := insert(t.Context(), n, -1); err != nil {
			rt.Fatalf("afterwards: %v", err)
		}
		wantEntries(t, table, before+n)
	})
}

// A COMMIT that the disk failed is in doubt, whether it was a statement or not.
func TestTableInDoubt(t *testing.T) {
	for sql, n := range map[string]int{"INSERT": 1, "COMMIT": 2} {
		faults := &writertest.Faults{}
		table := openTable(t, Options{Open: faults.Open}, engine.TableSpec{})
		faults.Add(writertest.Rule{SQL: sql, Code: sqliteh.SQLITE_IOERR_FSYNC})
		err := table.Insert(t.Context(), n, func(k int) engine.Entry { return entryAt(engine.TableSpec{}, k) })
		if _, doubt := table.InDoubt(err); !doubt {
			t.Errorf("%s: %v is not in doubt", sql, err)
		}
	}
}

func TestOpenTableFails(t *testing.T) {
	dir := t.TempDir()
	for name, opt := range map[string]Options{
		"pragma":     {Pragmas: map[string]string{"no_such_thing": "1"}},
		"checkpoint": {Checkpoint: "sometimes"},
	} {
		if _, err := OpenTable(t.Context(), dir, opt, engine.TableSpec{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := OpenTable(t.Context(), dir+"/missing", Options{}, engine.TableSpec{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestTableCheckpoint(t *testing.T) {
	for policy, want := range map[string]string{
		"": DefaultTableCheckpoint, "stall:10ms": DefaultTableCheckpoint, "idle": DefaultTableCheckpoint,
		"off": "off", "pages:50": "pages:50", "bytes:64KiB": "bytes:64KiB",
	} {
		table := openTable(t, Options{Checkpoint: policy}, engine.TableSpec{})
		if got := table.Settings().Checkpoint; got != want {
			t.Errorf("%q: %q, want %q", policy, got, want)
		}
		if err := table.Insert(t.Context(), 20_000, func(k int) engine.Entry { return entryAt(engine.TableSpec{}, k) }); err != nil {
			t.Fatal(err)
		}
		// Only a checkpoint brings pages into the file.
		if small := table.Stats().DBBytes < 10*4096; small != (policy == "off" || want == DefaultTableCheckpoint) {
			t.Errorf("%q: the file has %d bytes", policy, table.Stats().DBBytes)
		}
	}
}
