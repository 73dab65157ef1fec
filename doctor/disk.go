package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

const (
	pageBytes  = 4 << 10 // SQLite's usual page, and what direct I/O asks of offsets and memory
	blockBytes = 1 << 20 // of sequential work
	maxBytes   = 1 << 30 // of the test file
	freeShare  = 10      // the test file takes at most this part of what is free
	// syncBytes bounds the part of the file that is appended to with a sync each.
	syncBytes = 16 << 20
	depth     = 32 // of the deeper random work
	// flushBytes is how much is written through the page cache before a sync: what
	// is written but not synced proves nothing about the disk.
	flushBytes = 16 << 20
)

// disk is what the measurements of the folder came to. A part that was not
// reached is nil.
type disk struct {
	createErr error // the test file could not be made
	err       error // what ended the measurements early; never ctx's
	direct    bool  // the page cache was gone around
	dropped   bool  // where not, cached pages were dropped before reading
	fileBytes int64
	room      int64 // what the file was allowed to be

	sync       *syncFacts
	sequential *sequentialFacts
	read       *randomFacts
	write      *randomFacts
}

// latency is the distribution of one operation's time.
type latency struct {
	count         int64
	p50, p99, max time.Duration
	mean          time.Duration
}

// syncFacts are the times of writing 4 KiB and making them durable.
type syncFacts struct {
	method    string  // what makes them durable
	overwrite latency // of blocks that are there, as in a WAL that is used again
	growing   latency // of blocks that make the file longer, as in a WAL that grows
	// reference is another way to the same end (Linux), or a weaker one (macOS);
	// its count is 0 where there is none.
	referenceMethod string
	reference       latency
}

// sequentialFacts are bytes a second in blocks of 1 MiB, one after the other.
type sequentialFacts struct{ writeRate, readRate float64 }

// randomFacts are operations of 4 KiB a second, by one and by depth goroutines.
type randomFacts struct {
	iops, deepIOPS float64
	one            latency // of the one goroutine's
}

// measureDisk measures what a folder's disk does. free is how many bytes are free
// there.
//
// The syncs are measured while the file has a name: some file systems (btrfs) skip
// the log for a file that nobody can find after a crash, and it would look faster
// than a database ever is. Then it loses its name, before it becomes large.
func measureDisk(ctx context.Context, dir string, free int64, c Config) (d disk) {
	d.room = min(maxBytes, free/freeShare) / blockBytes * blockBytes
	f, err := openTestFile(dir)
	if err != nil {
		d.createErr = err
		return d
	}
	defer func() {
		if ctx.Err() != nil && errors.Is(d.err, ctx.Err()) {
			d.err = nil
		}
		d.err = errors.Join(d.err, f.close())
	}()
	p := probe{ctx: ctx, file: f, duration: c.Duration}
	c.stage("sync")
	if d.sync, d.err = p.syncs(min(syncBytes, free/freeShare)); d.err != nil {
		return d
	}
	if d.err = f.unname(); d.err != nil {
		return d
	}
	d.direct = f.direct != nil
	c.stage("sequential write")
	if d.fileBytes, d.sequential, d.err = p.sequential(d.room, func() { c.stage("sequential read") }); d.err != nil || d.fileBytes == 0 {
		return d
	}
	c.stage("random read")
	if d.read, d.err = p.random(p.readPage, d.fileBytes); d.err != nil {
		return d
	}
	d.dropped = p.dropped
	c.stage("random write")
	d.write, d.err = p.random(p.writePage, d.fileBytes)
	return d
}

// probe measures one file.
type probe struct {
	ctx      context.Context
	file     *testFile
	duration time.Duration
	dropped  bool // the system could be told to forget cached pages
}

// repeat calls op with 0, 1, … until a time is over, n calls are done or ctx ends,
// and returns how long each took. At least one call is made.
func (p *probe) repeat(length time.Duration, n int64, op func(i int64) error) (latency, error) {
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	begin := time.Now()
	last := begin
	var longest time.Duration
	for i := range n {
		if err := p.ctx.Err(); err != nil {
			return latency{}, err
		}
		if err := op(i); err != nil {
			return latency{}, err
		}
		now := time.Now()
		took := now.Sub(last)
		last = now
		longest = max(longest, took)
		if err := h.RecordValue(int64(min(max(took, 1), time.Hour))); err != nil {
			return latency{}, err
		}
		if now.Sub(begin) >= length {
			break
		}
	}
	l := latency{count: h.TotalCount(), max: longest}
	if l.count > 0 {
		l.mean = last.Sub(begin) / time.Duration(l.count)
	}
	l.p50, l.p99 = time.Duration(h.ValueAtQuantile(50)), time.Duration(h.ValueAtQuantile(99))
	return l, nil
}

// syncs appends pages with a sync each, room bytes at most but one at least, then
// overwrites them.
func (p *probe) syncs(room int64) (*syncFacts, error) {
	buf := newBlock(pageBytes)
	s := &syncFacts{method: syncMethod, referenceMethod: referenceMethod}
	var err error
	s.growing, err = p.repeat(p.duration/2, max(room/pageBytes, 1), func(i int64) error {
		if _, err := p.file.plain.WriteAt(buf, i*pageBytes); err != nil {
			return err
		}
		return dataSync(p.file.plain)
	})
	if err != nil {
		return nil, err
	}
	there := s.growing.count
	s.overwrite, err = p.repeat(p.duration, 1<<40, func(i int64) error {
		if _, err := p.file.plain.WriteAt(buf, i%there*pageBytes); err != nil {
			return err
		}
		return dataSync(p.file.plain)
	})
	if err != nil || referenceMethod == "" {
		return s, err
	}
	s.reference, err = p.repeat(p.duration/2, 1<<40, func(i int64) error {
		return p.file.referenceWrite(buf, i%there*pageBytes)
	})
	return s, err
}

