package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/offline"
)

func newVersions() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "versions",
		Short: "List the versions of Kubernetes that clusters can have; `versions add` pins another one",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, all := cmd.OutOrStdout(), offline.Releases()
			return writeAs(out, output, all, offline.KubernetesVersions(), func() error {
				w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "KUBERNETES\tETCD\tCOREDNS\tPAUSE\t")
				for _, r := range all {
					note := ""
					if r.Kubernetes == offline.DefaultKubernetesVersion {
						note = "the default"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Kubernetes, r.Etcd, r.CoreDNS, r.Pause, note)
				}
				return w.Flush()
			})
		},
	}
	outputFlag(cmd, &output, "versions")
	cmd.AddCommand(newVersionsAdd())
	return cmd
}

// newVersionsAdd pins a version in the source tree.
func newVersionsAdd() *cobra.Command {
	return &cobra.Command{
		Use:   "add VERSION",
		Short: "Pin another version of Kubernetes, with the checksums of its modules",
		Long: `Add pins a version in the source tree that is the working directory: it reads from kubeadm's source which
etcd, CoreDNS and pause image the version asks for, and writes the Go modules of all that is compiled, with their
checksums, below tools/offline/nodeimage/pins. Build seatrial again after it. The exit code is 254 if the version does
not exist, or if this is not the source tree.`,
		Example: "  seatrial versions add v1.36.4",
		Args:    exactly("VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if why := plan.NoVersion(args[0]); why != "" {
				return badArguments("VERSION: %s", why)
			}
			err := offline.Tool{Progress: cmd.ErrOrStderr(), Log: quiet(cmd.ErrOrStderr())}.Pin(cmd.Context(), args[0])
			if _, refused := errors.AsType[*offline.BadFileError](err); refused {
				return badArguments("VERSION: %w", err)
			}
			if err != nil {
				return fmt.Errorf("pin Kubernetes %s: %w", args[0], err)
			}
			say(cmd.ErrOrStderr(), "Kubernetes %s is pinned; look at the difference, then build seatrial again",
				args[0])
			return nil
		},
	}
}
