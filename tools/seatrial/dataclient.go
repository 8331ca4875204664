package main

import (
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/e2e/trial"
	"github.com/seatrial/seatrial/fixtures/dataclient"
)

func newDataClient() *cobra.Command {
	known := slices.Sorted(maps.Keys(trial.DataClients()))
	return &cobra.Command{
		Use:   "data-client " + strings.Join(known, "|"),
		Short: "Write and read rows in MySQL or MariaDB, as data.command of a workload file",
		Long: `Data-client is the data client for MySQL 8.0 and later and MariaDB. A workload file names it:

  data:
    command: [seatrial, data-client, mysql]
  secret: {name: NAME}    # with the keys user and password, of a user that may create a database

Every instance must take writes; with a topology, those whose read_only is off. The rows are in the database
"seatrial", which is dropped after the trial if no table is left in it. The program reads requests from standard input
and writes answers, as docs/workloads.md says.`,
		Args:      exactly("the database"),
		ValidArgs: known,
		RunE: func(cmd *cobra.Command, args []string) error {
			open := trial.DataClients()[args[0]]
			if open == nil {
				return badArguments("%q has no data client here; known: %s", args[0], strings.Join(known, ", "))
			}
			address, run := os.Getenv("SEATRIAL_ADDRESS"), os.Getenv("SEATRIAL_RUN")
			if address == "" || run == "" {
				return badArguments("$SEATRIAL_ADDRESS or $SEATRIAL_RUN is empty: the harness sets both, see " +
					"data.command in docs/workloads.md")
			}
			store, done, err := open(func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", address)
			}, os.Getenv("SEATRIAL_USER"), os.Getenv("SEATRIAL_PASSWORD"), run)
			if err != nil {
				return err
			}
			defer done() //nolint:errcheck // The process ends.
			return dataclient.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), store)
		},
	}
}
