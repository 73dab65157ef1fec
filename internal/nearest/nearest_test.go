package nearest

import "testing"

func TestWord(t *testing.T) {
	words := []string{"savepoint", "batch", "unbatched", "mixed"}
	for _, tt := range []struct {
		word  string
		limit int
		want  string
	}{
		{"batch", 0, "batch"}, {"bacth", 2, "batch"}, {"bacth", 1, ""}, {"mixd", 1, "mixed"}, {"", 4, ""}, {"", 5, "batch"},
		{"savepoints", 1, "savepoint"}, {"avepont", 2, "savepoint"}, {"nothing like it", 4, ""},
	} {
		if got := Word(tt.word, tt.limit, words); got != tt.want {
			t.Errorf("%q within %d: %q, want %q", tt.word, tt.limit, got, tt.want)
		}
	}
}
