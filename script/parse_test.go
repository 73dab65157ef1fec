package script

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func mustParse(t testing.TB, text string) *Script {
	t.Helper()
	s, err := Parse("test.sql", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustEnv(t testing.TB, s *Script, vars map[string]any) *Env {
	t.Helper()
	env, err := s.NewEnv(vars)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// paramNames are the names of a step's parameters.
func paramNames(s *Script, step Step) (names []string) {
	for _, slot := range step.params {
		names = append(names, s.names[slot])
	}
	return names
}

// Statements, as they are run and with their parameters.
func TestStatements(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string // SQL | parameters
	}{
		{"SELECT 1", []string{"SELECT 1 |"}},
		{"SELECT 1;;  ;\n\tSELECT\r\n 2 ;", []string{"SELECT 1 |", "SELECT 2 |"}},
		{`SELECT 1 \; SELECT 2;`, []string{"SELECT 1 |", "SELECT 2 |"}},
		{"SELECT :a, :b, :a+:c;", []string{"SELECT ?1, ?2, ?1+?3 | a b c"}},
		{"SELECT :a; SELECT :b", []string{"SELECT ?1 | a", "SELECT ?1 | b"}},
		{"SELECT ':a', 'it''s :b', \":c\", `:d`, [:e], :f;", []string{"SELECT ':a', 'it''s :b', \":c\", `:d`, [:e], ?1 | f"}},
		{"SELECT 'a\n;  b', 'c\\d';", []string{"SELECT 'a\n;  b', 'c\\d' |"}},
		{"SELECT $$it's; :a$$, $x$ $$ $x$, $$$$;", []string{"SELECT 'it''s; :a', ' $$ ', '' |"}},
		{"-- SELECT 0;\nSELECT 1 -- :a;\n + /* :b ; /* nested */ */ 2--", []string{"SELECT 1 + 2 |"}},
		{"SELECT a/**/b, 5 - -3, 6/2;", []string{"SELECT a b, 5 - -3, 6/2 |"}},
		{"SELECT CAST(:a AS int), ':b', x:c;", []string{"SELECT CAST(?1 AS int), ':b', x?2 | a c"}},
		{"SELECT :aé_1, x'00', a$b, 1e5, :_x;", []string{"SELECT ?1, x'00', a$b, 1e5, ?2 | aé_1 _x"}},
		{"SELECT e, 'x', there 'y';", []string{"SELECT e, 'x', there 'y' |"}},
		{"BEGIN; SELECT 1; END;", []string{"SELECT 1 |"}},
		{"start /**/ transaction read only; SELECT 1; commit work", []string{"SELECT 1 |"}},
		{"begin isolation level serializable; SELECT CASE WHEN 1 THEN 2 END; End Transaction;", []string{"SELECT CASE WHEN 1 THEN 2 END |"}},
		{"\ufeffSELECT 1;", []string{"SELECT 1 |"}},
		{"SELECT 1\n\\set x 1\nSELECT :x;", []string{"SELECT 1 |", "SELECT ?1 | x"}},
		{"WITH t AS (SELECT 1) SELECT * FROM t", []string{"WITH t AS (SELECT 1) SELECT * FROM t |"}},
		{"\"begin\"; SELECT 1;", []string{"\"begin\" |", "SELECT 1 |"}},
	} {
		s, err := Parse("test.sql", strings.NewReader(tt.text))
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		var got []string
		for _, step := range s.Steps {
			if step.Kind == SQL {
				got = append(got, strings.TrimSpace(step.SQL+" | "+strings.Join(paramNames(s, step), " ")))
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q:\n got %q\nwant %q", tt.text, got, tt.want)
		}
	}
}

// What is not supported is named with its line, and with what to do.
func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"SELECT 1;\n\n\\if :x\n", `test.sql:3: \if is not supported: use CASE`},
		{"SELECT 1;\n\\ELSE", `test.sql:2: \else is not supported`}, {"\\elif 1", `\elif is not supported`}, {"\\endif", `\endif is not supported`},
		{"SELECT 1 \\aset", `test.sql:1: \aset is not supported: end each query`},
		{"SELECT\n 1\n \\startpipeline", `test.sql:3: \startpipeline is not`}, {"\\syncpipeline", `\syncpipeline is not`}, {"\\endpipeline", `\endpipeline is not`},
		{"\\shell ls", `\shell is not supported: a script runs no programs`}, {"\\setshell x ls", `\setshell is not supported`},
		{"\\setrandom x 1 2", `\setrandom is not supported: write \set name random`}, {"\\echo x", `\echo is not known: the commands are`}, {"\\", `\ is not known`},
		{"\\set", `\set: "" does not begin with the name`}, {"\\set 1x 2", `\set: "1x 2" does not begin`}, {"\\set x", `\set: x gets no value`}, {"\\set a.b 1", `does not begin`}, {"\\set a- 1", `does not begin`},
		{"SELECT 1;\n/* a\n b */ \\set x 1 \\\n + \\\n permute(1)", `test.sql:3: \set: x: the function permute is not supported`},
		{"\\sleep", `\sleep: "": write a whole number`}, {"\\sleep 0.5 s", `\sleep: "0.5 s": write`}, {"\\sleep 1 min", `write a whole number`}, {"\\sleep :x-1", `write a whole number`}, {"\\sleep -1", `write a whole number`}, {"\\sleep 1 2 ms", `write a whole number`}, {"\\sleep :", `write a whole number`},
		{"\\sleep 99999999999999 s", `more than a year`}, {"\\sleep 99999999999999999999", `write a whole number`},
		{"\\gset", `\gset: it does not follow a statement`}, {"SELECT 1 \\gset\n\\gset", `test.sql:2: \gset: it does not follow`}, {"SELECT 1;\n\\set x 1\n\\gset", `test.sql:3: \gset: it does not`}, {"BEGIN; SELECT 1; END \\gset", `\gset: it does not`},
		{"SELECT 1 \\gset a b", `the prefix "a b" is no name`}, {"SELECT 1 \\gset 1", `the prefix "1" is no name`},
		{"SELECT 'a\nb", `test.sql:1: a quote that does not end: ' is missing`}, {"\nSELECT \"a", `test.sql:2: a quote that does not end: " is missing`}, {"SELECT [a", `] is missing`}, {"SELECT $a$ $b$", `$a$ is missing`},
		{"\n/* /* */", `test.sql:2: a comment that does not end`},
		{"SELECT 1,\n \\:name;", `test.sql:2: \: is not supported: write :name for a variable, CAST(x AS type)`}, {"\\:a", `\: is not`}, {"SELECT\n:a::int", `test.sql:2: ':' without the name of a variable is not supported outside of literals: write :name`},
		{"SELECT 12:34", `':' without`}, {"SELECT x:::b", `':' without`}, {"SELECT a : b", `':' without`}, {"SELECT :", `':' without`}, {"SELECT #a", `'#' is not supported`},
		{"SELECT 1;\n\n\\set x 1\n", `test.sql:3: \set: no statement can use it behind the last one: put it`}, {"BEGIN; SELECT 1; END;\n\\sleep 1\n\\set x 1\n\\sleep :x", `test.sql:3: \set: no statement can use it`},
		{"SELECT ?", `'?' is not supported`}, {"SELECT @a", `'@' is not supported`}, {"SELECT $1", `'$' is not supported`}, {"SELECT $a", `'$' is not supported`}, {"SELECT E'a'", `E'..' is not supported`},
		{"SELECT 1;\nROLLBACK;", `test.sql:2: ROLLBACK is not supported: a script cannot undo`}, {"abort", `ABORT is not`}, {"SAVEPOINT a", `SAVEPOINT is not`}, {"RELEASE a", `RELEASE is not`},
		{"PRAGMA cache_size = 1", `PRAGMA is not supported: set it for the whole run with --pragma`}, {"ATTACH 'x' AS y", `ATTACH is not`}, {"DETACH y", `DETACH is not`}, {"vacuum", `VACUUM is not`},
		{"CREATE TRIGGER t AFTER INSERT ON x BEGIN SELECT 1; END;", `CREATE TRIGGER is not supported`}, {"create temp trigger t", `CREATE TRIGGER is not`},
		{"BEGIN;\nSELECT 1;\nEND;\nBEGIN;\nSELECT 2;\nEND;", `test.sql:4: BEGIN after the transaction ended on line 3: a script is one transaction: put the rest into a file of its own`},
		{"BEGIN; SELECT 1; END;\nSELECT 2", `test.sql:2: SELECT after the transaction ended on line 1`}, {"BEGIN; SELECT 1; END;\nEND;", `test.sql:2: END after`},
		{"BEGIN;\nBEGIN;", `test.sql:2: BEGIN inside of the transaction that began on line 1`},
		{"SELECT 1;\nBEGIN; SELECT 2; END", `test.sql:2: BEGIN after a statement`}, {"SELECT 1;\nCOMMIT;", `test.sql:2: COMMIT without BEGIN`},
		{"\nBEGIN; SELECT 1;\n", `test.sql:2: BEGIN without END`},
		{"", `test.sql:1: no SQL statement`}, {"\\set x 1\n-- nothing\n", `test.sql:3: no SQL statement`}, {"BEGIN; END;", `no SQL statement`},
		{"SELECT 1;\nSELECT \x00", `test.sql:2: a NUL byte`},
		{strings.Repeat("SELECT 1;", maxSteps+1), "more than 10000 commands"},
		{strings.Repeat(" ", maxBytes+1), "larger than 1 MiB"},
	} {
		_, err := Parse("test.sql", strings.NewReader(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v; want an error with %q", tt.text, err, tt.want)
		}
	}
	if _, err := Parse("test.sql", iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a reader's error became %v", err)
	}
}

// Each command knows its line and what it looked like, and to which part it belongs.
func TestParts(t *testing.T) {
	for _, tt := range []struct {
		text       string
		first, end int
		lines      []int
		texts      []string
	}{
		{"\\set a 1\nSELECT :a;\n\\sleep 1 ms\nSELECT 2;\n\\sleep 2s", 1, 4, []int{1, 2, 3, 4, 5},
			[]string{`\set a 1`, "SELECT :a;", `\sleep 1 ms`, "SELECT 2;", `\sleep 2s`}},
		{"\\sleep :a us\nBEGIN;\n\\set b 1 + \\\n  2\n\\sleep 1\nSELECT\n  :b -- x\n \\gset p_\n\\set c 1\nEND;\n\\sleep :c", 2, 5, []int{1, 3, 5, 6, 9, 11},
			[]string{`\sleep :a us`, `\set b 1 + 2`, `\sleep 1`, `SELECT :b \gset p_`, `\set c 1`, `\sleep :c`}},
		{"SELECT 1\\gset\n", 0, 1, []int{1}, []string{`SELECT 1 \gset`}},
	} {
		s := mustParse(t, tt.text)
		var lines []int
		var texts []string
		for _, step := range s.Steps {
			lines, texts = append(lines, step.Line), append(texts, step.Text)
		}
		if s.First != tt.first || s.End != tt.end || !slices.Equal(lines, tt.lines) || !slices.Equal(texts, tt.texts) {
			t.Errorf("%q: %d to %d, lines %v, %q", tt.text, s.First, s.End, lines, texts)
		}
	}
}

func TestUndefined(t *testing.T) {
	for _, tt := range []struct{ text, says string }{
		{"\\set a :scale\nSELECT :a, :scale;", ""},
		{"SELECT :a;\n\\set a 1\nSELECT :a;", "test.sql:1: the variable a is not defined: set it with"},
		{"\\set a :a + 1\nSELECT 1;", "test.sql:1: the variable a"},
		{"SELECT 1;\n\n\\sleep :think ms", "test.sql:3: the variable think"},
		{"\\set a abs(least(1, case when :b then 1 end))\nSELECT 1;", "the variable b"},
		{"\\set a hash(1)\nSELECT :a;", "the variable default_seed"},
		{"SELECT 1 AS one \\gset\nSELECT :one;", ""},
		{"SELECT 1 AS one \\gset p_\nSELECT :p_one;", ""},
		{"SELECT 1 AS one \\gset p_\nSELECT :one;", "test.sql:2: the variable one"},
		{"SELECT :one AS one \\gset", "test.sql:1: the variable one"},
	} {
		err := mustParse(t, tt.text).Undefined("scale")
		if (err == nil) != (tt.says == "") || err != nil && !strings.HasPrefix(err.Error(), tt.says) && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.says)
		}
	}
}

