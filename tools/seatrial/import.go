package main

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

// maxPlanFile bounds what is read of a file, so that a device does not fill the memory.
const maxPlanFile = 8 << 20

func newPlanImport() *cobra.Command {
	var output string
	var around trial.Around
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Turn Chaos Mesh manifests into a plan, and print it; needs no cluster and touches nothing",
		Long: `Import reads objects of chaos-mesh.org/v1alpha1 as they are, holds them against the rules of Chaos Mesh
and those that it leaves out, and prints the plan that means the same. What Seatrial's own faults can do, they do, on
any kind cluster; the rest is left to Chaos Mesh in the cluster, or refused. The manifests of a file are carried out
one after the other, in their order. Their namespace stands for the trial's own.`,
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
	outputFlag(cmd, &output)
	seedFlag(cmd, &around.Seed)
	flags := cmd.Flags()
	flags.IntVar(&around.Replicas, "replicas", 3, "replicas of the database")
	flags.IntVar(&around.Workers, "workers", 2, "worker nodes of the cluster")
	flags.StringToStringVar(&around.Labels, "labels", nil, "labels that the manifests know the database's pods by")
	flags.StringToIntVar(&around.Machines, "machine", nil,
		"a machine of the manifests, and the ordinal of the pod on whose node it is: NAME=ORDINAL")
	flags.IntVar(&around.Times, "times", 0, "how often what a Schedule asks for is done (0: three times)")
	flags.BoolVar(&around.Together, "together", false, "carry the manifests out at the same time")
	return cmd
}

// importPlan makes a plan of manifests and holds it against the rules.
func importPlan(manifests []byte, around trial.Around) (plan.Plan, error) {
	seed, err := seedOrNew(around.Seed)
	if err != nil {
		return plan.Plan{}, err
	}
	around.Seed = seed
	p, err := trial.ImportMesh(trial.AllParts(), manifests, around)
	if err != nil {
		return plan.Plan{}, illegal(err)
	}
	if err := trial.Validate(trial.AllParts(), p); err != nil {
		return plan.Plan{}, badArguments("what the manifests mean is not legal:\n%w", err)
	}
	return p, nil
}

// illegal marks errors of fields, and anything else that is wrong with what was read, as the user's to mend.
func illegal(err error) error {
	var fields plan.FieldErrors
	if !errors.As(err, &fields) {
		return badArguments("%w", err)
	}
	text := "the manifests cannot be carried out:"
	for _, e := range fields {
		text += "\n  " + e.Field + ": " + e.Detail
	}
	return badArguments("%s", text)
}

// readFile reads a file, "-" for the standard input.
func readFile(stdin io.Reader, name string) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			var reason *fs.PathError
			if errors.As(err, &reason) {
				err = reason.Err // The name is quoted once, which is once enough.
			}
			return nil, badArguments("%q: %w", name, err)
		}
		defer file.Close() //nolint:errcheck // It was only read.
		stdin = file
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxPlanFile+1))
	if err != nil {
		return nil, badArguments("read %q: %w", name, err)
	}
	if len(data) > maxPlanFile {
		return nil, badArguments("read %q: it is longer than %d bytes", name, maxPlanFile)
	}
	return data, nil
}

// readPlan reads a plan, or manifests of Chaos Mesh, which are imported with the seed.
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
		return plan.Plan{}, badArguments("--plan %q: %w", name, illegal(err))
	}
	if seed != 0 && p.Seed != seed {
		return plan.Plan{}, badArguments("--plan has scenario and seed in it; give it alone")
	}
	return p, nil
}
