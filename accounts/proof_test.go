package accounts

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// bank is a table of balances that a test moves money in, right or wrong.
type bank struct {
	pool          *Pool
	journal       *Journal
	ids           []int64
	before, after []int64
}

func newBank(p *Pool) *bank {
	b := &bank{pool: p, journal: NewJournal(p.Len()), ids: p.Accounts()}
	for _, id := range b.ids {
		b.before = append(b.before, 1000+id)
	}
	b.after = slices.Clone(b.before)
	return b
}

func (b *bank) add(id, amount int64) {
	i, _ := slices.BinarySearch(b.ids, id)
	b.after[i] += amount
}

// move carries slot out in the table, without telling the journal.
func (b *bank) move(slot int) {
	_, t, amount := b.pool.At(uint64(slot))
	b.add(t.From, -amount)
	b.add(t.To, amount)
}

func (b *bank) check() Verdict { return Check(b.pool, b.journal, b.ids, b.before, b.after) }

// transferring returns a pool of exactly these transfers.
func transferring(ts ...Transfer) *Pool { return &Pool{transfers: ts} }

func wantVerdict(t *testing.T, got, want Verdict) {
	t.Helper()
	if got != want {
		t.Errorf("verdict\n%+v, want\n%+v", got, want)
	}
}

func TestCheckRightTable(t *testing.T) {
	b := newBank(pool(t, 1000, 500, 1))
	for i := range 2500 { // each slot twice or three times, the accounts often
		slot, _, _ := b.pool.At(uint64(i))
		b.move(slot)
		b.journal.Ack(slot)
	}
	wantVerdict(t, b.check(), Verdict{OK: true, AccountsChecked: int64(len(b.ids)), Conserved: true})
}

func TestCheckNothingHappened(t *testing.T) {
	b := newBank(transferring(Transfer{5, 5}))
	wantVerdict(t, b.check(), Verdict{OK: true, AccountsChecked: 1, Conserved: true})
	b.journal.Ack(0) // to itself: no change
	wantVerdict(t, b.check(), Verdict{OK: true, AccountsChecked: 1, Conserved: true})
}

// Slot 0 moves 1 from account 10 to 20, slot 1 moves 2 from 20 to 30, slot 2
// moves 3 from 40 to 50, slot 3 moves 4 from 50 to 10.
func fourTransfers() *bank {
	return newBank(transferring(Transfer{10, 20}, Transfer{20, 30}, Transfer{40, 50}, Transfer{50, 10}))
}

func TestCheckWrongTable(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*bank)
		want Verdict
	}{
		{"lost", func(b *bank) { b.journal.Ack(0) }, Verdict{Conserved: true,
			Detail: "2 of 5 accounts differ: account 10 holds 1010, should hold 1009, account 20 holds 1020, should hold 1021"}},
		{"doubled", func(b *bank) { b.journal.Ack(1); b.move(1); b.move(1) }, Verdict{Conserved: true,
			Detail: "2 of 5 accounts differ: account 20 holds 1016, should hold 1018, account 30 holds 1034, should hold 1032"}},
		{"not acknowledged", func(b *bank) { b.move(2) }, Verdict{Conserved: true,
			Detail: "2 of 5 accounts differ: account 40 holds 1037, should hold 1040, account 50 holds 1053, should hold 1050"}},
		{"half", func(b *bank) { b.journal.Ack(0); b.add(10, -1) }, Verdict{
			Detail: "1 of 5 accounts differ: account 20 holds 1020, should hold 1021; the changes sum to -1, not 0"}},
		{"one for another", func(b *bank) { b.journal.Ack(0); b.move(2) }, Verdict{Conserved: true,
			Detail: "4 of 5 accounts differ: account 10 holds 1010, should hold 1009, account 20 holds 1020, should hold 1021, account 40 holds 1037, should hold 1040, ..."}},
		{"swapped", func(b *bank) { b.journal.Ack(0); b.add(10, 1); b.add(20, -1) }, Verdict{Conserved: true,
			Detail: "2 of 5 accounts differ: account 10 holds 1011, should hold 1009, account 20 holds 1019, should hold 1021"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := fourTransfers()
			tt.do(b)
			tt.want.AccountsChecked = 5
			wantVerdict(t, b.check(), tt.want)
		})
	}
}

