package trials

import (
	"maps"
	"math"
	"slices"
	"strconv"
)

// Decision is what a step came to.
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

// The phases, in the order in which a search goes through them.
const (
	Bracketing Phase = "bracket" // doubling or halving, until one rate holds and one does not
	Bisecting  Phase = "bisect"  // until the two are a rung apart
	Settling   Phase = "settle"  // up and down around the edge
	Confirming Phase = "confirm" // the answer again, until it has held twice
)

// State is how a search stands.
type State string

// The states. All but Unfinished are final.
const (
	// Unfinished: there is more to measure. What is known until now stands.
	Unfinished State = "unfinished"
	// Found: the rate held, and the rung above it did not.
	Found State = "found"
	// AtLeast: the rate held; what is above it could not be offered, or was not
	// asked for.
	AtLeast State = "at-least"
	// Unsettled: the verdicts contradict each other. The rate, if there is one, held
	// at least as often as not, but it did not come to hold twice, or more than a
	// rung lies between it and what did not hold, or the verdicts went astray from
	// one bracket after the other.
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
	// Rungs is how many rates there are from one to its double: neighbours are
	// 4.4 % apart.
	Rungs = 16
	// SettlingSteps is how many steps go up and down around the edge once they have
	// turned for the first time. They end sooner when SettledVotes speak for the
	// answer and against the rung above, and none says otherwise.
	SettlingSteps = 24
	SettledVotes  = 3

	// confirmations bounds the steps in which there may come to be an answer that
	// has held twice.
	confirmations = 8
	// A walk that comes to hold so many rungs above its bracket, or not to hold as
	// many below, shows that a bracket was drawn by chance: it is drawn again, as
	// often as maxReopens.
	astray     = 4
	maxReopens = 2
	// hair is the part of a rung by which the least and the most rate may lie
	// beyond one, so that two rungs are never the same when they are rounded.
	hair = 0.05
)

// Search finds the highest rate that holds. It is a pure state machine: Next says
// which rate to measure, Report takes what it came to, over and over until Next
// says that there is nothing more to do.
//
//	for rate, ok := s.Next(); ok; rate, ok = s.Next() {
//		s.Report(measure(rate))
//	}
//
// The rates are the rungs of a ladder through the first rate. The search brackets
// by doubling, or by halving when the first does not hold; there a rate has to fail
// twice, as all that follows depends on it. It bisects until the bracket is a rung
// wide. From then on it goes up a rung after each step that held and down one after
// each that did not: the up-and-down method of Dixon and Mood (1948). So the
// verdicts about one rate come from different minutes, and neither a machine that
// is slow for some of them nor one that stands still in a step now and then moves
// the answer far, as the best of three in a row would let it.
//
// The answer is the highest rung that held at least as often as not, measured again
// until it has held twice. Where a rung held more often than one below it, the
// verdicts of both are added up, until none does: isotonic regression by pooling
// adjacent violators (Ayer et al., 1955).
//
// A rate that could not be offered counts as one that does not hold, but a search
// that ends below such rates is AtLeast, never Found.
type Search struct {
	first, least, most float64
	bottom, top        int // the rungs of least and most

	votes map[int]votes // by rung

	state   State
	phase   Phase
	rung    int // of the rate that is measured now
	low     int // the highest rung that held while bracketing, below bottom if none
	high    int // the lowest that did not, above top if none
	last    Decision
	turns   int // steps since the walk turned for the first time, 0 until then
	again   int // confirmations so far
	reopens int // so far
}

// votes are the verdicts about one rung, or several.
type votes struct{ pass, fail, bound int }

func (v votes) against() int { return v.fail + v.bound }

func (v votes) holds() bool { return v.pass > 0 && v.pass >= v.against() }

// NewSearch returns a search that begins at the rate first, which is moved between
// MinRate and most. A most below MinRate counts as MinRate.
func NewSearch(first, most float64) *Search {
	most = max(most, MinRate)
	first = min(max(first, MinRate), most)
	least := max(math.Ldexp(first, -Halvings), MinRate)
	s := &Search{
		first: first, least: least, most: most,
		bottom: int(math.Floor(Rungs*math.Log2(least/first) + hair)),
		top:    int(math.Ceil(Rungs*math.Log2(most/first) - hair)),
		votes:  make(map[int]votes),
		state:  Unfinished, phase: Bracketing,
	}
	// However close, an end is another rate than the first, which was asked for.
	if least < first {
		s.bottom = min(s.bottom, -1)
	}
	if most > first {
		s.top = max(s.top, 1)
	}
	s.low, s.high = s.bottom-1, s.top+1
	return s
}

