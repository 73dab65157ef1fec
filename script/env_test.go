package script

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// recorder is an Executor that writes down what it is asked for.
type recorder struct {
	columns []string
	row     []any // the answer
	fail    error
	log     []string
}

func (r *recorder) Exec(step int, sql string, args []any, row *Row) error {
	r.log = append(r.log, fmt.Sprint(step, " ", sql, " ", args))
	if row != nil {
		row.Columns, row.Values = append(row.Columns, r.columns...), append(row.Values, r.row...)
	}
	return r.fail
}

func (r *recorder) Sleep(d time.Duration) error {
	r.log = append(r.log, d.String())
	return nil
}

func TestRun(t *testing.T) {
	s := mustParse(t, `\set a :scale * 2
\sleep :scale ms
BEGIN;
\set b :a > 3
SELECT :a, :b, :name, :gone, :ratio \gset
\sleep 0
\sleep :minus s
\set c :balance + :a
UPDATE t SET x = :c WHERE y = :note AND z = :blob;
END;
\sleep 7us
`)
	env := mustEnv(t, s, map[string]any{"scale": 3, "name": "x y", "gone": nil, "ratio": "2.5", "minus": int64(-4), "nobody": struct{}{}})
	r := &recorder{columns: []string{"balance", "count(*)", "note", "blob"}, row: []any{int64(100), int64(1), "hi", []byte{1}}}
	env.Reset(1, 0)
	want := [][]string{
		{"3ms"},
		{"3 SELECT ?1, ?2, ?3, ?4, ?5 [6 1 x y <nil> 2.5]", "7 UPDATE t SET x = ?1 WHERE y = ?2 AND z = ?3 [106 hi [1]]"},
		{"7µs"},
	}
	for part := Before; part <= After; part++ {
		r.log = nil
		if err := env.Run(part, r); err != nil || !reflect.DeepEqual(r.log, want[part]) {
			t.Errorf("part %d: %q, %v; want %q", part, r.log, err, want[part])
		}
	}
}

// A transaction that runs again does what it did.
func TestRunAgain(t *testing.T) {
	s := mustParse(t, "\\set n 1\nSELECT 1;\n\\set n :n + random(1, 1000000)\nSELECT :n;\n")
	env := mustEnv(t, s, nil)
	env.Reset(1, 1)
	r := &recorder{}
	if err := env.Run(Before, r); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := env.Run(Inside, r); err != nil {
			t.Fatal(err)
		}
	}
	if r.log[1] != r.log[3] || r.log[1] != r.log[5] {
		t.Errorf("it ran differently: %q", r.log)
	}
	env.Reset(1, 2)
	env.Run(Before, r)
	env.Run(Inside, r)
	if r.log[7] == r.log[1] {
		t.Errorf("another transaction did the same: %q", r.log[7])
	}
}

// Nothing is carried from one transaction to the next; what is defined stays.
func TestReset(t *testing.T) {
	s := mustParse(t, "SELECT :client_id;\nSELECT 7 AS seven \\gset\nSELECT :seven;")
	env := mustEnv(t, s, map[string]any{"client_id": 5, "unmentioned": 5})
	env.Reset(1, 1)
	r := &recorder{columns: []string{"seven"}, row: []any{int64(7)}}
	if err := env.Run(Inside, r); err != nil || r.log[2] != "2 SELECT ?1 [7]" {
		t.Errorf("%q, %v", r.log, err)
	}
	env.Reset(1, 2)
	r.columns[0] = "eight"
	err := env.Run(Inside, r)
	if err == nil || err.Error() != "test.sql:3: "+undefined("seven").Error() {
		t.Errorf("the second transaction: %v", err)
	}
	if r.log[3] != "0 SELECT ?1 [5]" {
		t.Errorf("the client is forgotten: %q", r.log[3])
	}
}

