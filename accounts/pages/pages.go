// Package pages writes the account table of a data set page by page, as SQLite's
// file format lays it down, instead of row by row through SQL.
//
// Rows that come in the order of their keys need no search in a B-tree: which rows
// lie on which leaf, and which leaves below which interior page, is arithmetic on
// their number. So every page of the file is a function of its page number alone
// ([Tree.Fill]); pages can be built in any order and by any number of goroutines,
// and memory does not depend on the number of rows.
//
// The numbers in this package are those of "Database File Format",
// https://www.sqlite.org/fileformat2.html: section 1.3 for the header, 1.4 for the
// lock-byte page, 1.6 for B-tree pages and cells, 1.7 for overflow pages, 2.1 for
// records, and 2.3 for the rowid that is stored as NULL.
//
// The small pages before the table (the schema, the tables beside it) are written
// by SQLite itself and given to this package as a template, whose table account is
// empty. Behind them come, in this order:
//
//	leaves     as INSERT in the order of the ids fills them, to the byte
//	overflow   of payloads that do not fit a leaf, in the order of the ids
//	interior   level by level, filled; the root is on its page of the template
//
// The page that holds the lock byte, at 1 GiB, is left out wherever it falls.
package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/tpssim/tpssim/accounts"
)

const (
	lockByteOffset = 1 << 30    // the page with this byte belongs to the locks
	maxPages       = 4294967294 // of a database: 2^32-2
	headerBytes    = 100        // of the database, on page 1
	leafHeader     = 8          // of a leaf page
	interiorHeader = 12         // of an interior page
	pointerBytes   = 2          // of a cell's place in the page's pointer array
	childBytes     = 4          // of a page number in an interior cell
	shortCell      = 1 + 8 + 8  // room that putShort writes to for a cell at most
	tableLeaf      = 0x0d       // page types
	tableInterior  = 0x05
	blobType       = 12 // serial type of an empty blob; two more for each byte
)

// Tree is a database whose account table is full: a function from page number to
// page.
type Tree struct {
	spec     accounts.Spec
	leaves   accounts.Leaves
	template []byte // the first pages, as SQLite wrote them
	small    int64  // how many they are
	root     int64  // the page number of the table's root, one of them
	lock     int64  // the page number of the lock-byte page

	record   []byte // what each row has in common, as far as it lies on the leaf
	length   []byte // of the record, as a varint
	short    bool   // all of the record is in word
	word     uint64 // the record in little-endian order, if it is short
	overflow int64  // overflow pages of a row
	spilled  int64  // bytes of payload on them
	filler   []byte // payload for a whole overflow page

	leafCount int64
	fanout    int64   // children of a full interior page
	levels    []level // above the leaves, without the root
	pages     int64   // of the whole file
}

// level is a level of interior pages.
type level struct {
	first    int64 // place of its first page among those behind the template
	count    int64
	children int64 // on the level below
}

// New lays out the table of spec behind template, which is the content of a
// database of spec.PageSize that has an empty table account with its root on page
// root. The table has a rowid and no indexes of its own.
//
// Errors: a spec that is not of this kind, a template that does not fit it, more
// pages than SQLite allows.
func New(spec accounts.Spec, template []byte, root int64) (*Tree, error) {
	return newTree(spec, template, root, lockByteOffset)
}

// newTree is New for a lock byte at any offset behind the template, so that tests
// need no gigabyte to reach it.
func newTree(spec accounts.Spec, template []byte, root, lockByte int64) (*Tree, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	size := int64(spec.PageSize)
	small := int64(len(template)) / size
	switch {
	case spec.Schema != accounts.SchemaRowid || spec.Indexes > 0:
		return nil, errors.New("pages: only a table with a rowid and without indexes can be written page by page")
	case small < 2 || int64(len(template)) != small*size || root < 2 || root > small:
		return nil, fmt.Errorf("pages: a template of %d bytes with the root on page %d does not fit pages of %d bytes", len(template), root, size)
	}
	t := &Tree{
		spec: spec, leaves: spec.Leaves(), template: template, small: small, root: root,
		lock: lockByte/size + 1,
	}
	t.layRow()
	t.leafCount = spec.LeafPages()
	tooMany := fmt.Errorf("pages: %d rows need more than the %d pages that SQLite allows: choose fewer rows, a smaller payload or a larger page size", spec.Rows, int64(maxPages))
	if t.leafCount > maxPages {
		return nil, tooMany // before their overflow pages are too many for an int64
	}
	t.fanout = 1 + (size-interiorHeader)/int64(childBytes+varintLen(uint64(spec.Rows))+pointerBytes)
	t.layLevels()
	if t.pages > maxPages {
		return nil, tooMany
	}
	return t, nil
}

