package script

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// evaluate computes an expression as \set does.
func evaluate(text string, vars map[string]any) (any, error) {
	s, err := Parse("test.sql", strings.NewReader("\\set result "+text+"\nSELECT :result;"))
	if err != nil {
		return nil, err
	}
	env, err := s.NewEnv(vars)
	if err != nil {
		return nil, err
	}
	env.Reset(1, 1)
	if err := env.Run(Before, nil); err != nil {
		return nil, err
	}
	v := env.values[s.slots["result"]]
	if v.kind == kindBool {
		return v.i == 1, nil
	}
	return v.box(), nil
}

func TestExpressions(t *testing.T) {
	vars := map[string]any{
		"scale": 10, "half": 0.5, "text": "abc", "digits": "42", "yes": "on", "gone": nil, "pair": "1.5", "hex": "0x10",
		"default_seed": 5432, "Grün_1": 7,
	}
	for _, tt := range []struct {
		text string
		want any
	}{
		{"1", int64(1)}, {"9223372036854775807", int64(math.MaxInt64)}, {"-9223372036854775808", int64(math.MinInt64)},
		{"1.5", 1.5}, {"1.", 1.0}, {".5", 0.5}, {"1e3", 1000.0}, {"1.5E-1", 0.15},
		{"NULL", nil}, {"true", true}, {"False", false},
		{"2 + 3 * 4", int64(14)}, {"(2 + 3) * 4", int64(20)}, {"2 - 3 - 4", int64(-5)}, {"100 / 10 / 5", int64(2)},
		{"7 / 2", int64(3)}, {"-7 / 2", int64(-3)}, {"-7 % 3", int64(-1)}, {"7 % -1", int64(0)}, {"-9223372036854775808 % -1", int64(0)},
		{"7 / 2.0", 3.5}, {"7.9 % 3", int64(2)}, {"1.0 / 0", math.Inf(1)},
		{"- 2 * 3", int64(-6)}, {"--2", int64(2)}, {"+-+2", int64(-2)}, {"2 - -2", int64(4)}, {"-(1.5)", -1.5},
		{"10 * :scale", int64(100)}, {":scale * :half", 5.0}, {":digits + 1", int64(43)}, {":pair * 2", 3.0}, {"not :yes", false}, {":gone + 1", nil}, {":Grün_1", int64(7)},
		{"5 = 4", false}, {"5 <> 4", true}, {"5 != 5", false}, {"5 < 4", false}, {"5 <= 5", true}, {"5 > 4", true}, {"4 >= 5", false}, {"1 = 1.0", true}, {"1.5 < 1", false},
		{"1 | 2", int64(3)}, {"1 # 3", int64(2)}, {"1 & 3", int64(1)}, {"~ 1", int64(-2)}, {"1 << 2", int64(4)}, {"8 >> 2", int64(2)}, {"-8 >> 1", int64(-4)},
		{"1 | 2 # 3", int64(0)}, {"~1 + 2", int64(-4)}, {"~1 | 1", int64(-1)}, {"1 + 1 << 2", int64(8)},
		{"5 or 0", true}, {"3 and 0", false}, {"not false", true}, {"not 1 = 2", true}, {"true or 1 / 0 = 1", true}, {"false and 1 / 0 = 1", false},
		{"not true and false", false}, {"NULL or true", nil}, {"true and NULL", nil}, {"not NULL", nil},
		{"1 is null", false}, {"NULL is null", true}, {"1 notnull", true}, {"NULL isnull", true}, {"1 is not null", true}, {"true is true", true},
		{"false is not true", true}, {"1 = 1 is true", true}, {"not NULL is null", false}, {"1 is true", false}, {"1 is null is null", false}, {"1 is null is false", true},
		{"case when 0 then 1 when 0.5 then 2 else 3 end", int64(2)}, {"CASE WHEN NULL THEN 1 END", nil}, {"case when 1 > 2 then 1 / 0 else 4 end + 1", int64(5)},
		{"abs(-17)", int64(17)}, {"ABS(-1.5)", 1.5}, {"int(5.4 + 3.8)", int64(9)}, {"int(2.5)", int64(2)}, {"int(-3.5)", int64(-4)}, {"double(5432)", 5432.0},
		{"greatest(5, 4, 3, 2)", int64(5)}, {"least(5, 4, 3, 2.1)", 2.1}, {"greatest(2.1, 5)", 5.0}, {"least(1, NULL)", nil}, {"least(NULL, 1.5)", nil}, {"least(7)", int64(7)}, {"greatest(1, 2.5, 2)", 2.5},
		{"mod(54, 32)", int64(22)}, {"pi()", math.Pi}, {"pow(2.0, 10)", 1024.0}, {"power(2, 0.5)", math.Sqrt2}, {"sqrt(2.0)", math.Sqrt2}, {"exp(1.0)", math.E}, {"ln(2.718281828459045)", 1.0},
		{"random(3, 3)", int64(3)}, {"random_gaussian(-5, -5, 2)", int64(-5)}, {"random_exponential(8, 8, 0.1)", int64(8)}, {"random_zipfian(9, 9, 1.001)", int64(9)}, {"random(1, NULL)", nil},
		// The values that pgbench's manual prints.
		{"hash(10, 5432)", int64(-5817877081768721676)}, {"hash_murmur2(10, 5432)", int64(-5817877081768721676)}, {"hash_fnv1a(10, 5432)", int64(-7793829335365542153)},
		{"hash(10)", int64(-5817877081768721676)}, {"hash_fnv1a(10)", int64(-7793829335365542153)},
		{"(1021 * random(5, 5)) % \\\n (100000 * :scale) + 1", int64(5106)},
	} {
		got, err := evaluate(tt.text, vars)
		if err != nil || got != tt.want {
			t.Errorf("%s = %v (%T), %v; want %v (%T)", tt.text, got, got, err, tt.want, tt.want)
		}
	}
}

