package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/trial"
)

type entry struct {
	Name    string      `json:"name"`
	Summary string      `json:"summary"`
	Details [][2]string `json:"details,omitempty"` // Heading and text, in order; describe prints them.
	Labels  []string    `json:"labels,omitempty"`  // Of a scenario or case; --label-filter selects by them.
}

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
			list = append(list, entry{Name: r.Name, Summary: r.Looks, Details: detail})
		}
	case "cases":
		for _, c := range parts.Cases {
			list = append(list, entry{c.Name, c.Summary, caseDetails(c), labelsOf(c)})
		}
	case "storages":
		for _, s := range parts.Storages {
			list = append(list, entry{Name: s.Name, Summary: s.Summary})
		}
	case "checks":
		for _, c := range parts.Checks {
			detail := [][2]string{{"holds", string(c.When)}, {"source", c.Source}}
			list = append(list, entry{Name: c.Name, Summary: c.Promise, Details: detail})
		}
	case "faults":
		for _, f := range parts.Faults {
			list = append(list, entry{Name: f.Name, Summary: f.Summary, Details: faultDetails(f)})
		}
	case "scenarios":
		for _, s := range parts.Scenarios {
			list = append(list, entry{s.Name, s.Summary, [][2]string{{"expect", s.Expect}}, labelsOf(s)})
		}
	case "workloads":
		for _, w := range parts.Workloads {
			list = append(list, entry{Name: w.Name, Summary: w.Summary})
		}
	default:
		return nil, false
	}
	return list, true
}

// labelsOf returns the labels of a scenario or case; no label depends on the seed.
func labelsOf(c plan.Case) []string { return nightly.Labels(c, plan.Make(c, 1)) }

func caseDetails(c plan.Case) [][2]string {
	sign := fmt.Sprintf("check %s finds: %q", c.Finding.Check, c.Finding.Says)
	if c.Control {
		sign = fmt.Sprintf("a control: check %s must not find %q, and these must pass: %s", c.Finding.Check,
			c.Finding.Says, strings.Join(append([]string{"coverage"}, c.Holds...), ", "))
	}
	return [][2]string{
		{"report", c.Report}, {"affected", c.Affected}, {"fixed", c.Fixed}, {"expect", c.Expect}, {"shown by", sign},
	}
}

func newList() *cobra.Command {
	var output, filter string
	what := strings.Join(kinds(), "|")
	cmd := &cobra.Command{
		Use:   "list [" + what + "]",
		Short: "List what there is: of one kind, or of all",
		Example: "  seatrial list\n  seatrial list faults -o json\n  seatrial list scenarios -o name\n" +
			"  seatrial list scenarios --label-filter 'mysql && !node-reboot'",
		ValidArgs: kinds(),
		Args:      atMost(what),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			if len(args) == 0 && output == "markdown" {
				return badArguments("output markdown is of one kind; give %s", what)
			}
			if filter != "" && len(args) > 0 && args[0] != "scenarios" && args[0] != "cases" {
				return badArguments("--label-filter is for scenarios and cases: only they have labels")
			}
			selects, err := parseLabelFilter(filter)
			if err != nil {
				return err
			}
			wanted := func(e entry) bool { return filter == "" || len(e.Labels) > 0 && selects(e.Labels) }
			if len(args) == 0 {
				return writeAll(w, cmd.ErrOrStderr(), filter, wanted, output)
			}
			list, ok := entries(args[0])
			if !ok {
				return badArguments("%q cannot be listed%s; give %s", args[0], didYouMean(args[0], kinds()), what)
			}
			list = slices.DeleteFunc(list, func(e entry) bool { return !wanted(e) })
			if filter != "" && len(list) == 0 {
				say(cmd.ErrOrStderr(), "--label-filter %q selects none of the %s", filter, args[0])
			}
			if output == "markdown" {
				return writeMarkdown(w, args[0], list)
			}
			return writeEntries(w, list, output)
		},
	}
	outputFlag(cmd, &output, "names", "markdown").Usage += " (of one kind)"
	labelFilterFlag(cmd, &filter)
	return cmd
}

