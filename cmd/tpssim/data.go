package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tailscale/sqlite/sqliteh"

	"github.com/tpssim/tpssim/accounts"
	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/internal/quantity"
	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/writer"
)

const (
	defaultDB      = "tpssim.db"
	defaultRows    = 1_000_000
	defaultBalance = 1_000_000_000
)

// specFlags adds the flags that describe a data set. Its schema may also be one of
// others, which are no accounts.
func specFlags(flags *pflag.FlagSet, spec *accounts.Spec, others ...string) {
	countVar(flags, &spec.Rows, "rows", "", defaultRows, "accounts: 1m, 1e9, …")
	countVar(flags, &spec.Balance, "balance", "", defaultBalance, "what each account holds at first")
	usage := "rowid: one B-tree; article: two, as in the article"
	if len(others) > 0 {
		usage += "; " + schemaTPCB + ": pgbench's tables"
	}
	choiceVar(flags, (*string)(&spec.Schema), "schema", string(accounts.SchemaRowid), usage,
		append([]string{string(accounts.SchemaRowid), string(accounts.SchemaArticle)}, others...)...)
	intVar(flags, &spec.Payload, "payload", 0, quantity.Size, "size", "bytes of payload in each row")
	intVar(flags, &spec.Indexes, "indexes", 0, quantity.Count, "count", "indexes beside the key, each of which every transfer updates")
	intVar(flags, &spec.PageSize, "page-size", 4096, quantity.Size, "size", "page size, 512 to 65536 bytes")
}

func (a *app) seedCommand() *cobra.Command {
	var s seeding
	var verify bool
	var scale int64
	cmd := &cobra.Command{
		Use:   "seed",
		Short: "Make a data set of accounts",
		Long: `Make a data set of accounts 1 to --rows.

By pages, the file is written page by page as SQLite would have left it: a new
table without indexes, at the speed of the disk. It gets its name when it is
whole; interrupted, nothing is left.

Through SQL, the accounts are inserted in large transactions: everything else.
Interrupted by Ctrl-C or kill -9 it goes on behind its last commit when it is
started again with the same parameters.`,
		Example: `  tpssim seed --rows 10m
  tpssim seed --rows 1e9 --db /data/billion.db --verify
  tpssim seed --schema tpcb --scale 10 --db bench.db`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			seed := a.seed
			if s.spec.Schema == schemaTPCB {
				seed = func(ctx context.Context, s seeding) error { return a.seedTPCB(ctx, s, scale, cmd.Flags().Changed) }
			} else if cmd.Flags().Changed("scale") {
				return usagef("--scale needs --schema tpcb: the accounts of the other schemas are counted by --rows")
			}
			if err := seed(cmd.Context(), s); err != nil || !verify {
				return err
			}
			return a.check(cmd.Context(), s.path)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	specFlags(flags, &s.spec, schemaTPCB)
	countVar(flags, &scale, "scale", "", 1, "tpcb: how many branches, with 100,000 accounts each")
	flags.StringVar(&s.path, "db", defaultDB, "the database `file`")
	choiceVar(flags, (*string)(&s.method), "method", string(dataset.Auto), "auto, pages or sql",
		string(dataset.Auto), string(dataset.Pages), string(dataset.SQL))
	flags.BoolVar(&s.force, "force", false, "replace a data set that is there; never a file that is not ours or in use")
	flags.BoolVar(&verify, "verify", false, "check the whole data set afterwards")
	return cmd
}

// seeding is what is to be seeded, where and how.
type seeding struct {
	path    string
	spec    accounts.Spec
	method  dataset.Method
	force   bool
	implied bool // a run needs it and nobody asked for it
}

// noArgs refuses arguments with a line of this program's own.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, only flags: %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// seed makes or completes a data set and tells what it did.
func (a *app) seed(ctx context.Context, s seeding) error {
	path, spec := s.path, s.spec
	if err := spec.Validate(); err != nil {
		return usageError(err)
	}
	if s.implied {
		a.note("%s is not there or not complete: seeding %s accounts first (%s)", path, humanize.Comma(spec.Rows), humanize.IBytes(uint64(dataset.Forecast(spec))))
	}
	w := newWatched("seeding", "rows")
	w.size = dataset.Forecast(spec)
	stop := a.watch(w.poll)
	made, err := dataset.Seed(ctx, path, spec, dataset.Options{
		Progress:  w.progress,
		Stage:     func(name string) { w.stage("seeding: " + name) },
		Lock:      writer.Lock,
		FreeBytes: machine.FreeBytes,
		Method:    s.method,
		Overwrite: s.force,
	})
	stop()
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) && made.Method == dataset.Pages:
		return &codeError{exitInterrupted, errors.New("interrupted: nothing was left; the same command begins anew")}
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return &codeError{exitInterrupted, fmt.Errorf("interrupted: %s of %s accounts are in %s; the same command goes on behind them",
			humanize.Comma(made.Rows), humanize.Comma(spec.Rows), path)}
	case err != nil:
		return explain(path, err)
	case made.Existed && !s.implied:
		fmt.Fprintf(a.stdout, "%s is complete already: %s accounts, %s (--force makes it anew)\n", path, humanize.Comma(made.Rows), humanize.IBytes(uint64(made.Bytes)))
	case !s.implied:
		speed := float64(made.Inserted) / made.Elapsed.Seconds()
		fmt.Fprintf(a.stdout, "%s: %s accounts in %s by %s (%s rows/s), %s\n", path, humanize.Comma(made.Rows),
			made.Elapsed.Round(time.Millisecond), made.Method, humanize.Comma(int64(speed)), humanize.IBytes(uint64(made.Bytes)))
	}
	return nil
}

