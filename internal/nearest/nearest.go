// Package nearest finds what somebody who mistyped a word has probably meant.
package nearest

// Word returns the candidate that is nearest to word, "" when none is within limit
// letters to put in, take out or change.
func Word(word string, limit int, candidates []string) string {
	nearest, best := "", limit+1
	for _, c := range candidates {
		if d := distance(word, c); d < best {
			nearest, best = c, d
		}
	}
	return nearest
}

// distance is the Levenshtein distance of a and b, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances of a's beginning to those of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