func TestRunErrors(t *testing.T) {
	mine := errors.New("mine")
	for _, tt := range []struct {
		text string
		r    recorder
		says string
	}{
		{"SELECT 1;\nSELECT 2;", recorder{fail: mine}, "test.sql:1: mine"},
		{"SELECT 1;\n\\set x 1 / :zero\nSELECT :x", recorder{}, `test.sql:2: \set x: division by zero`},
		{"SELECT 1;\n\\sleep :huge", recorder{}, `test.sql:2: \sleep: 9000000000000000000 times 1s is more than a year`},
		{"SELECT 1;\n\\sleep :text", recorder{}, `test.sql:2: \sleep: the variable text holds text`},
		{"SELECT 1;\n\\sleep :yes", recorder{}, `test.sql:2: \sleep: a boolean where`},
		{"SELECT 1 \\gset\n", recorder{columns: []string{"x"}}, `test.sql:1: \gset: the statement returned no row`},
		{"SELECT 1 \\gset\n", recorder{row: []any{int64(1)}}, `test.sql:1: \gset: 0 columns with 1 values`},
		{"SELECT 1 \\gset\nSELECT :x", recorder{columns: []string{"x"}, row: []any{1i}}, `test.sql:1: \gset: a complex128 is no value`},
		{"SELECT :nobody", recorder{}, `test.sql:1: the variable nobody is not defined`},
	} {
		env := mustEnv(t, mustParse(t, tt.text), map[string]any{"zero": 0, "huge": int64(9e18), "text": "x", "yes": true})
		env.Reset(1, 1)
		err := errors.Join(env.Run(Before, &tt.r), env.Run(Inside, &tt.r), env.Run(After, &tt.r))
		var scriptErr *Error
		if err == nil || !strings.HasPrefix(err.Error(), tt.says) || !errors.As(err, &scriptErr) || tt.r.fail != nil && !errors.Is(err, tt.r.fail) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.says)
		}
	}
	if _, err := mustParse(t, "SELECT :x").NewEnv(map[string]any{"x": struct{}{}}); err == nil || !strings.Contains(err.Error(), "the variable x: a struct {} is no value") {
		t.Errorf("a struct for a variable: %v", err)
	}
}

// How long After sleeps is known before the transaction is committed: an error belongs
// to Inside, and After fails for nothing but its Executor.
func TestAfterIsKnownInside(t *testing.T) {
	for _, tt := range []struct {
		x    any
		says string // Inside
		want string // After's log
	}{
		{7, "", "[7ms]"}, {"7", "", "[7ms]"}, {0, "", "[]"}, {-1, "", "[]"},
		{int64(9e18), `test.sql:3: \sleep: 9000000000000000000 times 1ms is more than a year`, ""},
		{"x", `test.sql:3: \sleep: the variable x holds text that is no number`, ""},
		{true, `test.sql:3: \sleep: a boolean where`, ""},
	} {
		env := mustEnv(t, mustParse(t, "BEGIN; SELECT 1;\nEND;\n\\sleep :x ms"), map[string]any{"x": tt.x})
		env.Reset(1, 1)
		err := env.Run(Inside, nothing{})
		if tt.says != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.says) {
				t.Errorf("%v: inside %v, want %q", tt.x, err, tt.says)
			}
			continue
		}
		r := &recorder{}
		if err = errors.Join(err, env.Run(After, r)); err != nil || fmt.Sprint(r.log) != tt.want {
			t.Errorf("%v: %v, %v, want %s", tt.x, r.log, err, tt.want)
		}
	}
}

