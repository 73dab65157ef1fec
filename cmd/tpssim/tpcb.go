package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/tpssim/tpssim/accounts/dataset"
	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/script/tpcb"
	"github.com/tpssim/tpssim/writer"
)

// schemaTPCB is the value of --schema that means pgbench's tables.
const schemaTPCB = "tpcb"

// seedTPCB makes pgbench's tables and tells what it did.
func (a *app) seedTPCB(ctx context.Context, s seeding, scale int64, given func(string) bool) error {
	for _, flag := range []string{"rows", "balance", "payload", "indexes", "method"} {
		if given(flag) {
			return usagef("--%s means nothing with --schema tpcb: use --scale", flag)
		}
	}
	if err := checkCounts(given, countRange{"scale", "--scale", scale, 1, tpcb.MaxScale}); err != nil {
		return err
	}
	w := newWatched("seeding", "accounts")
	stop := a.watch(w.poll)
	made, err := tpcb.Seed(ctx, s.path, tpcb.Options{
		Scale: scale, PageSize: s.spec.PageSize, Progress: w.progress,
		Lock: writer.Lock, FreeBytes: machine.FreeBytes, Overwrite: s.force,
	})
	stop()
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return &codeError{exitInterrupted, errors.New("interrupted: nothing was left; the same command begins anew")}
	case err != nil:
		return explain(s.path, err)
	}
	fmt.Fprintf(a.stdout, "%s: pgbench's tables at scale %s, %s accounts in %s, %s\n", s.path, humanize.Comma(made.Scale),
		humanize.Comma(made.Rows), made.Elapsed.Round(time.Millisecond), humanize.IBytes(uint64(made.Bytes)))
	return nil
}

// checkTPCB compares the sums of pgbench's tables, which only the whole TPC-B-like
// transaction keeps equal.
func (a *app) checkTPCB(ctx context.Context, path string) error {
	sums, err := tpcb.Consistent(ctx, path)
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return &codeError{exitInterrupted, errors.New("interrupted: nothing was proved")}
	case errors.Is(err, tpcb.ErrInconsistent):
		return &codeError{exitCheck, fmt.Errorf("%w (scripts other than tpcb-like leave them so)", err)}
	case errors.Is(err, dataset.ErrCorrupt):
		return &codeError{exitCheck, err}
	case err != nil:
		return explain(path, err)
	}
	fmt.Fprintf(a.stdout, "%s: ok: branches, tellers, accounts and history add up to %s each\n", path, humanize.Comma(sums.Branches))
	return nil
}
