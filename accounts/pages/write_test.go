package pages

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tpssim/tpssim/accounts"
)

// mustLayOut lays a table out behind a template of three pages.
func mustLayOut(t *testing.T, spec accounts.Spec) *Tree {
	t.Helper()
	tree, err := newTree(spec, template(3, spec.PageSize), 3, noLock*int64(spec.PageSize))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// place makes a file with old content in dir and returns its path.
func place(t *testing.T, dir, content string) string {
	t.Helper()
	path := filepath.Join(dir, "pages.DB")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// written are Specs whose files end at and beside the borders of a block, and of
// what direct I/O is aligned to.
var written = []accounts.Spec{
	rowid(1, 1, 0, 512),     // 3 pages
	rowid(10, 1, 450, 512),  // no whole number of 4096 bytes
	rowid(300, 1, 0, 65536), // one leaf
	rowid(blockBytes/4096-4, 1, 3000, 4096),
	rowid(blockBytes/4096-3, 1, 3000, 4096),
	rowid(2*blockBytes/512-40, 1, 440, 512),
	rowid(200, 1, 20_000, 1024),
	rowid(200_000, 1_000_000_000, 0, 4096),
	rowid(60, 1, 50_000, 65536),
}

// writeAll writes each of those files in dir and compares it with its pages.
func writeAll(t *testing.T, dir string) {
	t.Helper()
	atBorder := 0
	for _, spec := range written {
		tree := mustLayOut(t, spec)
		if tree.Bytes()%blockBytes == 0 {
			atBorder++
		}
		// What was there before is longer than some of the files.
		path := place(t, dir, strings.Repeat("old", 100_000))
		last := int64(0)
		err := tree.Write(t.Context(), path, func(pages int64) {
			if pages <= last || pages > tree.Pages() {
				t.Errorf("%+v: progress %d after %d", spec, pages, last)
			}
			last = pages
		})
		if err != nil {
			t.Fatalf("%+v: %v", spec, err)
		}
		if last != tree.Pages() {
			t.Errorf("%+v: progress ends at %d of %d", spec, last, tree.Pages())
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := build(tree, noLock).content; !bytes.Equal(got, want) {
			t.Errorf("%+v: the file's %d bytes are not the pages' %d", spec, len(got), len(want))
		}
	}
	if atBorder == 0 {
		t.Error("no file ends with a whole block")
	}
}

func TestWrite(t *testing.T) { writeAll(t, t.TempDir()) }

// What cannot be written past the cache is written through it, from the first
// refusal on.
func TestDirectRefused(t *testing.T) {
	path := place(t, t.TempDir(), "")
	f, err := openTarget(path)
	if err != nil {
		t.Fatal(err)
	}
	direct := f.direct != nil
	content := bytes.Repeat([]byte("x"), 5000) // of no length, address or offset that direct I/O takes
	for _, at := range []int64{3, 5003} {
		if err := f.writeAt(content, at); err != nil {
			t.Error(err)
		}
		if !f.plain.Load() {
			t.Error("the next write would try in vain again")
		}
	}
	if err := errors.Join(f.finish(9000), f.close()); err != nil {
		t.Error(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "\x00\x00\x00"+strings.Repeat("x", 8997) {
		t.Errorf("%d bytes, error %v", len(got), err)
	}
	if !direct {
		t.Skip("this file system has no direct I/O to be refused")
	}
}

// However the writing stops, the page with the header is as it was.
func TestWriteStops(t *testing.T) {
	small, large := mustLayOut(t, written[0]), mustLayOut(t, rowid(3_000_000, 1_000_000_000, 0, 4096))
	for _, test := range []struct {
		name string
		tree *Tree
		at   int64 // pages written when the context ends
	}{
		{"before a file of one block", small, 0},
		{"before", large, 0},
		{"after the first block", large, 1},
		{"midway", large, large.Pages() / 2},
		{"before the last block", large, large.Pages() - blockBytes/4096},
	} {
		path := place(t, t.TempDir(), "unfinished")
		ctx, cancel := context.WithCancel(t.Context())
		if test.at == 0 {
			cancel()
		}
		written := int64(0)
		err := test.tree.Write(ctx, path, func(pages int64) {
			if written = pages; pages >= test.at {
				cancel()
			}
		})
		cancel()
		// Every writer may have had a block in its hands.
		if most := test.at + (writers+1)*blockBytes/4096; written > most {
			t.Errorf("%s: %d pages were written, at most %d were begun", test.name, written, most)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", test.name, err)
		}
		head := make([]byte, 10)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Read(head); err != nil || string(head) != "unfinished" {
			t.Errorf("%s: the file begins with %q: %v", test.name, head, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Without anybody to tell, the progress is no trouble.
func TestWriteWithoutProgress(t *testing.T) {
	tree := mustLayOut(t, written[1])
	path := place(t, t.TempDir(), "")
	if err := tree.Write(t.Context(), path, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != tree.Bytes() {
		t.Errorf("%v, %v", info, err)
	}
}

func TestWriteErrors(t *testing.T) {
	tree, dir := mustLayOut(t, written[0]), t.TempDir()
	for _, test := range []struct {
		name, path string
		want       error // nil: any
	}{
		{"no file", filepath.Join(dir, "none"), fs.ErrNotExist},
		{"a folder", dir, nil},
	} {
		err := tree.Write(t.Context(), test.path, nil)
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.HasPrefix(err.Error(), "pages: ") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("root may write to any file")
	}
	path := place(t, dir, "")
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := tree.Write(t.Context(), path, nil); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that is read-only: %v", err)
	}
}
