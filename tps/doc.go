// Package tps is the harness: it offers load to an [Op], takes the time of every
// transaction and returns a [Result]. It is pure in that it knows no database:
// what an Op does is the caller's affair.
//
// # What holds
//
//   - Only acknowledged transactions count as TPS: those whose Op returned nil.
//   - TPS is their number over the time from the start of the load until the last
//     caller is awake, not until the last one was committed.
//   - Latency counts from the intended start. A stalled Op delays the
//     transactions behind it in the figures as it would in life. Only a closed
//     loop cannot show that: its clients stall too, so it shows service time.
//   - Latency is divided into stages whose means add up to it; see [Timing].
//   - Nothing that was due is hidden: failures, drops and late starts are counted.
//   - A load bounded by its context ends early, with what was measured kept.
//
// # What it does not do
//
// It does not retry, does not check what the Ops did to the database, does not
// switch the garbage collector off, and prints nothing.
package tps
