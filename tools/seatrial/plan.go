package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math/big"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

func newPlan() *cobra.Command {
	var output string
	var f runFlags
	cmd := &cobra.Command{
		Use:   "plan SCENARIO",
		Short: "Print the plan of a scenario and seed; needs no cluster and touches nothing",
		Example: "  seatrial plan smoke --seed 42\n" +
			"  seatrial plan smoke --seed 42 -o json > plan.json && seatrial run --plan plan.json",
		Args: scenarioOrPlan,

		ValidArgsFunction: complete("scenarios"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.plan(args)
			if err != nil {
				return err
			}
			if err := trial.Validate(trial.AllParts(), p); err != nil {
				return badArguments("the plan is not legal:\n%w", err)
			}
			return writePlan(cmd.OutOrStdout(), p, output)
		},
	}
	outputFlag(cmd, &output)
	seedFlag(cmd, &f.seed)
	cmd.Flags().StringVar(&f.planFile, "plan", "", "validate and show the plan in this file, YAML or JSON")
	cmd.Flags().StringVar(&f.workload, "workload", "", "put the StatefulSet that this file describes into the plan")
	cmd.AddCommand(newPlanImport())
	return cmd
}

func seedFlag(cmd *cobra.Command, seed *uint64) {
	cmd.Flags().Uint64Var(seed, "seed", 0, "seed of the plan; the same seed gives the same plan (0: a new one)")
}

// makePlan makes the plan of a scenario; seed 0 draws a new seed.
func makePlan(scenario string, seed uint64) (plan.Plan, error) {
	c, ok := trial.AllParts().Named(scenario)
	if !ok {
		return plan.Plan{}, unknownScenario(scenario)
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
	switch output {
	case "text":
		return p.Render(w)
	case "json":
		text, err := encode(p)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, text)
		return err
	}
	return badArguments("output %q is not known; give text or json", output)
}

func encode(p plan.Plan) (string, error) {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode plan: %w", err)
	}
	return string(data), nil
}
