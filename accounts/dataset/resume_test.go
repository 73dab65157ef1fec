package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// A seeding that is stopped any number of times makes the same file, byte for
// byte, as one that is not.
func TestResumeAfterCancel(t *testing.T) {
	t.Parallel()
	whole := place(t)
	mustSeed(t, whole, small)
	want := content(t, whole)
	dir := t.TempDir()
	t.Cleanup(func() { noJournals(t, dir) })
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		path := filepath.Join(dir, fmt.Sprintf("%d.DB", runs))
		defer os.Remove(path)
		opts := Options{CommitRows: rapid.Int64Range(small.Rows/4, 2*small.Rows).Draw(t, "rows a commit")}
		for _, stopAt := range rapid.SliceOfN(rapid.Int64Range(0, small.Rows), 0, 3).Draw(t, "stops") {
			stopped, cancel := context.WithCancel(context.Background())
			opts.Progress = func(done, _ int64) {
				if done >= stopAt {
					cancel()
				}
			}
			report, err := Seed(stopped, path, small, opts)
			cancel()
			if err == nil {
				continue // it was complete
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			info, err := Inspect(path)
			if err != nil || info.Seeded != report.Rows || info.Complete {
				t.Fatalf("report %+v, info %+v, error %v", report, info, err)
			}
		}
		opts.Progress = nil
		if _, err := Seed(context.Background(), path, small, opts); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		clear(b[24:28])
		clear(b[92:96])
		if !bytes.Equal(b, want) {
			t.Fatalf("the file differs from one that was seeded at once: %d and %d bytes", len(b), len(want))
		}
	})
}

// An index that was begun is made again, and one that is there is kept.
func TestResumeBetweenIndexes(t *testing.T) {
	t.Parallel()
	whole := place(t)
	mustSeed(t, whole, small)
	path := place(t)
	for _, at := range []string{"index 1 of 2", "index 2 of 2"} {
		stopped, cancel := context.WithCancel(t.Context())
		opts := Options{Stage: func(name string) {
			if name == at {
				cancel()
			}
		}}
		_, err := Seed(stopped, path, small, opts)
		cancel()
		// A short statement can be through before the interrupt comes.
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if report, err := Seed(t.Context(), path, small, Options{}); err != nil || !report.Complete {
		t.Fatalf("report %+v, error %v", report, err)
	}
	if !bytes.Equal(content(t, path), content(t, whole)) {
		t.Error("the file differs from one that was seeded at once")
	}
}

// A statement that would run for hours ends when its context does.
func TestInterruptible(t *testing.T) {
	t.Parallel()
	c, err := sqlconn.Open(nil, filepath.Join(t.TempDir(), "empty.DB"), sqlconn.Create)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	endless := "WITH RECURSIVE s(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM s) SELECT count(*) FROM s"
	for _, when := range []string{"before", "during"} {
		ctx, cancel := context.WithCancel(t.Context())
		if when == "before" {
			cancel()
		}
		err := c.Interruptible(ctx, func() error {
			timer := time.AfterFunc(20*time.Millisecond, cancel)
			defer timer.Stop()
			return c.Exec(endless)
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", when, err)
		}
	}
	if err := c.Interruptible(t.Context(), func() error { return c.Exec("SELECT 1") }); err != nil {
		t.Errorf("the connection is of no use any more: %v", err)
	}
}

var killed = accounts.Spec{Rows: 200_000, Balance: 5, Schema: accounts.SchemaRowid, Indexes: 1, PageSize: 4096}

func childSeeds(path string) int {
	if _, err := Seed(context.Background(), path, killed, Options{CommitRows: 20_000}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A seeding that is killed, at any moment, is gone on with.
func TestResumeAfterKill(t *testing.T) {
	t.Parallel()
	path := place(t)
	for _, size := range []int64{1, 1 << 20, 2 << 20, 3 << 20} {
		c := startChild(t, "seed", path)
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		killWhenLarge(t, c.Cmd, ended, path, size)
	}
	report, err := Seed(t.Context(), path, killed, Options{})
	if err != nil || !report.Complete {
		t.Fatalf("report %+v, error %v", report, err)
	}
	checked, err := Check(t.Context(), path, Options{})
	if err != nil || !checked.OK() {
		t.Errorf("check %+v, error %v", checked, err)
	}
}

// killWhenLarge kills the child once the file has reached a size, or sees it end
// by itself.
func killWhenLarge(t *testing.T, child *exec.Cmd, ended <-chan error, path string, size int64) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("the child failed: %v", err)
			}
			return
		case <-poll.C:
			if info, err := os.Stat(path); err != nil || info.Size() < size {
				continue
			}
			if err := child.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			<-ended
			return
		}
	}
}
