package script

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// ParseFlag divides the value of -f, FILE or FILE@WEIGHT, at its last @. The weight
// is a whole number from 0 to 2^31-1, and 1 if there is none. Whether FILE is the
// name of a [Builtin] is for the caller to see.
func ParseFlag(value string) (file string, weight int64, err error) {
	file, weight = value, 1
	if at := strings.LastIndexByte(value, '@'); at >= 0 {
		file = value[:at]
		weight, err = strconv.ParseInt(value[at+1:], 10, 64)
		if err != nil || weight < 0 || weight > math.MaxInt32 {
			return "", 0, fmt.Errorf("script: %q: %q is no weight: write FILE@N with N from 0 to %d, also if the file's own name has an @", value, value[at+1:], math.MaxInt32)
		}
	}
	if file == "" {
		return "", 0, fmt.Errorf("script: %q names no file: write FILE or FILE@WEIGHT", value)
	}
	return file, weight, nil
}

// Weighted is a script and how often it is to run, relative to the others of a mix.
type Weighted struct {
	Script *Script
	Weight int64 // 0 or more; 0 never runs
}

// Mix chooses among scripts by weight. It does not change.
type Mix struct {
	Scripts []Weighted
	seed    uint64
	upto    []uint64 // the sums of the weights
}

// NewMix returns the mix of scripts, whose choices follow from the seed.
func NewMix(seed uint64, scripts ...Weighted) (*Mix, error) {
	m := &Mix{Scripts: scripts, seed: mix64(seed ^ mixStream)}
	total := uint64(0)
	for _, w := range scripts {
		switch {
		case w.Script == nil:
			return nil, errors.New("script: a mix with a nil script")
		case w.Weight < 0 || w.Weight > math.MaxInt32:
			return nil, fmt.Errorf("script: %s: the weight %d is not 0 to %d", w.Script.Name, w.Weight, math.MaxInt32)
		}
		total += uint64(w.Weight)
		m.upto = append(m.upto, total)
	}
	if total == 0 {
		return nil, errors.New("script: all weights are 0: give one script a weight above it")
	}
	return m, nil
}

// Pick returns which of Scripts transaction i runs. It depends on nothing but the
// seed and i.
func (m *Mix) Pick(i uint64) int {
	if len(m.upto) == 1 {
		return 0
	}
	// The high half of the product is uniform below the total, but for less than
	// total/2^64.
	at, _ := bits.Mul64(mix64(m.seed+mix64(i)), m.upto[len(m.upto)-1])
	for k, upto := range m.upto {
		if at < upto {
			return k
		}
	}
	return len(m.upto) - 1
}
