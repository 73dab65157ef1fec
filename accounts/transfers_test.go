package accounts

import (
	"slices"
	"testing"
)

// pool draws n transfers, uniformly over rows.
func pool(t testing.TB, n, rows int64, seed uint64) *Pool {
	t.Helper()
	d, err := NewUniform(rows)
	if err != nil {
		t.Fatal(err)
	}
	return NewPool(n, seed, d, Clustered{})
}

func TestPoolLength(t *testing.T) {
	for _, tt := range []struct {
		n    int64
		want int
	}{{-1, 1}, {0, 1}, {1, 1}, {1000, 1000}, {1 << 60, MaxPool}} {
		if got := pool(t, tt.n, 10, 1).Len(); got != tt.want {
			t.Errorf("a pool for %d transfers has %d, want %d", tt.n, got, tt.want)
		}
	}
}

func TestPoolAtGoesRound(t *testing.T) {
	p := pool(t, 250, 1_000_000, 1)
	for i := range uint64(750) {
		slot, transfer, amount := p.At(i)
		if slot != int(i%250) || amount != 1+int64(slot%100) || transfer != p.transfers[slot] {
			t.Fatalf("At(%d) = %d, %v, %d", i, slot, transfer, amount)
		}
	}
	if p.Wrapped(250) || !p.Wrapped(251) {
		t.Error("a pool of 250 wraps with the transfer after 250")
	}
}

func TestPoolIsDeterminedBySeed(t *testing.T) {
	a, b, c := pool(t, 1000, 1e9, 1), pool(t, 1000, 1e9, 1), pool(t, 1000, 1e9, 2)
	if !slices.Equal(a.transfers, b.transfers) {
		t.Error("one seed gave two pools")
	}
	if slices.Equal(a.transfers, c.transfers) {
		t.Error("two seeds gave one pool")
	}
	// A longer load begins with the same transfers.
	if long := pool(t, 2000, 1e9, 1); !slices.Equal(a.transfers, long.transfers[:1000]) {
		t.Error("a longer pool begins differently")
	}
}

// Both ids follow the distribution, independently: all pairs of 10 accounts,
// equal ones included, are drawn equally often.
func TestPoolDrawsIndependently(t *testing.T) {
	counts := make([]int64, 100)
	for _, tr := range pool(t, 100_000, 10, 3).transfers {
		counts[(tr.From-1)*10+tr.To-1]++
	}
	chiSquare(t, "pairs", counts, flat(100))
}

func TestPoolUsesTheLayout(t *testing.T) {
	const rows = 1_000_000
	d := must(t)(NewZipfian(rows, 0.99))
	l := scatter(t, rows, 5)
	near, far := NewPool(1000, 1, d, Clustered{}), NewPool(1000, 1, d, l)
	for i, tr := range near.transfers {
		if want := (Transfer{l.ID(tr.From), l.ID(tr.To)}); far.transfers[i] != want {
			t.Fatalf("transfer %d is %v, want %v", i, far.transfers[i], want)
		}
	}
}

func TestPoolAccounts(t *testing.T) {
	p := pool(t, 5000, 3000, 1)
	seen := make(map[int64]bool)
	for _, tr := range p.transfers {
		seen[tr.From], seen[tr.To] = true, true
	}
	ids := p.Accounts()
	if len(ids) != len(seen) {
		t.Fatalf("%d accounts, want %d", len(ids), len(seen))
	}
	for i, id := range ids {
		if !seen[id] || i > 0 && ids[i-1] >= id {
			t.Fatalf("account %d at %d: not touched, or out of order", id, i)
		}
	}
}

func BenchmarkNewPool(b *testing.B) {
	d := must(b)(NewPareto(1_000_000_000, ParetoR, ParetoP))
	for b.Loop() {
		NewPool(100_000, 1, d, Clustered{})
	}
}
