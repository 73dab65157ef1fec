package tps

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tpssim/tpssim/internal/nearest"
)

// Threshold is a condition that a Result meets or not, as in "p99<20ms". It is
// comparable. The zero value is met by nothing; [ParseThreshold] makes others.
//
//	[scope.]metric op number[unit]
//
// op is one of < <= > >= == !=, and blanks may stand around everything. Of a
// time the metrics are mean, p50, p90, p95, p99, p99.9 (or p999) and max, and its
// scope is one of
//
//	latency      from the intended start; the scope when none is named
//	service      from the actual start
//	reads        of each point read by itself
//	lag, queue, checkpoint, turn, execute, hold, commit, wake, think, retry
//	             of a stage of the transactions; see [Stages]
//
// A number for a time has a unit of Go's durations (ns, us, ms, s, m, h); a bare
// number is milliseconds. The scope tries has the metrics mean, p50, p99 and max,
// which are numbers of attempts. The metrics without a scope are the fields of
// Result of these names,
//
//	tps, tps_settled, tps_low             a second
//	acknowledged, failed, dropped, skipped, late, retries
//
// for which a number is 50000, 1.5k or 1e6 (k, m, b and t are powers of 1000),
// and error_rate, the failed transactions' share of the failed and acknowledged
// ones, for which it is 0.01 or 1%.
type Threshold struct {
	scope, metric, op string
	limit             float64 // nanoseconds for times
}

// Outcome says whether a Result met a Threshold.
type Outcome struct {
	Threshold string  `json:"threshold"`
	Value     float64 `json:"value"` // what was measured; nanoseconds for times
	// Samples is how many observations stand behind Value. Without any OK is
	// false: what was not measured was not shown to hold.
	Samples int64 `json:"samples"`
	OK      bool  `json:"ok"`
}

// Hopeless tells that a threshold which is crossed before the end of a load cannot
// be met at its end any more, or is one to be judged at any time: a rate or a
// percentile. A count that only grows is hopeless when it is above its limit, and
// never because it is not there yet.
func (t Threshold) Hopeless(o Outcome) bool {
	if o.OK || o.Samples == 0 {
		return false
	}
	for _, f := range thresholdFields {
		if f.name == t.metric && f.grows {
			return t.op != "!=" && o.Value >= t.limit && t.op != ">" && t.op != ">="
		}
	}
	return true
}

// measurement is what a metric reads from a Result.
type measurement func(*Result) (value float64, samples int64)

// kind is what the number of a metric means.
type kind uint8

const (
	kindCount kind = iota
	kindShare
	kindTime
)

// field is a metric that belongs to no time.
type field struct {
	name  string
	kind  kind
	grows bool // while a load runs, and never shrinks
	get   measurement
}

const triesScope = "tries"

// thresholdFields are the metrics without a scope, and those of tries.
var thresholdFields = []field{
	{"tps", kindCount, false, ratePerSecond(func(r *Result) float64 { return r.TPS })},
	{"tps_settled", kindCount, false, ratePerSecond(func(r *Result) float64 { return r.TPSSettled })},
	{"tps_low", kindCount, false, ratePerSecond(func(r *Result) float64 { return r.TPSLow })},
	{"acknowledged", kindCount, true, func(r *Result) (float64, int64) { return float64(r.Acknowledged), r.finished() }},
	{"failed", kindCount, true, func(r *Result) (float64, int64) { return float64(r.Failed), r.finished() }},
	{"dropped", kindCount, true, func(r *Result) (float64, int64) { return float64(r.Dropped), r.offered() }},
	{"skipped", kindCount, true, func(r *Result) (float64, int64) { return float64(r.Skipped), r.offered() }},
	{"late", kindCount, true, lateCount},
	{"retries", kindCount, true, func(r *Result) (float64, int64) { return float64(r.Retries), r.finished() }},
	{"error_rate", kindShare, false, errorRate},
	{triesScope + ".mean", kindCount, false, func(r *Result) (float64, int64) { return r.Tries.Mean, r.Tries.samples(r) }},
	{triesScope + ".p50", kindCount, false, func(r *Result) (float64, int64) { return float64(r.Tries.P50), r.Tries.samples(r) }},
	{triesScope + ".p99", kindCount, false, func(r *Result) (float64, int64) { return float64(r.Tries.P99), r.Tries.samples(r) }},
	{triesScope + ".max", kindCount, false, func(r *Result) (float64, int64) { return float64(r.Tries.Max), r.Tries.samples(r) }},
}

// samples is how many transactions of r are known with their tries, which those of
// a burst are when it is over.
func (t Tries) samples(r *Result) int64 {
	if t.Max == 0 {
		return 0
	}
	return r.Acknowledged
}

// finished is how many transactions have an outcome of their own.
func (r *Result) finished() int64 { return r.Acknowledged + r.Failed }

