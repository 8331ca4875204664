package existing

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
)

const (
	// rebootBound is how long a node may take to boot again: firmware of real machines needs minutes.
	rebootBound = 10 * time.Minute
	// rebootScript is one unit of systemd, so that a harness that is killed leaves no node behind that is half stopped.
	// With --force, what is left after the grace is killed, and file systems are unmounted (systemctl(1)).
	rebootScript = `timeout "$1" systemctl stop kubelet.service containerd.service; systemctl reboot --force`
)

var _ clusters.Rebooter = (*node)(nil)

// Reboot has systemd boot the node again: kubelet and runtime are stopped within grace, and then all else.
func (n *node) Reboot(ctx context.Context, grace time.Duration) error {
	fail := func(err error) error { return fmt.Errorf("reboot node %q: %w", n.name, err) }
	before, err := n.boot(ctx)
	if err != nil {
		return fail(err)
	}
	_, err = clusters.Run(ctx, n, "systemd-run", "--quiet", "--no-block", "--collect", "--", "/bin/sh", "-c",
		rebootScript, "reboot", strconv.FormatFloat(grace.Seconds(), 'f', 3, 64))
	if err != nil {
		return fail(err)
	}
	what := fmt.Sprintf("node %q to boot again", n.name)
	return await.Until(ctx, what, askEvery, rebootBound, func(ctx context.Context) (bool, string, error) {
		now, err := n.boot(ctx)
		return err == nil && now != before, "it still runs", err
	})
}

// boot names the node's boot: that of its kernel, and the start of its first process, since a node may be a container.
func (n *node) boot(ctx context.Context) (string, error) {
	out, err := clusters.Run(ctx, n, "cat", "/proc/sys/kernel/random/boot_id", "/proc/1/stat")
	if err != nil {
		return "", err
	}
	id, stat, _ := strings.Cut(out, "\n")
	// The second field, the program's name, is in parentheses and may hold blanks (proc_pid_stat(5)).
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	const start = 22 - 3 // The fields behind the name begin with the third.
	if len(fields) <= start {
		return "", errors.New("/proc/1/stat tells no start time")
	}
	return id + " " + fields[start], nil
}
