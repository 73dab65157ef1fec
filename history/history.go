// Package history reads results that were kept in files: what tpssim appends with -o,
// a JSON object a line, or prints with --format json, whose objects have several. It
// knows every kind of result that a file of -o can hold, and in which version; it
// writes nothing and judges nothing.
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// MaxBytes is the longest file that [Read] takes, thousands of runs with a sample for
// each second: one that is none of ours must not fill the memory.
const MaxBytes = 1 << 30

// Record is one result of a file. Of the pointers one is set, that of the kind which
// Schema names.
type Record struct {
	Line   int    // at which it begins, from 1
	Schema string // such as [tps.Schema]

	Run       *tps.Result
	Compare   *trials.CompareResult
	Knee      *trials.KneeResult
	Ceiling   *trials.CeilingResult
	Article   *trials.ArticleResult
	Sweep     *trials.SweepResult
	SweepHead *trials.SweepHead // a sweep that is kept run by run: what it is
	SweepRun  *trials.SweepRun  // and each run that is done; its Result is not nil
}

// result makes room for the result of a schema; nil for one that is not known.
func (r *Record) result() any {
	switch r.Schema {
	case tps.Schema:
		r.Run = new(tps.Result)
		return r.Run
	case trials.CompareSchema:
		r.Compare = new(trials.CompareResult)
		return r.Compare
	case trials.KneeSchema:
		r.Knee = new(trials.KneeResult)
		return r.Knee
	case trials.CeilingSchema:
		r.Ceiling = new(trials.CeilingResult)
		return r.Ceiling
	case trials.ArticleSchema:
		r.Article = new(trials.ArticleResult)
		return r.Article
	case trials.SweepResultSchema:
		r.Sweep = new(trials.SweepResult)
		return r.Sweep
	case trials.SweepSchema:
		r.SweepHead = new(trials.SweepHead)
		return r.SweepHead
	case trials.SweepRunSchema:
		r.SweepRun = new(trials.SweepRun)
		return r.SweepRun
	}
	return nil
}

// schemas are those that [Record] knows.
var schemas = []string{
	tps.Schema, trials.CompareSchema, trials.KneeSchema, trials.CeilingSchema, trials.ArticleSchema,
	trials.SweepResultSchema, trials.SweepSchema, trials.SweepRunSchema,
}

// Read reads all results, in their order. Fields that it does not know are ignored,
// and no list or map of a result is nil afterwards, whatever the file left out.
//
// Nothing is skipped: a result of a schema that is unknown or newer than this program,
// something else than a result, or one that ends in the middle, as when its writer was
// killed, is an error with the line at which it begins. The results before it are
// returned beside the error, for those who know better. A reader's own error is
// wrapped. Without any result there is no error.
func Read(r io.Reader) ([]Record, error) {
	return read(r, MaxBytes)
}

// read is Read with a limit of its own.
func read(r io.Reader, limit int64) ([]Record, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("history: %w", err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("history: there are more than %d bytes: divide it, or use a file that tpssim wrote", limit)
	}
	return readAll(text)
}

// readAll reads the results of a text.
func readAll(text []byte) (records []Record, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	line := 1
	for at := 0; ; {
		// Until the next result there are only blanks and ends of lines.
		next := at + len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n"))
		line += bytes.Count(text[at:next], []byte("\n"))
		var one json.RawMessage
		if err := dec.Decode(&one); err == io.EOF {
			return records, nil
		} else if err != nil {
			return records, fmt.Errorf("history: line %d: %w", line, broken(err))
		}
		record, err := parse(one)
		if err != nil {
			return records, fmt.Errorf("history: line %d: %w", line, err)
		}
		record.Line = line
		records = append(records, record)
		at = next + len(one)
		line += bytes.Count(one, []byte("\n"))
	}
}

// broken says what is wrong with text that is no JSON.
func broken(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends in the middle, as when its writer was killed: remove that line")
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON (%w): use a file that tpssim wrote with -o or --format json", err)
	}
	return err
}

// parse reads one result.
func parse(text []byte) (r Record, err error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(text, &head); err != nil || head.Schema == "" {
		return r, errors.New("it is no result of tpssim, as it names no schema: use a file that tpssim wrote with -o or --format json")
	}
	r.Schema = head.Schema
	into := r.result()
	if into == nil {
		return r, unknown(head.Schema)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return r, fmt.Errorf("it is not what %s says (%w): it was changed, or another program wrote it", head.Schema, err)
	}
	if r.SweepRun != nil && r.SweepRun.Result == nil {
		return r, errors.New("a run of a sweep without its result: it was changed, or another program wrote it")
	}
	fill(reflect.ValueOf(into).Elem())
	return r, nil
}

// unknown says what is wrong with a schema that is not known.
func unknown(schema string) error {
	kind, version := versionOf(schema)
	for _, known := range schemas {
		ours, newest := versionOf(known)
		if kind == ours && version > newest {
			return fmt.Errorf("%s is newer than this program knows (%d): use a newer tpssim", schema, newest)
		}
	}
	return fmt.Errorf("%q is no schema that this program knows: use a newer tpssim, or another file", schema)
}

// versionOf divides a schema into its kind and its version, which is 0 where there is
// none.
func versionOf(schema string) (kind string, version int) {
	kind, number, _ := strings.Cut(schema, "/")
	version, err := strconv.Atoi(number)
	if err != nil || version < 1 {
		return schema, 0
	}
	return kind, version
}

// fill makes lists and maps that a file left out empty ones, as results promise.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for k := range v.NumField() {
			if v.Type().Field(k).IsExported() { // an instant has others
				fill(v.Field(k))
			}
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for k := range v.Len() {
			fill(v.Index(k))
		}
	}
}
