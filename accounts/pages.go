package accounts

import "math"

// The sizes in this file follow "Database File Format" of the SQLite project
// (https://www.sqlite.org/fileformat2.html), sections 1.6 (B-tree pages), 1.6.1
// (cell payload and overflow) and 2.1 (record format), for a database without
// reserved bytes, where the usable size of a page is the page size.
const (
	leafHeaderBytes     = 8  // of a leaf page
	interiorHeaderBytes = 12 // of an interior page
	pointerBytes        = 2  // of a cell's place in the page's pointer array
	pageNumberBytes     = 4  // of a child or of the first overflow page
	minCellBytes        = 4  // a smaller cell takes as much
	keyColumnBytes      = 4  // of a k_i value: all but one in 256 need them
	lockByteOffset      = 1 << 30
)

// How full SQLite leaves the pages of a tree that grows by INSERT in the order
// of the ids. Table leaves are exact: the page is filled until a row does not
// fit, then a new one begins. The others come from SQLite's balancing of three
// neighbours (balance_nonroot); the shares are measured on files of 100
// thousand to a million rows, where they vary by two in a hundred.
const (
	appendedIndexFill = 0.875 // keys arrive in order: seven eighths
	builtIndexFill    = 0.995 // built from sorted entries once the rows are there
	interiorFill      = 0.85  // interior pages, under a percent of the file
)

// varintBytes is the length of v as one of SQLite's variable-length integers;
// v is 0 to 2^56-1.
func varintBytes(v int64) int64 {
	n := int64(1)
	for v >>= 7; v > 0; v >>= 7 {
		n++
	}
	return n
}

// intBytes is the size of v's content in a record: 0 and 1 have serial types of
// their own (8 and 9) and no content, the rest takes the smallest of 1, 2, 3,
// 4, 6 and 8 bytes. v is 0 or more.
func intBytes(v int64) int64 {
	switch {
	case v <= 1:
		return 0
	case v < 1<<7:
		return 1
	case v < 1<<15:
		return 2
	case v < 1<<23:
		return 3
	case v < 1<<31:
		return 4
	case v < 1<<47:
		return 6
	}
	return 8
}

// recordBytes is the size of the record of the account id when its k_i columns
// together take keys bytes.
func (s Spec) recordBytes(id, keys int64) int64 {
	// The header's own length, then a one-byte serial type for each integer.
	header := 1 + 2 + int64(s.Indexes)
	body := intBytes(s.Balance) + keys
	if s.Schema == SchemaArticle {
		body += intBytes(id) // SchemaRowid stores a NULL there: no content
	}
	if s.Payload > 0 {
		header += varintBytes(12 + 2*int64(s.Payload))
		body += int64(s.Payload)
	}
	return header + body
}

// cell splits a record into the cell on the table's leaf and the number of
// overflow pages behind it.
func (s Spec) cell(id, record int64) (bytes, overflowPages int64) {
	usable := int64(s.PageSize)
	local, prefix := record, varintBytes(record)+varintBytes(id)
	if limit := usable - 35; record > limit {
		least := (usable-12)*32/255 - 23
		local = least + (record-least)%(usable-4)
		if local > limit {
			local = least
		}
		overflowPages = (record - local + usable - 5) / (usable - 4)
		prefix += pageNumberBytes
	}
	return max(minCellBytes, prefix+local), overflowPages
}

// RowBytes returns the exact size in bytes of the cell of the account id on its
// table leaf as it is seeded: lengths, record, and the number of the first
// overflow page if there is one; not the two bytes in the page's pointer array,
// and not what lies on overflow pages or in indexes.
func (s Spec) RowBytes(id int64) int {
	var keys int64
	for i := 1; i <= s.Indexes; i++ {
		keys += intBytes(KeyColumn(id, i))
	}
	bytes, _ := s.cell(id, s.recordBytes(id, keys))
	return int(bytes)
}

// commonRecord is the record size of the account id with k_i values of the
// usual size, which makes it a function of the id's magnitude alone.
func (s Spec) commonRecord(id int64) int64 {
	return s.recordBytes(id, keyColumnBytes*int64(s.Indexes))
}

// sizeSteps are the ids at which a row may grow: where the rowid's varint or,
// in the article's schema, the stored id becomes longer.
var sizeSteps = [...]int64{
	1, 2, 1 << 7, 1 << 14, 1 << 15, 1 << 21, 1 << 23, 1 << 28, 1 << 31, 1 << 35, 1 << 42, 1 << 47, 1 << 49,
}

// leafRun is a range of ids whose rows have one size: open rows go on the leaf
// that the run before left unfinished, then per rows on each leaf.
type leafRun struct {
	first, leaf, open, per int64
}

// Leaves places every id on a leaf of the table, leaves counted from 0, in O(1)
// space however many there are. It is exact without key columns and an estimate
// with them, as one k_i in 256 is a byte shorter.
type Leaves struct {
	runs [len(sizeSteps)]leafRun
	n    int
	rows int64
}

