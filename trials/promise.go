package trials

import "github.com/tpssim/tpssim/tps"

// Promise says what is left of acknowledged commits when the machine crashes or the
// power fails.
type Promise struct {
	Kept string // "yes", "mostly", "partly" or "NO"; "unknown" of a setting that is not known here
	Text string // the same for all settings that promise the same
}

// PromiseOf returns what settings promise on a machine. See "PRAGMA synchronous" and
// "PRAGMA journal_mode" in SQLite's documentation. What another database calls its
// settings stands for itself.
func PromiseOf(s tps.Settings, e tps.Env) Promise {
	switch {
	case e.Filesystem == "tmpfs" || e.Filesystem == "ramfs":
		return Promise{"NO", "the database lies in memory"}
	case s.JournalMode == "off" || s.JournalMode == "memory":
		return Promise{"NO", "a crash, of the program too, may corrupt the database"}
	case s.Synchronous == "off":
		return Promise{"NO", "a crash of the machine may lose or corrupt data"}
	case s.Synchronous == "normal" && s.JournalMode == "wal":
		return Promise{"partly", "a crash of the machine may lose the last commits"}
	case s.Synchronous == "normal":
		return Promise{"mostly", "a crash of the machine may, rarely, corrupt the database"}
	case s.Synchronous == "full" && s.JournalMode == "delete":
		// A COMMIT deletes the journal there, and only extra syncs the folder after it.
		return Promise{"mostly", "a crash of the machine may undo the last commit"}
	case s.Synchronous == "full" || s.Synchronous == "extra":
		return Promise{"yes", "each COMMIT is synced before it is acknowledged"}
	}
	return Promise{"unknown", "synchronous=" + s.Synchronous}
}

// String says both.
func (p Promise) String() string { return p.Kept + ": " + p.Text }
