package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
)

var update = flag.Bool("update", false, "write what the program prints into the scripts")

// asProgram in the environment makes the test binary the program itself.
const asProgram = "TPSSIM_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	if path := os.Getenv(asLocker); path != "" {
		os.Exit(locker(path, os.Getenv(lockMode)))
	}
	if filepath.Base(os.Args[0]) != "tpssim" { // as which a script runs this binary
		forgetSettings()
	}
	testscript.Main(m, map[string]func(){"tpssim": main})
}

// forgetSettings keeps the settings of whoever runs the tests out of them.
func forgetSettings() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "TPSSIM_") || name == "NO_COLOR" {
			os.Unsetenv(name)
		}
	}
}

// small is a data set that is quick to make.
var small = accounts.Spec{Rows: 2000, Balance: 1000, Schema: accounts.SchemaRowid, PageSize: 4096}

// seeded makes a small data set in a new folder.
func seeded(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s.db")
	seedAt(t, path)
	return path
}

func seedAt(t *testing.T, path string) {
	t.Helper()
	if _, err := dataset.Seed(t.Context(), path, small, dataset.Options{}); err != nil {
		t.Fatal(err)
	}
}

// whole fails the test unless the data set at path holds every account and its
// folder nothing beside it.
func whole(t *testing.T, path string) {
	t.Helper()
	alone(t, path)
	if report, err := dataset.Check(t.Context(), path, dataset.Options{}); err != nil || !report.OK() {
		t.Errorf("check: %+v, %v", report, err)
	}
}

// alone fails the test when a journal or a lock lies beside the database.
func alone(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{"-wal", "-shm", "-journal", "-lock"} {
		if _, err := os.Stat(path + suffix); err == nil {
			t.Errorf("%s is left", filepath.Base(path)+suffix)
		}
	}
}

// invoke runs the program in this process.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// complaint returns what is wrong with the output of a refused command, or "".
func complaint(stdout, stderr string) string {
	line, ok := strings.CutSuffix(stderr, "\n")
	switch {
	case stdout != "":
		return fmt.Sprintf("stdout is not empty: %q", stdout)
	case !ok || strings.Contains(line, "\n"):
		return fmt.Sprintf("stderr is not one line: %q", stderr)
	case !strings.HasPrefix(line, "tpssim: "):
		return fmt.Sprintf("stderr does not name the program: %q", stderr)
	case strings.Contains(line, "goroutine ") || strings.Contains(line, "strconv.") || strings.Contains(line, "%!"):
		return fmt.Sprintf("stderr is not for people: %q", stderr)
	}
	return ""
}

// contents maps the files under dir to what they hold.
func contents(dir string) (map[string][32]byte, error) {
	files := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = sha256.Sum256(text)
		return err
	})
	return files, err
}