// layRow prepares what all rows have in common: the record's header and body. The
// id is the rowid, which stands before the record; inside it is a NULL.
func (t *Tree) layRow() {
	balanceType, balance := integer(t.spec.Balance)
	types := []byte{0, balanceType}
	if t.spec.Payload > 0 {
		types = appendVarint(types, uint64(blobType+2*t.spec.Payload))
	}
	record := append([]byte{byte(1 + len(types))}, types...)
	record = append(record, balance...)
	record = append(record, accounts.PayloadBytes(t.spec.Payload)...)
	t.length = appendVarint(nil, uint64(len(record)))

	// How much of a long record stays on the leaf: section 1.6.
	usable := t.spec.PageSize
	if local, limit := len(record), usable-35; local > limit {
		least := (usable-12)*32/255 - 23
		local = least + (len(record)-least)%(usable-4)
		if local > limit {
			local = least
		}
		t.spilled = int64(len(record) - local)
		t.overflow = (t.spilled + int64(usable) - 5) / int64(usable-4)
		t.filler = accounts.PayloadBytes(usable - childBytes)
		record = record[:local]
	}
	t.record = record
	if t.short = len(record) <= 8 && t.overflow == 0; t.short {
		var word [8]byte
		copy(word[:], record)
		t.word = binary.LittleEndian.Uint64(word[:])
	}
}

// layLevels decides which pages the interior levels take, bottom up, until one
// page has room for all that is left: the root.
func (t *Tree) layLevels() {
	behind := t.leafCount + t.spec.Rows*t.overflow
	if t.leafCount == 1 {
		behind-- // the root is the leaf
	}
	for n := t.leafCount; n > t.fanout; {
		l := level{first: behind, count: (n + t.fanout - 1) / t.fanout, children: n}
		t.levels = append(t.levels, l)
		behind += l.count
		n = l.count
	}
	t.pages = t.number(behind - 1)
}

// Pages returns the number of pages of the file, the lock-byte page included.
func (t *Tree) Pages() int64 { return t.pages }

// Bytes returns the size of the file.
func (t *Tree) Bytes() int64 { return t.pages * int64(t.spec.PageSize) }

// number returns the number of the page at a place behind the template.
func (t *Tree) number(place int64) int64 {
	n := t.small + 1 + place
	if n >= t.lock {
		n++
	}
	return n
}

// Fill writes page number n, 1 to Pages(), into page, which has the page's size.
func (t *Tree) Fill(page []byte, n int64) {
	clear(page)
	switch {
	case n == t.lock:
	case n == t.root:
		t.fillRoot(page)
	case n <= t.small:
		copy(page, t.template[(n-1)*int64(len(page)):])
		if n == 1 {
			t.fillHeader(page)
		}
	default:
		place := n - t.small - 1
		if n > t.lock {
			place--
		}
		t.fillPlace(page, place)
	}
}

// fillPlace writes the page at a place behind the template.
func (t *Tree) fillPlace(page []byte, place int64) {
	if place < t.leafCount && t.leafCount > 1 {
		t.fillLeaf(page, place)
		return
	}
	for i := len(t.levels) - 1; i >= 0; i-- {
		if l := &t.levels[i]; place >= l.first {
			first, end := t.childrenOf(l, place-l.first)
			t.fillInterior(page, i, first, end)
			return
		}
	}
	t.fillOverflow(page, place-t.overflowPlace())
}

// overflowPlace is the place of the first overflow page.
func (t *Tree) overflowPlace() int64 {
	if t.leafCount == 1 {
		return 0
	}
	return t.leafCount
}

