package tps

import (
	"sync"
	"testing"
)

func TestStatements(t *testing.T) {
	var s Statements
	if got := s.Take(); got == nil || len(got) != 0 {
		t.Errorf("nothing was recorded: %v", got)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for d := range int64(100) {
				s.Record(10, "ten", d)
				s.Record(9, "nine", 10*d)
				s.Record(9, "also nine", 5)
			}
		})
	}
	all.Wait()
	got := s.Take()
	if len(got) != 3 || got[0].Name != "also nine" || got[1].Name != "nine" || got[2].Name != "ten" {
		t.Fatalf("%+v", got)
	}
	if l := got[1].Latency; l.Count != 400 || l.Max != 990 || l.Mean != 495 {
		t.Errorf("%+v", l)
	}
	s.Record(1, "later", 1)
	if got := s.Take(); len(got) != 1 || got[0].Name != "later" {
		t.Errorf("the next interval: %+v", got)
	}
}
