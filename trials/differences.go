package trials

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tpssim/tpssim/tps"
)

// setBy are the flags of the command and what each sets of a result, as Difference
// names it. A flag that no result records (such as fail-rate) is not there.
var setBy = map[string][]string{
	"transactions":   {"load.transactions", "load.mode"},
	"duration":       {"load.duration_ns", "load.mode", "load.concurrency"},
	"concurrency":    {"load.concurrency", "load.mode"},
	"rate":           {"load.rate", "load.mode", "load.arrival", "load.burst_size", "load.max_in_flight", "load.concurrency"},
	"stage":          {"load.stages", "load.mode", "load.arrival", "load.burst_size", "load.max_in_flight", "load.concurrency", "load.duration_ns"},
	"arrival":        {"load.arrival"},
	"burst-size":     {"load.burst_size"},
	"max-in-flight":  {"load.max_in_flight"},
	"latency-limit":  {"load.latency_limit_ns"},
	"warmup":         {"load.warmup_ns"},
	"random-seed":    {"load.random_seed"},
	"dist":           {"load.dist", "load.dist_parameters"},
	"layout":         {"load.layout"},
	"pareto-r":       {"load.dist_parameters"},
	"theta":          {"load.dist_parameters"},
	"hot-accounts":   {"load.dist_parameters"},
	"hot-traffic":    {"load.dist_parameters"},
	"rows":           {"load.rows"},
	"schema":         {"load.schema"},
	"payload":        {"load.payload_bytes"},
	"keys":           {"load.keys"},
	"without-rowid":  {"load.keys"},
	"sorted":         {"load.keys"},
	"indexes":        {"load.indexes"},
	"page-size":      {"settings.page_size"},
	"reads":          {"load.reads_per_tx"},
	"think":          {"load.think_ns"},
	"max-tries":      {"load.max_tries"},
	"pin-reader":     {"load.pin_reader_ns"},
	"cache":          {"load.cache"},
	"file":           {"load.scripts"},
	"builtin":        {"load.scripts"},
	"sync":           {"settings.synchronous"},
	"journal-mode":   {"settings.journal_mode", "settings.checkpoint"}, // without a WAL there are no checkpoints
	"cache-size":     {"settings.cache_size"},
	"mmap-size":      {"settings.mmap_size"},
	"checkpoint":     {"settings.checkpoint"},
	"max-batch":      {"settings.max_batch"},
	"max-batch-time": {"settings.max_batch_time_ns"},
	"batch-window":   {"settings.batch_window_ns"},
	"queue":          {"settings.queue"},
	"readers":        {"settings.readers"},
	"connections":    {"settings.readers"},
	"prefetch":       {"settings.prefetch"},
	"savepoints":     {"settings.savepoints"},
	"engine":         {"engine"},

	"checkpoint-mode": {"settings.checkpoint"},
	"db":              {"load.rows", "load.schema", "load.payload_bytes", "load.indexes", "settings.page_size", "env.filesystem"},
	"scenario": {"scenario", "load.mode", "load.keys", "load.rows", "load.reads_per_tx", "load.max_tries", "settings.checkpoint", "settings.max_batch",
		"settings.max_batch_time_ns", "settings.batch_window_ns", "settings.queue", "settings.savepoints", "settings.readers", "settings.prefetch"},
}

// follows are fields that say nothing of their own: what follows from others, and the
// size of a file, which grows from run to run.
var follows = []string{"load.think_bound_tps", "env.db_bytes"}

// property is a field of a result that arms can differ in.
type property struct{ name, value string }

// properties are what a result says of how and where it was measured, in the order of
// its JSON. Text stands as it is, everything else as in JSON.
func properties(r *tps.Result) []property {
	list := []property{{"scenario", r.Scenario}, {"engine", r.Engine}}
	for _, part := range []struct {
		name string
		of   any
	}{{"load", r.Load}, {"settings", r.Settings}, {"env", r.Env}} {
		v := reflect.ValueOf(part.of)
		for k := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(k).Tag.Get("json"), ",")
			if name = part.name + "." + name; !slices.Contains(follows, name) {
				list = append(list, property{name, valueText(v.Field(k))})
			}
		}
	}
	return list
}

// valueText is a field as text: an absent list is an empty one.
func valueText(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	if v.Kind() == reflect.Slice && v.IsNil() {
		return "[]"
	}
	text, err := json.Marshal(v.Interface())
	if err != nil { // infinite or not a number, which JSON does not know
		return fmt.Sprint(v.Interface())
	}
	return string(text)
}

// asked tells whether the settings of the arms, where these are not the same, set a
// field.
func asked(arms []comparedRuns, field string) bool {
	for _, arm := range arms {
		for _, s := range arm.settings {
			sets := slices.Contains(setBy[s.Name], field)
			if name, _, ok := strings.Cut(s.Value, "="); ok && s.Name == "pragma" {
				sets = "settings."+strings.ToLower(name) == field
			}
			if sets && slices.ContainsFunc(arms, func(other comparedRuns) bool {
				return !slices.Equal(valuesOf(other.settings, s.Name), valuesOf(arm.settings, s.Name))
			}) {
				return true
			}
		}
	}
	return false
}

// valuesOf are the values that settings give to a flag.
func valuesOf(settings []Setting, flag string) (values []string) {
	for _, s := range settings {
		if s.Name == flag {
			values = append(values, s.Value)
		}
	}
	return values
}

// differences lists the fields in which arms differ, by the last run of each.
func differences(arms []comparedRuns, interleaved bool) []Difference {
	list := []Difference{}
	of := make([][]property, len(arms))
	for k, arm := range arms {
		of[k] = properties(arm.last())
	}
	for n, p := range of[0] {
		if p.name == "load.random_seed" && !interleaved {
			continue // a history holds runs of many
		}
		d := Difference{Name: p.name, Values: make([]string, len(arms))}
		same := true
		for k := range arms {
			d.Values[k] = of[k][n].value
			same = same && d.Values[k] == p.value
		}
		if !same {
			d.Asked = asked(arms, p.name)
			list = append(list, d)
		}
	}
	return list
}

// unasked lists the differences that nobody asked for, as text.
func unasked(list []Difference) string {
	var parts []string
	for _, d := range list {
		if d.Asked {
			continue
		}
		var values []string
		for _, v := range d.Values {
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", d.Name, strings.Join(values, ", ")))
	}
	return strings.Join(parts, "; ")
}

// varying names the fields in which the runs of an arm differ from each other.
func varying(arm comparedRuns) (names []string) {
	first := properties(arm.runs[0])
	for _, run := range arm.runs[1:] {
		for n, p := range properties(run) {
			if p != first[n] && p.name != "load.random_seed" && !slices.Contains(names, p.name) {
				names = append(names, p.name)
			}
		}
	}
	return names
}

// promises are those of the runs of an arm, each once, in words.
func promises(arm comparedRuns) (list []string) {
	for _, run := range arm.runs {
		if p := PromiseOf(run.Settings, run.Env); !slices.Contains(list, p.Text) {
			list = append(list, p.Text)
		}
	}
	return list
}
