package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tpssim/tpssim/accounts"
)

// This file reads what the package writes, from the format's description and with
// none of the package's code: no formula of Tree is used here. Every byte of every
// page is accounted for, so that a wrong one anywhere is found.

// walker walks a whole file.
type walker struct {
	spec     accounts.Spec
	page     func(n int64) []byte
	pages    int64
	template []byte
	root     int64
	lock     int64 // page number; may lie behind the file

	seen  map[int64]bool // pages behind the template
	last  int64          // the largest id so far
	gap   int            // free bytes on the leaf before, -1 at the first
	depth int            // of the leaves, -1 before the first
	leafs int64
}

// walk checks the file of pages pages and returns how deep its leaves lie and how
// many there are.
func (w *walker) walk() (depth int, leaves int64, err error) {
	w.seen, w.gap, w.depth = map[int64]bool{}, -1, -1
	small := int64(len(w.template) / w.spec.PageSize)
	for n := int64(1); n <= small; n++ {
		if err := w.small(n); err != nil {
			return 0, 0, err
		}
	}
	largest, err := w.tree(w.root, 0)
	switch {
	case err != nil:
		return 0, 0, err
	case largest != w.spec.Rows || w.last != w.spec.Rows:
		return 0, 0, fmt.Errorf("the last id is %d, %d rows", w.last, w.spec.Rows)
	}
	for n := small + 1; n <= w.pages; n++ {
		switch {
		case n == w.lock && w.seen[n]:
			return 0, 0, fmt.Errorf("page %d, the lock's, is used", n)
		case n == w.lock && !zero(w.page(n)):
			return 0, 0, fmt.Errorf("page %d, the lock's, is not zero", n)
		case n != w.lock && !w.seen[n]:
			return 0, 0, fmt.Errorf("page %d is not reached", n)
		}
	}
	if w.lock == w.pages {
		return 0, 0, fmt.Errorf("page %d, the lock's, is the last", w.lock)
	}
	return w.depth, w.leafs, nil
}

// small checks page n of the template: it is as it was but for the header of the
// database and the root, which is looked at later.
func (w *walker) small(n int64) error {
	if n == w.root {
		return nil
	}
	size := int64(w.spec.PageSize)
	got, want := bytes.Clone(w.page(n)), bytes.Clone(w.template[(n-1)*size:n*size])
	if n == 1 {
		switch {
		case got[18] != 2 || got[19] != 2:
			return fmt.Errorf("the file format is %v, not that of WAL", got[18:20])
		case int64(binary.BigEndian.Uint32(got[28:])) != w.pages:
			return fmt.Errorf("the header says %d pages", binary.BigEndian.Uint32(got[28:]))
		case !bytes.Equal(got[92:96], got[24:28]):
			return fmt.Errorf("the page count is valid for change %v, not %v", got[92:96], got[24:28])
		}
		for _, changed := range [][2]int{{18, 20}, {28, 32}, {92, 96}} {
			copy(want[changed[0]:], got[changed[0]:changed[1]])
		}
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("page %d is not as in the template", n)
	}
	return nil
}

// use notes that page n, behind the template, is used here.
func (w *walker) use(n int64) error {
	small := int64(len(w.template) / w.spec.PageSize)
	if n <= small || n > w.pages || n == w.lock || w.seen[n] {
		return fmt.Errorf("a pointer to page %d, which is used, the lock's, or none", n)
	}
	w.seen[n] = true
	return nil
}

// tree checks what is below page n and returns the largest id in it.
func (w *walker) tree(n int64, depth int) (largest int64, err error) {
	if n != w.root {
		if err := w.use(n); err != nil {
			return 0, err
		}
	}
	p := w.page(n)
	switch p[0] {
	case 13:
		if w.depth >= 0 && w.depth != depth {
			return 0, fmt.Errorf("page %d: a leaf at depth %d, others at %d", n, depth, w.depth)
		}
		w.depth = depth
		return w.leaf(n, p)
	case 5:
		if depth > 20 {
			return 0, fmt.Errorf("page %d: too deep", n)
		}
		children, err := parseInterior(p)
		if err != nil {
			return 0, fmt.Errorf("page %d: %w", n, err)
		}
		for i, c := range children {
			if largest, err = w.tree(c.page, depth+1); err != nil {
				return 0, err
			}
			if i < len(children)-1 && c.key != largest {
				return 0, fmt.Errorf("page %d: key %d above a largest id of %d", n, c.key, largest)
			}
		}
		return largest, nil
	}
	return 0, fmt.Errorf("page %d is of type %d", n, p[0])
}