// offered is how many transactions there should have been.
func (r *Result) offered() int64 { return r.finished() + r.Dropped + r.Skipped }

// ratePerSecond is a measurement that needs time to have passed.
func ratePerSecond(get func(*Result) float64) measurement {
	return func(r *Result) (float64, int64) {
		if r.Elapsed <= 0 {
			return 0, 0
		}
		return get(r), r.finished()
	}
}

// lateCount has no samples without a limit: nobody looked then.
func lateCount(r *Result) (float64, int64) {
	if r.Load.LatencyLimit <= 0 {
		return 0, 0
	}
	return float64(r.Late), r.Acknowledged
}

func errorRate(r *Result) (float64, int64) {
	n := r.finished()
	if n == 0 {
		return 0, 0
	}
	return float64(r.Failed) / float64(n), n
}

// defaultScope is the time that a metric without a scope belongs to.
const defaultScope = "latency"

// timeScope is a time that has metrics.
type timeScope struct {
	name string
	get  func(*Result) *Latency // nil: there was none
}

var thresholdScopes = []timeScope{
	{defaultScope, func(r *Result) *Latency { return &r.Latency }},
	{"service", func(r *Result) *Latency { return &r.Service }},
	{"reads", func(r *Result) *Latency { return &r.Reads.Latency }},
	{"lag", func(r *Result) *Latency { return &r.Stages.Lag }},
	{"queue", func(r *Result) *Latency { return &r.Stages.Queue }},
	{"checkpoint", func(r *Result) *Latency { return r.Stages.Checkpoint }},
	{"turn", func(r *Result) *Latency { return &r.Stages.Turn }},
	{"execute", func(r *Result) *Latency { return &r.Stages.Execute }},
	{"hold", func(r *Result) *Latency { return &r.Stages.Hold }},
	{"commit", func(r *Result) *Latency { return &r.Stages.Commit }},
	{"wake", func(r *Result) *Latency { return &r.Stages.Wake }},
	{"think", func(r *Result) *Latency { return r.Stages.Think }},
	{"retry", func(r *Result) *Latency { return r.Stages.Retry }},
}

// timeMetric is a figure of a time.
type timeMetric struct {
	name string
	get  func(*Latency) time.Duration
}

var thresholdMetrics = []timeMetric{
	{"mean", func(l *Latency) time.Duration { return l.Mean }},
	{"p50", func(l *Latency) time.Duration { return l.P50 }},
	{"p90", func(l *Latency) time.Duration { return l.P90 }},
	{"p95", func(l *Latency) time.Duration { return l.P95 }},
	{"p99", func(l *Latency) time.Duration { return l.P99 }},
	{"p99.9", func(l *Latency) time.Duration { return l.P999 }},
	{"max", func(l *Latency) time.Duration { return l.Max }},
}

// comparisons are the operators, the long ones before those they begin with.
var comparisons = []struct {
	op    string
	holds func(value, limit float64) bool
}{
	{"<=", func(value, limit float64) bool { return value <= limit }},
	{">=", func(value, limit float64) bool { return value >= limit }},
	{"==", func(value, limit float64) bool { return value == limit }},
	{"!=", func(value, limit float64) bool { return value != limit }},
	{"<", func(value, limit float64) bool { return value < limit }},
	{">", func(value, limit float64) bool { return value > limit }},
}

// ParseThreshold reads a threshold; see [Threshold] for what it may say. An error
// is one line that says what is allowed.
func ParseThreshold(s string) (Threshold, error) {
	t, err := parseThreshold(s)
	if err != nil {
		return Threshold{}, fmt.Errorf("threshold %q: %w", s, err)
	}
	return t, nil
}

func parseThreshold(s string) (t Threshold, err error) {
	at := strings.IndexAny(s, "<>=!")
	if at < 0 {
		return t, errors.New("there is no comparison in it: write it like p99<20ms, tps>50000 or failed==0")
	}
	for _, c := range comparisons {
		if strings.HasPrefix(s[at:], c.op) {
			t.op = c.op
			break
		}
	}
	if t.op == "" {
		return t, errors.New("the comparisons are < <= > >= == !=")
	}
	if t.scope, t.metric, err = splitMetric(strings.ToLower(strings.TrimSpace(s[:at]))); err != nil {
		return t, err
	}
	number := strings.ToLower(strings.TrimSpace(s[at+len(t.op):]))
	kind, _ := t.measured()
	switch kind {
	case kindTime:
		t.limit, err = parseTime(number)
	case kindShare:
		t.limit, err = parseShare(number)
	default:
		t.limit, err = parseCount(number)
	}
	return t, err
}

