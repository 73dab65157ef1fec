//go:build !linux

package tps

import (
	"context"
	"time"
)

// Sleeper waits with an ordinary timer, for Config.Sleep. On Linux it is more
// exact than that.
type Sleeper struct{}

// NewSleeper returns a Sleeper, which the caller closes.
func NewSleeper() (*Sleeper, error) { return &Sleeper{}, nil }

// Sleep waits for d or until ctx ends.
func (s *Sleeper) Sleep(ctx context.Context, d time.Duration) { timerSleep(ctx, d) }

// Close has nothing to release.
func (s *Sleeper) Close() error { return nil }
