package trials

import (
	"math"
	"strconv"
)

// Decision is what a step, or the best of up to three of them, came to.
type Decision string

// The decisions.
const (
	// Pass: the rate held the objective.
	Pass Decision = "pass"
	// Fail: it did not.
	Fail Decision = "fail"
	// GeneratorBound: nothing can be said, as this machine did not offer the rate
	// evenly.
	GeneratorBound Decision = "generator-bound"
)

// Verdict is a judgement with its grounds.
type Verdict struct {
	Decision Decision
	Reason   string // why it is not Pass, in words
	Note     string // what weakens the judgement, in words; usually empty
}

// Phase is what a step of a search is for.
type Phase string

// The phases, in the order in which a search usually goes through them.
const (
	Bracketing Phase = "bracket" // doubling or halving, until one rate holds and one does not
	Bisecting  Phase = "bisect"
	Confirming Phase = "confirm" // the candidate is measured again
)

// State is how a search stands.
type State string

// The states. All but Unfinished are final.
const (
	// Unfinished: there is more to measure. What is known until now stands.
	Unfinished State = "unfinished"
	// Found: the rate held twice and a rate at most 5 % higher did not.
	Found State = "found"
	// AtLeast: the rate held twice; what is above it could not be offered, or was
	// not asked for.
	AtLeast State = "at-least"
	// Unsettled: the rate held twice, but rates above it held once and not the
	// next time, so that more than 5 % lie between it and one that never held.
	Unsettled State = "unsettled"
	// BelowMinimum: not even the lowest rate held, after as many halvings as are
	// made.
	BelowMinimum State = "below-minimum"
)

// Limits of a search.
const (
	// MinRate is the lowest rate that a search tries, one transaction a second.
	MinRate = 1.0
	// Halvings is how often a search halves its first rate while nothing holds:
	// each step takes longer than the one before, and what holds at a hundredth of
	// the first rate answers another question.
	Halvings = 6
	// Resolution ends a search: the lowest rate that did not hold is at most so
	// many times the highest that did.
	Resolution = 1.05
	// MaxRetracted is how many candidates may fail when they are measured again
	// before the search stops to bisect: after that it only goes down, to the next
	// rate that holds twice.
	MaxRetracted = 4

	// bisections narrow a bracket from 2 to Resolution: the square root, four
	// times, of 2 is 1.044.
	bisections = 4
	// ballotSize is the most steps that one decision needs.
	ballotSize = 3
)

// Search finds the highest rate that holds. It is a pure state machine: Next says
// which rate to measure, Report takes what it came to, over and over until Next
// says that there is nothing more to do.
//
//	for rate, ok := s.Next(); ok; rate, ok = s.Next() {
//		s.Report(measure(rate))
//	}
//
// It brackets by doubling from the first rate, or by halving when that does not
// hold, bisects at the geometric middle until Resolution, and measures the
// candidate again. Each decision about a rate is the best of three: two equal
// verdicts decide, and three different ones count as GeneratorBound. A rate that
// could not be offered bounds the bracket like one that does not hold, but a
// search that ends below it is AtLeast, never Found.
//
// Plain bisection was preferred to searches that weigh every verdict by its
// likelihood: its steps can be followed by a reader of the report, and what
// noise there is near the edge is answered by the repeated measurements.
type Search struct {
	least, most float64

	held      []float64 // rates that held, ascending, without those taken back
	high      float64   // the lowest rate that did not; 0: none is known
	highCall  Decision  // what it came to
	retracted int       // candidates that did not hold again

	state  State
	phase  Phase
	rate   float64 // that is measured now
	ballot ballot
}

// NewSearch returns a search that begins at the rate first, which is moved between
// MinRate and most. A most below MinRate counts as MinRate.
func NewSearch(first, most float64) *Search {
	most = max(most, MinRate)
	first = min(max(first, MinRate), most)
	least := max(math.Ldexp(first, -Halvings), MinRate)
	return &Search{least: least, most: most, state: Unfinished, phase: Bracketing, rate: first}
}

// Next returns the rate to measure; ok is false when the search is over.
func (s *Search) Next() (rate float64, ok bool) {
	return s.rate, s.state == Unfinished
}

// Phase returns what the rate of Next is measured for.
func (s *Search) Phase() Phase { return s.phase }

