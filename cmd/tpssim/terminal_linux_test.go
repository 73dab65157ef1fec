package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tpssim/tpssim/tps"
)

// terminal is a pseudo-terminal: what a program writes to file is collected.
type terminal struct {
	file    *os.File
	written chan []byte
}

func newTerminal(t *testing.T, width uint16) terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there is no pseudo-terminal here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}); err != nil {
		t.Fatal(err)
	}
	term := terminal{file, make(chan []byte, 1)}
	go func() {
		text, _ := io.ReadAll(master) // ends with EIO when nobody has file open
		term.written <- text
	}()
	return term
}

// text closes the terminal and returns all that was written to it.
func (term terminal) text() string {
	term.file.Close()
	return string(<-term.written)
}

// screen returns the lines that a terminal shows in the end, and how often a
// line was too long for it.
func screen(text string, width int) (lines []string, wrapped int) {
	row := []rune{}
	column := 0
	for _, r := range text {
		switch r {
		case '\r':
			column = 0
		case '\n':
			lines = append(lines, strings.TrimRight(string(row), " "))
			row, column = nil, 0
		default:
			if column == width {
				lines = append(lines, string(row))
				row, column = nil, 0
				wrapped++
			}
			for len(row) <= column {
				row = append(row, ' ')
			}
			row[column] = r
			column++
		}
	}
	return append(lines, strings.TrimRight(string(row), " ")), wrapped
}

// The progress of a seeding leaves nothing on the screen but the notes, however
// narrow it is.
func TestProgressOnATerminal(t *testing.T) {
	for _, width := range []int{10, 40, 80} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			term := newTerminal(t, uint16(width))
			p := command("seed", "--rows", "1m", "--db", filepath.Join(t.TempDir(), "s.db"))
			p.Stderr = term.file
			p.start(t)
			if code := p.code(t); code != exitOK {
				t.Errorf("exit code %d", code)
			}
			lines, wrapped := screen(term.text(), width)
			if left := strings.Join(lines, "|"); left != "" || wrapped > 0 {
				t.Errorf("the screen shows %q, %d lines were too long", left, wrapped)
			}
		})
	}
}

// stdout holds one JSON object and nothing else while stderr shows progress.
func TestJSONBesideProgress(t *testing.T) {
	t.Parallel()
	path := seeded(t)
	term := newTerminal(t, 80)
	p := command("run", "--db", path, "--dist", "uniform", "-d", "1s", "-c", "2", "--format", "json")
	p.Stderr = term.file
	p.start(t)
	if code := p.code(t); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	shown := term.text()
	if !strings.Contains(shown, "run 0s of 1s, ") {
		t.Errorf("there was no progress: %q", shown)
	}
	if lines, wrapped := screen(shown, 80); strings.Join(lines, "") != "" || wrapped > 0 {
		t.Errorf("the screen shows %q", lines)
	}
	var res tps.Result
	dec := json.NewDecoder(&p.stdout)
	if err := dec.Decode(&res); err != nil || res.Schema != tps.Schema {
		t.Errorf("schema %q, %v", res.Schema, err)
	}
	if rest, err := io.ReadAll(io.MultiReader(dec.Buffered(), &p.stdout)); err != nil || len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("behind the object there is %q, %v", rest, err)
	}
}

// Colours are for terminals, unless somebody does not want them.
func TestColor(t *testing.T) {
	path := seeded(t)
	for _, test := range []struct {
		name  string
		env   string
		flags []string
		want  bool
	}{
		{name: "plain", want: true},
		{name: "NO_COLOR", env: "NO_COLOR=1", want: false},
		{name: "NO_COLOR empty", env: "NO_COLOR=", want: true},
		{name: "--no-color", flags: []string{"--no-color"}, want: false},
	} {
		t.Run(test.name, func(t *testing.T) {
			term := newTerminal(t, 80)
			p := command(append([]string{"run", "-q", "--db", path, "--dist", "uniform", "-n", "20", "--runs", "1"}, test.flags...)...)
			p.Env = append(p.Env, test.env)
			p.Stdout = term.file
			p.start(t)
			if code := p.code(t); code != exitOK || p.stderr.Len() > 0 {
				t.Errorf("exit code %d, stderr %q", code, &p.stderr)
			}
			text := term.text()
			if !strings.Contains(text, "proof") {
				t.Errorf("there is no report: %q", text)
			}
			if got := strings.Contains(text, "\x1b["); got != test.want {
				t.Errorf("colours %v, want %v", got, test.want)
			}
		})
	}
}
