package script

import (
	"errors"
	"fmt"
	"math"
)

// eval computes an expression.
func (e *Env) eval(n *node) (value, error) {
	switch n.op {
	case opConstant:
		return n.constant, nil
	case opVariable:
		return e.values[n.slot].number(e.script.names[n.slot])
	case opAnd, opOr:
		return e.evalLogic(n)
	case opCase:
		return e.evalCase(n)
	case opLeast, opGreatest:
		return e.evalExtremum(n)
	}
	var args [3]value
	null := false
	for i, arg := range n.args {
		v, err := e.eval(arg)
		if err != nil {
			return value{}, err
		}
		args[i] = v
		null = null || v.kind == kindNull
	}
	switch {
	case n.op == opIs:
		return boolValue(args[0].kind == args[1].kind && args[0].i == args[1].i), nil
	case null:
		return value{kind: kindNull}, nil
	case n.op == opNot:
		return boolValue(!args[0].truth()), nil
	case n.op >= opEqual && n.op <= opLessEqual:
		return compare(n.op, args[0], args[1])
	case n.op >= opBitOr && n.op <= opShiftRight:
		return bitwise(n.op, args[0], args[1])
	case n.op >= opAdd && n.op <= opModulo:
		return arithmetic(n.op, args[0], args[1])
	case n.op >= opRandom && n.op <= opZipfian:
		return e.random(n, args)
	case n.op == opFNV1a, n.op == opMurmur2:
		return hash(n.op, args[0], args[1])
	}
	return call(n.op, args[0], args[1])
}

// evalLogic computes AND and OR. The right side is computed only if it matters; a
// NULL at the left is the result, as in pgbench.
func (e *Env) evalLogic(n *node) (value, error) {
	left, err := e.eval(n.args[0])
	if err != nil || left.kind == kindNull {
		return left, err
	}
	if left.truth() == (n.op == opOr) {
		return boolValue(n.op == opOr), nil
	}
	right, err := e.eval(n.args[1])
	if err != nil || right.kind == kindNull {
		return right, err
	}
	return boolValue(right.truth()), nil
}

func (e *Env) evalCase(n *node) (value, error) {
	last := len(n.args) - 1
	for i := 0; i < last; i += 2 {
		condition, err := e.eval(n.args[i])
		if err != nil {
			return value{}, err
		}
		if condition.truth() {
			return e.eval(n.args[i+1])
		}
	}
	return e.eval(n.args[last])
}

// evalExtremum computes the least or the greatest of any number of arguments: a
// double if one of them is a double.
func (e *Env) evalExtremum(n *node) (value, error) {
	var best value
	null := false
	for _, arg := range n.args {
		v, err := e.eval(arg)
		if err != nil {
			return value{}, err
		}
		if v.kind == kindNull {
			null = true
			continue
		}
		if best, err = extremum(n.op, best, v); err != nil {
			return value{}, err
		}
	}
	if null {
		return value{kind: kindNull}, nil
	}
	return best, nil
}

// extremum returns the lesser or the greater of best, which may be unset, and v.
func extremum(op op, best, v value) (value, error) {
	if best.kind == kindUnset {
		best = v
	}
	if best.kind == kindDouble || v.kind == kindDouble {
		x, y, err := doubles(best, v)
		if (y < x) == (op == opLeast) {
			x = y
		}
		return doubleValue(x), err
	}
	x, y, err := integers(best, v)
	if (y < x) == (op == opLeast) {
		x = y
	}
	return intValue(x), err
}

// compare computes = <> < and <=, of doubles if one side is one.
func compare(op op, a, b value) (value, error) {
	var less, equal bool
	if a.kind == kindDouble || b.kind == kindDouble {
		x, y, err := doubles(a, b)
		if err != nil {
			return value{}, err
		}
		less, equal = x < y, x == y
	} else {
		x, y, err := integers(a, b)
		if err != nil {
			return value{}, err
		}
		less, equal = x < y, x == y
	}
	switch op {
	case opEqual:
		return boolValue(equal), nil
	case opUnequal:
		return boolValue(!equal), nil
	case opLess:
		return boolValue(less), nil
	}
	return boolValue(less || equal), nil
}

func integers(a, b value) (x, y int64, err error) {
	if x, err = a.toInt(); err == nil {
		y, err = b.toInt()
	}
	return x, y, err
}

