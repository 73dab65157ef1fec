package tps

import (
	"math"
	"math/rand/v2"
	"time"
)

// Arrival is how the arrivals of an open loop are spread over time.
type Arrival string

const (
	// ConstantArrival spaces arrivals evenly.
	ConstantArrival Arrival = "constant"
	// PoissonArrival makes the gaps between arrivals independent and
	// exponentially distributed, as those of many users who know nothing of each
	// other are.
	PoissonArrival Arrival = "poisson"
)

// Stage is a part of a schedule in which the rate goes from From to To in a
// straight line. Rates are arrivals a second, 0 or more.
type Stage struct {
	Duration time.Duration `json:"duration_ns"` // 0: without end, in the last stage only
	From     float64       `json:"from"`
	To       float64       `json:"to"`
}

// Schedule says when the transactions of an open loop are due. It is plain data:
// it neither reads a clock nor sleeps.
type Schedule struct {
	Stages  []Stage
	Arrival Arrival // "" means ConstantArrival
	// BurstSize is how many arrivals are due at the same instant; the instants
	// are that many times further apart, so that the rate stays. 0 means 1.
	BurstSize int
	// Seed makes the instants of PoissonArrival repeatable.
	Seed uint64
}

// ConstantRate returns the schedule of an unchanging rate. A length of 0 means
// without end.
func ConstantRate(rate float64, length time.Duration) Schedule {
	return Schedule{Stages: []Stage{{Duration: length, From: rate, To: rate}}}
}

// Length returns how long the schedule lasts, 0 when it has no end.
func (s Schedule) Length() (length time.Duration) {
	for _, stage := range s.Stages {
		if stage.Duration == 0 {
			return 0
		}
		length += stage.Duration
	}
	return length
}

// Expected returns how many arrivals the whole schedule has: exactly for
// ConstantArrival, in the mean for PoissonArrival, +Inf without end.
func (s Schedule) Expected() float64 {
	var n float64
	for _, stage := range s.Stages {
		if stage.Duration == 0 {
			return math.Inf(1)
		}
		n += stage.arrivals()
	}
	if s.Arrival == PoissonArrival {
		return n
	}
	burst := float64(s.burst())
	return math.Ceil(n/burst) * burst
}

func (s Schedule) burst() int { return max(s.BurstSize, 1) }

// arrivals returns the integral of the rate over the stage.
func (s Stage) arrivals() float64 { return (s.From + s.To) / 2 * s.Duration.Seconds() }

// reaches returns how long after its start a stage has had n arrivals, which is
// at most all of them: the smaller root of From*t + (To-From)/(2*Duration)*t^2 = n,
// in the form that does not cancel.
func (s Stage) reaches(n float64) time.Duration {
	root := s.From
	if s.From != s.To {
		slope := (s.To - s.From) / s.Duration.Seconds()
		root = (s.From + math.Sqrt(max(s.From*s.From+2*slope*n, 0))) / 2
	}
	if n == 0 {
		return 0
	}
	ns := n / root * float64(time.Second)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// Arrivals walks through a schedule.
type Arrivals struct {
	schedule Schedule
	rng      *rand.Rand
	stage    int
	begun    time.Duration // when the stage began
	before   float64       // arrivals of the stages before it
	// total is how many arrivals are due until now when the rate is integrated.
	// Poisson arrivals are an even flow of chance in it (the time-rescaling
	// theorem), so one clock serves every kind of rate.
	total float64
	index int64 // bursts so far
	left  int   // of the burst
	due   time.Duration
}

// Start returns the arrivals from the first one on.
func (s Schedule) Start() *Arrivals {
	return &Arrivals{schedule: s, rng: rand.New(rand.NewPCG(s.Seed, 0x6172726976616c))} // "arrival"
}

// Next returns when the next transaction is due, counted from the start; ok is
// false when there is none any more.
func (a *Arrivals) Next() (due time.Duration, ok bool) {
	if a.left == 0 {
		burst := a.schedule.burst()
		if a.schedule.Arrival == PoissonArrival {
			a.total += a.rng.ExpFloat64() * float64(burst)
		} else {
			a.total = float64(a.index) * float64(burst)
		}
		a.index++
		if a.due, ok = a.at(a.total); !ok {
			return 0, false
		}
		a.left = burst
	}
	a.left--
	return a.due, true
}

// at returns when total arrivals were due.
func (a *Arrivals) at(total float64) (time.Duration, bool) {
	for ; a.stage < len(a.schedule.Stages); a.stage++ {
		stage := a.schedule.Stages[a.stage]
		all := stage.arrivals()
		if stage.Duration == 0 || total-a.before < all {
			return a.begun + stage.reaches(total-a.before), true
		}
		a.before += all
		a.begun += stage.Duration
	}
	return 0, false
}
