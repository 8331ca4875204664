package main

import (
	"context"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/fixtures/external"
	"github.com/seatrial/seatrial/fixtures/mysql"
)

func newDataClient() *cobra.Command {
	return &cobra.Command{
		Use:   "data-client mysql",
		Short: "Write and read rows in MySQL or MariaDB, as data.command of a workload file",
		Long: `Data-client is the data client for MySQL 8.0 and later and MariaDB. A workload file names it:

  data:
    command: [seatrial, data-client, mysql]
  secret: {name: NAME}    # with the keys user and password, of a user that may create a database

Every instance must take writes. The rows are in the database "seatrial", which is dropped after the trial. The program
reads requests from standard input and writes answers, as docs/workloads.md says.`,
		Args:      exactly("mysql"),
		ValidArgs: []string{"mysql"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "mysql" {
				return badArguments("%q has no data client here; known: mysql", args[0])
			}
			address, run := os.Getenv("SEATRIAL_ADDRESS"), os.Getenv("SEATRIAL_RUN")
			if address == "" || run == "" {
				return badArguments("$SEATRIAL_ADDRESS or $SEATRIAL_RUN is empty: the harness sets both, see " +
					"data.command in docs/workloads.md")
			}
			store, done, err := mysql.OpenStore(func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", address)
			}, os.Getenv("SEATRIAL_USER"), os.Getenv("SEATRIAL_PASSWORD"), run)
			if err != nil {
				return err
			}
			defer done() //nolint:errcheck // The process ends.
			return external.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), store)
		},
	}
}
