package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/tpssim/tpssim/tps"
)

// Exit codes. When several hold, the first of 3 and 4 wins.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitCheck       = 3 // a proof or a check failed
	exitInterrupted = 4
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
}

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
	if text := message(err); text != "" {
		fmt.Fprintln(stderr, "tpssim: "+text)
	}
	return code
}

// message returns an error as one line, without the names of the packages that it
// came through.
func message(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, prefix := range []string{"dataset: ", "accounts: ", "scenarios: ", "engine: ", "tps: ", "writer.Open: ", "writer: ", "machine: "} {
		text = strings.ReplaceAll(text, prefix, "")
	}
	return text
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
			return a.defaults(cmd.Flags())
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
		return usagef("%w (%s --help lists the flags)", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress on stderr")
	flags.BoolVar(&a.noColor, "no-color", false, "no colours; NO_COLOR in the environment does the same")
	flags.StringVar(&a.config, "config", "", "a TOML `file` of flags, one \"name = value\" a line")
	flags.SortFlags = false
	root.AddCommand(a.runCommand(), a.seedCommand(), a.checkCommand(), a.scenariosCommand(), a.versionCommand())
	return root
}

// defaults sets the flags that were not given from the environment, and what is
// not there from the configuration file.
func (a *app) defaults(flags *pflag.FlagSet) error {
	var fileErr error
	file := map[string]any{}
	read := func() {
		if a.config == "" {
			return
		}
		if _, err := toml.DecodeFile(a.config, &file); err != nil {
			fileErr = usagef("--config: %w", err)
		}
		for name := range file {
			if flags.Lookup(name) == nil {
				fileErr = errors.Join(fileErr, usagef("%s: this command has no flag %q", a.config, name))
			}
		}
	}
	var err error
	set := func(f *pflag.Flag, value, source string) {
		if setErr := flags.Set(f.Name, value); setErr != nil {
			err = errors.Join(err, usagef("%s: %w", source, setErr))
		}
	}
	fromEnv := func(f *pflag.Flag) {
		name := "TPSSIM_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, ok := os.LookupEnv(name); ok && !f.Changed {
			set(f, value, name)
		}
	}
	flags.VisitAll(fromEnv)
	read()
	flags.VisitAll(func(f *pflag.Flag) {
		if value, ok := file[f.Name]; ok && !f.Changed {
			set(f, fmt.Sprint(value), a.config)
		}
	})
	return errors.Join(fileErr, err)
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// color reports whether w shall have colours.
func (a *app) color(w io.Writer) bool {
	_, unwanted := os.LookupEnv("NO_COLOR")
	return !unwanted && !a.noColor && isTerminal(w)
}

// note prints one line on stderr for a person who waits.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}
