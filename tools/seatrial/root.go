package main

import (
	"errors"
	"fmt"
	"math"
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

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return noneEmpty(cmd) },
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
	return badArguments("unknown command %q%s; see `%s --help`", args[0], didYouMean(args[0], names),
		cmd.CommandPath())
}

// noneEmpty refuses flags with empty values: `--cluster "$C"` without a C is not meant for every cluster.
func noneEmpty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if value := f.Value.String(); value == "" || value == "[]" {
			err = badArguments("--%s is empty; give a value, or leave it out", f.Name)
		}
	})
	return err
}

// flagError says what a value must be, and adds the nearest flag to an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := value.GetFlag()
		why := value.Unwrap()
		switch f.Value.Type() {
		case "uint16":
			why = fmt.Errorf("use a whole number from 0 to %d", math.MaxUint16)
		case "uint64":
			why = fmt.Errorf("use a whole number from 0 to %d", uint64(math.MaxUint64))
		case "int", "stringToInt":
			why = errors.New("use a whole number")
		case "bool":
			why = errors.New("use true or false")
		case "duration":
			why = errors.New("use a time with its unit, for example 90s or 2h")
		}
		return badArguments("--%s is %q: %w; see `%s --help`", f.Name, value.GetValue(), why, cmd.CommandPath())
	}
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
		if len(names) == 0 && cmd.HasAvailableSubCommands() {
			return unknownCommand(cmd, args)
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
