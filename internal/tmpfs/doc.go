// Package tmpfs mounts small file systems for tests of what happens when a disk is
// full or read-only. It has functions on Linux only, and so have those tests.
package tmpfs