// fillRoot writes the root, which is a leaf when one is enough.
func (t *Tree) fillRoot(page []byte) {
	if t.leafCount == 1 {
		t.fillLeaf(page, 0)
		return
	}
	below := t.leafCount
	if n := len(t.levels); n > 0 {
		below = t.levels[n-1].count
	}
	t.fillInterior(page, len(t.levels), 0, below)
}

// fillHeader makes the template's header that of the whole file: its size, a
// change counter that vouches for it, and WAL as the journal mode.
func (t *Tree) fillHeader(page []byte) {
	page[18], page[19] = 2, 2
	binary.BigEndian.PutUint32(page[28:], uint32(t.pages))
	copy(page[92:96], page[24:28])
}

// fillLeaf writes a leaf: pointers to the cells from its header up, the cells from
// the end of the page down. It goes through the rows backwards, from the lowest cell
// up, so that putShort may write beyond a cell's end: the next one repairs that.
func (t *Tree) fillLeaf(page []byte, leaf int64) {
	first, last := t.leaves.End(leaf-1)+1, t.leaves.End(leaf)
	content := len(page) - t.cellsBytes(first, last)
	at, id := content, last
	if t.short && last < 1<<49 && varintLen(uint64(first)) == varintLen(uint64(last)) {
		at, id = t.putShort(page, content, first, last)
	}
	for ; id >= first; id-- {
		at += t.putCell(page[at:], id)
	}
	t.putPointers(page, first, last)
	fillTreeHeader(page, tableLeaf, last-first+1, content)
}

// putPointers writes where each cell begins, that of first at the page's end.
func (t *Tree) putPointers(page []byte, first, last int64) {
	rest := t.cellsBytes(first, first) - varintLen(uint64(first))
	at := len(page)
	pointers := page[leafHeader : leafHeader+(last-first+1)*pointerBytes]
	for id := first; id <= last; id++ {
		at -= rest + varintLen(uint64(id))
		binary.BigEndian.PutUint16(pointers, uint16(at))
		pointers = pointers[pointerBytes:]
	}
}

// cellsBytes returns the size of the cells of the accounts first to last, on one
// leaf.
func (t *Tree) cellsBytes(first, last int64) int {
	n := int(last-first+1) * (len(t.length) + len(t.record))
	if t.overflow > 0 {
		n += int(last-first+1) * childBytes
	}
	if idBytes := varintLen(uint64(last)); idBytes == varintLen(uint64(first)) {
		return n + int(last-first+1)*idBytes
	}
	for id := first; id <= last; id++ {
		n += varintLen(uint64(id))
	}
	return n
}

// putShort writes the cells of the accounts last down to first from content up, as
// long as there is room to write beyond them, and returns where it stopped. It is
// for the usual row: a record of up to 8 bytes, whose length takes one byte, behind
// ids of one length. Each cell is two stores.
func (t *Tree) putShort(page []byte, content int, first, last int64) (at int, id int64) {
	idBytes := varintLen(uint64(last))
	cell := 1 + idBytes + len(t.record)
	length, record := uint64(t.length[0]), t.word
	at, id = content, last
	for ; id >= first && at+shortCell <= len(page); id-- {
		p := page[at : at+shortCell]
		binary.LittleEndian.PutUint64(p, length|varintWord(uint64(id), idBytes)<<8)
		binary.LittleEndian.PutUint64(p[1+idBytes:], record)
		at += cell
	}
	return at, id
}

// putCell writes the cell of the account id to the start of p and returns its
// length.
func (t *Tree) putCell(p []byte, id int64) int {
	n := copy(p, t.length)
	idBytes := varintLen(uint64(id))
	putVarint(p[n:n+idBytes], uint64(id))
	n += idBytes
	n += copy(p[n:], t.record)
	if t.overflow > 0 {
		place := t.overflowPlace() + (id-1)*t.overflow
		binary.BigEndian.PutUint32(p[n:], uint32(t.number(place)))
		n += childBytes
	}
	return n
}

// fillTreeHeader writes what leaf and interior pages have in common. A content
// start of 65536 does not fit its two bytes and is stored as 0.
func fillTreeHeader(page []byte, kind byte, cells int64, content int) {
	page[0] = kind
	binary.BigEndian.PutUint16(page[3:], uint16(cells))
	binary.BigEndian.PutUint16(page[5:], uint16(content))
}