// Report takes the verdict about the rate of Next. After the end of the search
// it does nothing.
func (s *Search) Report(v Verdict) {
	if s.state != Unfinished {
		return
	}
	s.ballot.add(v.Decision)
	decision, ok := s.ballot.decided()
	if !ok {
		return
	}
	s.ballot = ballot{}
	switch {
	case decision == Pass && s.phase == Confirming:
		s.state = s.settled()
		return
	case decision == Pass:
		s.held = append(s.held, s.rate) // no higher one holds: see choose
	default:
		if s.phase == Confirming {
			s.held = s.held[:len(s.held)-1]
			s.retracted++
		}
		s.high, s.highCall = s.rate, decision
	}
	s.choose()
}

// choose picks the next rate. It lies above all that held and below all that did
// not, but for a candidate, which is the highest that held.
func (s *Search) choose() {
	low := s.low()
	switch {
	case low == 0 && s.high <= s.least && s.highCall == Fail:
		s.state = BelowMinimum
	case low == 0 && s.high <= s.least:
		s.state = AtLeast // at least nothing: it could not even be offered
	case low == 0:
		s.phase, s.rate = Bracketing, max(s.high/2, s.least)
	case s.high == 0 && low < s.most:
		s.phase, s.rate = Bracketing, min(low*2, s.most)
	case s.high > low*Resolution && s.retracted < MaxRetracted:
		s.phase, s.rate = Bisecting, middle(low, s.high)
	default:
		s.phase, s.rate = Confirming, low
	}
}

// settled returns the final state when the candidate has held again.
func (s *Search) settled() State {
	switch {
	case s.high == 0 || s.highCall == GeneratorBound:
		return AtLeast
	case s.high > s.low()*Resolution:
		return Unsettled
	}
	return Found
}

// low returns the highest rate that held, 0 when there is none.
func (s *Search) low() float64 {
	if len(s.held) == 0 {
		return 0
	}
	return s.held[len(s.held)-1]
}

// Outcome is what a search knows. It can be asked for at any time.
type Outcome struct {
	State State
	// Rate is the highest rate that held and was not taken back, 0 for none. It
	// has held twice when State is final.
	Rate float64
	// Failed is the lowest rate that did not hold, and Unoffered the one that
	// could not be offered when that is what lies above Rate; 0 for none. At most
	// one of the two is not 0.
	Failed, Unoffered float64
}

// Result returns what is known until now.
func (s *Search) Result() Outcome {
	o := Outcome{State: s.state, Rate: s.low()}
	if s.highCall == GeneratorBound {
		o.Unoffered = s.high
	} else {
		o.Failed = s.high
	}
	return o
}

// MaxSteps returns a number of steps that no search from MinRate to most
// exceeds, whatever the verdicts are. With L = ceil(log2(most/MinRate)) there are
// at most L+1 decisions while doubling and as many while halving, 4 bisections
// at first and after all but the last of MaxRetracted retractions, and one
// confirmation of each rate that held; each decision needs at most 3 steps.
//
// Verdicts that do not contradict each other need far fewer: two steps for each
// of |log2(knee/first)| + 2 rates, four bisections and the confirmation.
func MaxSteps(most float64) int {
	doublings := int(math.Ceil(math.Log2(max(most, MinRate)/MinRate))) + 1
	measured := 2*doublings + bisections*MaxRetracted
	return ballotSize * 2 * measured
}

// middle returns the geometric middle, with four digits: a rate that a person
// can type. The rounding moves it by at most 0.05 %, which [bisections] has room
// for.
func middle(low, high float64) float64 {
	mid := math.Sqrt(low) * math.Sqrt(high)
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(mid, 'g', 4, 64), 64)
	if err != nil { // never: it was formatted just now
		return mid
	}
	return rounded
}

// ballot collects verdicts about one rate until they decide.
type ballot struct{ pass, fail, bound int }

func (b *ballot) add(d Decision) {
	switch d {
	case Pass:
		b.pass++
	case Fail:
		b.fail++
	default:
		b.bound++
	}
}

// decided returns the decision, and whether there is one.
func (b *ballot) decided() (d Decision, ok bool) {
	switch {
	case b.pass == 2:
		return Pass, true
	case b.fail == 2:
		return Fail, true
	}
	// Three different ones: had the machine kept up, it might have held.
	return GeneratorBound, b.bound == 2 || b.pass+b.fail+b.bound == ballotSize
}
