package engine

import (
	"reflect"
	"testing"
	"time"
)

// Every counter of Stats is subtracted, and nothing that is of now.
func TestStatsSub(t *testing.T) {
	fill := func(n int64) (s Stats) {
		v := reflect.ValueOf(&s).Elem()
		for k := range v.NumField() {
			if f := v.Field(k); f.CanInt() {
				f.SetInt(n)
			}
		}
		return s
	}
	got, gauges := fill(10).Sub(fill(4)), map[string]bool{"WALPending": true, "Queued": true, "OldestWait": true, "DBBytes": true, "WALFileBytes": true, "SHMBytes": true}
	v := reflect.ValueOf(got)
	for k := range v.NumField() {
		name, want := v.Type().Field(k).Name, int64(6)
		if gauges[name] {
			want = 10
		}
		if f := v.Field(k); f.CanInt() && f.Int() != want {
			t.Errorf("%s is %d, want %d", name, f.Int(), want)
		}
	}
}

func TestStatsBatches(t *testing.T) {
	before := Stats{Batches: 3, Transactions: 30, BatchSizes: []Bucket{{1, 1}, {15, 2}}}
	after := Stats{Batches: 8, Transactions: 52, BatchSizes: []Bucket{{1, 3}, {7, 2}, {15, 2}, {31, 1}}, Busy: time.Second}
	s := after.Sub(before)
	// Five batches of 22 transactions: none can have held more than 18.
	if want := []Bucket{{1, 2}, {7, 2}, {18, 1}}; !reflect.DeepEqual(s.BatchSizes, want) {
		t.Errorf("sizes %v, want %v", s.BatchSizes, want)
	}
	if s.BatchMean() != 4.4 || s.BatchQuantile(0.4) != 1 || s.BatchQuantile(0.41) != 7 || s.BatchQuantile(0.5) != 7 || s.BatchQuantile(1) != 18 || s.BatchQuantile(0) != 1 {
		t.Errorf("mean %v, p40 %d, p41 %d, p50 %d, max %d", s.BatchMean(), s.BatchQuantile(0.4), s.BatchQuantile(0.41), s.BatchQuantile(0.5), s.BatchQuantile(1))
	}
	if none := after.Sub(after); none.BatchMean() != 0 || none.BatchQuantile(0.5) != 0 || none.BatchSizes != nil {
		t.Errorf("nothing happened: %+v", none)
	}
	if !reflect.DeepEqual(before.BatchSizes, []Bucket{{1, 1}, {15, 2}}) {
		t.Errorf("Sub changed its argument: %v", before.BatchSizes)
	}
}