func (a *app) checkCommand() *cobra.Command {
	var db string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Prove that a data set is whole",
		Long: `Read a whole data set: SQLite's integrity check, every account there once, and
in sum exactly the money that it was seeded with. Exit code 3 if not.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.check(cmd.Context(), db) },
	}
	cmd.Flags().StringVar(&db, "db", defaultDB, "the database `file`")
	return cmd
}

func (a *app) check(ctx context.Context, path string) error {
	w := newWatched("checking", "B")
	stop := a.watch(w.poll)
	if found, err := dataset.Look(path); err == nil && found.Kind == dataset.KindTPCB {
		stop()
		return a.checkTPCB(ctx, path)
	}
	found, err := dataset.Check(ctx, path, dataset.Options{
		Progress: w.progress,
		Stage:    func(name string) { w.stage("checking: " + name) },
		Lock:     writer.Lock,
	})
	stop()
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return &codeError{exitInterrupted, errors.New("interrupted: nothing was proved")}
	case errors.Is(err, dataset.ErrCorrupt):
		return &codeError{exitCheck, err}
	case errors.Is(err, dataset.ErrNotExist):
		return missing(path)
	case err != nil:
		return explain(path, err)
	}
	if !found.OK() {
		fmt.Fprintf(a.stdout, "%s: NOT ok\n", path)
		for _, problem := range found.Problems {
			fmt.Fprintf(a.stdout, "  %s\n", problem)
		}
		return &codeError{exitCheck, nil}
	}
	fmt.Fprintf(a.stdout, "%s: ok: %s accounts, ids %s to %s, total %s, checked in %s\n", path, humanize.Comma(found.Rows),
		humanize.Comma(found.MinID), humanize.Comma(found.MaxID), humanize.Comma(found.Total), found.Elapsed.Round(time.Millisecond))
	return nil
}

// watched passes progress from the work to whoever shows it.
type watched struct {
	label       atomic.Pointer[string]
	unit        string
	size        int64 // bytes of the whole, 0 when they do not matter
	done, total atomic.Int64
}

func newWatched(label, unit string) *watched {
	w := &watched{unit: unit}
	w.stage(label)
	return w
}

func (w *watched) stage(label string) { w.label.Store(&label) }

func (w *watched) progress(done, total int64) {
	w.total.Store(total)
	w.done.Store(done)
}

func (w *watched) poll() status {
	return status{label: *w.label.Load(), unit: w.unit, done: w.done.Load(), total: w.total.Load(), size: w.size}
}

// missing is the error for a data set that is not there.
func missing(path string) error {
	return fmt.Errorf("there is no data set %s: make it with %s", path, report.Command("tpssim", "seed", "--db", path, "--rows", "1m"))
}

// explain adds what to do to an error of the database at path that is not
// explained yet.
func explain(path string, err error) error {
	if errors.Is(err, writer.ErrInUse) {
		return fmt.Errorf("%s is in use by another tpssim: wait for it or end it, then try again", path)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%s: it or its folder is read-only: choose a folder that you may write to (%w)", path, err)
	}
	advice := ""
	switch writer.Primary(err) {
	case sqliteh.SQLITE_BUSY, sqliteh.SQLITE_LOCKED:
		advice = "another process has it locked: wait for it or end it, then try again"
	case sqliteh.SQLITE_FULL:
		advice = "the disk is full: make room, then try again; what was committed is kept"
	case sqliteh.SQLITE_CORRUPT, sqliteh.SQLITE_NOTADB:
		advice = "it is damaged: delete it and seed again, or put a copy back"
	case sqliteh.SQLITE_IOERR:
		advice = "the disk failed: see what the system says of it, then " + report.Command("tpssim", "check", "--db", path)
	case sqliteh.SQLITE_READONLY, sqliteh.SQLITE_CANTOPEN, sqliteh.SQLITE_PERM:
		advice = "it or its folder is read-only: choose a folder that you may write to"
	default:
		return err
	}
	return fmt.Errorf("%s: %s (%w)", path, advice, err)
}

// dataSet returns what is at path, seeding it first when it may be.
func (a *app) dataSet(ctx context.Context, path string, spec accounts.Spec, may seedPermission) (dataset.Info, error) {
	info, err := dataset.Inspect(path)
	wanting := errors.Is(err, dataset.ErrNotExist)
	if err == nil && !info.Complete && may.match(info, spec) == nil {
		wanting, spec = true, info.Spec
	}
	if wanting && may.seed {
		if err := may.fits(spec); err != nil {
			return dataset.Info{}, err
		}
		if err := a.seed(ctx, seeding{path: path, spec: spec, implied: true}); err != nil {
			return dataset.Info{}, err
		}
		info, err = dataset.Inspect(path)
	}
	switch {
	case errors.Is(err, dataset.ErrNotExist):
		return dataset.Info{}, missing(path)
	case errors.Is(err, dataset.ErrNotOurs):
		if found, looked := dataset.Look(path); looked == nil && found.Kind == dataset.KindTPCB {
			err = fmt.Errorf("%s holds pgbench's tables: run their scripts with %s", path, report.Command("tpssim", "run", "-b", "tpcb-like", "--db", path))
		}
		return dataset.Info{}, err
	case err != nil:
		return dataset.Info{}, err
	}
	if err := info.Ready(); err != nil {
		return dataset.Info{}, err
	}
	return info, may.match(info, spec)
}

// seedPermission says what a run may do about its data set.
type seedPermission struct {
	seed  bool                           // make or complete it
	fits  func(spec accounts.Spec) error // whether the run could use what it would make
	asked func(flag string) bool         // whether a flag was given
}

// match compares what was asked for with what is there. What was not asked for
// may be anything.
func (p seedPermission) match(info dataset.Info, want accounts.Spec) error {
	return info.Match(p.want(info.Spec, want))
}

// want returns a data set that is as want where that was asked for, and else as has.
func (p seedPermission) want(has, want accounts.Spec) accounts.Spec {
	for flag, set := range map[string]func(){
		"rows":      func() { has.Rows = want.Rows },
		"balance":   func() { has.Balance = want.Balance },
		"schema":    func() { has.Schema = want.Schema },
		"payload":   func() { has.Payload = want.Payload },
		"indexes":   func() { has.Indexes = want.Indexes },
		"page-size": func() { has.PageSize = want.PageSize },
	} {
		if p.asked(flag) {
			set()
		}
	}
	return has
}
