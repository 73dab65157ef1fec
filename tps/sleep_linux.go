package tps

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Sleeper waits to within about 0.1 ms, for Config.Sleep. Go's own timers are up to
// a millisecond late in an idle process on Linux, because the runtime waits for
// them in whole milliseconds; at thousands of arrivals a second that would be most of
// the latency. A Sleeper waits for a kernel timer through the runtime's poller
// instead, which blocks no thread. One goroutine may use it at a time. Elsewhere
// than on Linux it is an ordinary timer.
//
// It waits in real time: leave Config.Sleep nil in a testing/synctest bubble.
type Sleeper struct {
	file *os.File
	fd   int
}

// NewSleeper returns a Sleeper, which the caller closes.
func NewSleeper() (*Sleeper, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tps: create a timer: %w", err)
	}
	return &Sleeper{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}, nil
}

// Sleep waits for d or until ctx ends.
func (s *Sleeper) Sleep(ctx context.Context, d time.Duration) {
	if d <= 0 || ctx.Err() != nil {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(s.fd, 0, &spec, nil); err != nil {
		timerSleep(ctx, d) // closed, or a d beyond the kernel's range
		return
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = s.file.SetReadDeadline(time.Unix(1, 0)) // fails only when closed: Read has returned then
	})
	var expirations [8]byte
	if _, err := s.file.Read(expirations[:]); err != nil && ctx.Err() == nil {
		timerSleep(ctx, d)
	}
	if !stop() {
		<-woken // or it would end a later Sleep
		_ = s.file.SetReadDeadline(time.Time{})
	}
}

// Close releases the timer.
func (s *Sleeper) Close() error {
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("tps: close a timer: %w", err)
	}
	return nil
}