func TestExpressionErrors(t *testing.T) {
	vars := map[string]any{"text": "abc", "hex": "0x10", "bytes": "1_0"}
	for _, tt := range []struct{ text, says string }{
		{"", "gets no value"}, {"1 +", "ends too early"}, {"1 2", "unexpected 2"}, {"(1", "where ) should be"}, {"1)", "unexpected )"}, {"* 2", "unexpected *"},
		{"abs", "unexpected abs"}, {"abs()", "it takes 1"}, {"abs(1, 2)", "it takes 1"}, {"abs(1", "where , should be"}, {"random(1)", "it takes 2"}, {"greatest()", "1 to 16"},
		{"permute(1, 2)", "the function permute is not supported: there are abs, double"}, {"debug(1)", "debug is not supported"}, {"nextval(1)", "nextval is not supported"},
		{"1 < 2 < 3", "cannot be chained"}, {"1 is 2", "NULL, TRUE or FALSE"}, {"case 1 end", "where WHEN should be"}, {"case when 1 then 2", "where END should be"}, {"case when 1 else 2 end", "where THEN should be"},
		{"1 ; 2", `unexpected ";"`}, {"'a'", `unexpected "'"`}, {":1", `unexpected ":"`}, {"1 . 2", `unexpected "."`}, {"1 ^ 2", `unexpected "^"`}, {"1 ! 2", `unexpected "!"`},
		{"9223372036854775808", "too large"}, {"1 - 9223372036854775808", "too large"}, {"1e999", "too large"},
		{strings.Repeat("(", 2000) + "1" + strings.Repeat(")", 2000), "more than 1000 parts"},
		// When it runs.
		{"1 / 0", "division by zero"}, {"1 % 0", "division by zero"}, {"9223372036854775807 + 1", "outside"}, {"-9223372036854775807 - 2", "outside"}, {"3037000500 * 3037000500", "outside"},
		{"-9223372036854775808 / -1", "outside"}, {"-9223372036854775808 * -1", "outside"}, {"-1 * -9223372036854775808", "outside"}, {"-(-9223372036854775808)", "outside"}, {"abs(-9223372036854775808)", "outside"},
		{"int(1e300)", "outside"}, {"int(sqrt(-1))", "outside"}, {"int(9223372036854775807.0)", "outside"}, {"true + 1", "a boolean where"}, {"true < 1.5", "a boolean where"}, {"1 << 64", "shift by 64"}, {"1 >> -1", "shift by -1"},
		{":text + 1", "holds text"}, {":hex", "holds text"}, {":bytes", "holds text"}, {":nobody", "the variable nobody is not defined"},
		{"random(2, 1)", "is empty"}, {"random(-9223372036854775808, 9223372036854775807)", "too large"}, {"random(0, 9223372036854775807)", "too large"}, {"random(-2, 9223372036854775807)", "too large"},
		{"random_exponential(1, 2, 0)", "it is above 0"}, {"random_exponential(1, 2, sqrt(-1))", "it is above 0"}, {"random_gaussian(1, 2, 1.99)", "at least 2"}, {"random_zipfian(1, 2, 1)", "1.001 to 1000"}, {"random_zipfian(1, 2, 1000.1)", "1.001 to 1000"},
		{"hash(1)", "default_seed is not defined"}, {"least(1, true)", "a boolean where"},
	} {
		got, err := evaluate(tt.text, vars)
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), `test.sql:1: \set`) {
			t.Errorf("%.40s = %v, %v; want an error with %q", tt.text, got, err, tt.says)
		}
	}
}

