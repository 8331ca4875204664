package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seatrial/seatrial/chaos/plan"
)

const longHelp = `Seatrial kills kubelets, cuts networks and reboots nodes while a database is writing, records
what happened, and judges the record. A PASS is proof, a FAIL names the culprit, anything less is UNKNOWN.

Exit codes: 0 PASS, 1 FAIL, 2 UNKNOWN, 254 bad arguments or a cluster in use, 255 the harness failed or was stopped.`

// newRoot makes the command line. As kubectl-seatrial, its help shows the form kubectl uses for plugins.
func newRoot(arg0 string) *cobra.Command {
	root := &cobra.Command{
		Use:           "seatrial",
		Short:         "Sea trials for stateful workloads on Kubernetes",
		Long:          longHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       readBuild().String(),
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if strings.HasPrefix(filepath.Base(arg0), "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl seatrial"}
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newAgentImage(),
		newCertify(),
		newClean(),
		newDataClient(),
		newDeadman(),
		newDemo(),
		newDescribe(),
		newDoctor(),
		newExplain(),
		newHeal(),
		newJudge(),
		newList(),
		newNightly(),
		newPlan(),
		newReplay(),
		newReport(),
		newReproduce(),
		newRun(),
		newServe(),
		newSetup(),
		newVersions(),
		newVerify(),
		newVersion(),
	)
	return root
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return badArguments("unknown command %q%s", args[0], didYouMean(args[0], names))
}

// flagError adds the nearest flag to the parser's error.
func flagError(cmd *cobra.Command, err error) error {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return badArguments("%w; see `%s --help`", err, cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return badArguments("unknown flag --%s%s; see `%s --help`", name, didYouMean(name, names), cmd.CommandPath())
}

// exactly requires the positional arguments of the usage line.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(args) < len(names) {
			return badArguments("%s is missing; usage: %s", names[len(args)], cmd.UseLine())
		}
		return badArguments("%q is one argument too many; usage: %s", args[len(names)], cmd.UseLine())
	}
}

// atMost allows the positional argument of the usage line to be left out.
func atMost(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return exactly(name)(cmd, args)
	}
}

func didYouMean(got string, known []string) string {
	near, ok := plan.Nearest(got, known)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}
