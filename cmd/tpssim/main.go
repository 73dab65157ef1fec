// Command tpssim measures how many interactive transactions a second one SQLite
// writer can carry, at which latency and durability, and proves that no money was
// lost. `tpssim --help` lists what it does.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// gcPercent is GOGC unless the environment sets it. A burst is 100,000 stacks that
// come into being within half a second, and each collection meanwhile scans all that
// are there by then, on a core that the writer or its callers could use. What waits
// is alive, so that fewer collections take hardly more memory.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// Without this a closed pipe behind stdout or stderr would kill the program
	// at once and leave the database's journals and lock lying there.
	signal.Ignore(syscall.SIGPIPE)
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once, in case the first one's orderly
	// end takes too long.
	context.AfterFunc(ctx, restore)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
