// Program pin makes the pinned modules of the sidecars after one of their versions was changed: run
// `go run ./tools/offline/sidecars/pin` at the root of the repository, look at the difference, and commit it.
//
// It imports sidecars.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/seatrial/seatrial/tools/offline/sidecars"
)

const pinsDir = "tools/offline/sidecars/pins"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := sidecars.Pin(ctx, pinsDir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pin:", err)
		os.Exit(255)
	}
}
