package driversym

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	if address, err := Find("sqlite3_step"); err != nil || address == nil {
		t.Errorf("%v, %v", address, err)
	}
	if _, err := Find("sqlite3_no_such"); err == nil || !strings.Contains(err.Error(), "no symbol sqlite3_no_such") {
		t.Errorf("%v", err)
	}
	if _, err := Find("malloc"); err == nil || !strings.Contains(err.Error(), "another library") {
		t.Errorf("%v", err)
	}
}
