package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// results are one of each kind, with what they must come back with.
func results() []any {
	run := &tps.Result{Schema: tps.Schema, Scenario: "savepoint", TPS: 272_480.25, Stages: tps.Stages{Think: &tps.Latency{Count: 3}}}
	return []any{
		run,
		&trials.CompareResult{Schema: trials.CompareSchema, Figure: "tps", Arms: []trials.ComparedArm{{Name: "a"}}},
		&trials.KneeResult{Schema: trials.KneeSchema, Need: 5000},
		&trials.CeilingResult{Schema: trials.CeilingSchema, Ratio: 0.74},
		&trials.ArticleResult{Schema: trials.ArticleSchema, Transactions: 1000},
		&trials.SweepResult{Schema: trials.SweepResultSchema, Cells: []trials.SweptCell{{Cell: 1}}},
		&trials.SweepHead{Schema: trials.SweepSchema, Rounds: 3},
		&trials.SweepRun{Schema: trials.SweepRunSchema, Cell: 1, Result: run},
	}
}

// lines are results as a file of -o holds them.
func lines(t *testing.T, indent string, results ...any) string {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetIndent("", indent)
	for _, r := range results {
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// set returns the one pointer of a record that is set.
func set(t *testing.T, r Record) (result any) {
	t.Helper()
	v := reflect.ValueOf(r)
	for k := range v.NumField() {
		if f := v.Field(k); f.Kind() == reflect.Pointer && !f.IsNil() {
			if result != nil {
				t.Errorf("line %d: more than one result is set", r.Line)
			}
			result = f.Interface()
		}
	}
	if result == nil {
		t.Fatalf("line %d: no result is set", r.Line)
	}
	return result
}

// noNulls fails when a list or a map of a result is null; what may be absent is.
func noNulls(t *testing.T, result any) {
	t.Helper()
	if text := lines(t, "", result); strings.Contains(text, ":null") {
		t.Errorf("it has nulls: %s", text)
	}
}

func TestReadEveryKind(t *testing.T) {
	all := results()
	if len(all) != len(schemas) {
		t.Fatalf("%d kinds of results are tested, of %d", len(all), len(schemas))
	}
	for _, indent := range []string{"", "  "} {
		text := lines(t, indent, all...)
		records, err := Read(strings.NewReader(text))
		if err != nil || len(records) != len(all) {
			t.Fatalf("indented by %q: %d records, %v", indent, len(records), err)
		}
		for k, r := range records {
			got := set(t, r)
			if reflect.TypeOf(got) != reflect.TypeOf(all[k]) || r.Schema != reflect.ValueOf(all[k]).Elem().FieldByName("Schema").String() {
				t.Errorf("record %d is a %T of %s, want a %T", k+1, got, r.Schema, all[k])
			}
			// Nothing but what was absent has changed.
			want := all[k]
			fill(reflect.ValueOf(want).Elem())
			if !reflect.DeepEqual(got, want) {
				t.Errorf("record %d came back as %+v, want %+v", k+1, got, want)
			}
			noNulls(t, got)
			if line := strings.Split(text, "\n")[r.Line-1]; line != "{" && !strings.HasPrefix(line, `{"schema":`) {
				t.Errorf("record %d does not begin at line %d: %s", k+1, r.Line, line)
			}
			if k > 0 && r.Line <= records[k-1].Line {
				t.Errorf("record %d is at line %d, behind one at %d", k+1, r.Line, records[k-1].Line)
			}
		}
	}
}

func TestReadOlderAndLaterFields(t *testing.T) {
	records, err := Read(strings.NewReader("\n\n  {\"schema\":\"tpssim.run/1\",\"tps\":5,\"a field of a later version\":[1]}\r\n\n{\"schema\":\"tpssim.run/1\"}"))
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if records[0].Line != 3 || records[1].Line != 5 || records[0].Run.TPS != 5 {
		t.Errorf("lines %d and %d, %v TPS", records[0].Line, records[1].Line, records[0].Run.TPS)
	}
	for _, r := range records {
		noNulls(t, r.Run)
	}
}

func TestReadRefuses(t *testing.T) {
	good := `{"schema":"tpssim.run/1","tps":5}` + "\n"
	for _, tt := range []struct{ text, want string }{
		{good + `{"schema":"tpssim.run/2"}`, "history: line 2: tpssim.run/2 is newer than this program knows (1): use a newer tpssim"},
		{good + `{"schema":"tpssim.sweeprun/17"}`, "history: line 2: tpssim.sweeprun/17 is newer than this program knows (1): use a newer tpssim"},
		{good + "\n" + `{"schema":"tpssim.run/0"}`, `history: line 3: "tpssim.run/0" is no schema that this program knows: use a newer tpssim, or another file`},
		{good + `{"schema":"tpssim.doctor/1"}`, `history: line 2: "tpssim.doctor/1" is no schema that this program knows: use a newer tpssim, or another file`},
		{good + `{"schema":"tpssim.run"}`, `history: line 2: "tpssim.run" is no schema that this program knows: use a newer tpssim, or another file`},
		{good + `{"schema":7}`, "history: line 2: it is no result of tpssim, as it names no schema: use a file that tpssim wrote with -o or --format json"},
		{good + `{"tps":7}`, "history: line 2: it is no result of tpssim, as it names no schema: use a file that tpssim wrote with -o or --format json"},
		{good + `null`, "history: line 2: it is no result of tpssim, as it names no schema: use a file that tpssim wrote with -o or --format json"},
		{good + `[]`, "history: line 2: it is no result of tpssim, as it names no schema: use a file that tpssim wrote with -o or --format json"},
		{good + `{"schema":"tpssim.run/1","tps":"fast"}`, "history: line 2: it is not what tpssim.run/1 says (json: cannot unmarshal string into Go struct field Result.tps of type float64): it was changed, or another program wrote it"},
		{good + `{"schema":"tpssim.sweeprun/1","cell":1}`, "history: line 2: a run of a sweep without its result: it was changed, or another program wrote it"},
		{good + `{"schema":"tpssim.run/1","tps":`, "history: line 2: it ends in the middle, as when its writer was killed: remove that line"},
		{good + `{"schema":"tpss`, "history: line 2: it ends in the middle, as when its writer was killed: remove that line"},
		{good + `{"schema":"tpssim.run/1","tps":5,` + "\n" + good, "history: line 2: it is not JSON (invalid character '{' looking for beginning of object key string): use a file that tpssim wrote with -o or --format json"},
		{good + "SQLite format 3\x00", "history: line 2: it is not JSON (invalid character 'S' looking for beginning of value): use a file that tpssim wrote with -o or --format json"},
	} {
		records, err := Read(strings.NewReader(tt.text))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q:\n%v, want\n%s", tt.text, err, tt.want)
		}
		if len(records) != 1 || records[0].Run == nil || records[0].Run.TPS != 5 {
			t.Errorf("%q: the record before it is missing: %v", tt.text, records)
		}
	}
}

func TestReadNothing(t *testing.T) {
	for _, text := range []string{"", "\n", " \r\n\t"} {
		if records, err := Read(strings.NewReader(text)); err != nil || len(records) != 0 {
			t.Errorf("%q: %v, %v", text, records, err)
		}
	}
	broken := errors.New("broken")
	if _, err := Read(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("the reader's error is lost: %v", err)
	}
}

// endless is blanks without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for k := range p {
		p[k] = ' '
	}
	return len(p), nil
}

