package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// defaults sets the flags of cmd that were not given from the environment, and
// what is not there from the configuration file.
func (a *app) defaults(cmd *cobra.Command) error {
	flags := cmd.Flags()
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "TPSSIM_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, ok := os.LookupEnv(name); ok && !f.Changed && err == nil {
			err = setFlag(flags, f.Name, value, name)
		}
	})
	if err != nil || a.config == "" {
		return err
	}
	file := map[string]any{}
	if _, err := toml.DecodeFile(a.config, &file); err != nil {
		return usagef("--config %s: %w", a.config, err)
	}
	for _, name := range slices.Sorted(maps.Keys(file)) {
		f := flags.Lookup(name)
		if f == nil && !knownFlag(cmd.Root(), name) {
			return usagef("--config %s: no command has a flag %q", a.config, name)
		}
		if f == nil || f.Changed {
			continue
		}
		values, ok := file[name].([]any)
		if !ok {
			values = []any{file[name]}
		}
		for _, value := range values {
			if err := setFlag(flags, name, fmt.Sprint(value), fmt.Sprintf("--config %s: %s", a.config, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// knownFlag reports whether any command has the flag: one file can serve all.
func knownFlag(root *cobra.Command, name string) bool {
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Flags().Lookup(name) != nil })
}

// setFlag sets a flag to a value that came from source.
func setFlag(flags *pflag.FlagSet, name, value, source string) error {
	err := flags.Set(name, value)
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = invalidValue(invalid)
	}
	if err != nil {
		return usagef("%s: %w", source, err)
	}
	return nil
}

// invalidValue returns what is wrong with a value, without the flag's name.
func invalidValue(e *pflag.InvalidValueError) error {
	if e.GetFlag().Value.Type() == "bool" {
		return fmt.Errorf("%q is neither true nor false", e.GetValue())
	}
	return e.Unwrap()
}

// flagError says in one line what is wrong with a flag of the command line.
func flagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("%s: %w", flagName(invalid.GetFlag()), invalidValue(invalid))
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("%s needs a value (%s --help tells which)", flagName(missing.GetFlag()), cmd.CommandPath())
	}
	return usagef("%w (%s --help lists the flags)", err, cmd.CommandPath())
}

// flagName is how people write a flag.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}