func doubles(a, b value) (x, y float64, err error) {
	if x, err = a.toDouble(); err == nil {
		y, err = b.toDouble()
	}
	return x, y, err
}

func bitwise(op op, a, b value) (value, error) {
	x, y, err := integers(a, b)
	if err != nil {
		return value{}, err
	}
	switch op {
	case opBitOr:
		return intValue(x | y), nil
	case opBitXor:
		return intValue(x ^ y), nil
	case opBitAnd:
		return intValue(x & y), nil
	}
	if y < 0 || y > 63 {
		return value{}, fmt.Errorf("a shift by %d: the width is 0 to 63", y)
	}
	if op == opShiftLeft {
		return intValue(x << y), nil
	}
	return intValue(x >> y), nil
}

var (
	errRange  = errors.New("the result is outside of the integers' range")
	errByZero = errors.New("division by zero")
)

// arithmetic computes + - * and / of doubles if one side is one, else of integers,
// and % of integers.
func arithmetic(op op, a, b value) (value, error) {
	if op != opModulo && (a.kind == kindDouble || b.kind == kindDouble) {
		x, y, err := doubles(a, b)
		if err != nil {
			return value{}, err
		}
		switch op {
		case opAdd:
			return doubleValue(x + y), nil
		case opSubtract:
			return doubleValue(x - y), nil
		case opMultiply:
			return doubleValue(x * y), nil
		}
		return doubleValue(x / y), nil
	}
	x, y, err := integers(a, b)
	if err != nil {
		return value{}, err
	}
	r, err := integerArithmetic(op, x, y)
	return intValue(r), err
}

func integerArithmetic(op op, x, y int64) (r int64, err error) {
	fits := true
	switch op {
	case opAdd:
		r = x + y
		fits = (r > x) == (y > 0) || y == 0
	case opSubtract:
		r = x - y
		fits = (r < x) == (y > 0) || y == 0
	case opMultiply:
		r = x * y
		fits = x == 0 || r/x == y && !(x == -1 && y == math.MinInt64)
	case opDivide, opModulo:
		if y == 0 {
			return 0, errByZero
		}
		if op == opModulo {
			return x % y, nil
		}
		r = x / y
		fits = !(x == math.MinInt64 && y == -1)
	}
	if !fits {
		return 0, errRange
	}
	return r, nil
}

// call computes the functions that are neither random nor hashes.
func call(op op, a, b value) (value, error) {
	switch op {
	case opPi:
		return doubleValue(math.Pi), nil
	case opInt:
		i, err := a.toInt()
		return intValue(i), err
	case opAbs:
		if a.kind == kindDouble {
			return doubleValue(math.Abs(a.f)), nil
		}
		i, err := a.toInt()
		if i == math.MinInt64 {
			return value{}, errRange
		}
		return intValue(max(i, -i)), err
	case opPower:
		x, y, err := doubles(a, b)
		return doubleValue(math.Pow(x, y)), err
	}
	x, err := a.toDouble()
	switch op {
	case opSqrt:
		x = math.Sqrt(x)
	case opExp:
		x = math.Exp(x)
	case opLn:
		x = math.Log(x)
	}
	return doubleValue(x), err
}

// hash computes the hash functions of pgbench, of the eight bytes of an integer.
func hash(op op, a, b value) (value, error) {
	n, seed, err := integers(a, b)
	if err != nil {
		return value{}, err
	}
	if op == opFNV1a {
		return intValue(int64(fnv1a(uint64(n), uint64(seed)))), nil
	}
	return intValue(int64(murmur2(uint64(n), uint64(seed)))), nil
}

// fnv1a is the hash of Fowler, Noll and Vo of the bytes of n, the lowest first, with
// the seed mixed into the offset basis (http://www.isthe.com/chongo/tech/comp/fnv/).
func fnv1a(n, seed uint64) uint64 {
	h := 0xcbf29ce484222325 ^ seed
	for range 8 {
		h = (h ^ n&0xff) * 0x100000001b3
		n >>= 8
	}
	return h
}

// murmur2 is A. Appleby's MurmurHash64A for a key of the eight bytes of n.
func murmur2(n, seed uint64) uint64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	h := seed ^ m<<3&math.MaxUint64
	n *= m
	n ^= n >> r
	n *= m
	h = (h ^ n) * m
	h ^= h >> r
	h *= m
	return h ^ h>>r
}
