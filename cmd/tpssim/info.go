package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tpssim/tpssim/engine/sqlite"
	"github.com/tpssim/tpssim/machine"
	"github.com/tpssim/tpssim/scenarios"
)

func (a *app) scenariosCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "scenarios",
		Short: "List the scenarios",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, s := range scenarios.All {
				fmt.Fprintf(w, "%s\t%s\n", s.Name, s.Summary)
			}
			return w.Flush()
		},
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, of Go and of SQLite",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			env := machine.Read(".")
			version, err := sqlite.Version()
			if err != nil {
				return err
			}
			commit := ""
			if env.Commit != "" {
				commit = " (" + env.Commit + ")"
			}
			_, err = fmt.Fprintf(a.stdout, "tpssim %s%s, SQLite %s, %s, %s\n", env.Version, commit, version, env.Go, env.OS)
			return err
		},
	}
}
