package tps

import (
	"cmp"
	"slices"
	"sync"
)

// Statements collects the times of statements by name. The zero value is empty
// and ready; it is safe for concurrent use.
type Statements struct {
	mu     sync.Mutex
	byName map[string]*statementTimes
}

type statementTimes struct {
	place int
	times *histogram
}

// Record notes that the statement called name took d nanoseconds. Its place is
// where it stands among the others.
func (s *Statements) Record(place int, name string, d int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times, ok := s.byName[name]
	if !ok {
		if s.byName == nil {
			s.byName = map[string]*statementTimes{}
		}
		times = &statementTimes{place, newHistogram()}
		s.byName[name] = times
	}
	times.times.record(d, 1)
}

// Take returns what was recorded since the last Take, by place.
func (s *Statements) Take() []Statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Statement{}
	for name, times := range s.byName {
		list = append(list, Statement{Name: name, Latency: times.times.summary()})
	}
	slices.SortFunc(list, func(a, b Statement) int {
		return cmp.Or(cmp.Compare(s.byName[a.Name].place, s.byName[b.Name].place), cmp.Compare(a.Name, b.Name))
	})
	s.byName = nil
	return list
}
