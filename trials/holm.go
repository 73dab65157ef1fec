package trials

import (
	"cmp"
	"slices"
)

// Holm corrects the p-values of several tests that are read together, in their order.
// With k of them, one that is below [Alpha] by chance comes with up to k times Alpha;
// of what is at most Alpha after the correction, one is wrong by chance in at most
// Alpha of all cases, however the tests depend on each other and whichever of them
// are of things that do differ.
//
// The smallest is multiplied by k, the next one by k-1, and so on to the largest by 1;
// none becomes smaller than one before it, nor larger than 1 (S. Holm, A Simple
// Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6,
// 1979, pages 65-70). Each p must be from 0 to 1.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted, least := make([]float64, len(p)), 0.0
	for k, at := range order {
		least = max(least, min(1, float64(len(p)-k)*p[at]))
		adjusted[at] = least
	}
	return adjusted
}
