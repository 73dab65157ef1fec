package accounts

import (
	"bytes"
	"fmt"
)

// keyMask keeps 31 bits: a key column lies in 0..2^31-1 and the product of two
// such numbers still fits SQLite's signed 64-bit integers, which turn into
// floating point instead of wrapping around.
const keyMask = 1<<31 - 1

// keyFirst are the multipliers of the first step, one a column, so that the
// columns of one row are unrelated: odd, so that they permute the 31-bit
// numbers, and not close to each other.
var keyFirst = [MaxIndexes]int64{
	0x41c64e6d, 0x2c1b3c6d, 0x297a2d39, 0x6c078965,
	0x7feb352d, 0x1b873593, 0x3c6ef35f, 0x5f356495,
}

const (
	keyHigh = 0x2545f491 // multiplies the id's bits above 31, at most 23 of them
	keyLast = 0x5bd1e995 // multiplier of the last step, odd
)

// KeyColumn returns the value of column k_i of the account id: a hash in
// 0..2^31-1 that puts neighbouring ids far apart, as people's secondary indexes
// do. Among 2^31 consecutive ids that start at a multiple of 2^31 no value
// occurs twice. The columns are numbered 1 to [MaxIndexes]; id is 0 to
// [MaxRows]. Another i panics.
//
// It is a few steps that each permute the 31-bit numbers: multiply, the
// quadratic x(2x+1) of the cipher RC6, swap the halves, multiply. Without the
// quadratic, neighbouring ids would differ by one of a few constants, and the
// index would grow at a few places instead of everywhere.
func KeyColumn(id int64, i int) int64 {
	x := ((id & keyMask) + (id>>31)*keyHigh) & keyMask
	x = x * keyFirst[i-1] & keyMask
	x = x * (2*x + 1) & keyMask // below 2^63
	x = x>>15 | (x&0x7fff)<<16
	return x * keyLast & keyMask
}

// KeyColumnSQL returns an SQL expression that has the value of [KeyColumn] for
// the id that idExpr yields, in integer arithmetic that never leaves the range
// of a signed 64-bit integer. idExpr is pasted eight times: use a column or a
// numbered parameter, not a subquery. The expression is, step by step and with
// F the column's multiplier,
//
//	x = ((id & 2147483647) + (id >> 31) * 625341585) & 2147483647
//	x = x * F & 2147483647
//	x = x * (2 * x + 1) & 2147483647
//	x = x >> 15 | (x & 32767) << 16
//	x = x * 1540483477 & 2147483647
//
// with a pair of parentheses around every operation, because SQLite and Go give
// these operators different precedence.
func KeyColumnSQL(idExpr string, i int) string {
	x := fmt.Sprintf("((((%[1]s) & %[2]d) + (((%[1]s) >> 31) * %[3]d)) & %[2]d)", idExpr, keyMask, keyHigh)
	x = fmt.Sprintf("((%s * %d) & %d)", x, keyFirst[i-1], keyMask)
	x = fmt.Sprintf("((%[1]s * ((2 * %[1]s) + 1)) & %[2]d)", x, keyMask)
	x = fmt.Sprintf("((%[1]s >> 15) | ((%[1]s & 32767) << 16))", x)
	return fmt.Sprintf("((%s * %d) & %d)", x, keyLast, keyMask)
}

// payloadByte fills the payload. It is not zero: file systems and disks that
// recognize zeros would store them for nothing.
const payloadByte = 0xA5

// PayloadBytes returns the content of the payload column, n bytes, the same
// for every account: one blob is bound once and written again and again.
// n is 0 or more.
func PayloadBytes(n int) []byte {
	return bytes.Repeat([]byte{payloadByte}, n)
}
