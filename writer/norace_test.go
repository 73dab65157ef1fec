//go:build !race

package writer_test

// raceEnabled says that the race detector runs: it is slow, and dies at 8,128
// goroutines.
const raceEnabled = false
