// Package nodelogs copies the logs of a node to the harness, for people to read: no check does.
package nodelogs

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/clusters"
)

// Script writes a tar file of what `kind export logs` has of a node, and of the mount table. A log that grows meanwhile
// is no error. Times are relative to the node's clock, which may differ from the harness's.
const Script = `d=$(mktemp -d) || exit
cd "$d" && cat /proc/1/mountinfo > mountinfo || exit
since="--since=-$1s"
journalctl --no-pager "$since" > journal.log
for unit in kubelet containerd; do journalctl --no-pager "$since" --unit=$unit > $unit.log; done
{ cat /kind/version || kubelet --version; } > kubernetes-version.txt 2> /dev/null
{ crictl images || ctr --namespace=k8s.io images list; } > images.log 2> /dev/null
(cd /var/log && find -L pods containers -type f -mmin -$(($1 / 60 + 1))) > "$d.pods" 2> /dev/null
tar -chf - --ignore-failed-read --hard-dereference --warning=none . -C /var/log -T "$d.pods" || [ $? -eq 1 ]
end=$?
rm -rf "$d" "$d.pods"
exit $end`

// Collect writes the logs of about the last age of time, to the second, below dir, under the names of `kind export
// logs`: journal.log, kubelet.log, containerd.log, images.log and kubernetes-version.txt, and the logs of pods below
// pods and containers; and mountinfo. What was logged while the node's clock was set back is missing.
func Collect(ctx context.Context, node clusters.Node, age time.Duration, dir string) error {
	fail := func(err error) error { return fmt.Errorf("collect logs of node %q: %w", node.Name(), err) }
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fail(err)
	}
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := unpack(root, read)
		_, rest := io.Copy(io.Discard, read) // A reader that ended early must not stop the command.
		done <- errors.Join(err, rest)
	}()
	_, err = node.Exec(ctx, clusters.Command{
		Argv: []string{"sh", "-c", Script, "logs", strconv.Itoa(int(age.Seconds()) + 1)}, Stdout: write,
	})
	var exit *clusters.ExitError
	if errors.As(err, &exit) { // Without the script's text.
		err = fmt.Errorf("exit code %d: %s", exit.ExitCode, exit.Stderr)
	}
	_ = write.Close() // Never fails.
	if err := errors.Join(err, <-done, root.Close()); err != nil {
		return fail(err)
	}
	return nil
}

// unpack writes the regular files of a tar file below a directory.
func unpack(root *os.Root, from io.Reader) error {
	files := tar.NewReader(from)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read tar file: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(filepath.Clean(h.Name)), 0o755); err != nil {
			return err
		}
		file, err := root.Create(filepath.Clean(h.Name))
		if err != nil {
			return err
		}
		_, err = io.Copy(file, files)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
}