// sequential writes the file from its beginning, as much as twice the duration
// allows, then reads it. half is called between the two. Without room for one block
// it does nothing.
func (p *probe) sequential(room int64, half func()) (size int64, s *sequentialFacts, err error) {
	if room < blockBytes {
		return 0, nil, nil
	}
	if err := reserve(p.file.plain, room); err != nil {
		return 0, nil, err
	}
	buf := newBlock(blockBytes)
	target := p.file.best()
	begin := time.Now()
	_, err = p.repeat(2*p.duration, room/blockBytes, func(i int64) error {
		stamp(buf, i*blockBytes)
		size = (i + 1) * blockBytes
		if _, err := target.WriteAt(buf, i*blockBytes); err != nil {
			return err
		}
		if p.file.direct == nil && size%flushBytes == 0 {
			return dataSync(p.file.plain)
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	if err := dataSync(p.file.plain); err != nil {
		return 0, nil, err
	}
	s = &sequentialFacts{writeRate: float64(size) / time.Since(begin).Seconds()}
	// What was reserved and not written would be read without the disk.
	if err := p.file.plain.Truncate(size); err != nil {
		return 0, nil, err
	}
	half()
	if err := p.forget(false); err != nil {
		return 0, nil, err
	}
	read, err := p.repeat(p.duration, size/blockBytes, func(i int64) error {
		return p.readStamped(buf, i*blockBytes)
	})
	if err != nil {
		return 0, nil, err
	}
	s.readRate = blockBytes / max(read.mean, 1).Seconds()
	return size, s, nil
}

// forget drops the file's cached pages where reading would meet them; random says
// that what is read next is not in order.
func (p *probe) forget(random bool) error {
	if p.file.direct != nil {
		return nil
	}
	dropped, err := dropCache(p.file.plain, random)
	p.dropped = dropped
	return err
}

// random calls op for pages in a random order, each once before any is met again,
// first from one goroutine and then from many.
func (p *probe) random(op func(buf []byte, offset int64) error, size int64) (*randomFacts, error) {
	pages := rand.Perm(int(size / pageBytes))
	var next atomic.Int64
	at := func() int64 { return int64(pages[next.Add(1)%int64(len(pages))]) * pageBytes }
	// A page that was read stays in the page cache: without direct I/O every one is
	// for one reading.
	limit := int64(1 << 40)
	if p.file.direct == nil {
		limit = int64(len(pages)) / 2
	}
	if err := p.forget(true); err != nil {
		return nil, err
	}
	buf := newBlock(pageBytes)
	one, err := p.repeat(p.duration, limit, func(int64) error { return op(buf, at()) })
	if err != nil {
		return nil, err
	}
	deep, err := p.deep(max(limit/depth, 1), func(buf []byte) error { return op(buf, at()) })
	if err != nil {
		return nil, err
	}
	return &randomFacts{iops: 1 / max(one.mean, 1).Seconds(), one: one, deepIOPS: deep}, nil
}

// deep calls op from depth goroutines, limit times each at most, and returns how
// often a second it was done.
//
// A goroutine in a system call keeps its share of GOMAXPROCS until the runtime
// notices, so on few CPUs not all would reach the disk at once: for this time there
// is a share for each.
func (p *probe) deep(limit int64, op func(buf []byte) error) (float64, error) {
	shares := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(shares + depth)
	defer runtime.GOMAXPROCS(shares)
	group, ctx := errgroup.WithContext(p.ctx)
	each := probe{ctx: ctx, file: p.file, duration: p.duration}
	var done atomic.Int64
	begin := time.Now()
	for range depth {
		group.Go(func() error {
			buf := newBlock(pageBytes)
			l, err := each.repeat(p.duration, limit, func(int64) error { return op(buf) })
			done.Add(l.count)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, errors.Join(p.ctx.Err(), err)
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), nil
}

func (p *probe) readPage(buf []byte, offset int64) error { return p.readStamped(buf, offset) }

// writePage writes a page, with a sync where it would stay in the page cache.
func (p *probe) writePage(buf []byte, offset int64) error {
	stamp(buf, offset)
	if _, err := p.file.best().WriteAt(buf, offset); err != nil {
		return err
	}
	if p.file.direct == nil {
		return dataSync(p.file.plain)
	}
	return nil
}

// readStamped reads and compares what came with what was written there.
func (p *probe) readStamped(buf []byte, offset int64) error {
	if _, err := p.file.best().ReadAt(buf, offset); err != nil {
		return err
	}
	for i := 0; i < len(buf); i += pageBytes {
		if got := int64(binary.LittleEndian.Uint64(buf[i:])); got != offset+int64(i) {
			return fmt.Errorf("%w: at %d stands what belongs to %d", errWrongData, offset+int64(i), got)
		}
	}
	return nil
}

// errWrongData is the worst that a disk can do.
var errWrongData = errors.New("the disk returned other data than was written")

// newBlock returns memory that direct I/O accepts, with contents that no file
// system can compress.
func newBlock(size int) []byte {
	buf := aligned(size)
	random := rand.NewChaCha8([32]byte{})
	random.Read(buf) // never fails
	return buf
}

// stamp marks each page of buf with its place in the file, so that no two are
// alike and a wrong one is seen.
func stamp(buf []byte, offset int64) {
	for i := 0; i < len(buf); i += pageBytes {
		binary.LittleEndian.PutUint64(buf[i:], uint64(offset+int64(i)))
	}
}
