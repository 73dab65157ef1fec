package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tpssim/tpssim/history"
	"github.com/tpssim/tpssim/report"
	"github.com/tpssim/tpssim/tps"
	"github.com/tpssim/tpssim/trials"
)

// resultFormats are what a run and a comparison can be printed as.
var resultFormats = []string{"text", "json", "csv", "markdown", "bench"}

// formatVar adds --format for those.
func formatVar(flags *pflag.FlagSet, dest *string) {
	choiceVar(flags, dest, "format", "text", "what stdout gets: text, json, csv, markdown, or bench for Go's benchstat", resultFormats...)
}

// sheet is one of several results that are printed below each other.
type sheet struct {
	title  string
	render report.Renderer
}

// printSheets prints results below each other, in the formats for people with what
// each of them is.
func (a *app) printSheets(format string, sheets []sheet) error {
	header := ""
	for k, s := range sheets {
		if len(sheets) > 1 && (format == "text" || format == "markdown") {
			if k > 0 {
				fmt.Fprintln(a.stdout)
			}
			title := s.title
			if format == "markdown" {
				title = "## " + title
			}
			fmt.Fprintf(a.stdout, "%s\n\n", title)
		}
		var text bytes.Buffer
		if err := s.render(&text); err != nil {
			return err
		}
		rest := text.Bytes()
		if format == "csv" { // one row of names for all that have the same
			names, rows, _ := bytes.Cut(rest, []byte("\n"))
			if string(names) == header {
				rest = rows
			}
			header = string(names)
		}
		if _, err := a.stdout.Write(rest); err != nil {
			return err
		}
	}
	return nil
}

// renderRun shows a run in a format.
func (a *app) renderRun(format string, r *tps.Result, histograms bool) (report.Renderer, error) {
	switch format {
	case "text":
		return report.Text(r, report.TextOptions{Color: a.color(a.stdout), Histograms: histograms}), nil
	case "json":
		return report.JSON(r), nil
	}
	return report.RunAs(format, r)
}

// renderCompare shows a comparison in a format.
func (a *app) renderCompare(format string, r *trials.CompareResult) (report.Renderer, error) {
	switch format {
	case "text":
		return report.Compare(r, a.color(a.stdout)), nil
	case "json":
		return report.JSON(r), nil
	}
	return report.CompareAs(format, r)
}

// printCompare writes a comparison to stdout.
func (a *app) printCompare(format string, r *trials.CompareResult) error {
	render, err := a.renderCompare(format, r)
	if err != nil {
		return err
	}
	return render(a.stdout)
}

// compareTitle names a comparison by what its arms have in common.
func compareTitle(r *trials.CompareResult) string {
	if len(r.Arms) == 0 {
		return "comparison"
	}
	return fmt.Sprintf("%s, %s", r.Arms[0].Scenario, r.Arms[0].Load.Mode)
}

// readResults reads what a file holds, which must be something.
func readResults(path string) ([]history.Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, errors.Unwrap(err))
	}
	defer file.Close()
	records, err := history.Read(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(records) == 0:
		return nil, fmt.Errorf("%s holds no result: save some with %s", path, report.Command("tpssim", "run", "-o", path))
	}
	return records, nil
}

func (a *app) reportCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Print saved results again, in any format",
		Long: `Print results that were saved with -o, or with --format json, in the order in which
they were saved. Nothing is run. Kinds that cannot be shown in a format are an error;
the text and the JSON of each kind always can.`,
		Example: `  tpssim run -n 100k -o results.jsonl
  tpssim report results.jsonl --format markdown`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("report needs a file of results, as -o writes it")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.report(format, args) },
	}
	formatVar(cmd.Flags(), &format)
	return cmd
}

// report is tpssim report.
func (a *app) report(format string, paths []string) error {
	var sheets []sheet
	for _, path := range paths {
		records, err := readResults(path)
		if err != nil {
			return err
		}
		records, err = sweepsOf(records)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, record := range records {
			s, err := a.sheetOf(format, record)
			if err != nil {
				return fmt.Errorf("%s: line %d: %w", path, record.Line, err)
			}
			s.title = fmt.Sprintf("%s, line %d: %s", path, record.Line, s.title)
			sheets = append(sheets, s)
		}
	}
	return a.printSheets(format, sheets)
}

// sweepsOf puts what each sweep came to in the place of its begin and its runs.
func sweepsOf(records []history.Record) (list []history.Record, err error) {
	for len(records) > 0 {
		first := records[0]
		records = records[1:]
		if first.SweepHead != nil {
			var runs []trials.SweepRun
			for len(records) > 0 && records[0].SweepRun != nil {
				runs = append(runs, *records[0].SweepRun)
				records = records[1:]
			}
			res, err := first.SweepHead.Result(runs)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", first.Line, err)
			}
			first = history.Record{Line: first.Line, Schema: res.Schema, Sweep: res}
		}
		list = append(list, first)
	}
	return list, nil
}

// sheetOf shows one saved result.
func (a *app) sheetOf(format string, r history.Record) (s sheet, err error) {
	color := a.color(a.stdout)
	text := func(kind string, value any, render report.Renderer, others map[string]report.Renderer) (sheet, error) {
		switch {
		case format == "text":
			return sheet{kind, render}, nil
		case format == "json":
			return sheet{kind, report.JSON(value)}, nil
		case others[format] != nil:
			return sheet{kind, others[format]}, nil
		}
		return sheet{}, fmt.Errorf("a %s cannot be shown as %s: use text or json", kind, format)
	}
	switch {
	case r.Run != nil:
		s.title = "run of " + r.Run.Scenario
		s.render, err = a.renderRun(format, r.Run, false)
		return s, err
	case r.Compare != nil:
		s.title = "comparison"
		s.render, err = a.renderCompare(format, r.Compare)
		return s, err
	case r.Article != nil:
		return text("article", r.Article, report.Article(r.Article, color), renderers(func(format string) (report.Renderer, error) { return report.ArticleAs(format, r.Article) }))
	case r.Sweep != nil:
		return text("sweep", r.Sweep, report.Sweep(r.Sweep, color), renderers(func(format string) (report.Renderer, error) { return report.SweepAs(format, r.Sweep) }))
	case r.Knee != nil:
		return text("knee", r.Knee, report.KneeText(r.Knee, color), map[string]report.Renderer{"csv": report.KneeCSV(r.Knee)})
	case r.Ceiling != nil:
		return text("ceiling", r.Ceiling, report.Ceiling(r.Ceiling, color), nil)
	case r.SweepRun != nil && r.SweepRun.Result != nil: // whose begin is in another file
		s.title = fmt.Sprintf("run of a sweep, cell %d, round %d", r.SweepRun.Cell, r.SweepRun.Round)
		s.render, err = a.renderRun(format, r.SweepRun.Result, false)
		return s, err
	}
	return s, errors.New("there is nothing in it that can be shown")
}

// renderers are those formats beside text and JSON that as knows.
func renderers(as func(format string) (report.Renderer, error)) map[string]report.Renderer {
	known := map[string]report.Renderer{}
	for _, format := range resultFormats[2:] {
		if render, err := as(format); err == nil {
			known[format] = render
		}
	}
	return known
}
