package cloop

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/tpssim/tpssim/internal/driversym"
)

// Whichever function is missing, nothing can be opened, and what was found before
// stays.
func TestUnavailable(t *testing.T) {
	if ok, why := Available(); !ok || why != "" {
		t.Fatalf("%v, %q", ok, why)
	}
	path := database(t)
	var names []string
	if err := link(func(name string) (unsafe.Pointer, error) {
		names = append(names, name)
		return driversym.Find(name)
	}); err != nil {
		t.Fatal(err)
	}
	if len(names) < 10 {
		t.Fatalf("only %q", names)
	}
	for _, missing := range names {
		failing := func() error {
			return link(func(name string) (unsafe.Pointer, error) {
				if name == missing {
					return driversym.Find("sqlite3_not_" + name)
				}
				return nil, nil // would crash if it were used
			})
		}
		_, err := open(failing, path, time.Second)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	cfg := draw(10)
	cfg.Batch = 4
	if _, err := openLoop(t, path).Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	mustHold(t, path, cfg, 10)
}

// Nothing stays open, however a loop ends.
func TestDescriptors(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not list open files")
		}
		return len(entries)
	}
	path := database(t)
	bad := draw(100)
	bad.Batch, bad.CheckpointMost, bad.To[70] = 1, 3, -1
	before := open()
	for range 5 {
		c, err := Open(path, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if open() <= before {
			t.Fatal("an open database has no file")
		}
		if got, err := c.Run(t.Context(), bad); err == nil || got.Checkpoints == 0 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := c.Close(false); err != nil { // SQLITE_BUSY if a statement were left
			t.Error(err)
		}
		if _, err := Open(path+"-missing", time.Second); err == nil {
			t.Error("it opened what is not there")
		}
	}
	if got := open(); got != before {
		t.Errorf("%d files are open, %d were", got, before)
	}
}
