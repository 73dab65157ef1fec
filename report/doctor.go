package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/tpssim/tpssim/doctor"
)

const (
	statusColumn  = 6  // behind two blanks
	checkColumn   = 14 // behind the status
	findingIndent = 2 + statusColumn + checkColumn
)

// statusColors are the colours of the verdicts.
var statusColors = map[doctor.Status]string{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}

// Doctor renders what the doctor found, a check after the other with what to do
// about it, within 80 columns. With color the verdicts stand out.
func Doctor(r *doctor.Report, color bool) Renderer {
	return func(w io.Writer) error {
		p := &page{color: color}
		for _, line := range wrap("What this machine will do to a measurement of "+r.Path+":", columns) {
			fmt.Fprintln(p, line)
		}
		p.WriteByte('\n')
		for _, c := range r.Checks {
			p.check(c)
		}
		p.WriteByte('\n')
		fmt.Fprintf(p, "  %s\n", p.verdict(r))
		_, err := w.Write(p.Bytes())
		return err
	}
}

// check writes one check, its advice on lines of its own.
func (p *page) check(c doctor.Check) {
	status := fmt.Sprintf("%-*s", statusColumn, c.Status)
	label := p.paint(statusColors[c.Status], status) + fmt.Sprintf("%-*s", checkColumn, strings.ReplaceAll(c.Name, "_", " "))
	write := func(text string) {
		for _, line := range wrap(text, columns-findingIndent) {
			fmt.Fprintf(p, "  %s%s\n", label, line)
			label = strings.Repeat(" ", statusColumn+checkColumn)
		}
	}
	write(c.Finding)
	if c.Advice != "" {
		write("-> " + c.Advice)
	}
}

// verdict is the last line.
func (p *page) verdict(r *doctor.Report) string {
	warned, failed := r.Count(doctor.Warn), r.Count(doctor.Fail)
	counted := plural(int64(warned), "warning")
	switch {
	case r.Interrupted:
		return p.paint(yellow, "interrupted: this is what was found until then")
	case failed > 0:
		return p.paint(red, fmt.Sprintf("%s failed, %s", plural(int64(failed), "check"), counted))
	case warned > 0:
		return p.paint(yellow, counted+"; nothing failed")
	}
	return p.paint(green, "nothing stands in the way")
}

// DoctorJSON renders the same as one indented object; docs/json.md describes it.
func DoctorJSON(r *doctor.Report) Renderer {
	return func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
}
