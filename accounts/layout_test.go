package accounts

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func scatter(t testing.TB, n int64, seed uint64) Layout {
	t.Helper()
	l, err := NewScattered(n, seed)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestScatteredErrors(t *testing.T) {
	for _, n := range []int64{0, -1, MaxRows + 1} {
		_, err := NewScattered(n, 1)
		wantError(t, err, "choose 1 to 9007199254740992 rows")
	}
}

func TestClusteredIsIdentity(t *testing.T) {
	for _, k := range []int64{1, 2, MaxRows} {
		if got := (Clustered{}).ID(k); got != k {
			t.Errorf("ID(%d) = %d", k, got)
		}
	}
}

// Each id of 1..n exactly once, for all small n, powers of four included.
func TestScatteredIsBijective(t *testing.T) {
	check := func(n int64, seed uint64) {
		l := scatter(t, n, seed)
		seen := make([]bool, n)
		for k := int64(1); k <= n; k++ {
			id := l.ID(k)
			if id < 1 || id > n || seen[id-1] {
				t.Fatalf("n = %d, seed %d: rank %d has id %d, outside or taken", n, seed, k, id)
			}
			seen[id-1] = true
		}
	}
	for n := int64(1); n <= 300; n++ {
		check(n, uint64(n)%5)
	}
	for _, n := range []int64{1023, 1024, 1025, 4096, 4097, 65_536, 100_000} {
		check(n, 1)
	}
}

func TestScatteredLarge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Range(1, MaxRows), rapid.Just(MaxRows)).Draw(t, "n")
		l, err := NewScattered(n, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		ranks := rapid.SliceOfNDistinct(rapid.Int64Range(1, n), 1, int(min(n, 50)), rapid.ID).Draw(t, "ranks")
		seen := make(map[int64]bool)
		for _, k := range ranks {
			id := l.ID(k)
			if id < 1 || id > n || seen[id] {
				t.Fatalf("n = %d: rank %d has id %d, outside or taken", n, k, id)
			}
			if l.ID(k) != id {
				t.Fatalf("n = %d: rank %d has two ids", n, k)
			}
			seen[id] = true
		}
	})
}

func TestScatteredSeeds(t *testing.T) {
	const n = 1_000_000
	a, b, c := scatter(t, n, 1), scatter(t, n, 1), scatter(t, n, 2)
	same := 0
	for k := int64(1); k <= 1000; k++ {
		if a.ID(k) != b.ID(k) {
			t.Fatalf("rank %d: one seed, two ids", k)
		}
		if a.ID(k) == c.ID(k) {
			same++
		}
	}
	if same > 5 {
		t.Errorf("two seeds agree on %d of 1000 ranks", same)
	}
}

// Hot ranks spread evenly, and neighbours lie as far apart as chance has it.
func TestScatteredScatters(t *testing.T) {
	const hot, buckets = 100_000, 100
	for _, n := range []int64{1_000_000, 1_000_000_000, MaxRows} {
		l := scatter(t, n, 7)
		counts := make([]int64, buckets)
		var distance float64
		last := l.ID(1)
		for k := int64(1); k <= hot; k++ {
			id := l.ID(k)
			counts[int(float64(id-1)/float64(n)*buckets)]++
			distance += math.Abs(float64(id - last))
			last = id
		}
		name := fmt.Sprintf("%d accounts", n)
		chiSquare(t, name, counts, flat(buckets))
		// Two random points are a third of the range apart, standard deviation
		// 1/sqrt(18) of it; successive distances hardly correlate.
		if mean := distance / hot / float64(n); math.Abs(mean-1.0/3) > 0.005 {
			t.Errorf("%s: neighbours are %.3f of the range apart, want 0.333", name, mean)
		}
	}
}

func TestScatteredPanicsOutside(t *testing.T) {
	l := scatter(t, 10, 1)
	for _, k := range []int64{-1, 0, 11, math.MaxInt64} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("ID(%d) did not panic", k)
				}
			}()
			l.ID(k)
		}()
	}
}

func BenchmarkScattered(b *testing.B) {
	l := scatter(b, 1_000_000_000, 1)
	k := int64(0)
	for b.Loop() {
		k++
		l.ID(k)
	}
}