// fillOverflow writes the overflow page at index i: the number of the next one of
// the same row, then payload.
func (t *Tree) fillOverflow(page []byte, i int64) {
	part := i % t.overflow
	room := int64(len(page)) - childBytes
	rest := min(t.spilled-part*room, room)
	if part < t.overflow-1 {
		binary.BigEndian.PutUint32(page, uint32(t.number(t.overflowPlace()+i+1)))
	}
	copy(page[childBytes:], t.filler[:rest])
}

// childrenOf returns the children of page i of a level, those below end. An
// interior page needs two: when one would be left for the last page it takes
// another from the page before.
func (t *Tree) childrenOf(l *level, i int64) (first, end int64) {
	start := func(i int64) int64 {
		if i == l.count-1 && i > 0 && l.children%t.fanout == 1 {
			return i*t.fanout - 1
		}
		return i * t.fanout
	}
	return start(i), min(start(i+1), l.children)
}

// fillInterior writes an interior page above level below (0: the leaves) whose
// children there are first to end-1: for each but the last its page number and the
// largest id in it, for the last its page number in the header.
func (t *Tree) fillInterior(page []byte, below int, first, end int64) {
	content, pointer := len(page), interiorHeader
	for child := first; child < end-1; child++ {
		key := uint64(t.largest(below, child))
		keyBytes := varintLen(key)
		content -= childBytes + keyBytes
		binary.BigEndian.PutUint32(page[content:], uint32(t.child(below, child)))
		putVarint(page[content+childBytes:content+childBytes+keyBytes], key)
		binary.BigEndian.PutUint16(page[pointer:], uint16(content))
		pointer += pointerBytes
	}
	fillTreeHeader(page, tableInterior, end-1-first, content)
	binary.BigEndian.PutUint32(page[8:], uint32(t.child(below, end-1)))
}

// child returns the page number of page i of a level (0: the leaves).
func (t *Tree) child(below int, i int64) int64 {
	if below == 0 {
		return t.number(i)
	}
	return t.number(t.levels[below-1].first + i)
}

// largest returns the largest id under page i of a level (0: the leaves).
func (t *Tree) largest(below int, i int64) int64 {
	for ; below > 0; below-- {
		_, end := t.childrenOf(&t.levels[below-1], i)
		i = end - 1
	}
	return t.leaves.End(i)
}

// varintWord returns v, below 2^56, as a varint of n bytes in the low bytes of a
// little-endian word.
func varintWord(v uint64, n int) uint64 {
	groups := v&0x7f | v<<1&(0x7f<<8) | v<<2&(0x7f<<16) | v<<3&(0x7f<<24) |
		v<<4&(0x7f<<32) | v<<5&(0x7f<<40) | v<<6&(0x7f<<48) | v<<7&(0x7f<<56)
	groups |= 0x8080808080808000 // all but the last go on
	return bits.ReverseBytes64(groups) >> (64 - 8*n)
}

// integer returns the smallest serial type for v, 0 or more, and its content.
func integer(v int64) (serialType byte, content []byte) {
	full := binary.BigEndian.AppendUint64(nil, uint64(v))
	switch {
	case v == 0:
		return 8, nil
	case v == 1:
		return 9, nil
	case v <= math.MaxInt8:
		return 1, full[7:]
	case v <= math.MaxInt16:
		return 2, full[6:]
	case v < 1<<23:
		return 3, full[5:]
	case v <= math.MaxInt32:
		return 4, full[4:]
	case v < 1<<47:
		return 5, full[2:]
	}
	return 6, full
}

// varintLen returns the length of v, below 2^56, as a varint.
func varintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// putVarint writes v, below 2^56, into p, which has its length: seven bits a byte,
// the most significant first, all but the last with the high bit set.
func putVarint(p []byte, v uint64) {
	last := len(p) - 1
	p[last] = byte(v & 0x7f)
	for i := last - 1; i >= 0; i-- {
		v >>= 7
		p[i] = byte(v) | 0x80
	}
}

func appendVarint(p []byte, v uint64) []byte {
	n := len(p)
	p = append(p, make([]byte, varintLen(v))...)
	putVarint(p[n:], v)
	return p
}
