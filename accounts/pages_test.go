package accounts

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Leaf pages and file sizes were counted with dbstat in files that SQLite wrote
// by INSERT in the order of the ids. The leaves are exact without extra columns,
// whose values vary in size. Files with indexes of their own are compared where
// they are made, in package dataset.
func TestForecastAgainstFiles(t *testing.T) {
	const tolerance = 0.025
	for _, tt := range []struct {
		spec          Spec
		leaves, bytes int64
	}{
		{Spec{1_000_000, 1e9, SchemaRowid, 0, 0, 4096}, 3181, 13070336},
		{Spec{1_000_000, 1e9, SchemaArticle, 0, 0, 4096}, 3910, 29753344},
		{Spec{200_000, 1e9, SchemaArticle, 0, 0, 512}, 6346, 6035456},
		{Spec{1_000_000, 1e9, SchemaArticle, 0, 0, 65536}, 244, 29818880},
		{Spec{3_000, 1e9, SchemaRowid, 10_000, 0, 4096}, 1500, 30740480},
		{Spec{1_000, 7, SchemaArticle, 1_000_000, 0, 4096}, 500, 1001496576},
		{Spec{100, 7, SchemaRowid, 0, 0, 4096}, 1, 8192},
		{Spec{1, 7, SchemaRowid, 0, 0, 4096}, 1, 8192},
		{Spec{20_000_000, 1e9, SchemaArticle, 0, 0, 4096}, 85578, 652861440},
		{Spec{300_000, 1000, SchemaRowid, 4_000, 0, 4096}, 300000, 1231888384},
	} {
		if err := tt.spec.Validate(); err != nil {
			t.Fatal(err)
		}
		if got := tt.spec.LeafPages(); got != tt.leaves {
			t.Errorf("%+v: %d leaf pages, the file has %d", tt.spec, got, tt.leaves)
		}
		got := tt.spec.ForecastBytes()
		if off := float64(got)/float64(tt.bytes) - 1; math.Abs(off) > tolerance {
			t.Errorf("%+v: forecast %d bytes, the file has %d (%+.1f %%)", tt.spec, got, tt.bytes, 100*off)
		}
	}
}

func TestRowBytes(t *testing.T) {
	for _, tt := range []struct {
		spec Spec
		id   int64
		want int
	}{
		// 1 length, 1 rowid, header 3 (its length, NULL, int), balance 0 to 8.
		{Spec{10, 1, SchemaRowid, 0, 0, 4096}, 1, 5},
		{Spec{10, 127, SchemaRowid, 0, 0, 4096}, 1, 6},
		{Spec{10, 128, SchemaRowid, 0, 0, 4096}, 1, 7},
		{Spec{10, 1 << 15, SchemaRowid, 0, 0, 4096}, 1, 8},
		{Spec{10, 1 << 23, SchemaRowid, 0, 0, 4096}, 1, 9},
		{Spec{10, 1 << 31, SchemaRowid, 0, 0, 4096}, 1, 11},
		{Spec{10, 1 << 47, SchemaRowid, 0, 0, 4096}, 1, 13},
		{Spec{1 << 20, 1, SchemaRowid, 0, 0, 4096}, 1 << 14, 7},   // rowid of 3
		{Spec{1 << 20, 1, SchemaArticle, 0, 0, 4096}, 1 << 14, 9}, // and id of 2
		{Spec{10, 1, SchemaRowid, 100, 0, 4096}, 1, 2 + 5 + 100},
		// A record of 4061 bytes stays on its page of 4096, one of 4062 keeps
		// 489 + (4062-489) % 4092 = 4062 > 4061, so 489, and a page number.
		{Spec{10, 1, SchemaRowid, 4056, 0, 4096}, 1, 3 + 4061},
		{Spec{10, 1, SchemaRowid, 4057, 0, 4096}, 1, 3 + 489 + 4},
	} {
		if got := tt.spec.RowBytes(tt.id); got != tt.want {
			t.Errorf("%+v: RowBytes(%d) = %d, want %d", tt.spec, tt.id, got, tt.want)
		}
	}
	// One key in 256 is shorter, and RowBytes sees it.
	s := Spec{Rows: 1000, Balance: 1, Schema: SchemaRowid, Indexes: 1, PageSize: 4096}
	short := int64(1)
	for KeyColumn(short, 1) >= 1<<23 {
		short++
	}
	common, _ := s.cell(short, s.commonRecord(short))
	if got := s.RowBytes(short); int64(got) >= common {
		t.Errorf("RowBytes(%d) = %d, want less than %d", short, got, common)
	}
}