func TestCheckArgumentsThatDoNotFit(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*bank)
		want string
	}{
		{"short after", func(b *bank) { b.after = b.after[1:] }, "4 after"},
		{"short before", func(b *bank) { b.before = nil }, "0 balances before"},
		{"no accounts", func(b *bank) { b.ids, b.before, b.after = nil, nil, nil }, "0 accounts"},
		{"another journal", func(b *bank) { b.journal = NewJournal(5) }, "a journal of 5"},
		{"unsorted", func(b *bank) { b.ids[0], b.ids[1] = b.ids[1], b.ids[0] }, "account 10 comes after 20"},
		{"twice", func(b *bank) { b.ids[1] = b.ids[0] }, "account 10 comes after 10"},
		{"account missing below", func(b *bank) { b.ids[0] = 11; b.journal.Ack(0) }, "accounts 10 and 20 were not both read"},
		{"account missing above", func(b *bank) { b.ids[4] = 49; b.journal.Ack(2) }, "accounts 40 and 50 were not both read"},
		{"account missing in doubt", func(b *bank) { b.ids[2] = 31; b.journal.InDoubt(1, 1) }, "accounts 20 and 30 were not both read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := fourTransfers()
			tt.do(b)
			v := b.check()
			if v.OK || v.Conserved || v.AccountsChecked != 0 || !strings.Contains(v.Detail, tt.want) {
				t.Errorf("verdict %+v, want a detail with %q", v, tt.want)
			}
		})
	}
}

func TestCheckInDoubt(t *testing.T) {
	failed := errors.New("commit failed")
	for _, tt := range []struct {
		name string
		do   func(*bank)
		want Verdict
	}{
		{"out", func(b *bank) { b.journal.InDoubt(0, failed); b.journal.InDoubt(1, failed) },
			Verdict{OK: true, Conserved: true, Detail: "of 1 commits in doubt 0 are in the table"}},
		{"in", func(b *bank) { b.journal.InDoubt(0, failed); b.journal.InDoubt(1, failed); b.move(0); b.move(1) },
			Verdict{OK: true, Conserved: true, Detail: "of 1 commits in doubt 1 are in the table"}},
		{"beside acknowledged", func(b *bank) { b.journal.Ack(0); b.move(0); b.journal.InDoubt(0, failed); b.move(0) },
			Verdict{OK: true, Conserved: true, Detail: "of 1 commits in doubt 1 are in the table"}},
		{"twice in one commit", func(b *bank) { b.journal.InDoubt(0, failed); b.journal.InDoubt(0, failed); b.move(0); b.move(0) },
			Verdict{OK: true, Conserved: true, Detail: "of 1 commits in doubt 1 are in the table"}},
		{"two commits, one in", func(b *bank) { b.journal.InDoubt(0, 1); b.journal.InDoubt(1, 2); b.move(1) },
			Verdict{OK: true, Conserved: true, Detail: "of 2 commits in doubt 1 are in the table"}},
		{"a half of one commit", func(b *bank) { b.journal.InDoubt(0, failed); b.journal.InDoubt(2, failed); b.move(0) },
			Verdict{Conserved: true, Detail: "2 of 5 accounts differ: account 10 holds 1009, should hold 1010, " +
				"account 20 holds 1021, should hold 1020; of 1 commits in doubt 0 are in the table"}},
		{"in doubt once, in twice", func(b *bank) { b.journal.InDoubt(2, failed); b.move(2); b.move(2) },
			Verdict{Conserved: true, Detail: "2 of 5 accounts differ: account 40 holds 1034, should hold 1040, " +
				"account 50 holds 1056, should hold 1050; of 1 commits in doubt 0 are in the table"}},
		{"in, but for one account", func(b *bank) {
			for slot := range 3 {
				b.journal.InDoubt(slot, failed)
				b.move(slot)
			}
			b.add(30, 5)
		}, Verdict{Detail: "1 of 5 accounts differ: account 30 holds 1037, should hold 1032; " +
			"the changes sum to 5, not 0; of 1 commits in doubt 1 are in the table"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := fourTransfers()
			tt.do(b)
			tt.want.AccountsChecked = 5
			wantVerdict(t, b.check(), tt.want)
		})
	}
}

