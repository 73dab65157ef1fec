package scenarios

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/tpssim/tpssim/engine"
)

// The kinds of keys that a table of its own may have.
const (
	KeysInteger  = "integer"  // 1, 2, 3, …
	KeysUUID4    = "uuid4"    // 16 bytes, random but for their version (RFC 9562, section 5.4)
	KeysUUID7    = "uuid7"    // 16 bytes, a time and then random (RFC 9562, section 5.7)
	KeysRandom20 = "random20" // 20 random bytes
)

// KeyKinds are all of them.
var KeyKinds = []string{KeysInteger, KeysUUID4, KeysUUID7, KeysRandom20}

// Keys say what the keys of a table of its own are like.
type Keys struct {
	Kind         string // one of KeyKinds; "": KeysInteger
	WithoutRowid bool   // the table is the index of its keys
	Sorted       bool   // each transaction inserts its entries in the order of their keys
}

// String is how a result names them, as in "uuid4 without rowid, sorted".
func (k Keys) String() string {
	text := k.kind()
	if k.WithoutRowid {
		text += " without rowid"
	}
	if k.Sorted {
		text += ", sorted"
	}
	return text
}

// Integers tells whether they are integers, not bytes.
func (k Keys) Integers() bool { return k.kind() == KeysInteger }

func (k Keys) kind() string {
	if k.Kind == "" {
		return KeysInteger
	}
	return k.Kind
}

func (k Keys) validate() error {
	if !slices.Contains(KeyKinds, k.kind()) {
		return fmt.Errorf("--keys %q is none of %s", k.Kind, strings.Join(KeyKinds, ", "))
	}
	return nil
}

// uuid7Rate is how many keys a millisecond of their time has, and uuid7Epoch when the
// first was made, in milliseconds of Unix time: a time of their own, so that a run can
// be repeated.
const (
	uuid7Rate  = 1000
	uuid7Epoch = 1_800_000_000_000
)

// at returns key i, its bytes in buf, which has room for 24. It depends on seed and i
// alone.
func (k Keys) at(seed, i uint64, buf []byte) engine.Key {
	if k.Integers() {
		return engine.Key{Integer: int64(i) + 1}
	}
	buf = buf[:0]
	for n := range uint64(3) {
		buf = binary.BigEndian.AppendUint64(buf, mix(seed, 3*i+n))
	}
	switch k.kind() {
	case KeysUUID4:
		return engine.Key{Blob: uuid(buf, 4)}
	case KeysUUID7:
		ms := uint64(uuid7Epoch) + i/uuid7Rate
		binary.BigEndian.PutUint32(buf, uint32(ms>>16))
		binary.BigEndian.PutUint16(buf[4:], uint16(ms))
		return engine.Key{Blob: uuid(buf, 7)}
	}
	return engine.Key{Blob: buf[:20]}
}

// uuid makes b a UUID of a version and of the variant of RFC 9562.
func uuid(b []byte, version byte) []byte {
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	return b[:16]
}