// specs draws Specs whose leaves are exact.
func specs(maxRows int64) *rapid.Generator[Spec] {
	return rapid.Custom(func(t *rapid.T) Spec {
		return Spec{
			Rows:     rapid.Int64Range(1, maxRows).Draw(t, "rows"),
			Balance:  rapid.SampledFrom([]int64{0, 100, 512}).Draw(t, "balance"),
			Schema:   rapid.SampledFrom([]Schema{SchemaRowid, SchemaArticle}).Draw(t, "schema"),
			Payload:  rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 6000)).Draw(t, "payload"),
			PageSize: 512 << rapid.IntRange(0, 7).Draw(t, "page"),
		}
	})
}

// The closed form places each id where filling leaf after leaf does.
func TestLeafOfIsGreedyFill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := specs(20_000).Draw(t, "spec")
		m := s.Leaves()
		free, leaf := s.PageSize-leafHeaderBytes, int64(0)
		ids := make([]int64, 0, s.Rows)
		for id := int64(1); id <= s.Rows; id++ {
			bytes := s.RowBytes(id) + pointerBytes
			if bytes > free {
				free, leaf = s.PageSize-leafHeaderBytes, leaf+1
			}
			free -= bytes
			if got := m.Of(id); got != leaf {
				t.Fatalf("id %d is on leaf %d, want %d", id, got, leaf)
			}
			ids = append(ids, id)
		}
		if got := s.LeafPages(); got != leaf+1 {
			t.Fatalf("LeafPages = %d, want %d", got, leaf+1)
		}
		if got := s.LeavesTouched(ids); got != leaf+1 {
			t.Fatalf("all accounts touch %d leaves, want %d", got, leaf+1)
		}
	})
}

// End is the other direction of Of: the leaves share the ids out without a gap.
func TestLeavesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := specs(rapid.SampledFrom([]int64{300, 100_000, 1 << 32, MaxRows}).Draw(t, "most rows")).Draw(t, "spec")
		m := s.Leaves()
		last := s.LeafPages() - 1
		if m.End(-1) != 0 || m.End(last) != s.Rows {
			t.Fatalf("the leaves end with %d and %d, want 0 and %d", m.End(-1), m.End(last), s.Rows)
		}
		leaf := rapid.OneOf(rapid.Int64Range(0, last), rapid.Int64Range(0, min(last, 400)), rapid.Just(last)).Draw(t, "leaf")
		before, end := m.End(leaf-1), m.End(leaf)
		if end <= before || m.Of(before+1) != leaf || m.Of(end) != leaf {
			t.Fatalf("leaf %d has the ids %d to %d, which are on %d and %d", leaf, before+1, end, m.Of(before+1), m.Of(end))
		}
		if leaf < last && m.Of(end+1) != leaf+1 {
			t.Fatalf("behind leaf %d comes %d", leaf, m.Of(end+1))
		}
		// Where a row grows, the leaf that it grows on.
		for _, step := range sizeSteps {
			if step > s.Rows {
				break
			}
			if of := m.Of(step); m.End(of-1) >= step || m.End(of) < step {
				t.Fatalf("id %d is on leaf %d with the ids %d to %d", step, of, m.End(of-1)+1, m.End(of))
			}
		}
	})
}

func TestLeafOfLargeTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := specs(MaxRows).Draw(t, "spec")
		id := rapid.Int64Range(1, s.Rows).Draw(t, "id")
		leaf := s.LeafOf(id)
		if leaf < 0 || leaf >= s.LeafPages() {
			t.Fatalf("LeafOf(%d) = %d of %d", id, leaf, s.LeafPages())
		}
		if id > 1 {
			if before := s.LeafOf(id - 1); before != leaf && before != leaf-1 {
				t.Fatalf("accounts %d and %d are on leaves %d and %d", id-1, id, before, leaf)
			}
		}
		if s.LeafOf(1) != 0 {
			t.Fatalf("LeafOf(1) = %d", s.LeafOf(1))
		}
		if s.ForecastBytes() < s.LeafPages() {
			t.Fatalf("ForecastBytes = %d", s.ForecastBytes())
		}
	})
}

// Between two steps all rows have one size; a missing step would show beside a
// power of two, where the sizes change.
func TestSizeStepsAreComplete(t *testing.T) {
	for _, schema := range []Schema{SchemaRowid, SchemaArticle} {
		s := Spec{Rows: MaxRows, Balance: 1, Schema: schema, PageSize: 4096}
		m := s.Leaves()
		for bit := range 54 {
			for id := int64(1)<<bit - 1; id <= min(int64(1)<<bit+1, MaxRows); id++ {
				i := m.n - 1
				for i > 0 && m.runs[i].first > id {
					i--
				}
				if first := m.runs[i].first; id > 0 && s.RowBytes(id) != s.RowBytes(first) {
					t.Errorf("%s: row %d takes %d bytes, its run from %d on %d", schema, id, s.RowBytes(id), first, s.RowBytes(first))
				}
			}
		}
	}
}

func TestLeavesTouched(t *testing.T) {
	s := valid
	per := int64(s.RowsPerLeaf())
	for _, tt := range []struct {
		ids  []int64
		want int64
	}{
		{nil, 0},
		{[]int64{1}, 1},
		{[]int64{1, 1, 2, 3}, 1},
		{[]int64{1, 1_000_000}, 2},
		{[]int64{5, 5 + 2*per, 6 + 2*per, 5 + 6*per}, 3},
	} {
		if got := s.LeavesTouched(tt.ids); got != tt.want {
			t.Errorf("LeavesTouched(%v) = %d, want %d", tt.ids, got, tt.want)
		}
	}
	ids := []int64{1, 50, 1000, 70_000}
	if n := testing.AllocsPerRun(10, func() { s.LeavesTouched(ids) }); n != 0 {
		t.Errorf("LeavesTouched allocates %v times", n)
	}
}

// A larger table, payload or number of indexes never takes less room, and what
// no file can hold is said to be endless instead of wrapping around.
func TestForecastGrows(t *testing.T) {
	s := Spec{Rows: 100_000, Balance: 1, Schema: SchemaRowid, PageSize: 1024}
	var sizes []int64
	for _, rows := range []int64{1e5, 1e6, 1e9, 1e12, MaxRows} {
		s.Rows = rows
		sizes = append(sizes, s.ForecastBytes())
	}
	s.Indexes = 8
	sizes = append(sizes, s.ForecastBytes())
	s.Payload = MaxPayload
	sizes = append(sizes, s.ForecastBytes())
	if !slices.IsSorted(sizes) || sizes[0] <= 0 {
		t.Errorf("forecasts %v do not ascend", sizes)
	}
	if last := sizes[len(sizes)-1]; last != math.MaxInt64 {
		t.Errorf("forecast of the largest data set = %d, want %d", last, int64(math.MaxInt64))
	}
}

// Above 1 GiB SQLite leaves one page out: the forecast counts it.
func TestForecastLockBytePage(t *testing.T) {
	s := Spec{Rows: 1, Balance: 1, Schema: SchemaRowid, Payload: 65_000, PageSize: 65536}
	below, above := int64(0), int64(0)
	for above == 0 {
		s.Rows++
		if size := s.ForecastBytes(); size > lockByteOffset {
			above = size
		} else {
			below = size
		}
	}
	if got := (above - below) / int64(s.PageSize); got != 2 {
		t.Errorf("the row that crosses 1 GiB adds %d pages, want its own and the lock-byte page", got)
	}
}