// Eight commits that touch the same two accounts have no witness; their
// amounts 1 to 128 tell all combinations apart.
func TestCheckTriesAllCombinations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Bool(), maxTried, maxTried).Draw(t, "in")
		b := newBank(transferring(slices.Repeat([]Transfer{{1, 2}}, 100)...))
		for g, in := range in {
			for range 1 << g { // 2^g times slot 0, which moves 1
				b.journal.InDoubt(0, g)
				if in {
					b.move(0)
				}
			}
		}
		if v := b.check(); !v.OK {
			t.Fatalf("in %v: %+v", in, v)
		}
		b.add(1, -256)
		b.add(2, 256)
		if v := b.check(); v.OK {
			t.Fatalf("in %v: 256 too much went unnoticed", in)
		}
	})
}

func TestCheckTooManyInDoubt(t *testing.T) {
	b := newBank(transferring(Transfer{1, 2}))
	for g := range maxTried + 1 {
		b.journal.InDoubt(0, g)
	}
	b.move(0)
	want := "2 of 2 accounts differ: account 1 holds 1000, should hold 1001, account 2 holds 1003, should hold 1002; " +
		"9 commits in doubt touch the same accounts, more than the 8 that can be told apart"
	wantVerdict(t, b.check(), Verdict{AccountsChecked: 2, Conserved: true, Detail: want})
}

// Any load that keeps the contract passes, and any single change of one balance
// in its table is found.
func TestCheckProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.Int64Range(1, 200).Draw(t, "rows")
		d, err := NewUniform(rows)
		if err != nil {
			t.Fatal(err)
		}
		b := newBank(NewPool(rapid.Int64Range(1, 100).Draw(t, "pool"), rapid.Uint64().Draw(t, "seed"), d, Clustered{}))
		// Few enough commits in doubt for all combinations.
		groups := rapid.SliceOfN(rapid.Bool(), 0, maxTried).Draw(t, "groups in")
		for i := range rapid.IntRange(0, 300).Draw(t, "load") {
			slot, _, _ := b.pool.At(uint64(i))
			switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
			case kind < 6:
				b.journal.Ack(slot)
				b.move(slot)
			case kind < 8 && len(groups) > 0:
				g := i % len(groups)
				b.journal.InDoubt(slot, g)
				if groups[g] {
					b.move(slot)
				}
			default: // refused: neither in the table nor acknowledged
			}
		}
		if v := b.check(); !v.OK || !v.Conserved || v.AccountsChecked != int64(len(b.ids)) {
			t.Fatalf("a right table: %+v", v)
		}
		b.after[rapid.IntRange(0, len(b.ids)-1).Draw(t, "account")] += rapid.SampledFrom([]int64{-100, -1, 1, 50}).Draw(t, "by")
		if v := b.check(); v.OK || v.Conserved || v.Detail == "" {
			t.Fatalf("a wrong table: %+v", v)
		}
	})
}

// Many commits in doubt are told apart by the accounts that only they touch.
func TestCheckManyInDoubt(t *testing.T) {
	b := newBank(pool(t, 20_000, 30_000, 4))
	r := rand.New(rand.NewPCG(1, 1))
	for g := range 40 {
		in := r.IntN(2) == 1
		for slot := g * 500; slot < (g+1)*500; slot++ {
			b.journal.InDoubt(slot, g)
			if in {
				b.move(slot)
			}
		}
	}
	if v := b.check(); !v.OK {
		t.Errorf("verdict %+v", v)
	}
}

