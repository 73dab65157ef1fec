// Command tpssim measures how many interactive transactions a second one SQLite
// writer can carry, at which latency and durability, and proves that no money was
// lost. `tpssim --help` lists what it does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Without this a closed pipe behind stdout or stderr would kill the program
	// at once and leave the database's journals and lock lying there.
	signal.Ignore(syscall.SIGPIPE)
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once, in case the first one's orderly
	// end takes too long.
	context.AfterFunc(ctx, restore)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
