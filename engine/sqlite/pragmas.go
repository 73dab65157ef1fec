package sqlite

import (
	"fmt"

	"github.com/tpssim/tpssim/engine"
	"github.com/tpssim/tpssim/internal/sqlconn"
)

// setPragmas sets pragmas on a connection that is not the writer's. One without a value
// stays as it is.
func setPragmas(c *sqlconn.Conn, pragmas map[string]string) error {
	for name, value := range pragmas {
		if value == "" {
			continue
		}
		if err := c.Exec("PRAGMA " + name + "=" + value); err != nil {
			return err
		}
		known, err := c.Integer("SELECT count(*) FROM pragma_pragma_list WHERE name = ?1", name)
		if err != nil {
			return err
		}
		if known == 0 { // SQLite ignores it
			return fmt.Errorf("SQLite has no pragma %s; correct the name", name)
		}
	}
	return nil
}

// connSettings reads the effective settings of such a connection.
func connSettings(c *sqlconn.Conn) (s engine.Settings, err error) {
	if s.JournalMode, err = c.Text("PRAGMA journal_mode"); err != nil {
		return s, err
	}
	var sync int64
	for name, dest := range map[string]*int64{
		"synchronous": &sync, "page_size": &s.PageSize, "cache_size": &s.CacheSize, "mmap_size": &s.MmapSize,
	} {
		if *dest, err = c.Integer("PRAGMA " + name); err != nil {
			return s, err
		}
	}
	s.Synchronous = synchronousName(sync)
	return s, nil
}
