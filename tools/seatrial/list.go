package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/trial"
)

// entry is a row of a list.
type entry struct {
	Name    string      `json:"name"`
	Summary string      `json:"summary"`
	Details [][2]string `json:"details,omitempty"` // Heading and text, in order; describe prints them.
}

// kinds returns what can be listed.
func kinds() []string {
	return []string{"audit", "cases", "checks", "faults", "scenarios", "storages", "workloads"}
}

// entries returns the list of a kind, or false for an unknown kind.
func entries(kind string) ([]entry, bool) {
	parts := trial.AllParts()
	var list []entry
	switch kind {
	case "audit":
		for _, r := range audit.Rules() {
			detail := [][2]string{{"why", r.Why}, {"source", r.Source}, {"fix", r.Fix}}
			list = append(list, entry{r.Name, r.Looks, detail})
		}
	case "cases":
		for _, c := range parts.Cases {
			list = append(list, entry{c.Name, c.Summary, caseDetails(c)})
		}
	case "storages":
		for _, s := range parts.Storages {
			list = append(list, entry{s.Name, s.Summary, nil})
		}
	case "checks":
		for _, c := range parts.Checks {
			list = append(list, entry{c.Name, c.Promise, [][2]string{{"source", c.Source}}})
		}
	case "faults":
		for _, f := range parts.Faults {
			list = append(list, entry{f.Name, f.Summary, faultDetails(f)})
		}
	case "scenarios":
		for _, s := range parts.Scenarios {
			list = append(list, entry{s.Name, s.Summary, [][2]string{{"expect", s.Expect}}})
		}
	case "workloads":
		for _, w := range parts.Workloads {
			list = append(list, entry{w.Name, w.Summary, nil})
		}
	default:
		return nil, false
	}
	return list, true
}

func caseDetails(c plan.Case) [][2]string {
	sign := fmt.Sprintf("check %s finds: %q", c.Finding.Check, c.Finding.Says)
	if c.Control {
		sign = fmt.Sprintf("a control: check %s must not find %q", c.Finding.Check, c.Finding.Says)
		if len(c.Holds) > 0 {
			sign += ", and these must pass: " + strings.Join(c.Holds, ", ")
		}
	}
	return [][2]string{
		{"report", c.Report}, {"affected", c.Affected}, {"fixed", c.Fixed}, {"expect", c.Expect}, {"shown by", sign},
	}
}

func newList() *cobra.Command {
	var output string
	what := strings.Join(kinds(), "|")
	cmd := &cobra.Command{
		Use:       "list " + what,
		Short:     "List what there is",
		ValidArgs: kinds(),
		Args:      exactly(what),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, ok := entries(args[0])
			if !ok {
				return badArguments("%q cannot be listed%s; give %s", args[0], didYouMean(args[0], kinds()), what)
			}
			if output == "markdown" {
				return writeMarkdown(cmd.OutOrStdout(), args[0], list)
			}
			return writeEntries(cmd.OutOrStdout(), list, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or markdown")
	return cmd
}

func writeEntries(w io.Writer, list []entry, output string) error {
	switch output {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(list)
	case "text":
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, e := range list {
			fmt.Fprintf(tab, "%s\t%s\n", e.Name, e.Summary)
		}
		return tab.Flush()
	}
	return badArguments("output %q is not known; give text, json or markdown", output)
}

// writeMarkdown writes a list as the page that docs/ keeps of it: a row per entry, with the details worth a column.
func writeMarkdown(w io.Writer, kind string, list []entry) error {
	columns := map[string][]string{
		"audit": {"why", "source", "fix"}, "cases": {"affected", "shown by"}, "checks": {"source"},
		"faults": {"shown", "needs"}, "scenarios": {"expect"},
	}[kind]
	singular := strings.TrimSuffix(kind, "s")
	var page strings.Builder
	fmt.Fprintf(&page, "# %s\n\nMade by `make docs`. `seatrial describe %s NAME` says more.\n\n",
		strings.ToUpper(kind[:1])+kind[1:], singular)
	fmt.Fprintln(&page, "| "+strings.Join(append([]string{singular, "what"}, columns...), " | ")+" |")
	fmt.Fprintln(&page, "|"+strings.Repeat("---|", 2+len(columns)))
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range list {
		row := []string{e.Name, e.Summary}
		for _, heading := range columns {
			i := slices.IndexFunc(e.Details, func(d [2]string) bool { return d[0] == heading })
			row = append(row, e.Details[i][1])
		}
		text := strings.NewReplacer("|", `\|`, "\n", "<br>", "<", "&lt;", "*", `\*`).Replace(strings.Join(row, "\x00"))
		fmt.Fprintln(&page, "| "+strings.ReplaceAll(text, "\x00", " | ")+" |")
	}
	_, err := io.WriteString(w, page.String())
	return err
}

func newDescribe() *cobra.Command {
	singular := map[string]string{}
	var names []string
	for _, k := range kinds() {
		names = append(names, strings.TrimSuffix(k, "s"))
		singular[strings.TrimSuffix(k, "s")] = k
	}
	what := strings.Join(names, "|")
	return &cobra.Command{
		Use:     "describe " + what + " NAME",
		Short:   "Describe an audit rule, case, check, fault, scenario, storage or workload",
		Example: "  seatrial describe fault node-partition",
		Args:    exactly(what, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, ok := entries(singular[args[0]])
			if !ok {
				return badArguments("%q cannot be described; give %s", args[0], what)
			}
			var names []string
			for _, e := range list {
				if e.Name == args[1] {
					return describe(cmd.OutOrStdout(), args[0], e)
				}
				names = append(names, e.Name)
			}
			return badArguments("%s %q is not known%s", args[0], args[1], didYouMean(args[1], names))
		},
	}
}

func describe(w io.Writer, kind string, e entry) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tab, "%s\t%s\n", kind, e.Name)
	fmt.Fprintf(tab, "what\t%s\n", e.Summary)
	for _, d := range e.Details {
		for i, line := range strings.Split(d[1], "\n") {
			heading := d[0]
			if i > 0 {
				heading = ""
			}
			fmt.Fprintf(tab, "%s\t%s\n", heading, line)
		}
	}
	return tab.Flush()
}
