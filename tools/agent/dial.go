package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// runDial relays bytes between std and one connection. It ends when the far side has closed; the end of standard
// input closes only the connection's sending half. A failed connection is the one line on standard error.
func runDial(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	timeout := fs.Duration("timeout", 10*time.Second, "bound of the connection attempt")
	operands, err := parse(fs, args, 2, exactly)
	if err != nil {
		return err
	}
	if networks := []string{"tcp", "tcp4", "tcp6", "unix"}; !slices.Contains(networks, operands[0]) {
		return badArguments("network is %q, want one of %v", operands[0], networks)
	}
	dialer := net.Dialer{Timeout: *timeout}
	conn, err := dialer.DialContext(ctx, operands[0], operands[1])
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // Ends the copy below; its error says so.
	defer stop()
	go func() {
		// The sender's failure shows at the receiver too, so nothing is lost by not waiting for this copy, which
		// may hang in a read of standard input for ever.
		_, _ = io.Copy(conn, std.in) // See above.
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // See above.
		}
	}()
	_, err = io.Copy(std.out, conn)
	return errors.Join(err, conn.Close())
}
