package accounts

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// idIndex finds an id's place in a sorted list. A plain binary search over
// millions of ids misses the cache at nearly every step; this cuts the range of
// ids into equal buckets, as many as stay in cache, and searches one of them.
type idIndex struct {
	ids    []int64
	starts []int32 // of each bucket in ids, and behind the last its end
	shift  uint    // an id's bucket is (id - ids[0]) >> shift
}

// maxBuckets bounds an idIndex to 4 MB.
const maxBuckets = 1 << 20

// newIDIndex indexes ids, which ascend and hold at least one.
func newIDIndex(ids []int64) idIndex {
	x := idIndex{ids: ids}
	spread := uint64(ids[len(ids)-1] - ids[0])
	buckets := uint64(min(len(ids), maxBuckets))
	x.shift = uint(bits.Len64(spread / buckets))
	x.starts = make([]int32, spread>>x.shift+2)
	// Count, then add up: starts[b+1] becomes the end of bucket b.
	for _, id := range ids {
		x.starts[(id-ids[0])>>x.shift+1]++
	}
	for b := 1; b < len(x.starts); b++ {
		x.starts[b] += x.starts[b-1]
	}
	return x
}

// find returns the place of id in the list.
func (x *idIndex) find(id int64) (int, bool) {
	b := (id - x.ids[0]) >> x.shift
	if id < x.ids[0] || b >= int64(len(x.starts)-1) {
		return 0, false
	}
	start := x.starts[b]
	i, ok := slices.BinarySearch(x.ids[start:x.starts[b+1]], id)
	return int(start) + i, ok
}

// pair returns the places of both accounts of t.
func (x *idIndex) pair(t Transfer) (from, to int, ok bool) {
	from, okFrom := x.find(t.From)
	to, okTo := x.find(t.To)
	return from, to, okFrom && okTo
}

// effect is what a group in doubt changes at one account, if it is in the
// table: the account's place in the list of ids, and a change that is not 0.
type effect struct {
	account int
	change  int64
}

// effects adds up each group in doubt, in ascending order of accounts.
func effects(pool *Pool, journal *Journal, index idIndex) ([][]effect, error) {
	journal.mu.Lock()
	defer journal.mu.Unlock()
	groups := make([][]effect, 0, len(journal.doubts))
	for _, slots := range journal.doubts {
		net := make(map[int]int64, 2*len(slots))
		for _, slot := range slots {
			t := pool.transfers[slot]
			from, to, ok := index.pair(t)
			if !ok {
				return nil, unreadError(t)
			}
			net[from] -= amountOf(slot)
			net[to] += amountOf(slot)
		}
		group := make([]effect, 0, len(net))
		for account, change := range net {
			if change != 0 {
				group = append(group, effect{account, change})
			}
		}
		slices.SortFunc(group, func(a, b effect) int { return cmp.Compare(a.account, b.account) })
		groups = append(groups, group)
	}
	return groups, nil
}

// maxTried bounds the groups of which all combinations are tried.
const maxTried = 8

// settlement decides for each group in doubt whether it is in the table; off
// ends up as if the groups that are had been acknowledged.
type settlement struct {
	off    []int64
	groups [][]effect
	open   []int // groups not decided yet
	in     int   // groups decided to be in the table
}

// settle looks for the combination of groups that leaves no account off, or as
// few as it can find, corrects off by it and returns a line that says what it
// found, empty without groups. It never turns a wrong table into a right one:
// whatever it decides, each account is judged afterwards.
func settle(off []int64, groups [][]effect) string {
	if len(groups) == 0 {
		return ""
	}
	s := settlement{off: off, groups: groups}
	for g, group := range groups {
		if len(group) > 0 { // else in and out are the same
			s.open = append(s.open, g)
		}
	}
	s.byWitness()
	if len(s.open) > maxTried {
		return fmt.Sprintf("%d commits in doubt touch the same accounts, more than the %d that can be told apart",
			len(s.open), maxTried)
	}
	s.byTrial()
	return fmt.Sprintf("of %d commits in doubt %d are in the table", len(groups), s.in)
}

// flip adds group g's effects to off, sign -1 to count it as in the table, +1
// to take that back, and returns how many more accounts are off than before.
func (s *settlement) flip(g int, sign int64) int {
	more := 0
	for _, e := range s.groups[g] {
		if s.off[e.account] == 0 {
			more++
		}
		s.off[e.account] += sign * e.change
		if s.off[e.account] == 0 {
			more--
		}
	}
	return more
}

// byWitness decides the groups that have accounts of their own. An account that
// no other open group touches is off by exactly the group's change if the group
// is in, by 0 if it is out; the majority of such accounts decides, so that a
// wrong one among them is reported instead of all the others. A group that has
// been decided may leave witnesses for the next.
func (s *settlement) byWitness() {
	owners := make(map[int]int)
	for _, group := range s.groups {
		for _, e := range group {
			owners[e.account]++
		}
	}
	for decided := true; decided; {
		decided = false
		s.open = slices.DeleteFunc(s.open, func(g int) bool {
			in, out := 0, 0
			for _, e := range s.groups[g] {
				switch {
				case owners[e.account] > 1:
				case s.off[e.account] == e.change:
					in++
				case s.off[e.account] == 0:
					out++
				}
			}
			if in == out {
				return false
			}
			if in > out {
				s.flip(g, -1)
				s.in++
			}
			for _, e := range s.groups[g] {
				owners[e.account]--
			}
			decided = true
			return true
		})
	}
}

// byTrial tries all combinations of the open groups, each one group away from
// the last (a Gray code), and leaves off as the best of them has it.
func (s *settlement) byTrial() {
	var now, best uint // bit i: open[i] is in
	more, least := 0, 0
	toggle := func(i int) {
		sign := int64(-1)
		if now>>i&1 == 1 {
			sign = 1
		}
		more += s.flip(s.open[i], sign)
		now ^= 1 << i
	}
	for step := uint(1); step < 1<<len(s.open); step++ {
		toggle(bits.TrailingZeros(step))
		if more < least {
			least, best = more, now
		}
	}
	for i := range s.open {
		if (now^best)>>i&1 == 1 {
			toggle(i)
		}
	}
	s.in += bits.OnesCount(best)
}