// drawn is a random expression, as text and as what math/big makes of it: nil where
// an error must come.
type drawn struct {
	text  string
	value *big.Int
}

var bounds = [2]*big.Int{big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64)}

// inRange returns v, or nil for what no integer can hold.
func inRange(v *big.Int) *big.Int {
	if v.Cmp(bounds[0]) < 0 || v.Cmp(bounds[1]) > 0 {
		return nil
	}
	return v
}

func drawExpression(t *rapid.T, depth int) drawn {
	if depth == 0 || rapid.IntRange(0, 4).Draw(t, "leaf") == 0 {
		n := rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64(), rapid.Int64Range(math.MaxInt64-2, math.MaxInt64), rapid.Int64Range(math.MinInt64, math.MinInt64+2)).Draw(t, "n")
		return drawn{fmt.Sprint("(", n, ")"), big.NewInt(n)}
	}
	op := rapid.SampledFrom([]string{"+", "-", "*", "/", "%", "|", "&", "#", "neg", "~", "abs", "least", "greatest"}).Draw(t, "op")
	a := drawExpression(t, depth-1)
	switch op {
	case "neg", "~", "abs":
		text := map[string]string{"neg": "(-" + a.text + ")", "~": "(~" + a.text + ")", "abs": "abs(" + a.text + ")"}[op]
		if a.value == nil {
			return drawn{text, nil}
		}
		r := map[string]*big.Int{"neg": new(big.Int).Neg(a.value), "~": new(big.Int).Not(a.value), "abs": new(big.Int).Abs(a.value)}[op]
		return drawn{text, inRange(r)}
	}
	b := drawExpression(t, depth-1)
	text := fmt.Sprintf("(%s %s %s)", a.text, op, b.text)
	if op == "least" || op == "greatest" {
		text = fmt.Sprintf("%s(%s, %s)", op, a.text, b.text)
	}
	if a.value == nil || b.value == nil {
		return drawn{text, nil}
	}
	r := new(big.Int)
	switch op {
	case "+":
		r.Add(a.value, b.value)
	case "-":
		r.Sub(a.value, b.value)
	case "*":
		r.Mul(a.value, b.value)
	case "/", "%":
		if b.value.Sign() == 0 {
			return drawn{text, nil}
		}
		if op == "/" {
			r.Quo(a.value, b.value)
		} else {
			r.Rem(a.value, b.value)
		}
	case "|":
		r.Or(a.value, b.value)
	case "&":
		r.And(a.value, b.value)
	case "#":
		r.Xor(a.value, b.value)
	case "least", "greatest":
		r.Set(a.value)
		if (b.value.Cmp(a.value) < 0) == (op == "least") {
			r.Set(b.value)
		}
	}
	return drawn{text, inRange(r)}
}

// Integer expressions are what exact arithmetic makes of them, or an error.
func TestIntegersAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpression(t, 4)
		got, err := evaluate(e.text, nil)
		switch {
		case e.value == nil && err == nil:
			t.Fatalf("%s = %v, want an error", e.text, got)
		case e.value != nil && (err != nil || got != e.value.Int64()):
			t.Fatalf("%s = %v, %v; want %v", e.text, got, err, e.value)
		}
	})
}

// Without parentheses, multiplication binds before addition, and both from the left;
// doubles follow math.
func TestPrecedence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := rapid.SliceOfN(rapid.SliceOfN(rapid.Float64Range(-100, 100), 1, 4), 1, 4).Draw(t, "terms")
		minus := rapid.SliceOfN(rapid.Bool(), len(terms), len(terms)).Draw(t, "minus")
		text, want := "", 0.0
		for i, factors := range terms {
			product := 1.0
			for k, f := range factors {
				if k == 0 {
					product = f
				} else {
					product *= f
					text += "*"
				}
				if k == 0 && i > 0 {
					text += map[bool]string{true: "-", false: "+"}[minus[i]]
				}
				text += fmt.Sprintf(" %.20e ", f)
			}
			switch {
			case i == 0:
				want = product
			case minus[i]:
				want -= product
			default:
				want += product
			}
		}
		if got, err := evaluate(text, nil); err != nil || got != want {
			t.Fatalf("%s = %v, %v; want %v", text, got, err, want)
		}
	})
}
