package trials

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// What the statistics promise.
const (
	// Confidence is how often, at least, an interval holds what it is about when
	// there are rounds enough.
	Confidence = 0.95
	// Alpha is how often, at most, two arms that do not differ are told apart.
	Alpha = 0.05
)

// Summary is what rounds say of one figure: its median, and an interval that holds
// the median of all the rounds that could have been run. Nothing is assumed of how
// the figure is distributed, only that the rounds are independent.
//
// Low and High are order statistics, two of the sorted values. The number of
// values below the true median is binomial with p = 1/2, so that the interval from
// the i-th to the j-th of n sorted values holds it with the probability
//
//	sum over k = i … j-1 of C(n, k) / 2^n
//
// whatever the distribution is, and at least so if it is not continuous (W. J. Conover, Practical
// Nonparametric Statistics, 3rd ed., section 3.2; H. A. David and H. N. Nagaraja,
// Order Statistics, 3rd ed., section 7.1). golang.org/x/perf/benchmath chooses the
// narrowest that reaches [Confidence]. Where none does, they are the lowest and
// the highest value, Confidence is what these reach, 1 - 2^(1-n), and a warning
// says so.
type Summary struct {
	Median     float64   `json:"median"`
	Low        float64   `json:"low"`
	High       float64   `json:"high"`
	Confidence float64   `json:"confidence"` // what the interval reaches, 0 to 1
	N          int       `json:"n"`
	Values     []float64 `json:"values"` // in the order of the rounds
	Warnings   []string  `json:"warnings"`
}

// Summarize summarises one figure over the rounds. The values must be finite;
// without any, all is 0.
func Summarize(values []float64) Summary {
	s := Summary{N: len(values), Values: append([]float64{}, values...), Warnings: []string{}}
	if s.N == 0 {
		s.Warnings = append(s.Warnings, "there is no round")
		return s
	}
	known := benchmath.AssumeNothing.Summary(sample(values), Confidence)
	s.Median, s.Low, s.High, s.Confidence = known.Center, known.Lo, known.Hi, known.Confidence
	if math.IsInf(s.Low, 0) || math.IsInf(s.High, 0) { // JSON has no infinity, and a reader no use for it
		s.Low, s.High = slices.Min(values), slices.Max(values)
		s.Confidence = 1 - math.Pow(2, float64(1-s.N))
	}
	s.Warnings = appendErrors(s.Warnings, known.Warnings)
	return s
}

// Comparison says whether two arms differ.
type Comparison struct {
	// Ratio is the median of the one over that of the other, 0 when the latter is 0.
	Ratio float64 `json:"ratio"`
	// P is the probability of a difference in ranks at least as large when there is
	// none between the arms.
	P float64 `json:"p"`
	// Noise tells that P is above [Alpha]: the difference is likely noise, or there
	// are too few rounds to tell, which a warning says. It is to be shown as ~.
	Noise    bool     `json:"noise"`
	Warnings []string `json:"warnings"`
}

// CompareValues compares a figure of two arms over b's. P is that of the two-sided
// U test, which counts how often a value of the one is above a value of the other
// and assumes nothing of how they are distributed (H. B. Mann and D. R. Whitney,
// Annals of Mathematical Statistics 18, 1947, pages 50-60), exact for so few values
// as rounds have.
//
// It does not know which values are of the same round. A drift over the rounds
// widens both arms and so hides a difference, but makes none: where the rounds
// are paired, [PairedRatio] sees more.
func CompareValues(a, b []float64) Comparison {
	c := Comparison{P: 1, Noise: true, Warnings: []string{}}
	if len(a) == 0 || len(b) == 0 {
		c.Warnings = append(c.Warnings, "there is no round")
		return c
	}
	if of := Summarize(b).Median; of != 0 {
		c.Ratio = Summarize(a).Median / of
	}
	known := benchmath.AssumeNothing.Compare(sample(a), sample(b))
	c.P, c.Noise = min(known.P, 1), known.P > Alpha // a sum can be a little above
	c.Warnings = appendErrors(c.Warnings, known.Warnings)
	return c
}

// PairedRatio summarises a over b, round by round: its values are a[k] / b[k]. As
// both ran in round k, what slowed that round down is in both and leaves their
// ratio alone, which the ratio of the two medians does not have. The median of
// ratios is not exactly the ratio of medians. Rounds without a finite ratio are
// left out, with a warning; so are those that only one of them has.
func PairedRatio(a, b []float64) Summary {
	var ratios []float64
	for k := range min(len(a), len(b)) {
		if ratio := a[k] / b[k]; !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
			ratios = append(ratios, ratio)
		}
	}
	s := Summarize(ratios)
	if without := max(len(a), len(b)) - len(ratios); without > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d of %d rounds have no ratio", without, max(len(a), len(b))))
	}
	return s
}

// sample hands a copy over, as what gets it sorts it.
func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.Thresholds{CompareAlpha: Alpha})
}

func appendErrors(texts []string, errs []error) []string {
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}
