package house

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// outsideProgram uses the library as a program in another module would.
const outsideProgram = `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/tpssim/tpssim/writer"
)

func run(ctx context.Context, path string) error {
	w, err := writer.Open(ctx, path, writer.Options{Init: func(c *writer.Conn) error {
		_, err := c.Exec("CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
		return err
	}})
	if err != nil {
		return err
	}
	err = w.Do(ctx, func(tx *writer.Tx) error {
		_, err := tx.Exec("INSERT INTO note(text) VALUES (?), (?)", "hello", "outside")
		return err
	})
	if err != nil {
		return err
	}
	var count int64
	var last string
	err = w.View(ctx, func(rx *writer.Rx) error {
		return rx.QueryRow("SELECT count(*), max(text) FROM note").Scan(&count, &last)
	})
	if err != nil {
		return err
	}
	fmt.Println(count, last)
	return w.Close()
}

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`

// Another module can import the library with nothing but what this one's go.mod
// says.
func TestOutsideModule(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(here, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"main.go": outsideProgram,
		"go.mod": fmt.Sprintf("module example.com/outside\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %s => %q\n",
			module, module, filepath.ToSlash(here)),
		"go.sum": string(sums),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "outside.exe")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.Command(program, filepath.Join(dir, "outside.db")).CombinedOutput()
	if err != nil || string(out) != "2 outside\n" {
		t.Errorf("the program said %q (%v), want %q", out, err, "2 outside\n")
	}
}