// Next returns the rate to measure; ok is false when the search is over.
func (s *Search) Next() (rate float64, ok bool) {
	return s.rate(s.rung), s.state == Unfinished
}

// Phase returns what the rate of Next is measured for.
func (s *Search) Phase() Phase { return s.phase }

// rate returns the rate of a rung, with four digits but for those that were given:
// one that a person can type.
func (s *Search) rate(rung int) float64 {
	switch {
	case rung <= s.bottom:
		return s.least
	case rung >= s.top:
		return s.most
	case rung == 0:
		return s.first
	}
	rate := s.first * math.Exp2(float64(rung)/Rungs)
	if rounded, err := strconv.ParseFloat(strconv.FormatFloat(rate, 'g', 4, 64), 64); err == nil {
		rate = rounded
	}
	return min(max(rate, s.least), s.most)
}

// Report takes the verdict about the rate of Next. After the end of the search
// it does nothing.
func (s *Search) Report(v Verdict) {
	if s.state != Unfinished {
		return
	}
	n := s.votes[s.rung]
	switch v.Decision {
	case Pass:
		n.pass++
	case Fail:
		n.fail++
	default:
		n.bound++
	}
	s.votes[s.rung] = n
	switch {
	case s.phase == Bracketing && !n.holds() && n.against() < 2:
		return
	case s.phase == Bracketing || s.phase == Bisecting:
		s.narrow(n.holds())
	case s.phase == Settling:
		s.walk(v.Decision == Pass)
	default:
		s.confirm()
	}
}

// narrow takes what the rung came to into the bracket and picks the next.
func (s *Search) narrow(holds bool) {
	if holds {
		s.low = s.rung
	} else {
		s.high = s.rung
	}
	switch {
	case s.low < s.bottom && s.high > s.bottom:
		s.rung = max(s.high-Rungs, s.bottom)
	case s.high > s.top && s.low < s.top:
		s.rung = min(s.low+Rungs, s.top)
	case s.high-s.low > 1:
		s.phase, s.rung = Bisecting, (s.low+s.high)/2
	default:
		s.phase = Settling
		s.walk(holds)
	}
}

// walk picks the rung above one that held, or the one below one that did not. The
// walk turns when it goes the other way, or at an end of the ladder.
func (s *Search) walk(held bool) {
	now, next := Fail, max(s.rung-1, s.bottom)
	if held {
		now, next = Pass, min(s.rung+1, s.top)
	}
	if s.turns > 0 || s.last != "" && s.last != now || next == s.rung {
		s.turns++
	}
	s.last = now
	switch {
	case s.strays(held) && s.reopens < maxReopens:
		s.reopen(held)
	case s.turns > SettlingSteps || s.clear():
		s.phase = Confirming
		s.confirm()
	default:
		s.rung = next
	}
}

// strays tells whether the walk is where the bracket says that it cannot come.
func (s *Search) strays(held bool) bool {
	if held {
		return s.rung >= s.high+astray
	}
	return s.rung <= s.low-astray
}

// reopen goes back to bracketing, from the rung of the last step.
func (s *Search) reopen(held bool) {
	s.low, s.high = s.bottom-1, s.top+1
	s.last, s.turns = "", 0
	s.reopens++
	s.phase = Bracketing
	s.narrow(held)
}

// clear tells whether more steps up and down would tell nothing new. At an end of
// the ladder there is no rung above to speak against it, or no answer.
func (s *Search) clear() bool {
	answer, above := s.answer()
	held, lost := s.votes[answer], s.votes[above]
	switch {
	case answer == s.top:
		return held.pass >= 2
	case answer < s.bottom:
		return above == s.bottom && lost.against() >= 2
	}
	return held.pass >= SettledVotes && held.against() == 0 && lost.against() >= SettledVotes && lost.pass == 0
}

