package report

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/tpssim/tpssim/tps"
)

// What others script against is described.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if err := tps.NewTxLog(&log, 1, 0).Flush(); err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(log.String()), ",")
	if len(all) < 10 {
		t.Fatalf("the header of the log has %d columns: %q", len(all), all)
	}
	for _, name := range names {
		all = append(all, name[strings.LastIndex(name, ".")+1:])
	}
	for _, name := range all {
		if !bytes.Contains(text, []byte("`"+name+"`")) {
			t.Errorf("docs/json.md does not describe %s", name)
		}
	}
}