// leaf checks the rows of a leaf.
func (w *walker) leaf(n int64, p []byte) (largest int64, err error) {
	rows, gap, err := parseLeaf(p)
	if err != nil {
		return 0, fmt.Errorf("page %d: %w", n, err)
	}
	if need := rows[0].bytes + 2; w.gap >= need {
		return 0, fmt.Errorf("page %d: its first row, %d bytes, would fit the %d of the leaf before", n, need, w.gap)
	}
	w.gap = gap
	w.leafs++
	for _, r := range rows {
		if w.last++; r.id != w.last {
			return 0, fmt.Errorf("page %d: id %d instead of %d", n, r.id, w.last)
		}
		payload, err := w.payload(r)
		if err == nil {
			err = checkRecord(payload, w.spec)
		}
		if err != nil {
			return 0, fmt.Errorf("page %d: id %d: %w", n, r.id, err)
		}
	}
	return w.last, nil
}

// payload returns the whole record of a row, from its overflow pages too.
func (w *walker) payload(r row) ([]byte, error) {
	payload := bytes.Clone(r.local)
	next := r.overflow
	for next != 0 {
		if err := w.use(next); err != nil {
			return nil, fmt.Errorf("overflow: %w", err)
		}
		p := w.page(next)
		part := min(r.size-len(payload), len(p)-4)
		if part <= 0 {
			return nil, errors.New("an overflow page without payload")
		}
		if !zero(p[4+part:]) {
			return nil, fmt.Errorf("page %d: more than the payload on an overflow page", next)
		}
		payload = append(payload, p[4:4+part]...)
		next = int64(binary.BigEndian.Uint32(p))
	}
	if len(payload) != r.size {
		return nil, fmt.Errorf("%d bytes of a record of %d", len(payload), r.size)
	}
	return payload, nil
}

type child struct{ page, key int64 }

// parseInterior checks an interior page for itself and returns its children; the
// last has no key.
func parseInterior(p []byte) (children []child, err error) {
	cells, _, err := parseCells(p, 12, func(c []byte) (int, error) {
		key, n := varint(c[min(4, len(c)):])
		if n == 0 {
			return 0, errors.New("a cell leaves the page")
		}
		children = append(children, child{int64(binary.BigEndian.Uint32(c)), key})
		return 4 + n, nil
	})
	if err != nil {
		return nil, err
	}
	if cells < 1 {
		return nil, errors.New("an interior page with one child")
	}
	for i := 1; i < cells; i++ {
		if children[i].key <= children[i-1].key {
			return nil, fmt.Errorf("key %d behind %d", children[i].key, children[i-1].key)
		}
	}
	return append(children, child{page: int64(binary.BigEndian.Uint32(p[8:]))}), nil
}

type row struct {
	id       int64
	size     int    // of the record
	local    []byte // of it, on the leaf
	overflow int64  // page, 0 for none
	bytes    int    // of the cell
}

// parseLeaf checks a leaf for itself and returns its rows, and how many bytes are
// free on it.
func parseLeaf(p []byte) (rows []row, gap int, err error) {
	_, gap, err = parseCells(p, 8, func(c []byte) (int, error) {
		size, n := varint(c)
		id, m := varint(c[n:])
		head := n + m
		if n == 0 || m == 0 || size > 1<<30 {
			return 0, errors.New("a cell leaves the page")
		}
		r := row{id: id, size: int(size)}
		onLeaf, spills := localBytes(len(p), r.size)
		r.bytes = head + onLeaf
		if spills {
			r.bytes += 4
		}
		if r.bytes > len(c) {
			return 0, errors.New("a cell leaves the page")
		}
		r.local = c[head : head+onLeaf]
		if spills {
			if r.overflow = int64(binary.BigEndian.Uint32(c[head+onLeaf:])); r.overflow == 0 {
				return 0, errors.New("no overflow page")
			}
		}
		rows = append(rows, r)
		return max(4, r.bytes), nil
	})
	if err == nil && len(rows) == 0 {
		err = errors.New("a leaf without rows")
	}
	return rows, gap, err
}

// localBytes is how much of a record of p bytes lies on a leaf: the rule of
// "Cell Payload Overflow Pages" in the format's words.
func localBytes(u, p int) (local int, spills bool) {
	x := u - 35
	if p <= x {
		return p, false
	}
	m := (u-12)*32/255 - 23
	if k := m + (p-m)%(u-4); k <= x {
		return k, true
	}
	return m, true
}

