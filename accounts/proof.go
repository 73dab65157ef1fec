package accounts

import (
	"fmt"
	"strings"
)

// maxNamed is how many accounts a [Verdict] names.
const maxNamed = 3

// Verdict is the outcome of [Check].
type Verdict struct {
	// OK says that each touched account holds exactly what the journal says
	// and that the changes sum to zero.
	OK bool

	// AccountsChecked is the number of accounts that were compared, 0 if the
	// arguments did not belong together.
	AccountsChecked int64

	// Conserved says that the balances, taken together, did not change.
	Conserved bool

	// Detail is one line. It says what differs; with OK it is empty, or tells
	// which part of the commits in doubt turned out to be in the table.
	Detail string
}

// Check compares the balances after a load with those before it. ids are the
// accounts that pool touches, as [Pool.Accounts] returns them; before and after
// are their balances in the same order, read while nobody wrote. Each must have
// changed by exactly what journal acknowledged for it: amount less for each
// transfer from it, amount more for each to it. A group in doubt counts wholly
// or not at all, whichever the balances bear out; see [Journal.InDoubt].
//
// Only the accounts in ids are looked at: changes to others show up when the
// total over the whole table is checked.
//
// It takes 8 bytes of memory an account, and time: some 20 ms for a hundred
// thousand transfers, two seconds for a full pool.
func Check(pool *Pool, journal *Journal, ids, before, after []int64) Verdict {
	var v Verdict
	if len(before) != len(ids) || len(after) != len(ids) || journal.slots != pool.Len() || len(ids) == 0 {
		v.Detail = fmt.Sprintf("nothing to compare: %d accounts with %d balances before and %d after, %d transfers with a journal of %d",
			len(ids), len(before), len(after), pool.Len(), journal.slots)
		return v
	}

	// off is how far each account is from what it should hold. Sums may wrap
	// around and still come out right, as all of this is arithmetic mod 2^64.
	off := make([]int64, len(ids))
	var sum int64
	for i := range off {
		if i > 0 && ids[i] <= ids[i-1] {
			v.Detail = fmt.Sprintf("account %d comes after %d: sort the accounts, each once", ids[i], ids[i-1])
			return v
		}
		off[i] = after[i] - before[i]
		sum += off[i]
	}
	v.AccountsChecked, v.Conserved = int64(len(ids)), sum == 0

	index := newIDIndex(ids)
	for slot, t := range pool.transfers {
		n := int64(journal.Acked(slot))
		if n == 0 {
			continue
		}
		from, to, ok := index.pair(t)
		if !ok {
			return Verdict{Detail: unreadError(t).Error()}
		}
		off[from] += amountOf(slot) * n
		off[to] -= amountOf(slot) * n
	}
	groups, err := effects(pool, journal, index)
	if err != nil {
		return Verdict{Detail: err.Error()}
	}
	doubt := settle(off, groups)

	v.judge(ids, after, off, sum, doubt)
	return v
}

// unreadError tells that the caller's ids do not belong to the pool.
func unreadError(t Transfer) error {
	return fmt.Errorf("the balances of accounts %d and %d were not both read", t.From, t.To)
}

// judge fills in OK and Detail from how far each account is off.
func (v *Verdict) judge(ids, after, off []int64, sum int64, doubt string) {
	var parts []string
	differ := 0
	for i, o := range off {
		if o == 0 {
			continue
		}
		if differ++; differ <= maxNamed {
			parts = append(parts, fmt.Sprintf("account %d holds %d, should hold %d", ids[i], after[i], after[i]-o))
		}
	}
	v.OK = differ == 0 && v.Conserved
	if differ > 0 {
		head := fmt.Sprintf("%d of %d accounts differ: ", differ, len(ids))
		if differ > maxNamed {
			parts = append(parts, "...")
		}
		parts = []string{head + strings.Join(parts, ", ")}
	}
	if !v.Conserved {
		parts = append(parts, fmt.Sprintf("the changes sum to %d, not 0", sum))
	}
	if doubt != "" {
		parts = append(parts, doubt)
	}
	v.Detail = strings.Join(parts, "; ")
}
