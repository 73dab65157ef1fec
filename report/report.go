// Package report renders a result. Each renderer is a function of an io.Writer,
// so that a command can send it anywhere.
package report

import (
	"encoding/json"
	"io"
)

// Renderer writes a result and returns the writer's error.
type Renderer func(io.Writer) error

// JSON renders a result as one indented object; docs/json.md describes it.
func JSON(r any) Renderer {
	return func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
}

// JSONLine renders a result as one line, for files that hold one run a line.
func JSONLine(r any) Renderer {
	return func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
}
