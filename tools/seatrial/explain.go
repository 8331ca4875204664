package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/world"
)

// explainFlags are the flags of explain.
type explainFlags struct {
	at, set, kubeconfig, output string
	bound                       time.Duration
}

// explained is what explain has to say, as -o json writes it.
type explained struct {
	StatefulSets []explain.Diagnosis `json:"statefulSets"`
	Longest      *explain.Spell      `json:"longest,omitempty"` // Of a run: the longest time in which nothing moved.
}

func newExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain [RUNDIR]",
		Short: "Say what a StatefulSet waits for: which pod blocks it, since when, why, and whether it will pass",
		Long: `Explain tells what the controller of each StatefulSet wants to do next, by which rule it waits, which pod
blocks it and since when, why, with the events or fields that say so, and whether that looks transient or permanent.

With RUNDIR it tells of a saved run: at the end of the load, or at the moment --at, and for the longest time in which
nothing moved; it needs no cluster. With --statefulset it asks a cluster, changes nothing there, and tells of now.
The exit code does not depend on what is found.`,
		Example: "  seatrial explain runs/latest\n  seatrial explain runs/latest --at +45s -o json\n" +
			"  seatrial explain --statefulset shop/mysql",
		Args: func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			var told explained
			var err error
			if f.set != "" {
				told, err = f.live(cmd.Context())
			} else {
				told, err = f.saved(args[0])
			}
			if err != nil {
				return err
			}
			return writeExplained(cmd.OutOrStdout(), told, f.output)
		},
	}
	cmd.Flags().StringVar(&f.at, "at", "", "the moment of the run to tell of, counted from its begin, for example "+
		"+45s (default: the end of the load, or of all that is known)")
	cmd.Flags().DurationVar(&f.bound, "bound", explain.DefaultBound, "how long nothing has to move to be called stuck")
	cmd.Flags().StringVar(&f.set, "statefulset", "", "NAMESPACE/NAME of a StatefulSet of a cluster, instead of RUNDIR")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "",
		"of the cluster, with --statefulset (default: $KUBECONFIG, or ~/.kube/config)")
	outputFlag(cmd, &f.output)
	return cmd
}

// check holds the arguments against each other before anything is read.
func (f *explainFlags) check(cmd *cobra.Command, args []string) error {
	if f.output != "text" && f.output != "json" {
		return badArguments("output %q is not known; give text or json", f.output)
	}
	if f.bound <= 0 {
		return badArguments("--bound %s is no time in which something could move; give for example 5s", f.bound)
	}
	if f.set == "" {
		if f.kubeconfig != "" {
			return badArguments("--kubeconfig is for a cluster; give --statefulset NAMESPACE/NAME with it")
		}
		return exactly("RUNDIR")(cmd, args)
	}
	if len(args) > 0 {
		return badArguments("%q and --statefulset are two things to explain; give one", args[0])
	}
	if f.at != "" {
		return badArguments("--at is for a saved run; a cluster is explained as it is now")
	}
	if _, _, err := splitSet(f.set); err != nil {
		return err
	}
	return nil
}

// saved explains a run directory.
func (f *explainFlags) saved(path string) (explained, error) {
	dir, err := rundir.Open(path)
	if err != nil {
		return explained{}, badArguments("%w; give the path of a run directory, for example runs/latest", err)
	}
	h, err := dir.ReadHistory()
	if err != nil {
		return explained{}, fmt.Errorf("explain %q: %w", path, err)
	}
	w := world.New(h)
	moment, err := f.moment(w)
	if err != nil {
		return explained{}, err
	}
	told := explained{StatefulSets: explain.At(w, moment, f.bound)}
	if told.StatefulSets == nil {
		told.StatefulSets = []explain.Diagnosis{}
	}
	if spell, ok := explain.Longest(w, w.Trialled(), f.bound); ok {
		told.Longest = &spell
	}
	return told, nil
}

// moment is the one that --at means, and the end of the load without it.
func (f *explainFlags) moment(w *world.World) (history.Time, error) {
	if f.at == "" {
		if end, ok := w.EndOf(history.PhaseLoad); ok {
			return end, nil
		}
		return w.Trialled(), nil
	}
	d, err := time.ParseDuration(f.at)
	if err != nil || d < 0 {
		return 0, badArguments("--at %q is no time since the begin of the run; give for example +45s", f.at)
	}
	begin := w.Begin()
	moment, last := begin.Add(d), w.Last()
	if moment > last {
		return 0, badArguments("--at %q is after the end of the run; give at most +%.1fs", f.at,
			last.Sub(begin).Seconds())
	}
	return moment, nil
}

func writeExplained(w io.Writer, told explained, output string) error {
	if output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(told)
	}
	if len(told.StatefulSets) == 0 {
		say(w, "No StatefulSet was there at that moment, as far as is known.")
	}
	for _, d := range told.StatefulSets {
		if err := report.WriteDiagnosis(w, d); err != nil {
			return err
		}
	}
	if told.Longest == nil {
		return nil
	}
	say(w, "")
	return report.WriteSpell(w, *told.Longest)
}
