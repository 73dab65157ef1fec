package trials

import (
	"time"

	"github.com/tpssim/tpssim/tps"
)

// CompareSchema names the format of [CompareResult] as JSON.
const CompareSchema = "tpssim.compare/1"

// Setting is a flag of the command and its value, as somebody typed them.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Figure is what of a result is compared.
type Figure struct {
	Name  string // that of the JSON
	Lower bool   // less is better
	Of    func(*tps.Result) float64
}

// CompareResult is what a comparison found, in the order and with the names of the
// JSON object that tpssim prints. No list is ever null. Argv belongs to the caller.
type CompareResult struct {
	Schema    string    `json:"schema"`
	StartedAt time.Time `json:"started_at"`
	Argv      []string  `json:"argv"`

	// Interleaved tells that the arms ran in turn, in rounds. Without, the values are
	// of runs that were made at other times, and what the machine did then is a part of
	// each difference.
	Interleaved bool `json:"interleaved"`
	// AA tells that all arms are the same: what they differ by is noise.
	AA            bool   `json:"aa"`
	Rounds        int    `json:"rounds"`         // whole ones, those that count; 0 unless Interleaved
	RoundsPlanned int    `json:"rounds_planned"` // before the first one began; 0 unless Interleaved
	Figure        string `json:"figure"`         // the name of the [Figure] that Pairs are about

	Arms  []ComparedArm `json:"arms"` // none without a whole round
	Pairs []Pair        `json:"pairs"`
	// Differences are the settings and properties of the load in which arms differ.
	Differences []Difference `json:"differences"`
	// DurabilityDiffers tells that not all arms promise the same after a power loss.
	DurabilityDiffers bool `json:"durability_differs"`

	Verify      tps.Verify `json:"verify"` // over all arms and rounds
	Interrupted bool       `json:"interrupted"`
	Warnings    []string   `json:"warnings"`
}

// ComparedArm is one arm over all rounds.
type ComparedArm struct {
	Name     string    `json:"name"`
	Settings []Setting `json:"settings"` // that make this arm what it is
	Scenario string    `json:"scenario"`
	Engine   string    `json:"engine"`

	TPS        Summary `json:"tps"`
	TPSSettled Summary `json:"tps_settled"`
	P50        Summary `json:"p50_ns"`
	P99        Summary `json:"p99_ns"`

	Load      tps.Load     `json:"load"`
	Effective tps.Settings `json:"effective"` // as read back
	Env       tps.Env      `json:"env"`
}

// Pair is one arm held against another one.
type Pair struct {
	Name string `json:"name"`
	Of   string `json:"of"` // what it is divided by: the first arm
	// Ratio is Name over Of in the result's Figure, with its interval: of arms that
	// were interleaved the median of the rounds' own ratios (see [PairedRatio]), else
	// the ratio of the medians, without an interval: Low and High are 0.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	P     float64 `json:"p"` // see [Comparison]
	// Adjusted is P corrected for the number of pairs, see [Holm]; Noise rests on it.
	Adjusted float64  `json:"p_adjusted"`
	Noise    bool     `json:"noise"`
	Warnings []string `json:"warnings"`
}

// Difference is something in which arms differ.
type Difference struct {
	Name   string   `json:"name"`   // as in the JSON of a run, as in settings.synchronous
	Values []string `json:"values"` // one for each arm
	// Asked tells that the arms were asked to differ in it.
	Asked bool `json:"asked"`
}
