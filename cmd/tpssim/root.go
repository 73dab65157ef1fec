package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/tpssim/tpssim/tps"
)

// Exit codes. When several hold, the first of 3, 4 and 99 wins.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitCheck       = 3 // a proof or a check failed
	exitInterrupted = 4
	exitThreshold   = 99 // a threshold was crossed, or an objective not met
)

// codeError ends the program with a code of its own. Without an error nothing
// more is printed: the result has said it.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

func usageError(err error) error { return &codeError{exitUsage, err} }

func usagef(format string, args ...any) error { return usageError(fmt.Errorf(format, args...)) }

// app is one invocation of the program.
type app struct {
	stdout, stderr io.Writer
	argv           []string
	quiet          bool
	noColor        bool
	config         string
	typedFlags     map[string]bool
}

// typed tells whether a flag was given on the command line, and not by the
// environment or the configuration file.
func (a *app) typed(flag string) bool { return a.typedFlags[flag] }

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr, argv: args}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitError
	var coded *codeError
	var config tps.ConfigError
	switch {
	case errors.As(err, &coded):
		code = coded.code
	case errors.As(err, &config):
		code = exitUsage
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		code = exitInterrupted
	}
	// Who closed stdout, as head does, has seen enough.
	if text := message(err); text != "" && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintln(stderr, "tpssim: "+text)
	}
	return code
}

// packagePrefixes are what errors begin with on their way through this program.
var packagePrefixes = []string{"dataset: ", "accounts: ", "scenarios: ", "engine: ", "tps: ", "writer.Open: ", "writer: ", "machine: ", "sqlite: ", "script: ", "tpcb: ", "trials: ", "doctor: ", "report: ", "history: "}

// message returns an error as one line, without the names of the packages that it
// came through.
func message(err error) string {
	text := ": " + strings.Join(strings.Fields(err.Error()), " ")
	for _, prefix := range packagePrefixes {
		text = strings.ReplaceAll(text, ": "+prefix, ": ")
		text = strings.ReplaceAll(text, "("+prefix, "(")
	}
	return strings.TrimPrefix(text, ": ")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tpssim",
		Short: "How many interactive transactions a second can one SQLite writer carry?",
		Long: `tpssim sends thousands of concurrent bank transfers through one SQLite writer,
measures them, and proves that no money was lost.

  tpssim run -n 100000          a burst: the peak, and what it is made of
  tpssim run -R 3000 -d 30s     a rate: the latency there
  tpssim seed --rows 1e9        a data set of a billion accounts

Flags may also be set as TPSSIM_… in the environment (TPSSIM_MAX_BATCH=1000) or
as lines of the file that --config names (max-batch = 1000).`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.typedFlags = map[string]bool{}
			cmd.Flags().Visit(func(f *pflag.Flag) { a.typedFlags[f.Name] = true })
			return a.defaults(cmd)
		},
		// Without this cobra answers an unknown command with help and success.
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q (tpssim --help lists them)", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagError(cmd, err)
	})
	flags := root.PersistentFlags()
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress on stderr")
	flags.BoolVar(&a.noColor, "no-color", false, "no colours; NO_COLOR in the environment does the same")
	flags.StringVar(&a.config, "config", "", "a TOML `file` of flags, one \"name = value\" a line")
	flags.SortFlags = false
	root.AddCommand(a.runCommand(), a.seedCommand(), a.checkCommand(), a.kneeCommand(), a.ceilingCommand(), a.compareCommand(), a.sweepCommand(), a.articleCommand(), a.reportCommand(), a.doctorCommand(), a.scenariosCommand(), a.versionCommand())
	refuseArguments(root)
	// Flags are listed within 80 columns.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages", "FlagUsagesWrapped 80"))
	return root
}

// refuseArguments makes cobra's own command completion as strict as the others.
func refuseArguments(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown shell %q (%s --help lists them)", args[0], c.CommandPath())
			}
			return c.Help()
		}
		c.Args = cobra.ArbitraryArgs
		for _, shell := range c.Commands() {
			shell.Args = noArgs
		}
	}
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// color reports whether w shall have colours.
func (a *app) color(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && !a.noColor && isTerminal(w)
}

// note prints one line on stderr for a person who waits.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}
