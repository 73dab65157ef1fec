package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailscale/sqlite/cgosqlite"
	"github.com/tailscale/sqlite/sqliteh"
	"golang.org/x/sys/unix"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/doctor"
	"github.com/tpssim/tpssim/internal/sqlconn"
	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/writer"
)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	db       string
	rows     int64
	duration time.Duration
	format   string
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine what this machine will do to a measurement",
		Long: `Examine what this machine will do to a measurement: how long a sync takes and
whether it plausibly reaches the disk, what the disk of the database's folder can
do, room and memory for the data set, CPUs and who else uses them, SQLite itself.

For about ten seconds it reads and writes a temporary file in that folder, of at
most 1 GiB and never more than a tenth of what is free. Each line says ok, warn
or fail, and what to do. Exit codes: 0 nothing failed, 1 something did, 2 usage,
4 interrupted (what was found is printed).`,
		Example: "  tpssim doctor\n  tpssim doctor --db /data/billion.db --rows 1e9 --format json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(cmd.Context(), &f, cmd.Flags().Changed("rows"))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.db, "db", defaultDB, "the database `file`; it need not exist")
	countVar(flags, &f.rows, "rows", "", defaultRows, "accounts of the data set that is meant; unless given, what --db holds when it is there")
	durationVar(flags, &f.duration, "duration", "d", doctor.DefaultDuration, time.Second, "how long each disk measurement lasts; a bare number is seconds")
	choiceVar(flags, &f.format, "format", "text", "what stdout gets: text or json", "text", "json")
	return cmd
}

// doctor examines the machine and prints what it found.
func (a *app) doctor(ctx context.Context, f *doctorFlags, rowsAsked bool) error {
	if f.duration < doctor.MinDuration || f.duration > doctor.MaxDuration {
		return usagef("--duration %v: choose %v to %v", f.duration, doctor.MinDuration, doctor.MaxDuration)
	}
	if f.db == "" {
		return usagef("--db is empty: name a file")
	}
	spec := accounts.Spec{Rows: f.rows, Balance: defaultBalance, Schema: accounts.SchemaRowid, PageSize: 4096}
	if err := spec.Validate(); err != nil {
		return usageError(err)
	}
	config := doctor.Config{Path: f.db, DataBytes: dataset.Forecast(spec), Duration: f.duration}
	var err error
	if config.SQLite, err = linkedSQLite(); err != nil {
		return err
	}
	if config.Database, err = lookAtDatabase(f.db); err != nil {
		return err
	}
	if info, err := os.Stat(f.db); err == nil && info.Mode().IsRegular() && !rowsAsked {
		config.DataBytes = info.Size()
	}
	w := newWatched("examining", "")
	config.Stage = func(name string) { w.stage("examining: " + name) }
	stop := a.watch(w.poll)
	found, err := doctor.Run(ctx, config)
	stop()
	if err != nil && !found.Interrupted {
		return err
	}
	render := report.Doctor(&found, a.color(a.stdout))
	if f.format == "json" {
		render = report.DoctorJSON(&found)
	}
	if err := render(a.stdout); err != nil {
		return err
	}
	switch {
	case found.Interrupted:
		return &codeError{exitInterrupted, nil}
	case found.Count(doctor.Fail) > 0:
		return &codeError{exitError, nil}
	}
	return nil
}

// linkedSQLite asks the SQLite that is linked in what it is.
func linkedSQLite() (s doctor.SQLite, err error) {
	db, err := cgosqlite.Open(":memory:", sqliteh.SQLITE_OPEN_READWRITE|sqliteh.SQLITE_OPEN_MEMORY, "")
	if err != nil {
		return s, err
	}
	c := &sqlconn.Conn{DB: db}
	defer func() { err = errors.Join(err, c.Close()) }()
	if s.Version, err = c.Text("SELECT sqlite_version()"); err != nil {
		return s, err
	}
	err = c.Each("PRAGMA compile_options", func(row sqliteh.Stmt) error {
		s.Options = append(s.Options, strings.TrimPrefix(row.ColumnText(0), "SQLITE_"))
		return nil
	})
	return s, err
}

// journalRoom is what SQLite may need to open a WAL database: where its -shm does
// not fit, what it has begun stays behind.
const journalRoom = 1 << 20

// lookAtDatabase finds out what can be told of the database at path without
// changing it; nil when there is none. Whatever is wrong with it is part of what
// is found.
func lookAtDatabase(path string) (*doctor.Database, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil: // the folder's check says more
		return &doctor.Database{Problem: "it cannot be looked at: " + err.Error()}, nil
	case !info.Mode().IsRegular():
		return &doctor.Database{Problem: path + " is not a file"}, nil
	case info.Size() == 0:
		return nil, nil
	}
	d := &doctor.Database{WALBytes: sizeOf(path + "-wal"), JournalBytes: sizeOf(path + "-journal")}
	release, err := writer.Lock(path)
	if err == nil {
		defer release() // a lock file that stays behind locks nothing
	}
	d.InUse = errors.Is(err, writer.ErrInUse)
	free, freeErr := machine.FreeBytes(path)
	mayWrite := err == nil && freeErr == nil && free >= journalRoom && unix.Access(path, unix.W_OK) == nil
	if err := readDatabase(path, d, mayWrite); err != nil {
		describeProblem(d, err)
	}
	return d, nil
}

// sizeOf is the size of a file, 0 when it is not there.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// readDatabase reads the journal mode and the page size, and tries whether a
// transaction could begin. SQLite may tidy up behind a process that died, and the
// last to close a WAL database checkpoints it: where a journal lies beside it the
// file is opened read-only or not at all, and where that would leave files behind,
// as one that nothing changes.
func readDatabase(path string, d *doctor.Database, mayWrite bool) error {
	how := sqlconn.Existing
	switch {
	case d.JournalBytes > 0:
		return nil // reading would roll it back
	case (d.WALBytes > 0 || d.InUse) && sizeOf(path+"-shm") > 0:
		how = sqlconn.ReadOnly
	case !mayWrite || d.WALBytes > 0:
		how = sqlconn.Immutable // anything else would leave files behind
	}
	c, err := sqlconn.Open(nil, path, how)
	if err != nil {
		return err
	}
	// Without locks a WAL database is read as if it were none.
	mode, err := c.Text("PRAGMA journal_mode")
	if how != sqlconn.Immutable {
		d.JournalMode = mode
	}
	if err == nil {
		d.PageBytes, err = c.Integer("PRAGMA page_size")
	}
	if err == nil && how == sqlconn.Existing {
		if err = c.Exec("BEGIN IMMEDIATE"); err == nil {
			err = c.Exec("ROLLBACK")
		}
	}
	return errors.Join(err, c.Close())
}

// describeProblem puts what SQLite answered into what was found.
func describeProblem(d *doctor.Database, err error) {
	switch writer.Primary(err) {
	case sqliteh.SQLITE_BUSY, sqliteh.SQLITE_LOCKED:
		d.Locked = true
	case sqliteh.SQLITE_NOTADB:
		d.Problem = "it is not a SQLite database"
	case sqliteh.SQLITE_CORRUPT:
		d.Problem = "it is truncated or damaged"
	case sqliteh.SQLITE_READONLY, sqliteh.SQLITE_CANTOPEN, sqliteh.SQLITE_PERM:
		d.Problem = "it or its folder is read-only"
	default:
		d.Problem = "it cannot be read: " + err.Error()
	}
}
