package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/trials"
)

// axis is a flag and the values that it takes in a sweep.
type axis struct {
	flag   string
	values []string
}

// sweptLoad is a load of a sweep.
type sweptLoad struct {
	name     string
	settings []trials.Setting
}

// loadEnds are the flags that say which load a run has; the others shape it.
var loadEnds = []string{"transactions", "duration", "concurrency", "rate", "stage"}

// sweepCells lays out the grid: the loads, in each the arms, and in each of them every
// combination of the values, of which those of the last flag change fastest.
func (a *app) sweepCells(f *sweepFlags, flags *pflag.FlagSet) ([]sweepCell, error) {
	axes, arms, loads, err := a.sweepAxes(f, flags)
	if err != nil {
		return nil, err
	}
	grid := [][]trials.Setting{nil}
	if len(arms) > 0 {
		grid = nil
	}
	for _, arm := range arms {
		grid = append(grid, slices.Concat([]trials.Setting{{Name: trials.ArmSetting, Value: arm.name}}, arm.settings))
	}
	for _, axis := range axes {
		var wider [][]trials.Setting
		for _, settings := range grid {
			for _, value := range axis.values {
				wider = append(wider, append(slices.Clone(settings), trials.Setting{Name: axis.flag, Value: value}))
			}
		}
		if grid = wider; len(grid)*max(len(loads), 1) > trials.MaxCells {
			return nil, usagef("the --param flags make more than %d cells: give fewer values", trials.MaxCells)
		}
	}
	var cells []sweepCell
	for _, load := range loads {
		for _, settings := range grid {
			flagsOf := slices.DeleteFunc(slices.Clone(settings), func(s trials.Setting) bool { return s.Name == trials.ArmSetting })
			cell := sweepCell{load: load.name, swept: settings, variant: &variant{settings: slices.Concat(load.settings, flagsOf)}}
			cell.name = settingsText(cell.settings)
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

// sweepAxes reads what is swept: the flags over the preset.
func (a *app) sweepAxes(f *sweepFlags, flags *pflag.FlagSet) (axes []axis, arms []*variant, loads []sweptLoad, err error) {
	var from preset
	if f.preset != "" {
		if from, err = findPreset(f.preset); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, text := range from.params {
		param, err := parseAxis(flags, text)
		if err != nil {
			return nil, nil, nil, err
		}
		if !a.typed(param.flag) { // whoever types a flag means it for all cells
			axes = append(axes, param)
		}
	}
	own := map[string]bool{}
	for _, text := range f.params {
		param, err := parseAxis(flags, text)
		switch {
		case err != nil:
			return nil, nil, nil, usagef("--param %q: %w", text, err)
		case own[param.flag]:
			return nil, nil, nil, usagef("--param %q: there is one of %s already: give all its values in one", text, param.flag)
		case a.typed(param.flag):
			return nil, nil, nil, usagef("--param %q and --%s are two ways to set it: leave one out", text, param.flag)
		}
		own[param.flag] = true
		if k := slices.IndexFunc(axes, func(p axis) bool { return p.flag == param.flag }); k >= 0 {
			axes[k] = param
		} else {
			axes = append(axes, param)
		}
	}
	if arms, err = a.sweepArms(f, flags, from.arms, axes); err != nil {
		return nil, nil, nil, err
	}
	if len(axes) == 0 && len(arms) == 0 {
		return nil, nil, nil, usagef("nothing is swept: give a --param, as --param sync=normal,full, two --arm, or a --preset (tpssim sweep --help lists them)")
	}
	swept := func(flag string) bool {
		return slices.ContainsFunc(axes, func(p axis) bool { return p.flag == flag }) ||
			slices.ContainsFunc(arms, func(v *variant) bool { return v.sets(flag) })
	}
	loads, err = a.sweepLoads(f, flags, from.loads, swept)
	return axes, arms, loads, err
}

// sweepArms reads the arms: those of the flags, else those of the preset. What an arm
// sets is set nowhere else, but for its data set.
func (a *app) sweepArms(f *sweepFlags, flags *pflag.FlagSet, preset []string, axes []axis) (arms []*variant, err error) {
	texts := f.arms
	if len(texts) == 0 {
		texts = preset
	}
	for _, text := range texts {
		arm, err := parseArm(flags, text)
		if err != nil {
			return nil, usagef("--arm %q: %w", text, err)
		}
		for _, s := range arm.settings {
			switch _, err := sweptFlag(flags, s.Name); {
			case err != nil:
				return nil, usagef("--arm %q: %w", text, err)
			case a.typed(s.Name) && s.Name != "db": // that one is of the arms that name no other
				return nil, usagef("--%s and the arm %s are two ways to set it: leave one out", s.Name, arm.name)
			case slices.ContainsFunc(axes, func(p axis) bool { return p.flag == s.Name }):
				return nil, usagef("--arm %q: %s is a --param too: leave one out", text, s.Name)
			}
		}
		if slices.ContainsFunc(arms, func(other *variant) bool { return other.name == arm.name }) {
			return nil, usagef("--arm %q: another arm is called %s too: give each a name= of its own", text, arm.name)
		}
		arms = append(arms, arm)
	}
	return arms, nil
}

// parseAxis reads flag=value,value; a value with a comma stands in double quotes.
func parseAxis(flags *pflag.FlagSet, text string) (p axis, err error) {
	name, values, ok := strings.Cut(text, "=")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return p, fmt.Errorf("it is not flag=value,value")
	}
	if p.flag, err = sweptFlag(flags, name); err != nil {
		return p, err
	}
	if p.values, err = splitQuoted(values); err != nil {
		return p, err
	}
	for k, value := range p.values {
		if p.values[k] = strings.TrimSpace(value); p.values[k] == "" {
			return p, fmt.Errorf("a value is empty")
		}
	}
	return p, nil
}

// sweepOnly are flags of the sweep itself.
var sweepOnly = []string{"preset", "param", "arm", "load", "slo", "sort", "resume"}

// sweptFlag is the full name of a flag of a run that cells may differ in.
func sweptFlag(flags *pflag.FlagSet, name string) (string, error) {
	if len(name) == 1 {
		if flag := flags.ShorthandLookup(name); flag != nil {
			name = flag.Name
		}
	}
	if flags.Lookup(name) == nil || !variable(name) || slices.Contains(sweepOnly, name) {
		return "", fmt.Errorf("%q is no flag of a run that can differ (tpssim run --help lists them)", name)
	}
	return name, nil
}

// sweepLoads reads the loads: those of the flags, else those of the preset. Where
// neither says one there is one load, that of the other flags; but a batch window
// means nothing in a burst, so that it gets a rate as well.
func (a *app) sweepLoads(f *sweepFlags, flags *pflag.FlagSet, preset []string, swept func(flag string) bool) ([]sweptLoad, error) {
	texts := f.loads
	if typed := slices.IndexFunc(loadEnds, a.typed); typed >= 0 && len(texts) > 0 {
		return nil, usagef("--%s beside --load: put it into each --load that it is for", loadEnds[typed])
	} else if typed < 0 && len(texts) == 0 && !slices.ContainsFunc(loadEnds, swept) {
		texts = preset
	}
	other := slices.ContainsFunc(loadEnds[1:], func(flag string) bool { return flags.Changed(flag) || swept(flag) })
	if len(texts) == 0 && swept("batch-window") && !other && !swept("transactions") {
		burst := burstLoad
		if flags.Changed("transactions") {
			burst = "n=" + flags.Lookup("transactions").Value.String()
		}
		a.note("a batch window means nothing in a burst: each cell runs at %s as well", rateLoad)
		texts = []string{burst, rateLoad}
	}
	if len(texts) == 0 {
		return []sweptLoad{{}}, nil
	}
	var loads []sweptLoad
	for _, text := range texts {
		settings, err := parseSettings(flags, text)
		if err != nil {
			return nil, usagef("--load %q: %w", text, err)
		}
		for k, s := range settings {
			if _, err := sweptFlag(flags, s.Name); err != nil {
				return nil, usagef("--load %q: %w", text, err)
			}
			if swept(s.Name) {
				return nil, usagef("--load %q: %s is a --param or in an --arm too: leave one out", text, settings[k].Name)
			}
		}
		if slices.ContainsFunc(loads, func(l sweptLoad) bool { return settingsText(l.settings) == settingsText(settings) }) {
			return nil, usagef("--load %q is there twice", text)
		}
		loads = append(loads, sweptLoad{strings.TrimSpace(text), settings})
	}
	f.run.load.clear(flags)
	return loads, nil
}

// clear forgets the load that the flags say, as the cells say it.
func (f *loadFlags) clear(flags *pflag.FlagSet) {
	f.transactions, f.duration, f.concurrency, f.rate, f.stages = 0, 0, 0, 0, nil
	for _, name := range loadEnds {
		flags.Lookup(name).Changed = false
	}
}
