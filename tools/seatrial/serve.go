package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

func newServe() *cobra.Command {
	var runs string
	var port uint16
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show the saved runs in a browser of this host; needs no cluster and writes nothing",
		Long: `Serve lets browsers of this host read the directory of the runs until it is interrupted, and prints its
address. It listens on 127.0.0.1 only; every user of this host can read there.`,
		Example: "  seatrial serve\n  seatrial serve --runs /srv/runs --port 8080",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := os.OpenRoot(runs)
			if err != nil {
				return badArguments("--runs: %w; give the parent of run directories", err)
			}
			defer root.Close() //nolint:errcheck // It is only read.
			socket, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				return badArguments("--port: %w", err)
			}
			say(cmd.OutOrStdout(), "http://%s/", socket.Addr())
			server := &http.Server{Handler: readOnly(http.FileServerFS(root.FS())), ReadHeaderTimeout: 10 * time.Second}
			defer context.AfterFunc(cmd.Context(), func() { _ = server.Close() })()
			if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %q: %w", runs, err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&runs, "runs", defaultRunsDir(), "parent of the run directories")
	cmd.Flags().Uint16Var(&port, "port", 0, "port of 127.0.0.1 (0: any that is free)")
	return cmd
}

// readOnly answers only reads by the address of this host: another name, which a page elsewhere may have made point
// here (DNS rebinding), is refused. Pages load nothing, whoever wrote them.
func readOnly(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		switch {
		case err != nil || host != "127.0.0.1" && host != "localhost":
			http.Error(w, "use the address that `seatrial serve` printed", http.StatusForbidden)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "runs are only read", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "+
				"frame-ancestors 'none'")
		files.ServeHTTP(w, r)
	})
}
