package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SQLite is what the linked library says of itself.
type SQLite struct {
	Version string   // as in "3.46.1"
	Options []string // PRAGMA compile_options, without the prefix SQLITE_
}

// Database is what was found at the path.
type Database struct {
	JournalMode  string // as PRAGMA journal_mode answers; "" when it was not read
	PageBytes    int64  // 0 when it was not read
	WALBytes     int64  // of the -wal beside it; 0 for none or an empty one
	JournalBytes int64  // of the -journal beside it, likewise
	InUse        bool   // another tpssim writes to it
	Locked       bool   // another process has SQLite's own lock on it
	Problem      string // why it could not be read; empty when it could
}

// The versions of SQLite in which one connection's checkpoint and another's reset
// of the WAL can corrupt a database.
var (
	walResetFirst = [3]int{3, 7, 0}
	walResetLast  = [3]int{3, 51, 2}
)

// telling are the options that matter here, by the beginning of their text, and
// what each means where that is not plain.
var telling = []struct{ prefix, meaning string }{
	{"THREADSAFE=", "a connection is for one goroutine at a time"},
	{"DEFAULT_WAL_SYNCHRONOUS=", "what a WAL database gets that is not told otherwise; tpssim always sets synchronous and reads it back"},
	{"MAX_MMAP_SIZE=", ""},
	{"TEMP_STORE=", ""},
}

// slowing are options of a library that was built to find errors.
var slowing = []string{"DEBUG", "ENABLE_EXPENSIVE_ASSERT", "MEMDEBUG", "ENABLE_SELECTTRACE", "ENABLE_WHERETRACE"}

func judgeSQLite(s SQLite) Check {
	if s.Version == "" {
		return check("sqlite", Fail, "the linked SQLite does not tell its version", "build tpssim again with the SQLite of its go.mod", nil)
	}
	parts := []string{s.Version}
	for _, t := range telling {
		for _, option := range s.Options {
			if !strings.HasPrefix(option, t.prefix) {
				continue
			}
			if t.meaning != "" {
				option += " (" + t.meaning + ")"
			}
			parts = append(parts, option)
		}
	}
	finding := strings.Join(parts, ", ")
	if slices.Contains(s.Options, "THREADSAFE=0") {
		return check("sqlite", Fail, finding, "build it with SQLITE_THREADSAFE=2: without mutexes two connections at once corrupt memory", nil)
	}
	for _, option := range s.Options {
		if slices.Contains(slowing, option) {
			return check("sqlite", Warn, finding+", "+option, "build it without that: it makes every statement slower", nil)
		}
	}
	return check("sqlite", OK, finding, "", nil)
}

// judgeWALReset explains the one known way in which SQLite itself corrupts a WAL
// database, and why that does not happen here.
func judgeWALReset(version string) Check {
	v, ok := parseVersion(version)
	switch {
	case !ok:
		return check("wal_reset", Warn, fmt.Sprintf("version %q cannot be compared", version), "see sqlite.org/wal.html whether it has the WAL-reset bug", nil)
	case slices.Compare(v[:], walResetFirst[:]) < 0 || slices.Compare(v[:], walResetLast[:]) > 0:
		return check("wal_reset", OK, "SQLite "+version+" does not have the WAL-reset bug", "", nil)
	}
	return check("wal_reset", OK, "SQLite 3.7.0 to 3.51.2 can corrupt a database when one connection checkpoints while another resets the WAL; "+
		"tpssim's writer is immune, as one connection writes and checkpoints; so must be whatever else writes to the file", "", nil)
}

// parseVersion reads "3.46.1", of which later parts may be missing.
func parseVersion(s string) (v [3]int, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) < 2 {
		return v, false
	}
	for i, part := range parts[:min(len(parts), 3)] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// judgeDatabase judges what the caller found in the database, and whether it may be
// written to. SQLite falls back to reading a file that may not, without a word.
func judgeDatabase(d *Database, f folderFacts) Check {
	readOnly := ""
	if f.writeErr != nil {
		readOnly = fmt.Sprintf("%s may not be written to: %v", f.database, f.writeErr)
	}
	const makeWritable = "let its owner allow it (chmod u+w), run as somebody who may, or name a copy with --db: until then a run is refused"
	switch {
	case d == nil && readOnly != "": // an empty file
		return check("database", Fail, readOnly, makeWritable, nil)
	case d == nil:
		return check("database", OK, "there is none yet: tpssim seed makes it", "", nil)
	}
	values := map[string]float64{"page_bytes": float64(d.PageBytes), "wal_bytes": float64(d.WALBytes), "journal_bytes": float64(d.JournalBytes)}
	finding := "not read"
	switch {
	case d.JournalMode != "":
		finding = fmt.Sprintf("journal_mode=%s, page_size=%d", d.JournalMode, d.PageBytes)
	case d.PageBytes > 0:
		finding = fmt.Sprintf("page_size=%d, the rest not read", d.PageBytes)
	}
	switch {
	case d.Problem != "":
		return check("database", Fail, d.Problem, "name another file with --db, or put a copy back", values)
	case readOnly != "":
		return check("database", Fail, finding+"; "+readOnly, makeWritable, values)
	case d.InUse:
		return check("database", Fail, finding+"; another tpssim is writing to it", "wait for it or end it: until then a run is refused", values)
	case d.Locked:
		return check("database", Fail, finding+"; another process has it locked", "wait for it or end it: until then no transaction can begin", values)
	case d.WALBytes > 0:
		return check("database", Warn, fmt.Sprintf("%s; a -wal of %s lies beside it: somebody has it open, or died", finding, size(d.WALBytes)),
			"end who has it open; the next run takes over what a dead one had committed. Never delete the -wal", values)
	case d.JournalBytes > 0:
		return check("database", Warn, fmt.Sprintf("%s; a -journal of %s lies beside it: somebody is writing to it, or died", finding, size(d.JournalBytes)),
			"end who has it open; the next run undoes what a dead one had not committed. Never delete the -journal", values)
	case d.JournalMode == "":
		return check("database", OK, finding+", as that needs a file beside it", "", values)
	case d.JournalMode != "wal":
		return check("database", OK, finding+"; a run sets its own journal mode, WAL by default", "", values)
	}
	return check("database", OK, finding+", nothing beside it, not locked", "", values)
}