// Leaves lays the rows out as INSERT in the order of the ids does.
func (s Spec) Leaves() Leaves {
	m := Leaves{rows: s.Rows}
	room := int64(s.PageSize) - leafHeaderBytes
	free, leaf := room, int64(0)
	for i, first := range sizeSteps {
		if first > s.Rows {
			break
		}
		last := s.Rows
		if i+1 < len(sizeSteps) {
			last = min(last, sizeSteps[i+1]-1)
		}
		bytes, _ := s.cell(first, s.commonRecord(first))
		bytes += pointerBytes
		run := leafRun{first: first, leaf: leaf, open: free / bytes, per: room / bytes}
		m.runs[i], m.n = run, i+1

		rows := last - first + 1
		if rows <= run.open {
			free -= rows * bytes
			continue
		}
		rows -= run.open
		full := (rows - 1) / run.per // whole leaves before the unfinished one
		leaf += 1 + full
		free = room - (rows-full*run.per)*bytes
	}
	return m
}

// Of returns the leaf of the account id, 1 to Spec.Rows.
func (m *Leaves) Of(id int64) int64 {
	i := m.n - 1
	for i > 0 && m.runs[i].first > id {
		i--
	}
	run := &m.runs[i]
	offset := id - run.first
	if offset < run.open {
		return run.leaf
	}
	return run.leaf + 1 + (offset-run.open)/run.per
}

// End returns the last id on leaf; End(-1) is 0.
func (m *Leaves) End(leaf int64) int64 {
	i := m.n - 1
	for i > 0 && m.runs[i].leaf > leaf {
		i--
	}
	run := &m.runs[i]
	return min(run.first-1+run.open+(leaf-run.leaf)*run.per, m.rows)
}

// LeafOf returns the table leaf, 0 to LeafPages()-1, on which the account id
// lies after seeding in the order of the ids. It is exact without extra columns
// and an estimate with them, as one k_i in 256 is a byte shorter. id is 1 to
// Rows. For many ids [Spec.LeavesTouched] is much faster.
func (s Spec) LeafOf(id int64) int64 {
	m := s.Leaves()
	return m.Of(id)
}

// LeavesTouched returns how many different table leaves the accounts ids lie
// on; ids are sorted in ascending order and may repeat. It allocates nothing.
func (s Spec) LeavesTouched(ids []int64) int64 {
	m := s.Leaves()
	touched, last := int64(0), int64(-1)
	for _, id := range ids {
		if leaf := m.Of(id); leaf != last {
			touched++
			last = leaf
		}
	}
	return touched
}

// LeafPages returns the number of leaf pages of the table, as exact as
// [Spec.LeafOf].
func (s Spec) LeafPages() int64 { return s.LeafOf(s.Rows) + 1 }

// RowsPerLeaf returns the number of accounts on a table leaf, on average over
// the whole table.
func (s Spec) RowsPerLeaf() float64 { return float64(s.Rows) / float64(s.LeafPages()) }

// ForecastBytes returns the size in bytes that the database file will have
// after seeding by INSERT in the order of the ids and creating the k_i indexes
// afterwards: table, overflow pages, the article's index, those indexes. From
// some hundred pages on it is within a few percent. The log of uncommitted pages
// and sorting space are not counted. Where no int64 holds the size it returns
// [math.MaxInt64].
func (s Spec) ForecastBytes() int64 {
	_, overflow := s.cell(s.Rows, s.commonRecord(s.Rows))
	leaves := float64(s.LeafPages())
	pages := 1 + leaves + float64(overflow)*float64(s.Rows) // page 1 is the schema's
	pages += s.interiorPages(leaves, float64(pageNumberBytes+varintBytes(s.Rows)))
	if s.Schema == SchemaArticle {
		pages += s.indexPages(1, intBytes, appendedIndexFill)
	}
	if s.Indexes > 0 {
		content := keyColumnBytes + intBytes(s.Balance)
		one := s.indexPages(2, func(int64) int64 { return content }, builtIndexFill)
		pages += float64(s.Indexes) * one
	}
	size := math.Ceil(pages) * float64(s.PageSize)
	if size > lockByteOffset {
		size += float64(s.PageSize) // the page with the lock byte holds nothing
	}
	if size >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(size)
}

// indexPages is the number of pages of an index whose entries hold the given
// number of integer columns and the rowid; content is the size in bytes of
// those columns in the entry of the account id.
func (s Spec) indexPages(columns int64, content func(id int64) int64, fill float64) float64 {
	var bytes, cell float64 // of all entries; of one of the largest
	for i, first := range sizeSteps {
		if first > s.Rows {
			break
		}
		next := s.Rows + 1
		if i+1 < len(sizeSteps) {
			next = min(next, sizeSteps[i+1])
		}
		record := 1 + columns + 1 + content(first) + intBytes(first)
		cell = float64(varintBytes(record) + record)
		bytes += float64(next-first) * (cell + pointerBytes)
	}
	// An entry is stored once: of the one that separates two leaves only the
	// interior page has a copy.
	room := float64(s.PageSize-leafHeaderBytes)*fill + cell + pointerBytes
	leaves := math.Ceil(bytes / room)
	return leaves + s.interiorPages(leaves, cell+pageNumberBytes)
}

// interiorPages is the number of pages above so many leaves when an interior
// cell takes cell bytes.
func (s Spec) interiorPages(leaves, cell float64) float64 {
	children := 1 + float64(s.PageSize-interiorHeaderBytes)*interiorFill/(cell+pointerBytes)
	total := 0.0
	for level := leaves; level > 1; {
		level = math.Ceil(level / children)
		total += level
	}
	return total
}
