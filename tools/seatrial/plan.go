package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

func newPlan() *cobra.Command {
	var output, caseFile string
	var f runFlags
	cmd := &cobra.Command{
		Use:   "plan SCENARIO | --plan FILE | --case FILE",
		Short: "Print the plan of a scenario and seed, and what it touches; touches nothing",
		Long: `Plan prints a plan, the pods and nodes that it touches, for how long and how that is undone. It needs no
cluster. With --kubeconfig or --context it reads nodes and pods of that cluster, and names them. With -o rbac it prints
the ClusterRole that the plan needs on an existing cluster.`,
		Example: "  seatrial plan smoke --seed 42\n" +
			"  seatrial plan smoke --seed 42 -o json > plan.json && seatrial run --plan plan.json\n" +
			"  seatrial plan smoke -o rbac | kubectl apply -f -",
		Args: atMost("SCENARIO"),

		ValidArgsFunction: complete("scenarios", "cases"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var p plan.Plan
			var err error
			if caseFile == "" {
				p, err = f.plan(args)
			} else {
				p, err = f.caseOf(caseFile, args)
			}
			if err != nil {
				return err
			}
			if err := trial.Validate(trial.AllParts(), p); err != nil {
				return f.illegal(err)
			}
			if err := f.cluster.access.check(); err != nil {
				return err
			}
			if err := writePlan(cmd.OutOrStdout(), p, output); err != nil || output != "text" {
				return err
			}
			return writeTouched(cmd.Context(), plainly{cmd.OutOrStdout()}, p, f.cluster.access)
		},
	}
	outputFlag(cmd, &output, "scenario", "rbac").Usage += " (the ClusterRole that it needs)"
	seedFlag(cmd, &f.seed)
	f.cluster.access.registerContext(cmd)
	f.cluster.access.registerNodes(cmd)
	cmd.Flags().StringVar(&f.planFile, "plan", "", "validate and show the plan in this file, YAML or JSON")
	cmd.Flags().StringVar(&f.workload, "workload", "", "put the StatefulSet that this file describes into the plan")
	cmd.Flags().StringVar(&caseFile, "case", "", "validate the case in this file, and show its plan")
	cmd.AddCommand(newPlanImport())
	return cmd
}

// caseOf returns the plan of a case of the user's.
func (f *runFlags) caseOf(name string, args []string) (plan.Plan, error) {
	if len(args) > 0 || f.planFile != "" {
		return plan.Plan{}, badArguments("--case contains a whole plan; give no other")
	}
	c, err := readCase(name, f.workload)
	if err != nil {
		return plan.Plan{}, err
	}
	seed, err := seedOrNew(cmp.Or(f.seed, c.Plan.Seed))
	return plan.Make(c.Case, seed), err
}

func seedFlag(cmd *cobra.Command, seed *uint64) {
	cmd.Flags().Uint64Var(seed, "seed", 0, "seed of the plan; the same seed gives the same plan (0: a new one)")
}

// makePlan makes the plan of a scenario; seed 0 draws a new seed.
func makePlan(scenario string, seed uint64) (plan.Plan, error) {
	c, ok := trial.AllParts().Named(scenario)
	if !ok {
		return plan.Plan{}, badArguments("scenario %q is not known%s; see `seatrial list scenarios`", scenario,
			didYouMean(scenario, namesOf("scenarios")))
	}
	seed, err := seedOrNew(seed)
	return plan.Make(c, seed), err
}

// seedOrNew draws a seed if none is given.
func seedOrNew(seed uint64) (uint64, error) {
	if seed != 0 {
		return seed, nil
	}
	drawn, err := rand.Int(rand.Reader, big.NewInt(999_999)) // Short enough to type.
	if err != nil {
		return 0, fmt.Errorf("draw a seed: %w; give --seed", err)
	}
	return 1 + drawn.Uint64(), nil
}

func writePlan(w io.Writer, p plan.Plan, output string) error {
	if output == "rbac" {
		return trial.WriteRole(w, trial.AllParts(), p)
	}
	return writeAs(w, output, p, []string{p.Scenario}, func() error { return p.Render(w) })
}

// maxPlanFile bounds how much is read: the file may be an endless device.
const maxPlanFile = 8 << 20