func TestBuiltins(t *testing.T) {
	for name, statements := range map[string]int{"tpcb-like": 5, "simple-update": 3, "select-only": 1} {
		s, err := Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Undefined("scale"); err != nil || s.End-s.First != statements {
			t.Errorf("%s: %d statements, %v", name, s.End-s.First, err)
		}
	}
	if _, err := Builtin("tpcb"); err == nil || !strings.Contains(err.Error(), "select-only, simple-update, tpcb-like") {
		t.Errorf("an unknown name: %v", err)
	}
}

// Whatever is parsed or refused, it is without a panic. What is parsed runs or fails
// with an error of its own, never for a variable that Undefined has let pass, and its
// commands' texts are a script again, with the same statements.
func FuzzParse(f *testing.F) {
	for _, text := range builtins {
		f.Add(text)
	}
	f.Add("SELECT $a$ ' $a$, 'x''y', /* /* */ */ */ :a, ':b::c' \\; SELECT 1 \\gset p_\n\\sleep :p_a ms\n")
	f.Add("BEGIN;\n\\set x 1\n\\sleep :x us\nSELECT :x::int, \\:d, #1;\n\\set y 2\nEND;\n\\sleep :y\n\\set z 1")
	f.Add("BEGIN;\n\\set x 1\n\\sleep :x us\nSELECT :x;\n\\set y 2\nEND;\n\\sleep :y")
	f.Add("\\set x case when not 1 <= -2 then ~1 << 2 else least(1, 2.5e1) end is not null\nSELECT [a], `b`, \"c\", :x \\; SELECT 2 - -3")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("fuzz.sql", strings.NewReader(text))
		if err != nil {
			return
		}
		if s.First < 0 || s.First >= s.End || s.End > len(s.Steps) {
			t.Fatalf("the transaction is %d to %d of %d", s.First, s.End, len(s.Steps))
		}
		var texts strings.Builder
		gset := false
		for i, step := range s.Steps {
			switch i {
			case s.First:
				texts.WriteString("BEGIN;\n")
			case s.End:
				texts.WriteString("END;\n")
			}
			texts.WriteString(step.Text + "\n")
			gset = gset || step.gset
		}
		if s.End == len(s.Steps) {
			texts.WriteString("END;\n")
		}
		again, err := Parse("again.sql", strings.NewReader(texts.String()))
		if err != nil {
			t.Fatalf("%q became %q: %v", text, texts.String(), err)
		}
		sameSQL := func(a, b Step) bool {
			return a.Kind == b.Kind && a.SQL == b.SQL && slices.Equal(paramNames(s, a), paramNames(again, b))
		}
		if s.First != again.First || s.End != again.End || !slices.EqualFunc(s.Steps, again.Steps, sameSQL) {
			t.Fatalf("%q became %q", text, texts.String())
		}
		env := mustEnv(t, s, map[string]any{"scale": 1})
		env.Reset(1, 2)
		undefined := s.Undefined("scale")
		ex := &recorder{row: []any{int64(1)}, columns: []string{"a"}}
		for part := Before; part <= After && err == nil; part++ {
			err = env.Run(part, ex)
		}
		if err != nil && undefined == nil && !gset && strings.Contains(err.Error(), "is not defined") {
			t.Fatalf("Undefined missed %v", err)
		}
	})
}