// In a chain of commits only the ends have an account of their own: deciding
// them makes the accounts next to them witnesses for the next.
func TestCheckChainInDoubt(t *testing.T) {
	const n = 2 * (maxTried + 2)
	var chain []Transfer
	for g := range int64(n) {
		chain = append(chain, Transfer{g + 1, g + 2})
	}
	b := newBank(transferring(chain...))
	for g := range n {
		b.journal.InDoubt(g, g)
		if g%3 != 0 {
			b.move(g)
		}
	}
	wantVerdict(t, b.check(), Verdict{OK: true, AccountsChecked: n + 1, Conserved: true,
		Detail: "of 20 commits in doubt 13 are in the table"})
}

func TestIDIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int64{50, 1000, MaxRows}).Draw(t, "limit")
		ids := rapid.SliceOfNDistinct(rapid.Int64Range(1, limit), 1, 50, rapid.ID).Draw(t, "ids")
		slices.Sort(ids)
		x := newIDIndex(ids)
		for _, id := range append(slices.Clone(ids), 1, limit, rapid.Int64Range(1, limit).Draw(t, "other")) {
			want, wantOK := slices.BinarySearch(ids, id)
			got, ok := x.find(id)
			if ok != wantOK || ok && got != want {
				t.Fatalf("find(%d) = %d, %v, want %d, %v", id, got, ok, want, wantOK)
			}
		}
	})
}

func TestJournalCountersAreApart(t *testing.T) {
	const line = 64
	for _, n := range []int{1, 2, 15, 16, 17, 100, spreadLines, 100_000, 1 << 20} {
		j := NewJournal(n)
		seen := make(map[uintptr]bool, n)
		var last uintptr
		for slot := range n {
			at := uintptr(unsafe.Pointer(j.counter(slot)))
			if seen[at] {
				t.Fatalf("%d slots: slot %d shares a counter", n, slot)
			}
			seen[at] = true
			if slot > 0 && at/line == last/line {
				t.Fatalf("%d slots: slots %d and %d share a cache line", n, slot-1, slot)
			}
			last = at
		}
		if got := len(j.counters); got > 2*n && got > countersPerLine*spreadLines {
			t.Errorf("%d slots take %d counters", n, got)
		}
	}
}

func TestJournalConcurrently(t *testing.T) {
	const workers, rounds = 8, 50
	b := newBank(pool(t, 500, 300, 2))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range rounds {
				for slot := range b.pool.Len() {
					b.journal.Ack(slot)
				}
			}
			b.journal.InDoubt(w, w%3)
		})
	}
	wg.Wait()
	for slot := range b.pool.Len() {
		if got := b.journal.Acked(slot); got != workers*rounds {
			t.Fatalf("slot %d: %d acknowledgements, want %d", slot, got, workers*rounds)
		}
		for range workers * rounds {
			b.move(slot)
		}
	}
	for w := range workers {
		if w%3 == 1 {
			b.move(w)
		}
	}
	wantVerdict(t, b.check(), Verdict{OK: true, AccountsChecked: int64(len(b.ids)), Conserved: true,
		Detail: "of 3 commits in doubt 1 are in the table"})
}

func BenchmarkAck(b *testing.B) {
	j := NewJournal(100_000)
	b.RunParallel(func(pb *testing.PB) {
		for slot := 0; pb.Next(); slot = (slot + 1) % 100_000 {
			j.Ack(slot)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	for _, bb := range []struct {
		name    string
		n, rows int64
	}{{"100k", 100_000, 1_000_000}, {"4m", MaxPool, 1_000_000_000}} {
		b.Run(bb.name, func(b *testing.B) {
			bank := newBank(pool(b, bb.n, bb.rows, 1))
			for slot := range bank.pool.Len() {
				bank.journal.Ack(slot)
				bank.move(slot)
			}
			for b.Loop() {
				if v := bank.check(); !v.OK {
					b.Fatal(v.Detail)
				}
			}
		})
	}
}