func newPlanImport() *cobra.Command {
	var output string
	var around trial.Around
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Convert Chaos Mesh manifests to a plan and print it; needs no cluster",
		Long: `Import reads objects of chaos-mesh.org/v1alpha1, validates them by the rules of Chaos Mesh and its
documentation, and prints an equivalent plan. It uses Seatrial's own faults if they do the same; the rest needs Chaos
Mesh in the cluster, or is refused. The manifests of a file run one after the other. Their namespace stands for the
namespace of the trial.`,
		Example: "  seatrial plan import partition.yaml --labels app=mysql\n" +
			"  seatrial plan import kill.yaml --seed 42 -o json > plan.json && seatrial run --plan plan.json\n" +
			"  seatrial plan import machines.yaml --machine worker-1=0",
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readFile(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			p, err := importPlan(data, around)
			if err != nil {
				return err
			}
			return writePlan(cmd.OutOrStdout(), p, output)
		},
	}
	outputFlag(cmd, &output, "scenario", "rbac").Usage += " (the ClusterRole that it needs)"
	seedFlag(cmd, &around.Seed)
	flags := cmd.Flags()
	flags.IntVar(&around.Replicas, "replicas", 3, "replicas of the database")
	flags.IntVar(&around.Workers, "workers", 2, "worker nodes of the cluster")
	flags.StringToStringVar(&around.Labels, "labels", nil, "labels by which the manifests select the database's pods")
	flags.StringToIntVar(&around.Machines, "machine", nil,
		"machine of the manifests and the ordinal of the pod on its node: NAME=ORDINAL")
	flags.IntVar(&around.Times, "times", 0, "how often a Schedule fires (0: three times)")
	flags.BoolVar(&around.Together, "together", false, "run the manifests at the same time")
	return cmd
}

// importPlan converts manifests to a plan and validates it.
func importPlan(manifests []byte, around trial.Around) (plan.Plan, error) {
	seed, err := seedOrNew(around.Seed)
	if err != nil {
		return plan.Plan{}, err
	}
	around.Seed = seed
	p, err := trial.ImportMesh(trial.AllParts(), manifests, around)
	if err != nil {
		return plan.Plan{}, illegal("the manifests cannot be carried out:", err)
	}
	if err := trial.Validate(trial.AllParts(), p); err != nil {
		return plan.Plan{}, illegal("the plan of the manifests is not legal:", err)
	}
	return p, nil
}

// illegal turns errors in the user's file into bad arguments; what says what cannot be done.
func illegal(what string, err error) error {
	if fields, ok := errors.AsType[plan.FieldErrors](err); ok {
		return badArguments("%s%s", what, fields.Lines())
	}
	return badArguments("%w", err)
}

// illegal turns errors in the plan into bad arguments, which name its file if it is from one.
func (f *runFlags) illegal(err error) error {
	return inFile("--plan", f.planFile, illegal("the plan is not legal:", err))
}

// inFile names the flag and file that an error is about, if it is about a file.
func inFile(flag, name string, err error) error {
	if name == "" {
		return err
	}
	return badArguments("%s %q: %w", flag, name, err)
}

// readFile reads a file; "-" is the standard input.
func readFile(stdin io.Reader, name string) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, badArguments("%q: %w", name, withoutPath(err))
		}
		defer file.Close() //nolint:errcheck // It was only read.
		stdin = file
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxPlanFile+1))
	if err != nil {
		return nil, badArguments("%q: %w", name, withoutPath(err))
	}
	if len(data) > maxPlanFile {
		return nil, badArguments("%q: it is longer than %d MiB", name, maxPlanFile>>20)
	}
	return data, nil
}

// withoutPath returns why a file could not be used, for a message that quotes its name.
func withoutPath(err error) error {
	if reason, ok := errors.AsType[*fs.PathError](err); ok {
		return reason.Err
	}
	return err
}

// readPlan reads a plan, or imports Chaos Mesh manifests with the seed.
func readPlan(name string, seed uint64) (plan.Plan, error) {
	data, err := readFile(os.Stdin, name)
	if err != nil {
		return plan.Plan{}, badArguments("--plan %w", err)
	}
	drawn, err := seedOrNew(seed)
	if err != nil {
		return plan.Plan{}, err
	}
	p, err := trial.ReadPlan(trial.AllParts(), data, trial.Around{Seed: drawn})
	if err != nil {
		return plan.Plan{}, inFile("--plan", name, illegal("the plan is not legal:", err))
	}
	if seed != 0 && p.Seed != seed {
		return plan.Plan{}, badArguments("--plan contains scenario and seed; give it alone")
	}
	return p, nil
}

// putWorkload puts the workload of a file, and the manifests that it names, into a plan; it touches nothing.
func putWorkload(p plan.Plan, name string) (plan.Plan, error) {
	data, err := readFile(os.Stdin, name)
	if err != nil {
		return p, badArguments("--workload %w", err)
	}
	p, err = trial.PutWorkload(trial.AllParts(), p, data, filepath.Dir(name))
	if err != nil {
		return p, inFile("--workload", name, illegal("the workload cannot be tried:", err))
	}
	return p, nil
}
