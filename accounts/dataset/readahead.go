package dataset

import (
	"io"
	"os"
	"sync/atomic"
	"time"
)

const (
	// aheadBytes is how far readAhead is in front of SQLite at most: enough that
	// the disk streams, and little beside any page cache.
	aheadBytes = 256 << 20
	// aheadChunk is read at a time, and aheadPause waited when it is far enough.
	aheadChunk = 4 << 20
	aheadPause = 2 * time.Millisecond
)

// readAhead reads a file from its end to its beginning in front of SQLite's
// integrity_check, which visits the children of each page from the last to the
// first. The kernel reads ahead of forward readers only, so each page of a file
// that is not in memory would be a read of its own: on a disk with 11,000 of them
// a second a billion rows took more than ten times as long.
type readAhead struct {
	file *os.File
	size int64
	lead int64        // how far it is in front of SQLite at most
	read atomic.Int64 // bytes that it read itself
}

// openReadAhead opens the file. SQLite must open it afterwards and close it before:
// closing any descriptor of a database drops the locks on it.
func openReadAhead(path string, size int64) (*readAhead, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &readAhead{file: f, size: size, lead: aheadBytes}, nil
}

// start reads until the function that it returns is called. Where the system does
// not tell how far SQLite is, nothing is read.
func (r *readAhead) start() (stop func()) {
	begin, ok := bytesRead()
	if !ok {
		return func() {}
	}
	return r.follow(func() int64 {
		now, _ := bytesRead()
		return now - begin - r.read.Load()
	})
}

// follow reads in front of somebody who has read done bytes.
func (r *readAhead) follow(done func() int64) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		buf := make([]byte, min(aheadChunk, r.size))
		pause := time.NewTicker(aheadPause)
		defer pause.Stop()
		for end := r.size; end > 0; {
			reached := r.size - done()
			end = min(end, max(reached, 0)) // what was read already need not be
			if end <= reached-r.lead {
				select {
				case <-quit:
					return
				case <-pause.C:
				}
				continue
			}
			start := max(end-int64(len(buf)), 0)
			n, err := r.file.ReadAt(buf[:end-start], start)
			r.read.Add(int64(n))
			if err != nil && err != io.EOF {
				return // SQLite meets the same and says so
			}
			end = start
			select {
			case <-quit:
				return
			default:
			}
		}
	}()
	return func() {
		close(quit)
		<-gone
	}
}
