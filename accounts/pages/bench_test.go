package pages

import (
	"testing"

	"github.com/tpssim/tpssim/accounts"
)

// BenchmarkFill builds the leaves in the middle of a billion rows.
func BenchmarkFill(b *testing.B) {
	spec := accounts.Spec{Rows: 1e9, Balance: 1e9, Schema: accounts.SchemaRowid, PageSize: 4096}
	t, err := New(spec, make([]byte, 4*4096), 3)
	if err != nil {
		b.Fatal(err)
	}
	page := make([]byte, spec.PageSize)
	n := t.Pages() / 2
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		t.Fill(page, n)
		n++
	}
}
