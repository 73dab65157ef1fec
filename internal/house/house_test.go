// Package house holds the tests of the house itself: which package may import
// which, how long a file may be, that what is exported is documented, and that
// another module can use the library.
package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/tpssim/tpssim"
)

// allowed says which packages of this module each package may import, tests
// aside. "*" ends a prefix, or stands for all.
var allowed = map[string][]string{
	"accounts":                {},
	"accounts/dataset":        {"accounts", "accounts/pages", "internal/sqlconn"},
	"accounts/pages":          {"accounts"},
	"cmd/tpssim":              {"*"},
	"doctor":                  {"machine", "tps"},
	"engine":                  {"accounts"},
	"engine/enginetest":       {"engine", "accounts"},
	"engine/sqlite":           {"engine", "accounts", "internal/*", "writer", "engine/sqlite/pagecache"},
	"engine/sqlite/pagecache": {},
	"history":                 {"tps", "trials"},
	"internal/cloop":          {"internal/driversym", "internal/sqlconn", "internal/wal"},
	"internal/driversym":      {},
	"internal/fastexec":       {"internal/driversym"},
	"internal/house":          {},
	"internal/nearest":        {},
	"internal/nowait":         {"internal/driversym"},
	"internal/quantity":       {},
	"internal/sqlconn":        {"internal/writeback"},
	"internal/tmpfs":          {},
	"internal/wal":            {},
	"internal/writeback":      {"internal/driversym"},
	"machine":                 {"tps"},
	"report":                  {"tps", "trials", "doctor"},
	"scenarios":               {"tps", "accounts", "engine", "script", "internal/nearest"},
	"script":                  {},
	"script/tpcb":             {"accounts/dataset", "internal/sqlconn"},
	"tps":                     {"internal/nearest"},
	"trials":                  {"tps"},
	"writer":                  {"internal/fastexec", "internal/nowait", "internal/wal", "internal/writeback"},
	"writer/writertest":       {"writer"},
}

const (
	maxFileLines     = 500
	maxFunctionLines = 70
)

// source is one parsed Go file.
type source struct {
	pkg  string // its folder, relative to the root
	name string // its path, relative to the root
	file *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

var fileSet = token.NewFileSet()

// line returns where pos is.
func line(pos token.Pos) int { return fileSet.Position(pos).Line }

// sources parses every Go file of the module, for whatever system it is.
func sources(t *testing.T) (all []source) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch base := d.Name(); {
		case d.IsDir() && rel != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, ".go"):
			return nil
		}
		file, err := parser.ParseFile(fileSet, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{path.Dir(rel), rel, file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d Go files were found below %s", len(all), root)
	}
	return all
}

// may tells whether pkg may import target.
func may(pkg, target string) bool {
	for _, pattern := range allowed[pkg] {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(target, prefix) || pattern == target {
			return true
		}
	}
	return false
}

func TestImportDirections(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if _, known := allowed[s.pkg]; !known && !seen[s.pkg] {
			t.Errorf("%s is a new package: add it to the table in this test, with what it may import", s.pkg)
		}
		seen[s.pkg] = true
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			target, ours := strings.CutPrefix(imported, module+"/")
			if ours && !s.test() && target != s.pkg && !may(s.pkg, target) {
				t.Errorf("%s:%d: %s must not import %s", s.name, line(spec.Pos()), s.pkg, target)
			}
		}
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("%s is in the table of this test and no longer there", pkg)
		}
	}
}

// The table itself says nothing against the picture of the house.
func TestMay(t *testing.T) {
	for _, tt := range []struct {
		pkg, target string
		want        bool
	}{
		{"cmd/tpssim", "writer", true}, {"engine/sqlite", "internal/sqlconn", true}, {"engine/sqlite", "writer", true},
		{"scenarios", "engine", true}, {"scenarios", "engine/sqlite", false}, {"scenarios", "writer", false},
		{"writer", "accounts", false}, {"writer", "internal/wal", true}, {"tps", "engine", false}, {"engine", "writer", false}, {"engine", "engine/sqlite", false},
		{"report", "scenarios", false}, {"accounts", "accounts/dataset", false}, {"unknown", "tps", false},
	} {
		if got := may(tt.pkg, tt.target); got != tt.want {
			t.Errorf("may(%q, %q) = %v", tt.pkg, tt.target, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if n := line(s.file.FileEnd); n > maxFileLines+1 { // the end is behind the last newline
			t.Errorf("%s has %d lines, at most %d are allowed: split it by what it is about", s.name, n-1, maxFileLines)
		}
		if s.test() {
			continue
		}
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := line(fn.End()) - line(fn.Pos()) + 1; n > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines, at most %d are allowed", s.name, line(fn.Pos()), fn.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

func TestExportedIsDocumented(t *testing.T) {
	documented := map[string]bool{} // packages
	for _, s := range sources(t) {
		if s.test() || strings.HasPrefix(s.pkg, "internal/") {
			continue
		}
		documented[s.pkg] = documented[s.pkg] || s.file.Doc != nil
		for _, decl := range s.file.Decls {
			for _, name := range undocumented(decl) {
				t.Errorf("%s:%d: %s is exported and has no comment", s.name, line(name.Pos()), name.Name)
			}
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment", pkg)
		}
	}
}

// undocumented returns the exported names that decl declares without a comment. In
// a group the comment of the group counts for each.
func undocumented(decl ast.Decl) (names []*ast.Ident) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || receiverIsExported(d.Recv)) && !standard[d.Name.Name] {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						names = append(names, name)
					}
				}
			}
		}
	}
	return names
}

// standard are methods whose name says everything.
var standard = map[string]bool{"Error": true, "String": true, "Unwrap": true}

// receiverIsExported tells whether a method is one of an exported type.
func receiverIsExported(recv *ast.FieldList) bool {
	expr := recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	switch e := expr.(type) {
	case *ast.IndexExpr:
		expr = e.X
	case *ast.IndexListExpr:
		expr = e.X
	}
	name, ok := expr.(*ast.Ident)
	return ok && name.IsExported()
}

// The check finds what it is for.
func TestUndocumented(t *testing.T) {
	file, err := parser.ParseFile(fileSet, "example.go", `package p
func A() {}
// B is.
func B() {}
func (t *T[K]) C() {}
func (t u) D() {}
type T[K any] struct{}
const (
	E = 1
	F = 2 // is
)
// All.
var (
	G int
)
func (T[K]) Error() string { return "" }
`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, decl := range file.Decls {
		for _, name := range undocumented(decl) {
			got = append(got, name.Name)
		}
	}
	if want := "A C T E"; strings.Join(got, " ") != want {
		t.Errorf("found %q, want %q", got, want)
	}
}