// confirm ends the search when the answer has held twice, or did not come to. When
// nothing that was measured holds any more, it looks for an answer well below.
func (s *Search) confirm() {
	answer, above := s.answer()
	switch n := s.votes[answer]; {
	case answer < s.bottom && above > s.bottom && s.again < confirmations:
		s.again++
		s.rung = max(above-astray, s.bottom)
	case answer < s.bottom && above > s.bottom:
		s.state = Unsettled // not BelowMinimum, as nobody has seen the lowest rate fail
	case answer < s.bottom && s.blocked(above):
		s.state = AtLeast // at least nothing: it could not even be offered
	case answer < s.bottom:
		s.state = BelowMinimum
	case n.pass < 2 && s.again < confirmations:
		s.again++
		s.rung = answer
	case n.pass < 2:
		s.state = Unsettled
	case s.blocked(above):
		s.state = AtLeast
	case above > answer+1 || s.reopens == maxReopens:
		s.state = Unsettled
	default:
		s.state = Found
	}
}

// pool is a run of measured rungs whose verdicts are added up.
type pool struct {
	lowest, highest int
	votes
}

// pools returns the isotonic regression: measured rungs in ascending order, of
// which none held more often than one before it.
func (s *Search) pools() []pool {
	var pools []pool
	for _, rung := range slices.Sorted(maps.Keys(s.votes)) {
		p := pool{rung, rung, s.votes[rung]}
		for len(pools) > 0 {
			before := pools[len(pools)-1]
			if p.pass*(before.pass+before.against()) <= before.pass*(p.pass+p.against()) {
				break
			}
			p.lowest = before.lowest
			p.votes = votes{p.pass + before.pass, p.fail + before.fail, p.bound + before.bound}
			pools = pools[:len(pools)-1]
		}
		pools = append(pools, p)
	}
	return pools
}

// answer returns the highest rung that held at least as often as not, below bottom
// when none did, and the lowest measured one above it, above top when there is none.
// The highest rung of a pool held at least as often as the whole of it, so that the
// answer also held by itself.
func (s *Search) answer() (rung, above int) {
	rung, above = s.bottom-1, s.top+1
	for _, p := range s.pools() {
		if !p.holds() {
			return rung, p.lowest
		}
		rung = p.highest
	}
	return rung, above
}

// blocked tells whether what lies above the answer, from the rung above on, was not
// offered more often than it failed, or was not asked for.
func (s *Search) blocked(above int) bool {
	if above > s.top {
		return true
	}
	for _, p := range s.pools() {
		if p.lowest == above {
			return p.bound > p.fail
		}
	}
	return false
}

// Outcome is what a search knows. It can be asked for at any time.
type Outcome struct {
	State State
	// Rate is the highest rate that held at least as often as not, 0 for none. But
	// for Unsettled it has held twice when State is final.
	Rate float64
	// Failed is the lowest rate measured above Rate, which did not hold, and
	// Unoffered the same when it could not be offered; 0 for none, or for one that
	// is measured again before it counts. At most one of the two is not 0.
	Failed, Unoffered float64
}

// Result returns what is known until now.
func (s *Search) Result() Outcome {
	o := Outcome{State: s.state}
	answer, above := s.answer()
	if answer >= s.bottom {
		o.Rate = s.rate(answer)
	}
	again := s.state == Unfinished && s.phase == Bracketing && above == s.rung
	switch {
	case above > s.top || again:
	case s.blocked(above):
		o.Unoffered = s.rate(above)
	default:
		o.Failed = s.rate(above)
	}
	return o
}

// MaxSteps returns a number of steps that no search from MinRate to most exceeds,
// whatever the verdicts are. With L = ceil(log2(most/MinRate)) a bracket needs two
// steps for each of at most L+1 rates, and four bisections. Where it was drawn by
// chance, the walk takes at most astray+1 steps to turn or to leave it, and else
// may go along the whole ladder; once it has turned, SettlingSteps follow.
//
// Verdicts that do not contradict each other need far fewer: one step for each of
// |log2(knee/first)| + 2 rates and a second for those that do not hold, four
// bisections, and four steps up and down.
func MaxSteps(most float64) int {
	doublings := int(math.Ceil(math.Log2(max(most, MinRate) / MinRate)))
	bracket := 2*(doublings+1) + 4
	strayed := bracket + astray + 1 + SettlingSteps
	return maxReopens*strayed + bracket + Rungs*doublings + 2 + SettlingSteps + confirmations
}
