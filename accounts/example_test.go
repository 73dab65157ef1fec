package accounts_test

import (
	"fmt"

	"github.com/tpssim/tpssim/accounts"
)

// Draw transfers over a billion accounts as the article does, but with the hot
// accounts on different pages.
func Example() {
	const rows = 1_000_000_000
	const seed = 1
	dist, err := accounts.NewPareto(rows, accounts.ParetoR, accounts.ParetoP)
	if err != nil {
		fmt.Println(err)
		return
	}
	layout, err := accounts.NewScattered(rows, seed)
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := accounts.NewPool(100_000, seed, dist, layout)
	for i := range uint64(3) {
		slot, t, amount := pool.At(i)
		fmt.Printf("%d: move %d from %d to %d\n", slot, amount, t.From, t.To)
	}
	// Output:
	// 0: move 1 from 627180716 to 248941425
	// 1: move 2 from 452150316 to 631144166
	// 2: move 3 from 413111101 to 684715611
}

// Read the balances, run the load, read them again, and compare.
func ExampleCheck() {
	dist, err := accounts.NewUniform(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := accounts.NewPool(1, 1, dist, accounts.Clustered{})
	ids := pool.Accounts()
	table := map[int64]int64{1: 100, 2: 100}
	read := func() (balances []int64) {
		for _, id := range ids {
			balances = append(balances, table[id])
		}
		return balances
	}

	before := read()
	journal := accounts.NewJournal(pool.Len())
	slot, t, amount := pool.At(0)
	table[t.From] -= amount
	table[t.To] += amount
	journal.Ack(slot) // the database said that it committed
	fmt.Printf("%+v\n", accounts.Check(pool, journal, ids, before, read()))

	table[t.To] -= amount // half of it is undone
	fmt.Printf("%+v\n", accounts.Check(pool, journal, ids, before, read()))
	// Output:
	// {OK:true AccountsChecked:2 Conserved:true Detail:}
	// {OK:false AccountsChecked:2 Conserved:false Detail:1 of 2 accounts differ: account 1 holds 100, should hold 101; the changes sum to -1, not 0}
}
