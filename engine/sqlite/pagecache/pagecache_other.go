//go:build !linux

package pagecache

import (
	"errors"
	"fmt"
)

type handle struct{}

var errUnsupported = fmt.Errorf("page cache: only linux can show and drop a file's pages: %w", errors.ErrUnsupported)

// Open returns an error that matches [errors.ErrUnsupported]: this
// system has no way to see or drop the cached pages of one file.
func Open(string) (*File, error) { return nil, errUnsupported }

// Close does nothing.
func (c *File) Close() error { return nil }

// Resident returns an error that matches [errors.ErrUnsupported].
func (c *File) Resident() (bytes int64, err error) { return 0, errUnsupported }

// ResidentFraction returns an error that matches [errors.ErrUnsupported].
func (c *File) ResidentFraction() (float64, error) { return 0, errUnsupported }

// Snapshot returns an error that matches [errors.ErrUnsupported].
func (c *File) Snapshot() (Residency, error) { return Residency{}, errUnsupported }

// Drop returns an error that matches [errors.ErrUnsupported].
func (c *File) Drop() error { return errUnsupported }

// DropSince returns an error that matches [errors.ErrUnsupported].
func (c *File) DropSince(Residency) error { return errUnsupported }
