package sqlite

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/engine"
)

// On a file system of a disk Cold really empties the cache. (The suite lets it pass
// where files live in memory.)
func TestColdOnDisk(t *testing.T) {
	both(t, func(t *testing.T, needs engine.Needs) {
		opt := copyOf(t, accounts.SchemaArticle)
		var fs unix.Statfs_t
		if err := unix.Statfs(filepath.Dir(opt.Path), &fs); err != nil {
			t.Fatal(err)
		}
		if disks := []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC}; !slices.Contains(disks, int64(fs.Type)) {
			t.Skipf("file system %#x may keep its files in memory", fs.Type)
		}
		e := start(t, opt, needs)
		c := e.(engine.Cacher)
		ids := make([]int64, rows)
		for i := range ids {
			ids[i] = int64(i + 1)
		}
		readAll := func() error { return e.Balances(t.Context(), ids, make([]int64, rows), nil) }
		var shares []float64
		for _, step := range []func() error{
			readAll,
			func() error { return c.Cold(t.Context()) },
			func() error { return c.Preserve(readAll) },
			readAll,
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
			share, err := c.Resident()
			if err != nil {
				t.Fatal(err)
			}
			shares = append(shares, share)
		}
		// Opening the connections reads a little.
		if shares[0] < 0.95 || shares[1] > 0.5 || shares[2] > shares[1] || shares[3] < 0.95 {
			t.Errorf("cached after reading all, Cold, Preserve and reading all again: %.3f", shares)
		}
	})
}