// splitMetric checks the name of what is measured, and takes it apart.
func splitMetric(name string) (scope, metric string, err error) {
	for _, f := range thresholdFields {
		if f.name == name {
			return "", name, nil
		}
	}
	scope, metric = defaultScope, name
	if head, rest, ok := strings.Cut(name, "."); ok {
		for _, s := range thresholdScopes {
			if s.name == head {
				scope, metric = head, rest
			}
		}
	}
	if metric == "p999" {
		metric = "p99.9"
	}
	for _, m := range thresholdMetrics {
		if m.name == metric {
			return scope, metric, nil
		}
	}
	return "", "", unknownMetric(name)
}

// unknownMetric says what there is instead of name.
func unknownMetric(name string) error {
	var fields, metrics, scopes, all []string
	for _, f := range thresholdFields {
		fields = append(fields, f.name)
	}
	for _, m := range thresholdMetrics {
		metrics = append(metrics, m.name)
	}
	for _, s := range thresholdScopes {
		scopes = append(scopes, s.name)
		for _, metric := range metrics {
			all = append(all, s.name+"."+metric)
		}
	}
	all = slices.Concat(fields, metrics, all)
	if meant := nearest.Word(name, max(1, len(name)/4), all); name != "" && meant != "" {
		return fmt.Errorf("there is no metric %q: did you mean %s?", name, meant)
	}
	return fmt.Errorf("there is no metric %q: use %s, or %s, which may follow one of %s and a dot", name,
		strings.Join(fields, ", "), strings.Join(metrics, ", "), strings.Join(scopes, ", "))
}

// maxLimit bounds numbers, so that each has a short text.
const maxLimit = 1e18

// parseNumber reads a number of digits, without the other forms that a float of
// Go can have.
func parseNumber(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789.e+-") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	if v == 0 {
		v = 0 // not -0
	}
	return v, err == nil && v >= 0 && v <= maxLimit
}

func parseTime(s string) (float64, error) {
	if v, ok := parseNumber(s); ok && v*float64(time.Millisecond) <= maxLimit {
		return math.Round(v * float64(time.Millisecond)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || float64(d) > maxLimit {
		return 0, fmt.Errorf("%q is not a time such as 500us, 20ms or 1.5s", s)
	}
	return float64(d), nil
}

func parseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	v, ok := parseNumber(strings.TrimSpace(number))
	if percent {
		v /= 100
	}
	if !ok || v > 1 {
		return 0, fmt.Errorf("%q is not a share such as 0.01 or 1%%", s)
	}
	return v, nil
}

func parseCount(s string) (float64, error) {
	number, factor := s, 1.0
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 'k':
			factor = 1e3
		case 'm':
			factor = 1e6
		case 'b', 'g':
			factor = 1e9
		case 't':
			factor = 1e12
		}
		if factor > 1 {
			number = strings.TrimSpace(s[:n-1])
		}
	}
	v, ok := parseNumber(number)
	if !ok || v*factor > maxLimit {
		return 0, fmt.Errorf("%q is not a count such as 50000, 100k or 1e6", s)
	}
	return v * factor, nil
}

// measured returns what the threshold's metric means and where it is found; nil
// for the zero Threshold.
func (t Threshold) measured() (kind, measurement) {
	for _, f := range thresholdFields {
		if t.scope == "" && f.name == t.metric {
			return f.kind, f.get
		}
	}
	for _, s := range thresholdScopes {
		for _, m := range thresholdMetrics {
			if s.name == t.scope && m.name == t.metric {
				return kindTime, func(r *Result) (float64, int64) {
					l := s.get(r)
					if l == nil || l.Count == 0 {
						return 0, 0
					}
					return float64(m.get(l)), l.Count
				}
			}
		}
	}
	return kindCount, nil
}

// Check compares what r measured with the threshold. r may be a result that is
// not complete, as Config.Interim sees it.
func (t Threshold) Check(r *Result) Outcome {
	o := Outcome{Threshold: t.String()}
	_, get := t.measured()
	if get == nil {
		return o
	}
	o.Value, o.Samples = get(r)
	for _, c := range comparisons {
		if c.op == t.op {
			o.OK = o.Samples > 0 && c.holds(o.Value, t.limit)
		}
	}
	return o
}

// IsTime tells whether the threshold's value is a time, in nanoseconds.
func (t Threshold) IsTime() bool {
	kind, _ := t.measured()
	return kind == kindTime
}

// String returns the shortest text that ParseThreshold reads as t; "" for the
// zero Threshold.
func (t Threshold) String() string {
	if t.op == "" {
		return ""
	}
	name := t.metric
	if t.scope != "" && t.scope != defaultScope {
		name = t.scope + "." + t.metric
	}
	if t.IsTime() {
		return name + t.op + time.Duration(t.limit).String()
	}
	format := byte('f')
	if t.limit != 0 && t.limit < 1e-4 || t.limit >= 1e15 {
		format = 'g'
	}
	return name + t.op + strconv.FormatFloat(t.limit, format, -1, 64)
}