// parseCells checks the header of a tree's page and that its cells lie one below
// the other from the page's end on, without a byte between them, and the rest is
// zero. cell looks at a cell and says how long it is.
func parseCells(p []byte, header int, cell func([]byte) (int, error)) (cells, gap int, err error) {
	cells = int(binary.BigEndian.Uint16(p[3:]))
	content := int(binary.BigEndian.Uint16(p[5:]))
	if content == 0 {
		content = 65536
	}
	end := header + 2*cells
	if p[1] != 0 || p[2] != 0 || p[7] != 0 || end > content || content > len(p) {
		return 0, 0, fmt.Errorf("header %x", p[:header])
	}
	if !zero(p[end:content]) {
		return 0, 0, errors.New("the free space is not zero")
	}
	below := len(p)
	for i := range cells {
		at := int(binary.BigEndian.Uint16(p[header+2*i:]))
		if at < content || at >= below {
			return 0, 0, fmt.Errorf("cell %d at %d, the content from %d, the cell before at %d", i, at, content, below)
		}
		length, err := cell(p[at:below])
		if err != nil {
			return 0, 0, fmt.Errorf("cell %d: %w", i, err)
		}
		if at+length != below {
			return 0, 0, fmt.Errorf("cell %d ends at %d, the one before begins at %d", i, at+length, below)
		}
		below = at
	}
	if below != content {
		return 0, 0, fmt.Errorf("the content begins at %d, the last cell at %d", content, below)
	}
	return cells, content - end, nil
}

// checkRecord checks a row's record: a NULL for the id, the balance in as few bytes
// as can be, the payload.
func checkRecord(record []byte, spec accounts.Spec) error {
	header, n := varint(record)
	if header > int64(len(record)) || n == 0 {
		return errors.New("a record header of no length")
	}
	var types []int64
	for at := int64(n); at < header; {
		kind, n := varint(record[at:header])
		if n == 0 {
			return errors.New("a broken record header")
		}
		types = append(types, kind)
		at += int64(n)
	}
	columns := 2
	if spec.Payload > 0 {
		columns = 3
	}
	if len(types) != columns || types[0] != 0 {
		return fmt.Errorf("serial types %v", types)
	}
	body := record[header:]
	balance, length, ok := integerOf(types[1], body)
	if !ok || balance != spec.Balance {
		return fmt.Errorf("balance %d (serial type %d) instead of %d", balance, types[1], spec.Balance)
	}
	if want := shortest(spec.Balance); types[1] != want {
		return fmt.Errorf("balance %d with serial type %d instead of %d", balance, types[1], want)
	}
	body = body[length:]
	if spec.Payload > 0 && types[2] != int64(12+2*spec.Payload) {
		return fmt.Errorf("serial type %d for a payload of %d", types[2], spec.Payload)
	}
	if !bytes.Equal(body, bytes.Repeat([]byte{0xA5}, spec.Payload)) {
		return fmt.Errorf("a wrong payload of %d bytes", len(body))
	}
	return nil
}

// widths are the lengths of the serial types 0 to 9.
var widths = [...]int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0}

// integerOf decodes an integer of a serial type.
func integerOf(kind int64, body []byte) (v int64, length int, ok bool) {
	if kind < 1 || kind > 9 || kind == 7 || widths[kind] > len(body) {
		return 0, 0, false
	}
	if kind >= 8 {
		return kind - 8, 0, true
	}
	length = widths[kind]
	v = int64(int8(body[0])) // the sign is the first bit's
	for _, b := range body[1:length] {
		v = v<<8 | int64(b)
	}
	return v, length, true
}

// shortest is the serial type with the fewest bytes that can hold v.
func shortest(v int64) int64 {
	if v == 0 || v == 1 {
		return 8 + v
	}
	for kind, width := range widths[:7] {
		if bits := uint(8 * width); width > 0 && v<<(64-bits)>>(64-bits) == v {
			return int64(kind)
		}
	}
	return -1
}

// varint reads a variable-length integer: up to eight bytes of seven bits, a ninth
// of eight. A length of 0 means that there is none, or one that is too long.
func varint(p []byte) (v int64, n int) {
	for i, b := range p {
		if i == 8 {
			return v<<8 | int64(b), 9
		}
		v = v<<7 | int64(b&0x7f)
		if b < 0x80 {
			if i > 0 && p[0] == 0x80 {
				return 0, 0
			}
			return v, i + 1
		}
	}
	return 0, 0
}

func zero(p []byte) bool { return len(bytes.Trim(p, "\x00")) == 0 }
