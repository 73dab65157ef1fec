package script

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxTokens bounds an expression, and with it how deep its parts lie in each other.
const maxTokens = 1000

// op is what a node of an expression does.
type op uint8

const (
	opConstant op = iota + 1
	opVariable
	opAnd
	opOr
	opNot
	opIs
	opCase
	opEqual
	opUnequal
	opLess
	opLessEqual
	opBitOr
	opBitXor
	opBitAnd
	opShiftLeft
	opShiftRight
	opAdd
	opSubtract
	opMultiply
	opDivide
	opModulo
	opAbs
	opLeast
	opGreatest
	opSqrt
	opExp
	opLn
	opPower
	opPi
	opInt
	opDouble
	opRandom
	opExponential
	opGaussian
	opZipfian
	opFNV1a
	opMurmur2
)

// node is an expression.
type node struct {
	op       op
	args     []*node
	constant value // of opConstant
	slot     int   // of opVariable: the variable; of opZipfian: the call's number
}

// variables appends the slots of the variables in n, which may be nil.
func (n *node) variables(slots []int) []int {
	if n == nil {
		return slots
	}
	if n.op == opVariable {
		slots = append(slots, n.slot)
	}
	for _, arg := range n.args {
		slots = arg.variables(slots)
	}
	return slots
}

// defaultSeed is the variable that hash functions take for their seed when they are
// not given one.
const defaultSeed = "default_seed"

// function is a function of the language.
type function struct {
	op       op
	min, max int // number of arguments
}

const manyArgs = 16 // as many as pgbench allows

var functions = map[string]function{
	"abs":                {opAbs, 1, 1},
	"double":             {opDouble, 1, 1},
	"exp":                {opExp, 1, 1},
	"greatest":           {opGreatest, 1, manyArgs},
	"hash":               {opMurmur2, 1, 2},
	"hash_fnv1a":         {opFNV1a, 1, 2},
	"hash_murmur2":       {opMurmur2, 1, 2},
	"int":                {opInt, 1, 1},
	"least":              {opLeast, 1, manyArgs},
	"ln":                 {opLn, 1, 1},
	"mod":                {opModulo, 2, 2},
	"pi":                 {opPi, 0, 0},
	"pow":                {opPower, 2, 2},
	"power":              {opPower, 2, 2},
	"random":             {opRandom, 2, 2},
	"random_exponential": {opExponential, 3, 3},
	"random_gaussian":    {opGaussian, 3, 3},
	"random_zipfian":     {opZipfian, 3, 3},
	"sqrt":               {opSqrt, 1, 1},
}

// operator is a binary operator.
type operator struct {
	op         op
	precedence int
	swapped    bool // a > b is b < a
}

// The levels of precedence, from weak to strong, as in pgbench's table of operators
// and, where that is silent, its grammar.
const (
	levelOr = iota + 1
	levelAnd
	levelNot
	levelIs
	levelCompare // not associative
	levelBits
	levelAdd
	levelMultiply
	levelUnary
)

var operators = map[string]operator{
	"OR": {opOr, levelOr, false}, "AND": {opAnd, levelAnd, false},
	"=": {opEqual, levelCompare, false}, "<>": {opUnequal, levelCompare, false}, "!=": {opUnequal, levelCompare, false},
	"<": {opLess, levelCompare, false}, "<=": {opLessEqual, levelCompare, false},
	">": {opLess, levelCompare, true}, ">=": {opLessEqual, levelCompare, true},
	"|": {opBitOr, levelBits, false}, "#": {opBitXor, levelBits, false}, "&": {opBitAnd, levelBits, false},
	"<<": {opShiftLeft, levelBits, false}, ">>": {opShiftRight, levelBits, false},
	"+": {opAdd, levelAdd, false}, "-": {opSubtract, levelAdd, false},
	"*": {opMultiply, levelMultiply, false}, "/": {opDivide, levelMultiply, false}, "%": {opModulo, levelMultiply, false},
}

// expressionParser reads one expression by precedence climbing.
type expressionParser struct {
	*parser
	tokens []string // keywords in capitals; "" is the end
}

// expression reads an expression.
func (p *parser) expression(text string) (*node, error) {
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("the expression has more than %d parts: use more than one \\set", maxTokens)
	}
	e := &expressionParser{parser: p, tokens: append(tokens, "")}
	n, err := e.parse(levelOr)
	if err != nil {
		return nil, err
	}
	if e.tokens[0] != "" {
		return nil, e.unexpected()
	}
	return n, nil
}

// next takes a token.
func (e *expressionParser) next() string {
	token := e.tokens[0]
	if token != "" {
		e.tokens = e.tokens[1:]
	}
	return token
}

// accept takes a token if it is the wanted one.
func (e *expressionParser) accept(token string) bool {
	if e.tokens[0] != token {
		return false
	}
	e.next()
	return true
}

func (e *expressionParser) expect(token string) error {
	if !e.accept(token) {
		return fmt.Errorf("%w, where %s should be", e.unexpected(), token)
	}
	return nil
}

func (e *expressionParser) unexpected() error {
	if e.tokens[0] == "" {
		return errors.New("the expression ends too early")
	}
	return fmt.Errorf("unexpected %s", e.tokens[0])
}

func constant(v value) *node { return &node{op: opConstant, constant: v} }

