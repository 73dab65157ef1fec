package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// rows is the size of the data sets: three chunks of Balances, and more pages than
// the kernel reads ahead.
const rows = 25_000

// seeded are the data sets by schema, made once; tests work on copies.
var seeded = map[accounts.Schema]string{}

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "tpssim-sqlite")
	if err == nil {
		err = seedAll(folder)
	}
	end := func(code int) {
		os.RemoveAll(folder)
		os.Exit(code)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		end(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(end))
}

func seedAll(folder string) error {
	for _, schema := range []accounts.Schema{accounts.SchemaRowid, accounts.SchemaArticle} {
		path := filepath.Join(folder, string(schema)+".db")
		if _, err := dataset.Seed(context.Background(), path, specOf(schema), dataset.Options{}); err != nil {
			return err
		}
		seeded[schema] = path
	}
	return nil
}

func specOf(schema accounts.Schema) accounts.Spec {
	return accounts.Spec{Rows: rows, Balance: 1000, Schema: schema, PageSize: 4096}
}

// copyOf returns the options of a data set of the test's own. When the test ends
// the database must be whole and alone in its folder.
func copyOf(t *testing.T, schema accounts.Schema) Options {
	t.Helper()
	data, err := os.ReadFile(seeded[schema])
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "test.db")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(folder)
		if err != nil || len(left) != 1 {
			t.Errorf("closed engines left %v (%v)", left, err)
		}
		if got := raw(t, path, "PRAGMA integrity_check"); got != "ok" {
			t.Errorf("integrity_check: %s", got)
		}
	})
	return Options{Path: path, Spec: specOf(schema)}
}

// start opens an engine and closes it when the test ends.
func start(t *testing.T, opt Options, needs engine.Needs) engine.Engine {
	t.Helper()
	e, err := Open(t.Context(), opt, needs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// raw runs one statement on a connection of its own and returns its answer.
func raw(t *testing.T, path, query string) string {
	t.Helper()
	c := connect(t, path)
	text, err := c.Text(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return text
}

// connect opens a connection that knows nothing of the engine. The caller closes
// it.
func connect(t *testing.T, path string) *sqlconn.Conn {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := sqlconn.Open(nil, path, sqlconn.Existing)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// quiet returns what interval tells once everything is counted.
func quiet(t *testing.T, e engine.Engine, interval func() engine.Stats) engine.Stats {
	t.Helper()
	if err := e.Quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	return interval()
}

// both runs a test for the two ways in.
func both(t *testing.T, test func(t *testing.T, needs engine.Needs)) {
	for _, access := range []engine.Access{engine.Queued, engine.Pooled} {
		t.Run(string(access), func(t *testing.T) { test(t, engine.Needs{Access: access}) })
	}
}

// add returns a transaction that changes one account.
func add(id, delta int64) func(engine.Tx) error {
	return func(tx engine.Tx) error { return tx.Add(id, delta) }
}

// observe starts an interval: the function that it returns tells what e did since.
func observe(e engine.Engine) func() engine.Stats {
	before := e.Stats()
	return func() engine.Stats { return e.Stats().Sub(before) }
}