func writeAll(w, stderr io.Writer, filter string, wanted func(entry) bool, output string) error {
	all, names := map[string][]entry{}, []string{}
	for _, k := range kinds() {
		list, _ := entries(k)
		list = slices.DeleteFunc(list, func(e entry) bool { return !wanted(e) })
		if len(list) > 0 {
			all[k], names = list, append(names, namesIn(list)...)
		}
	}
	if len(names) == 0 {
		say(stderr, "--label-filter %q selects none of the scenarios and cases", filter)
	}
	return writeAs(w, output, all, names, func() (err error) {
		for i, k := range slices.Sorted(maps.Keys(all)) {
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "%s (%d)\n", strings.ToUpper(k), len(all[k]))
			err = errors.Join(err, writeEntries(w, all[k], output))
		}
		return err
	})
}

func writeEntries(w io.Writer, list []entry, output string) error {
	return writeAs(w, output, list, namesIn(list), func() error {
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, e := range list {
			fmt.Fprintf(tab, "%s\t%s\n", e.Name, e.Summary)
		}
		return tab.Flush()
	})
}

// writeMarkdown writes a list as the page that docs/ keeps of it: a row per entry, with the details worth a column.
func writeMarkdown(w io.Writer, kind string, list []entry) error {
	columns := map[string][]string{
		"audit": {"why", "source", "fix"}, "cases": {"affected", "shown by"}, "checks": {"holds", "source"},
		"faults": {"shown", "needs", "on kind", "on existing"}, "scenarios": {"expect"},
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
	var output string
	cmd := &cobra.Command{
		Use:     "describe " + what + " NAME",
		Short:   "Describe an audit rule, case, check, fault, scenario, storage or workload",
		Example: "  seatrial describe fault node-partition",
		Args:    exactly(what, "NAME"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return names, cobra.ShellCompDirectiveNoFileComp
			case 1:
				return namesOf(singular[args[0]]), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			list, ok := entries(singular[args[0]])
			if !ok {
				return badArguments("%q cannot be described%s; give %s", args[0], didYouMean(args[0], names), what)
			}
			i := slices.IndexFunc(list, func(e entry) bool { return e.Name == args[1] })
			if i < 0 {
				return badArguments("%s %q is not known%s; see `seatrial list %s`", args[0], args[1],
					didYouMean(args[1], namesOf(singular[args[0]])), singular[args[0]])
			}
			return writeAs(cmd.OutOrStdout(), output, list[i], args[1:], func() error {
				return describe(cmd.OutOrStdout(), args[0], list[i])
			})
		},
	}
	outputFlag(cmd, &output, "name")
	return cmd
}

func namesOf(kind string) []string {
	list, _ := entries(kind)
	return namesIn(list)
}

func namesIn(list []entry) (names []string) {
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names
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

// faultDetails describes a fault and gives an example step.
func faultDetails(d fault.Definition) [][2]string {
	var takes []string
	for _, p := range d.Takes {
		takes = append(takes, string(p))
	}
	or := func(all []string) string { return cmp.Or(strings.Join(all, ", "), "nothing") }
	details := [][2]string{
		{"shown", d.Shown}, {"healed", d.Healed}, {"needs", or(d.Needs)}, {"takes", or(takes)},
		{"upstream", d.Upstream},
	}
	for _, on := range trial.RunsOn(d) {
		details = append(details, [2]string{"on " + on[0], on[1]})
	}
	if fields := faultFields(d); fields != "" {
		details = append(details, [2]string{"fields", fields})
	}
	example, err := json.MarshalIndent(examplePlan(d).Steps[0], "", "  ")
	if err != nil {
		return details // Cannot happen: a step can always be encoded.
	}
	return append(details, [2]string{"example", string(example)})
}

// faultFields names the optional fields that the fault takes.
func faultFields(d fault.Definition) string {
	names := slices.Clone(d.Params)
	if d.Triggers {
		names = append(names, "when", "provoke")
	}
	if d.Outlasts {
		names = append(names, "outlast")
	}
	for i := range names {
		names[i] = "fault." + names[i]
	}
	return strings.Join(names, ", ")
}

func examplePlan(d fault.Definition) plan.Plan {
	return scenarios.Example(fault.Caps([]fault.Definition{d}, nil).Faults[0], d.Example)
}
