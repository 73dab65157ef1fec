package dataset

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/shirou/gopsutil/v4/disk"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// memoryKB returns a line of /proc/self/status in KiB.
func memoryKB(name string) (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s in /proc/self/status", name)
}

// childPeaks makes a data set of 30 million accounts and says by how many KiB its
// memory grew at most.
func childPeaks(path string) int {
	before, err := memoryKB("VmRSS")
	if err == nil {
		_, err = Seed(context.Background(), path, rowid(30_000_000, 1_000_000_000, 0, 4096), Options{Method: Pages})
	}
	peak, peakErr := memoryKB("VmHWM")
	if err != nil || peakErr != nil {
		fmt.Fprintln(os.Stderr, err, peakErr)
		return 1
	}
	fmt.Println(peak - before)
	return 0
}

// The memory that is needed does not depend on the number of rows.
func TestPagesMemory(t *testing.T) {
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("it needs /proc and half a gigabyte of disk")
	}
	path := place(t)
	needsDisk(t, path, 1<<30)
	c := startChild(t, "peak", path)
	var grownKB int64
	if _, err := fmt.Fscan(c.out, &grownKB); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d KiB more", grownKB); grownKB > 128<<10 {
		t.Errorf("the memory grew by %d KiB", grownKB)
	}
}

// needsDisk skips a test where the disk has no room for it.
func needsDisk(t *testing.T, path string, bytes uint64) {
	t.Helper()
	usage, err := disk.Usage(strings.TrimSuffix(path, "a ? b%20#.DB"))
	if err != nil {
		t.Fatal(err)
	}
	if usage.Free < bytes {
		t.Skipf("%d bytes are needed on the disk, %d are free", bytes, usage.Free)
	}
}

// Files with the lock byte's page in them, and beyond what 32 bits count.
func TestBigFiles(t *testing.T) {
	if os.Getenv("TPSSIM_BIG") != "1" {
		t.Skip("set TPSSIM_BIG=1 to write files of gigabytes")
	}
	for _, test := range []struct {
		spec    accounts.Spec
		atLeast int64
	}{
		{rowid(80_000_000, 1_000_000_000, 0, 4096), 1 << 30},
		{rowid(2_200_000, 7, 470, 512), 1 << 30}, // a leaf a row: interior pages behind the lock's
		{rowid(70_000, 7, 20_000, 65536), 1 << 30},
		{rowid(1_100_000, 1_000_000_000, 4000, 4096), 4 << 30},
		{rowid(700_000, 1, 7000, 1024), 4 << 30}, // overflow pages before and behind the lock's
	} {
		t.Run(fmt.Sprintf("%+v", test.spec), func(t *testing.T) {
			path := place(t)
			needsDisk(t, path, uint64(Forecast(test.spec)*5/4))
			report := mustSeedBy(t, Pages, path, test.spec)
			t.Logf("%d bytes in %v", report.Bytes, report.Elapsed)
			if report.Bytes <= test.atLeast {
				t.Errorf("the file has only %d bytes", report.Bytes)
			}
			if checked, err := Check(t.Context(), path, Options{}); err != nil || !checked.OK() {
				t.Fatalf("check %+v, error %v", checked, err)
			}
			changeBig(t, path, test.spec)
		})
	}
}

// changeBig lets SQLite change rows at both ends of a big file, and checks it.
func changeBig(t *testing.T, path string, spec accounts.Spec) {
	t.Helper()
	value := ""
	if spec.Payload > 0 {
		value = ", zeroblob(3)"
	}
	change(t, path,
		fmt.Sprintf("UPDATE account SET balance = balance + 1000000000000 WHERE id < 5000 OR id > %d", spec.Rows-5000),
		fmt.Sprintf("DELETE FROM account WHERE id BETWEEN %d AND %d", spec.Rows/2, spec.Rows/2+5000),
		fmt.Sprintf("INSERT INTO account VALUES(%d, 1%s), (%d, 1%s)", spec.Rows+1, value, spec.Rows/2+3, value),
	)
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := c.Text("PRAGMA integrity_check"); err != nil || ok != "ok" {
		t.Errorf("%s, %v", ok, err)
	}
	if n, err := c.Integer("SELECT count(*) FROM account"); err != nil || n != spec.Rows-5001+2 {
		t.Errorf("%d rows, %v", n, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