func TestReadEndsSomewhere(t *testing.T) {
	text := `{"schema":"tpssim.run/1"}`
	if records, err := read(strings.NewReader(text), int64(len(text))); err != nil || len(records) != 1 {
		t.Errorf("as long as may be: %d records, %v", len(records), err)
	}
	for _, r := range []io.Reader{endless{}, strings.NewReader(text + " ")} {
		_, err := read(r, int64(len(text)))
		if want := "history: there are more than 25 bytes: divide it, or use a file that tpssim wrote"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Whatever is in a file, Read returns, and what it returns is what a file of it holds.
func FuzzRead(f *testing.F) {
	for _, r := range results() {
		text, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(append(text, text[:len(text)/2]...))
	}
	f.Add([]byte("{\"schema\":\"tpssim.run/1\",\"runs\":[{}],\"load\":{\"stages\":null}}\n\n{\"schema\":\"tpssim.run/2\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		records, _ := Read(bytes.NewReader(text))
		var all []any
		for k, r := range records {
			if r.Line < 1 || r.Line > 1+bytes.Count(text, []byte("\n")) || k > 0 && r.Line < records[k-1].Line {
				t.Errorf("record %d is at line %d", k+1, r.Line)
			}
			all = append(all, set(t, r))
		}
		again, err := Read(strings.NewReader(lines(t, "", all...)))
		if err != nil || len(again) != len(records) {
			t.Fatalf("%d of %d records came back: %v", len(again), len(records), err)
		}
		for k, r := range again {
			if r.Line = records[k].Line; !reflect.DeepEqual(r, records[k]) {
				t.Errorf("record %d came back as %+v, was %+v", k+1, r, records[k])
			}
		}
	})
}
