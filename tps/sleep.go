package tps

import (
	"context"
	"time"
)

// timerSleep waits for d or until ctx ends.
func timerSleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
