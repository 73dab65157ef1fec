package accounts

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// valid is a Spec that passes, for tests to break in one place.
var valid = Spec{Rows: 1_000_000, Balance: 1000, Schema: SchemaRowid, PageSize: 4096}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Spec)
		want   string // part of the error, empty for none
	}{
		{"default", func(s *Spec) {}, ""},
		{"article", func(s *Spec) { s.Schema, s.Rows, s.Balance = SchemaArticle, 1e9, 1e9 }, ""},
		{"largest", func(s *Spec) {
			*s = Spec{Rows: MaxRows, Balance: 512, Schema: SchemaRowid, Payload: MaxPayload, Indexes: MaxIndexes, PageSize: 65536}
		}, ""},
		{"smallest", func(s *Spec) { *s = Spec{Rows: 1, Schema: SchemaArticle, PageSize: 512} }, ""},
		{"all the money", func(s *Spec) { s.Rows, s.Balance = 1, MaxTotalBalance }, ""},
		{"no rows", func(s *Spec) { s.Rows = 0 }, "0 rows"},
		{"negative rows", func(s *Spec) { s.Rows = -5 }, "-5 rows"},
		{"too many rows", func(s *Spec) { s.Rows, s.Balance = MaxRows+1, 0 }, "choose 1 to 9007199254740992"},
		{"negative balance", func(s *Spec) { s.Balance = -1 }, "balance -1"},
		{"too much money", func(s *Spec) { s.Rows, s.Balance = MaxRows, 513 }, "balance of at most 512"},
		{"product wraps", func(s *Spec) { s.Rows, s.Balance = 1<<40, 1<<40 }, "exceed the total"},
		{"no schema", func(s *Spec) { s.Schema = "" }, `choose "rowid" or "article"`},
		{"unknown schema", func(s *Spec) { s.Schema = "rowId" }, `unknown schema "rowId"`},
		{"negative payload", func(s *Spec) { s.Payload = -1 }, "payload of -1"},
		{"large payload", func(s *Spec) { s.Payload = MaxPayload + 1 }, "choose 0 to 1048576"},
		{"negative indexes", func(s *Spec) { s.Indexes = -1 }, "-1 indexes"},
		{"many indexes", func(s *Spec) { s.Indexes = 9 }, "choose 0 to 8"},
		{"no page size", func(s *Spec) { s.PageSize = 0 }, "page size of 0"},
		{"odd page size", func(s *Spec) { s.PageSize = 5000 }, "power of two"},
		{"small page size", func(s *Spec) { s.PageSize = 256 }, "512 to 65536"},
		{"large page size", func(s *Spec) { s.PageSize = 131072 }, "512 to 65536"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := valid
			tt.change(&s)
			wantError(t, s.Validate(), tt.want)
		})
	}
}

// wantError fails t unless err is nil for an empty want, and otherwise one line
// of this package that contains it.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Fatalf("got error %q, want none", err)
	case want == "":
	case err == nil:
		t.Fatalf("no error, want one with %q", want)
	case !strings.HasPrefix(err.Error(), "accounts: ") || strings.Contains(err.Error(), "\n"):
		t.Fatalf("error %q: want one line that starts with the package", err)
	case !strings.Contains(err.Error(), want):
		t.Fatalf("error %q does not contain %q", err, want)
	}
}

// eval computes an SQL expression that is also a Go expression because each
// operation has its parentheses, and fails if a step leaves int64, where SQLite
// would go on in floating point.
func eval(t *rapid.T, e ast.Expr) int64 {
	operand := func(e ast.Expr) int64 {
		if _, bare := e.(*ast.BinaryExpr); bare {
			t.Fatal("an operation without parentheses: SQL would bind it otherwise")
		}
		return eval(t, e)
	}
	var v constant.Value
	switch e := e.(type) {
	case *ast.ParenExpr:
		return eval(t, e.X)
	case *ast.BasicLit:
		v = constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.BinaryExpr:
		x, y := constant.MakeInt64(operand(e.X)), constant.MakeInt64(operand(e.Y))
		if op := e.Op.String(); op == "<<" || op == ">>" {
			n, _ := constant.Uint64Val(y)
			v = constant.Shift(x, e.Op, uint(n))
		} else {
			v = constant.BinaryOp(x, e.Op, y)
		}
	default:
		t.Fatalf("unexpected %T", e)
	}
	n, exact := constant.Int64Val(v)
	if !exact {
		t.Fatalf("%v does not fit int64", v)
	}
	return n
}

func TestKeyColumnSQLAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, MaxRows), rapid.Int64Range(MaxRows-3, MaxRows)).Draw(t, "id")
		i := rapid.IntRange(1, MaxIndexes).Draw(t, "i")
		e, err := parser.ParseExpr(KeyColumnSQL(fmt.Sprint(id), i))
		if err != nil {
			t.Fatal(err)
		}
		got := KeyColumn(id, i)
		if got < 0 || got > math.MaxInt32 {
			t.Fatalf("KeyColumn(%d, %d) = %d, outside 0..2^31-1", id, i, got)
		}
		if sql := eval(t, e); sql != got {
			t.Fatalf("id %d, column %d: SQL gives %d, Go %d", id, i, sql, got)
		}
	})
}

// The values are part of the data set's format: files that exist hold them, and
// SQLite computed these.
func TestKeyColumnIsFixed(t *testing.T) {
	for _, tt := range []struct {
		id   int64
		i    int
		want int64
	}{{1, 1, 1779933795}, {77, 8, 2098771159}, {MaxRows, 3, 1654144640}} {
		if got := KeyColumn(tt.id, tt.i); got != tt.want {
			t.Errorf("KeyColumn(%d, %d) = %d, want %d", tt.id, tt.i, got, tt.want)
		}
	}
}

func TestKeyColumnScatters(t *testing.T) {
	const n, buckets = 1 << 17, 256
	for i := 1; i <= MaxIndexes; i++ {
		seen := make(map[int64]bool, n)
		one, pairs := make([]int64, buckets), make([]int64, buckets)
		last := KeyColumn(0, i)
		for id := int64(1); id <= n; id++ {
			k := KeyColumn(id, i)
			if seen[k] {
				t.Fatalf("column %d: value %d twice", i, k)
			}
			seen[k] = true
			one[k>>(31-8)]++
			pairs[(k>>(31-4))<<4|last>>(31-4)]++ // neighbours are independent
			last = k
		}
		// A hash may be more even than chance, but not less.
		chiSquare(t, fmt.Sprintf("column %d", i), one, flat(buckets))
		chiSquare(t, fmt.Sprintf("column %d, pairs", i), pairs, flat(buckets))
	}
}

func TestPayloadBytes(t *testing.T) {
	if got := PayloadBytes(3); string(got) != "\xa5\xa5\xa5" {
		t.Errorf("PayloadBytes(3) = %x", got)
	}
	if got := PayloadBytes(0); len(got) != 0 {
		t.Errorf("PayloadBytes(0) = %x", got)
	}
}
