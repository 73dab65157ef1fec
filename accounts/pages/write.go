package pages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

const (
	// blockBytes is written at a time: a whole number of pages of any size, large
	// enough that the disk streams.
	blockBytes = 1 << 20
	// writers is how many blocks are built or written at once: enough that the
	// disk always has work while others compute. They take writers*blockBytes of
	// memory, however large the file.
	writers = 16
	// alignment is what direct I/O asks of offsets, lengths and memory at most, on
	// the disks that there are.
	alignment = 4096
)

// Write writes every page of t to the file at path, which exists, and syncs it.
// progress, if not nil, is told how many pages are written, in ascending order and
// by one goroutine at a time. The page with the database header comes last: until
// then the file is not a database that anybody would take for whole.
//
// Where the file system allows it the writes go around the kernel's cache, which
// would cost a copy of every page and push everything else out of it.
//
// When ctx ends, Write returns its error, and the file is unfinished, as it is
// after any other error.
func (t *Tree) Write(ctx context.Context, path string, progress func(pages int64)) (err error) {
	f, err := openTarget(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.reserve(t.Bytes()); err != nil {
		return fmt.Errorf("pages: reserve %d bytes: %w", t.Bytes(), err)
	}
	blocks := (t.Bytes() + blockBytes - 1) / blockBytes
	var next atomic.Int64
	var mu sync.Mutex
	written := int64(0)
	write := func(buf []byte, block int64) error {
		pages, err := t.writeBlock(f, buf, block)
		if err != nil || progress == nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		written += pages
		progress(written)
		return nil
	}
	group, running := errgroup.WithContext(ctx)
	for range min(writers, blocks) {
		group.Go(func() error {
			buf, free, err := alignedBuffer(blockBytes)
			if err != nil {
				return err
			}
			defer free()
			for block := next.Add(1); block < blocks; block = next.Add(1) {
				if err := running.Err(); err != nil {
					return err
				}
				if err := write(buf, block); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := f.sync(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // it may have ended behind the last of the other blocks
		return err
	}
	buf, free, err := alignedBuffer(blockBytes)
	if err != nil {
		return err
	}
	defer free()
	if err := write(buf, 0); err != nil {
		return err
	}
	return f.finish(t.Bytes())
}

// writeBlock builds a block of the file in buf and writes it. The last one is
// padded to the alignment; what is too much is cut off in the end.
func (t *Tree) writeBlock(f *target, buf []byte, block int64) (pages int64, err error) {
	size := int64(t.spec.PageSize)
	first := block*blockBytes/size + 1
	pages = min(blockBytes/size, t.pages-first+1)
	for i := range pages {
		t.Fill(buf[i*size:(i+1)*size], first+i)
	}
	length := pages * size
	padded := (length + alignment - 1) / alignment * alignment
	return pages, f.writeAt(buf[:padded], block*blockBytes)
}

// target is the file that is written.
type target struct {
	file   *os.File
	direct *os.File // the same file past the kernel's cache; nil where that is not possible
	plain  atomic.Bool
}

// openTarget opens the file twice if it can: direct I/O may turn out to be refused
// only when something is written.
func openTarget(path string) (*target, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	t := &target{file: file, direct: openDirect(path)}
	t.plain.Store(t.direct == nil)
	return t, nil
}

// writeAt writes a block, around the cache as long as that is not refused.
func (t *target) writeAt(buf []byte, offset int64) error {
	if !t.plain.Load() {
		_, err := t.direct.WriteAt(buf, offset)
		if !isRefused(err) {
			return err
		}
		t.plain.Store(true)
	}
	_, err := t.file.WriteAt(buf, offset)
	return err
}

// sync makes what was written durable.
func (t *target) sync() error { return t.file.Sync() }

// finish cuts the padding off and syncs.
func (t *target) finish(size int64) error {
	if err := t.file.Truncate(size); err != nil {
		return err
	}
	return t.file.Sync()
}

func (t *target) close() error {
	if t.direct == nil {
		return t.file.Close()
	}
	return errors.Join(t.direct.Close(), t.file.Close())
}
