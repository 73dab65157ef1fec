package report

import (
	"fmt"
	"strings"

	"github.com/tpssim/tpssim/tps"
)

// head says in a sentence what was run.
func (p *page) head(r *tps.Result) {
	l := r.Load
	text := r.Scenario + ": "
	if l.Warmup > 0 {
		text += fmt.Sprintf("after %s of warm-up, ", length(l.Warmup))
	}
	text += offered(l)
	text += over(l)
	switch len(l.Scripts) {
	case 0:
	case 1:
		text += "; script " + l.Scripts[0]
	default:
		text += "; scripts " + strings.Join(l.Scripts, ", ")
	}
	for _, line := range wrap(text, columns) {
		fmt.Fprintln(p, line)
	}
	p.WriteByte('\n')
}

// over says which rows a load is over.
func over(l tps.Load) string {
	switch {
	case l.Keys != "" && l.Rows > 0:
		return fmt.Sprintf(" over a table of %s (keys %s)", plural(l.Rows, "row"), l.Keys)
	case l.Keys != "":
		return fmt.Sprintf(" into a fresh table (keys %s)", l.Keys)
	case l.Rows > 0:
		return fmt.Sprintf(" over %s (%s)", plural(l.Rows, "account"), choice(l))
	}
	return ""
}

// cached says in which state a load found the caches, of a data set.
func cached(l tps.Load) string {
	if l.Cache == "" {
		return ""
	}
	return ", cache " + l.Cache
}

// unit is what a load counts.
func unit(l tps.Load) string {
	if l.Keys != "" && l.Rows == 0 { // it fills a table
		return "row"
	}
	return "transaction"
}

// offered describes a load.
func offered(l tps.Load) (load string) {
	switch l.Mode {
	case tps.Burst:
		return "a burst of " + count(l.Transactions)
	case tps.OpenLoop:
		load = arrivals(l)
	case tps.ClosedLoop:
		load = plural(int64(l.Concurrency), "client")
	default:
		load = "one goroutine, no queue"
	}
	if l.Mode == tps.OpenLoop && l.MaxInFlight > 0 && l.MaxInFlight != tps.DefaultMaxInFlight {
		load += fmt.Sprintf(", at most %s in flight", count(l.MaxInFlight))
	}
	if l.Transactions > 0 {
		load += ", " + plural(l.Transactions, unit(l))
	}
	// Of stages, each said how long it lasts.
	if l.Duration > 0 && len(l.Stages) == 0 {
		load += ", " + length(l.Duration)
	}
	return load
}

// arrivals describes the schedule of an open loop.
func arrivals(l tps.Load) string {
	if len(l.Stages) == 0 {
		return exact(l.Rate) + " " + arrivalKind(l, l.Rate == 1)
	}
	parts := make([]string, len(l.Stages))
	told := false // what arrives
	for k, s := range l.Stages {
		over := "for"
		switch {
		case s.From == 0 && s.To == 0 && told:
			parts[k] = "none"
		case s.From == 0 && s.To == 0:
			parts[k] = "no arrivals"
		case s.From == s.To:
			parts[k] = exact(s.From)
		default:
			parts[k], over = exact(s.From)+" to "+exact(s.To), "over"
		}
		if !told && max(s.From, s.To) > 0 {
			parts[k] += " " + arrivalKind(l, s.From == 1 && s.To == 1)
			told = true
		}
		if s.Duration > 0 {
			parts[k] += fmt.Sprintf(" %s %s", over, length(s.Duration))
		}
	}
	return strings.Join(parts, ", then ")
}

// arrivalKind says what arrives each second.
func arrivalKind(l tps.Load, one bool) string {
	kind := "arrivals a second"
	if one {
		kind = "arrival a second"
	}
	if l.Arrival == tps.PoissonArrival {
		kind = "Poisson " + kind
	}
	if l.BurstSize > 1 {
		kind += " in bursts of " + count(int64(l.BurstSize))
	}
	return kind
}

// choice says which accounts a load touches, and what is not usual about them.
func choice(l tps.Load) string {
	text := l.Dist
	if l.DistParameters != "" {
		text += " " + l.DistParameters
	}
	if l.Dist != "uniform" { // where no account is hot, the layout says nothing
		text += ", " + l.Layout
	}
	if l.Schema == "article" {
		text += ", the article's schema"
	}
	if l.PayloadBytes > 0 {
		text += ", " + size(int64(l.PayloadBytes)) + " of payload"
	}
	switch {
	case l.Indexes == 1:
		text += ", 1 index"
	case l.Indexes > 1:
		text += fmt.Sprintf(", %d indexes", l.Indexes)
	}
	return text
}
