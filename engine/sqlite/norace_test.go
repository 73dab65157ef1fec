//go:build !race

package sqlite

// raceEnabled says that the race detector runs, which allocates.
const raceEnabled = false
