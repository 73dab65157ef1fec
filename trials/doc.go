// Package trials runs a load several times to answer what a single run cannot.
// [Knee] finds the highest rate that holds an objective. [Rounds] measures several
// arms in turn, and [Ceiling] holds a burst against a C loop with it.
//
// The parts that decide are pure and can be tested without a clock: [Search] says
// which rate comes next, [Judge] what a step came to, [Enough] when a step has
// seen enough. The package runs nothing itself: what a load is, is a function
// that the caller gives.
package trials