// parse reads an expression of operators of at least a level. Tests follow each other
// freely: pgbench's grammar calls IS not associative, but that decides only between
// an operator on the left and one on the right of an operand, and a test has none on
// its right.
func (e *expressionParser) parse(level int) (*node, error) {
	left, err := e.prefix()
	compared := false // left is a comparison without parentheses
	for err == nil {
		if isTest(e.tokens[0]) && level <= levelIs {
			left, err = e.test(left)
			compared = false
			continue
		}
		operator, found := operators[e.tokens[0]]
		if !found || operator.precedence < level {
			return left, nil
		}
		if compared && operator.precedence == levelCompare {
			return nil, fmt.Errorf("%w: comparisons cannot be chained, use AND", e.unexpected())
		}
		compared = operator.precedence == levelCompare
		e.next()
		right, err := e.parse(operator.precedence + 1)
		if err != nil {
			return nil, err
		}
		if operator.swapped {
			left, right = right, left
		}
		left = &node{op: operator.op, args: []*node{left, right}}
	}
	return nil, err
}

func isTest(token string) bool { return token == "IS" || token == "ISNULL" || token == "NOTNULL" }

// test reads IS [NOT] NULL, TRUE or FALSE, or one of the words for it.
func (e *expressionParser) test(left *node) (*node, error) {
	word := e.next()
	negated := word == "NOTNULL"
	right := value{kind: kindNull}
	if word == "IS" {
		negated = e.accept("NOT")
		switch {
		case e.accept("NULL"):
		case e.accept("TRUE"):
			right = boolValue(true)
		case e.accept("FALSE"):
			right = boolValue(false)
		default:
			return nil, fmt.Errorf("%w, where NULL, TRUE or FALSE should be", e.unexpected())
		}
	}
	n := &node{op: opIs, args: []*node{left, constant(right)}}
	if negated {
		n = &node{op: opNot, args: []*node{n}}
	}
	return n, nil
}

// prefix reads an operand with the operators before it.
func (e *expressionParser) prefix() (*node, error) {
	switch token := e.next(); {
	case token == "+":
		return e.parse(levelUnary)
	case token == "-":
		if e.accept("9223372036854775808") {
			return constant(intValue(math.MinInt64)), nil
		}
		return e.unary(opSubtract, intValue(0), levelUnary)
	case token == "~":
		return e.unary(opBitXor, intValue(-1), levelBits+1)
	case token == "NOT":
		operand, err := e.parse(levelNot)
		if err != nil {
			return nil, err
		}
		return &node{op: opNot, args: []*node{operand}}, nil
	case token == "(":
		n, err := e.parse(levelOr)
		if err == nil {
			err = e.expect(")")
		}
		return n, err
	default:
		return e.primary(token)
	}
}

// unary reads the operand of an operator that is a binary one with a fixed left
// side: -x is 0-x.
func (e *expressionParser) unary(op op, left value, level int) (*node, error) {
	operand, err := e.parse(level)
	if err != nil {
		return nil, err
	}
	return &node{op: op, args: []*node{constant(left), operand}}, nil
}

// primary reads what begins with token and is no operator.
func (e *expressionParser) primary(token string) (*node, error) {
	switch {
	case token == "NULL":
		return constant(value{kind: kindNull}), nil
	case token == "TRUE" || token == "FALSE":
		return constant(boolValue(token == "TRUE")), nil
	case token == "CASE":
		return e.caseOf()
	case strings.HasPrefix(token, ":"):
		return e.variable(token[1:]), nil
	case token != "" && (digit(token[0]) || token[0] == '.'):
		v, err := parseNumber(token)
		return constant(v), err
	case token != "" && nameStart(token[0]) && e.tokens[0] == "(":
		return e.call(token)
	}
	e.tokens = append([]string{token}, e.tokens...)
	return nil, e.unexpected()
}

func (e *expressionParser) variable(name string) *node {
	return &node{op: opVariable, slot: e.slot(name)}
}

// caseOf reads what follows CASE: pairs of a condition and a result, and a last
// result.
func (e *expressionParser) caseOf() (*node, error) {
	var args []*node
	for e.accept("WHEN") {
		condition, err := e.parse(levelOr)
		if err == nil {
			err = e.expect("THEN")
		}
		if err != nil {
			return nil, err
		}
		result, err := e.parse(levelOr)
		if err != nil {
			return nil, err
		}
		args = append(args, condition, result)
	}
	if len(args) == 0 {
		return nil, e.expect("WHEN")
	}
	last := constant(value{kind: kindNull})
	if e.accept("ELSE") {
		var err error
		if last, err = e.parse(levelOr); err != nil {
			return nil, err
		}
	}
	return &node{op: opCase, args: append(args, last)}, e.expect("END")
}

// call reads the arguments of a function.
func (e *expressionParser) call(name string) (*node, error) {
	f, known := functions[strings.ToLower(name)]
	if !known {
		return nil, fmt.Errorf("the function %s is not supported: there are %s", name, strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
	}
	e.next()
	var args []*node
	for !e.accept(")") {
		if len(args) > 0 {
			if err := e.expect(","); err != nil {
				return nil, err
			}
		}
		arg, err := e.parse(levelOr)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	if len(args) < f.min || len(args) > f.max {
		want := strconv.Itoa(f.min)
		if f.max > f.min {
			want += " to " + strconv.Itoa(f.max)
		}
		return nil, fmt.Errorf("%s with %d arguments: it takes %s", name, len(args), want)
	}
	if (f.op == opFNV1a || f.op == opMurmur2) && len(args) == 1 {
		args = append(args, e.variable(defaultSeed))
	}
	n := &node{op: f.op, args: args}
	if f.op == opZipfian {
		n.slot = e.script.zipfians
		e.script.zipfians++
	}
	return n, nil
}
