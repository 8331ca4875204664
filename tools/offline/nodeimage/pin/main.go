// Program pin makes the pinned modules of a Kubernetes version that is new in the list of releases: run
// `go run ./tools/offline/nodeimage/pin v1.37.0` at the root of the repository, look at the difference, and commit it.
//
// It imports nodeimage.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/seatrial/seatrial/tools/offline/nodeimage"
)

const pinsDir = "tools/offline/nodeimage/pins"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: pin KUBERNETES-VERSION, for example: pin "+nodeimage.DefaultVersion)
		return 254
	}
	if err := nodeimage.Pin(ctx, args[0], pinsDir); err != nil {
		fmt.Fprintln(stderr, "pin:", err)
		return 255
	}
	return 0
}
