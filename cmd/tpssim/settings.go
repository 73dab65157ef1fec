package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/trials"
)

// parseSettings reads flag=value,flag=value, the name of the flag as it is or its one
// letter. A value with a comma stands in double quotes. No flag is named twice, but
// for those that may be repeated.
func parseSettings(flags *pflag.FlagSet, text string) ([]trials.Setting, error) {
	parts, err := splitQuoted(text)
	if err != nil {
		return nil, err
	}
	var list []trials.Setting
	for _, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("%q is not flag=value", strings.TrimSpace(part))
		}
		if len(name) == 1 {
			if flag := flags.ShorthandLookup(name); flag != nil {
				name = flag.Name
			}
		}
		flag := flags.Lookup(name)
		if slices.ContainsFunc(list, func(s trials.Setting) bool { return s.Name == name }) && (flag == nil || flag.Value.Type() != "stringArray") {
			return nil, fmt.Errorf("%s is set twice", name)
		}
		list = append(list, trials.Setting{Name: name, Value: strings.TrimSpace(value)})
	}
	return list, nil
}

// splitQuoted splits text at its commas, but for those in double quotes, which it
// removes.
func splitQuoted(text string) (parts []string, err error) {
	var part strings.Builder
	quoted := false
	for _, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ',' && !quoted:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteRune(r)
		}
	}
	if quoted {
		return nil, fmt.Errorf("%s: a quote is not closed", text)
	}
	return append(parts, part.String()), nil
}

// settingsText writes settings as somebody types them.
func settingsText(settings []trials.Setting) string {
	var parts []string
	for _, s := range settings {
		parts = append(parts, s.Name+"="+s.Value)
	}
	return strings.Join(parts, ",")
}