// What -D defines reaches statements as it was written, and expressions as what
// pgbench reads in it.
func TestDefinedText(t *testing.T) {
	for _, tt := range []struct {
		text        string
		bound       any
		inside      any // in an expression
		insideError string
	}{
		{"0", int64(0), int64(0), ""}, {"-501", int64(-501), int64(-501), ""}, {"9223372036854775807", int64(math.MaxInt64), int64(math.MaxInt64), ""},
		{"1.5", 1.5, 1.5, ""}, {"-0.25", -0.25, -0.25, ""}, {"1e+21", 1e21, 1e21, ""}, {"1e-07", 1e-7, 1e-7, ""},
		{"00501", "00501", int64(501), ""}, {"+5", "+5", int64(5), ""}, {"-0", "-0", int64(0), ""}, {" 7", " 7", int64(7), ""},
		{"1.50", "1.50", 1.5, ""}, {"1e3", "1e3", 1000.0, ""}, {"1E+21", "1E+21", 1e21, ""}, {".5", ".5", 0.5, ""}, {"5.", "5.", 5.0, ""},
		{"null", "null", nil, ""}, {"NULL", "NULL", nil, ""},
		{"true", "true", true, ""}, {"t", "t", true, ""}, {"Y", "Y", true, ""}, {"ye", "ye", true, ""}, {"on", "on", true, ""},
		{"false", "false", false, ""}, {"f", "f", false, ""}, {"no", "no", false, ""}, {"n", "n", false, ""}, {"of", "of", false, ""}, {"OFF", "OFF", false, ""},
		{"99999999999999999999", "99999999999999999999", nil, "an integer outside"}, {"-9223372036854775809", "-9223372036854775809", nil, "an integer outside"},
		{"100000000000000000000", "100000000000000000000", nil, "an integer outside"},
		{"", "", nil, "text that is no number"}, {" ", " ", nil, "text that is no number"}, {"o", "o", nil, "text that is no number"}, {"yess", "yess", nil, "text that is no number"},
		{"nul", "nul", nil, "text that is no number"}, {"7 ", "7 ", nil, "text that is no number"}, {"NaN", "NaN", nil, "text that is no number"}, {"+Inf", "+Inf", nil, "text that is no number"},
		{"0x10", "0x10", nil, "text that is no number"}, {"1e999", "1e999", nil, "text that is no number"}, {"-", "-", nil, "text that is no number"}, {"1-2", "1-2", nil, "text that is no number"},
	} {
		vars := map[string]any{"x": tt.text}
		env := mustEnv(t, mustParse(t, "SELECT :x"), vars)
		env.Reset(1, 1)
		if err := env.Run(Inside, nothing{}); err != nil || env.args[0] != tt.bound {
			t.Errorf("%q is bound as %#v, %v; want %#v", tt.text, env.args[0], err, tt.bound)
		}
		got, err := evaluate(":x", vars)
		if (err == nil) != (tt.insideError == "") || err != nil && !strings.Contains(err.Error(), `\set result: the variable x holds `+tt.insideError) || got != tt.inside {
			t.Errorf("%q is %#v, %v in an expression; want %#v, %q", tt.text, got, err, tt.inside, tt.insideError)
		}
	}
}

// nothing is an Executor that does nothing.
type nothing struct{}

func (nothing) Exec(int, string, []any, *Row) error { return nil }
func (nothing) Sleep(time.Duration) error           { return nil }

// A transaction of the TPC-B-like script allocates once for each of the four
// numbers that it draws, where it is not small, and nothing for its statements.
func TestAllocations(t *testing.T) {
	env, i := tpcb(t), uint64(0)
	inside := testing.AllocsPerRun(1000, func() {
		if err := env.Run(Inside, nothing{}); err != nil {
			t.Fatal(err)
		}
	})
	if inside != 0 {
		t.Errorf("the statements allocate %v times", inside)
	}
	all := testing.AllocsPerRun(1000, func() {
		i++
		runAll(t, env, i)
	})
	if all > 4 {
		t.Errorf("a transaction allocates %v times, at most 4 expected", all)
	}
}

func tpcb(t testing.TB) *Env {
	t.Helper()
	s, err := Builtin("tpcb-like")
	if err != nil {
		t.Fatal(err)
	}
	env := mustEnv(t, s, map[string]any{"scale": 1000})
	runAll(t, env, 1)
	return env
}

func runAll(t testing.TB, env *Env, i uint64) {
	env.Reset(1, i)
	for part := Before; part <= After; part++ {
		if err := env.Run(part, nothing{}); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkTPCB(b *testing.B) {
	env, i := tpcb(b), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		i++
		runAll(b, env, i)
	}
}
