package script

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The built-in scripts of pgbench, word for word as its manual prints the first and
// its source the others: these texts are what has to run unchanged. They run on the
// tables that package tpcb makes and use the variable scale.
const (
	tpcbLike = `\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
`
	simpleUpdate = `\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
`
	selectOnly = `\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
`
)

var builtins = map[string]string{"tpcb-like": tpcbLike, "simple-update": simpleUpdate, "select-only": selectOnly}

// BuiltinNames returns the names of the built-in scripts, sorted.
func BuiltinNames() []string { return slices.Sorted(maps.Keys(builtins)) }

// Builtin returns a script that pgbench brings along: tpcb-like, simple-update or
// select-only.
func Builtin(name string) (*Script, error) {
	text, ok := builtins[name]
	if !ok {
		return nil, fmt.Errorf("script: no built-in script is called %q: there are %s", name, strings.Join(BuiltinNames(), ", "))
	}
	return Parse(name, strings.NewReader(text))
}
