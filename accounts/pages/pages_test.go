package pages

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/accounts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noLock is a page number that no file in these tests reaches.
const noLock = 1 << 40

// rowid returns a Spec of the kind that is written page by page.
func rowid(rows, balance int64, payload, pageSize int) accounts.Spec {
	return accounts.Spec{Rows: rows, Balance: balance, Schema: accounts.SchemaRowid, Payload: payload, PageSize: pageSize}
}

// template returns small pages in which every byte says where it lies, with change
// counters as a database's header has them.
func template(small, pageSize int) []byte {
	b := make([]byte, small*pageSize)
	for i := range b {
		b[i] = byte(i ^ i>>8 | 1)
	}
	binary.BigEndian.PutUint32(b[24:], 2)
	return b
}

// file is a whole file in memory, with what a walker needs to know of it.
type file struct {
	walker
	content []byte
}

// build makes every page of a tree, in descending order and on dirty memory: a
// page may depend on nothing but its number.
func build(t *Tree, lock int64) *file {
	size := int64(t.spec.PageSize)
	f := &file{content: bytes.Repeat([]byte{0xEE}, int(t.Bytes()))}
	f.page = func(n int64) []byte { return f.content[(n-1)*size : n*size] }
	f.spec, f.pages, f.template, f.root, f.lock = t.spec, t.Pages(), t.template, t.root, lock
	for n := t.Pages(); n >= 1; n-- {
		t.Fill(f.page(n), n)
	}
	return f
}

// examine lays a table out behind small pages, with the root on the last of them
// and the lock byte on page lock, and walks all of it.
func examine(spec accounts.Spec, small int, lock int64) (depth int, leaves int64, err error) {
	t, err := newTree(spec, template(small, spec.PageSize), int64(small), (lock-1)*int64(spec.PageSize)+5)
	if err != nil {
		return 0, 0, err
	}
	depth, leaves, err = build(t, lock).walk()
	if err == nil && leaves != spec.LeafPages() {
		err = fmt.Errorf("%d leaves instead of %d", leaves, spec.LeafPages())
	}
	if err != nil {
		err = fmt.Errorf("%+v, lock on page %d of %d: %w", spec, lock, t.Pages(), err)
	}
	return depth, leaves, err
}

// balances stand at both sides of every step of an integer's size.
var balances = []int64{
	0, 1, 2, 127, 128, 32767, 32768, 1<<23 - 1, 1 << 23, 1<<31 - 1, 1 << 31, 1<<47 - 1, 1 << 47, accounts.MaxTotalBalance,
}

const testBytes = 1 << 20 // of a file in random tests

// specOf makes a Spec with a file of a few megabytes at most out of any numbers.
func specOf(rows, balance uint64, payload uint32, page uint8) accounts.Spec {
	s := rowid(1, 0, int(payload%200_000), 512<<(page%8))
	s.Rows += int64(rows % uint64(testBytes/(s.Payload+10)))
	if balance < uint64(len(balances)) {
		balance = uint64(balances[balance])
	}
	s.Balance = min(int64(balance>>1), accounts.MaxTotalBalance/s.Rows)
	return s
}

func TestTreeOfAnySpec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rowid(1, 0, 0, 512<<rapid.IntRange(0, 7).Draw(t, "page"))
		spec.Payload = rapid.OneOf(
			rapid.Just(0),
			rapid.IntRange(1, 300),
			rapid.IntRange(spec.PageSize-60, spec.PageSize+20), // where a row begins to spill
			rapid.IntRange(1, 5*spec.PageSize),
		).Draw(t, "payload")
		spec.Rows = rapid.Int64Range(1, int64(testBytes/(spec.Payload+10))).Draw(t, "rows")
		balance := rapid.OneOf(rapid.SampledFrom(balances), rapid.Int64Range(0, accounts.MaxTotalBalance)).Draw(t, "balance")
		spec.Balance = min(balance, accounts.MaxTotalBalance/spec.Rows)
		small := rapid.IntRange(2, 6).Draw(t, "small pages")
		pages := int64(testBytes/spec.PageSize) * 2
		lock := rapid.Int64Range(int64(small)+1, int64(small)+pages).Draw(t, "lock")
		if _, _, err := examine(spec, small, lock); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzTree(f *testing.F) {
	f.Add(uint64(1), uint64(0), uint32(0), uint8(0), uint8(0), uint16(0))
	f.Add(uint64(127), uint64(1), uint32(600), uint8(0), uint8(3), uint16(9))
	f.Add(uint64(16_384), uint64(11), uint32(20), uint8(7), uint8(1), uint16(3))
	f.Add(uint64(3_969), uint64(13), uint32(440), uint8(0), uint8(1), uint16(4_000))
	f.Fuzz(func(t *testing.T, rows, balance uint64, payload uint32, page, small uint8, lock uint16) {
		few := 2 + int(small%5)
		if _, _, err := examine(specOf(rows, balance, payload, page), few, int64(few)+1+int64(lock)); err != nil {
			t.Fatal(err)
		}
	})
}

// The varint of the id grows behind 127 and 16383, and somewhere here the first
// leaf is full.
func TestEveryNumberOfRows(t *testing.T) {
	for rows := int64(1); rows <= 300; rows++ {
		if _, _, err := examine(rowid(rows, 1000, 0, 512), 2, noLock); err != nil {
			t.Fatal(err)
		}
	}
	for rows := int64(1<<14 - 40); rows <= 1<<14+40; rows += 8 {
		for _, n := range []int64{rows, rows + 3} {
			if _, _, err := examine(rowid(n, 1, 0, 1024), 3, noLock); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// At every page size: one leaf that is full, and one row more.
func TestFullLeaf(t *testing.T) {
	for size := accounts.MinPageSize; size <= accounts.MaxPageSize; size *= 2 {
		leaves := rowid(1<<20, 1, 0, size).Leaves()
		full := leaves.End(0)
		for _, at := range []struct {
			rows  int64
			depth int
		}{{1, 0}, {full - 1, 0}, {full, 0}, {full + 1, 1}, {leaves.End(1), 1}, {leaves.End(1) + 1, 1}} {
			depth, _, err := examine(rowid(at.rows, 1, 0, size), 2, noLock)
			if err != nil {
				t.Fatal(err)
			}
			if depth != at.depth {
				t.Errorf("%d rows at a page size of %d: leaves at depth %d instead of %d", at.rows, size, depth, at.depth)
			}
		}
	}
}

// With a row a leaf, the levels grow where the children of a page do not fit it
// any more: an interior page of 512 bytes has room for 63 when ids take two bytes.
func TestLevels(t *testing.T) {
	const fanout = 1 + (512-12)/(4+2+2)
	for _, at := range []struct {
		rows  int64
		depth int
	}{
		{2*fanout + 2, 2}, {3 * fanout, 2}, {3*fanout + 1, 2}, {3*fanout + 2, 2},
		{fanout * (fanout - 1), 2}, {fanout*(fanout-1) + 1, 2}, {fanout*fanout - 1, 2}, {fanout * fanout, 2},
		{fanout*fanout + 1, 3}, {fanout*fanout + 2, 3}, {fanout*fanout + fanout, 3}, {fanout*fanout + fanout + 1, 3},
	} {
		depth, leaves, err := examine(rowid(at.rows, 7, 440, 512), 2, noLock)
		if err != nil {
			t.Fatal(err)
		}
		if depth != at.depth || leaves != at.rows {
			t.Errorf("%d rows: %d leaves at depth %d, want %d", at.rows, leaves, depth, at.depth)
		}
	}
}

// The same with ids of one byte, where a page has room for 72 children.
func TestLevelsOfShortIDs(t *testing.T) {
	const fanout = 1 + (512-12)/(4+1+2)
	for rows := int64(fanout - 2); rows < 128; rows++ {
		depth, leaves, err := examine(rowid(rows, 7, 441, 512), 2, noLock)
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if rows > fanout {
			want = 2
		}
		if depth != want || leaves != rows {
			t.Errorf("%d rows: %d leaves at depth %d, want %d", rows, leaves, depth, want)
		}
	}
}

func TestBalances(t *testing.T) {
	for _, balance := range balances {
		for _, payload := range []int{0, 9, 1000} {
			if _, _, err := examine(rowid(1, balance, payload, 512), 2, noLock); err != nil {
				t.Error(err)
			}
		}
	}
}

// Records of every length around the eight bytes that make a row short, across the
// steps of the id's length and behind them.
func TestShortRecords(t *testing.T) {
	for payload := range 12 {
		for _, balance := range []int64{0, 1, 2, 300, 70_000, 1 << 24, 1 << 40, 1 << 48} {
			for _, rows := range []int64{1, 2, 150, 260} {
				if _, _, err := examine(rowid(rows, balance, payload, 1024), 2, noLock); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, _, err := examine(rowid(1<<14+200, 1000, payload, 4096), 2, noLock); err != nil {
			t.Fatal(err)
		}
	}
}

// Where a row begins to spill, where it needs one overflow page more, and where
// its lengths take a byte more.
func TestPayloads(t *testing.T) {
	for _, size := range []int{512, 1024, 4096, 65536} {
		var payloads []int
		for _, at := range []int{57, 122, 8186, 16377, size - 35, 2*size - 35, 3*size - 39, 1<<20 - 5} {
			for near := at - 10; near <= min(at+10, accounts.MaxPayload); near++ {
				payloads = append(payloads, near)
			}
		}
		for _, payload := range payloads {
			if _, _, err := examine(rowid(2, 300, payload, size), 2, noLock); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The lock byte's page may fall anywhere behind the template: on every page of a
// file with leaves, overflow pages and two levels above them, and behind its end.
func TestLockPageAnywhere(t *testing.T) {
	for _, spec := range []accounts.Spec{
		rowid(1, 5, 0, 512), rowid(2000, 5, 0, 512), rowid(1, 5, 5000, 512), rowid(90, 5, 1300, 512), rowid(90, 5, 450, 512),
	} {
		whole, err := newTree(spec, template(3, spec.PageSize), 3, noLock*int64(spec.PageSize))
		if err != nil {
			t.Fatal(err)
		}
		for lock := int64(4); lock <= whole.Pages()+2; lock++ {
			if _, _, err := examine(spec, 3, lock); err != nil {
				t.Fatal(err)
			}
			moved, err := newTree(spec, template(3, spec.PageSize), 3, (lock-1)*int64(spec.PageSize))
			if err != nil {
				t.Fatal(err)
			}
			want := whole.Pages()
			if lock <= want {
				want++ // it is one of the file's, and never the last
			}
			if moved.Pages() != want || moved.Bytes() != want*int64(spec.PageSize) {
				t.Errorf("%+v with the lock on page %d: %d pages, want %d", spec, lock, moved.Pages(), want)
			}
		}
	}
}

// Whatever byte of a file changes, the walker sees it: the tests above would.
func TestWalkerSeesEveryByte(t *testing.T) {
	for _, spec := range []accounts.Spec{rowid(40, 1_000, 0, 512), rowid(160, 1_000, 0, 512), rowid(3, 1<<40, 1200, 512)} {
		tree, err := newTree(spec, template(2, spec.PageSize), 2, 4*512)
		if err != nil {
			t.Fatal(err)
		}
		f := build(tree, 5)
		if _, _, err := f.walk(); err != nil {
			t.Fatal(err)
		}
		for i := range f.content {
			for _, bit := range []byte{1, 0x80} {
				f.content[i] ^= bit
				if _, _, err := f.walk(); err == nil {
					t.Fatalf("%+v: byte %d of page %d changed unseen", spec, i%512, i/512+1)
				}
				f.content[i] ^= bit
			}
		}
	}
}

// seek looks one id up as SQLite does, from the root down, in a file that nobody
// could write whole. It returns the ids of the leaf.
func seek(t *Tree, id int64) (first, last int64, err error) {
	w := walker{spec: t.spec, pages: t.pages, template: t.template, root: t.root, lock: t.lock, seen: map[int64]bool{}}
	w.page = func(n int64) []byte {
		page := make([]byte, t.spec.PageSize)
		t.Fill(page, n)
		return page
	}
	n, low, high := t.root, int64(0), t.spec.Rows
	var page []byte
	for {
		if page = w.page(n); page[0] == 13 {
			break
		}
		children, err := parseInterior(page)
		if err != nil {
			return 0, 0, fmt.Errorf("page %d: %w", n, err)
		}
		i := 0
		for i < len(children)-1 && children[i].key < id {
			low = children[i].key
			i++
		}
		if i < len(children)-1 {
			high = children[i].key
		}
		n = children[i].page
		if err := w.use(n); err != nil {
			return 0, 0, err
		}
	}
	rows, _, err := parseLeaf(page)
	if err != nil {
		return 0, 0, fmt.Errorf("page %d: %w", n, err)
	}
	for i, r := range rows {
		if r.id != low+1+int64(i) {
			return 0, 0, fmt.Errorf("page %d: id %d instead of %d", n, r.id, low+1+int64(i))
		}
		payload, err := w.payload(r)
		if err == nil {
			err = checkRecord(payload, t.spec)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("page %d: id %d: %w", n, r.id, err)
		}
	}
	if last = low + int64(len(rows)); last != high || id <= low || id > high {
		return 0, 0, fmt.Errorf("id %d was sought, the leaf has %d to %d, the keys say %d", id, low+1, last, high)
	}
	return low + 1, last, nil
}

// Tables too large for a test's disk: ids around each step of a varint and the
// lock's page, and random ones, are where they are looked for.
func TestLargeTables(t *testing.T) {
	for _, spec := range []accounts.Spec{
		rowid(1<<21+5000, 1, 0, 512),
		rowid(3_000_000_000, 1_000_000_000, 0, 4096),
		rowid(3_000_000_000, 1_000_000_000, 3900, 4096), // a page each: numbers above 2^31
		rowid(4_000_000_000, 1, 470, 512),
		rowid(1_000_000_000_000, 4_000_000, 20, 65536),
		rowid(10_000_000_000_000, 100_000, 0, 65536),    // ids of seven bytes
		rowid(1_400_000_000, 1_000_000_000, 2000, 1024), // two overflow pages each
	} {
		tree, err := New(spec, template(4, spec.PageSize), 3)
		if err != nil {
			t.Fatal(err)
		}
		check := func(t interface{ Fatalf(string, ...any) }, id int64) {
			first, last, err := seek(tree, id)
			if err != nil || first > id || last < id {
				t.Fatalf("%+v: id %d is on a leaf with %d to %d: %v", spec, id, first, last, err)
			}
			if last < spec.Rows {
				if next, _, err := seek(tree, last+1); err != nil || next != last+1 {
					t.Fatalf("%+v: behind the leaf that ends with %d comes %d: %v", spec, last, next, err)
				}
			}
		}
		for _, step := range []int64{1, 1 << 7, 1 << 14, 1 << 21, 1 << 28, 1 << 31, 1 << 35, 1 << 42, spec.Rows} {
			for id := max(1, step-1); id <= min(step+1, spec.Rows); id++ {
				check(t, id)
			}
		}
		rapid.Check(t, func(t *rapid.T) { check(t, rapid.Int64Range(1, spec.Rows).Draw(t, "id")) })
	}
}

func TestRefusals(t *testing.T) {
	good := rowid(100, 1, 0, 512)
	article, indexed := good, good
	article.Schema = accounts.SchemaArticle
	indexed.Indexes = 1
	for _, test := range []struct {
		name     string
		spec     accounts.Spec
		template []byte
		root     int64
		says     string
	}{
		{"an invalid spec", rowid(0, 1, 0, 512), template(2, 512), 2, "accounts: 0 rows"},
		{"the article's schema", article, template(2, 512), 2, "only a table with a rowid and without indexes"},
		{"an index", indexed, template(2, 512), 2, "only a table with a rowid and without indexes"},
		{"no template", good, nil, 2, "a template of 0 bytes"},
		{"one page", good, template(1, 512), 1, "a template of 512 bytes"},
		{"half a page", good, template(2, 512)[:1000], 2, "a template of 1000 bytes"},
		{"another page size", rowid(1, 1, 0, 1024), template(3, 512), 2, "does not fit pages of 1024 bytes"},
		{"the root on the header's page", good, template(2, 512), 1, "the root on page 1"},
		{"the root behind the template", good, template(2, 512), 3, "the root on page 3"},
		{"the most rows", rowid(1<<53, 1, 0, 65536), template(2, 65536), 2, "more than the 4294967294 pages"},
		{"a row an overflow page", rowid(4_000_000_000, 1, 600, 512), template(2, 512), 2, "choose fewer rows, a smaller payload or a larger page size"},
		{"more pages than an int64 counts", rowid(1<<53, 0, 1<<20, 1024), template(2, 1024), 2, "more than the 4294967294 pages"},
		{"and back to a few", rowid(1<<53, 0, 1<<20, 512), template(2, 512), 2, "more than the 4294967294 pages"},
	} {
		tree, err := New(test.spec, test.template, test.root)
		if err == nil || tree != nil || !bytes.Contains([]byte(err.Error()), []byte(test.says)) || bytes.Contains([]byte(err.Error()), []byte("\n")) {
			t.Errorf("%s: %v, %v: want an error with %q", test.name, tree, err, test.says)
		}
	}
}

// The limit is exact: a table whose file has all pages that SQLite allows, or
// nearly, and the same with one row more than fits.
func TestPageLimit(t *testing.T) {
	most, tooMany := int64(1), int64(maxPages)
	layOut := func(rows int64) (*Tree, error) { return New(rowid(rows, 1, 470, 512), template(2, 512), 2) }
	for tooMany-most > 1 {
		rows := most + (tooMany-most)/2
		if _, err := layOut(rows); err == nil {
			most = rows
		} else {
			tooMany = rows
		}
	}
	tree, err := layOut(most)
	if err != nil {
		t.Fatal(err)
	}
	if tree.Pages() > maxPages || tree.Pages() < maxPages-4 {
		t.Errorf("%d pages are the most", tree.Pages())
	}
	if _, _, err := seek(tree, most); err != nil {
		t.Error(err)
	}
}
