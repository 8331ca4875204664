package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters/durable"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/tools/offline/layers"
)

// agentImage is what agent-image has written.
type agentImage struct {
	Image        string `json:"image"` // For --agent-image.
	File         string `json:"file"`
	Architecture string `json:"architecture"`
}

func newAgentImage() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "agent-image FILE",
		Short: "Write an image for --agent-image to a file, for nodes that have no pause image and no registry",
		Long: `Agent-image writes an image for --agent-image as an archive, and prints its name. Its one program is the
agent, which waits there until it is stopped. It is for nodes of this machine's architecture. The nodes get it by
kind load image-archive, or by ctr on each of them.`,
		Example: "  seatrial agent-image agent.tar\n" +
			"  ctr --namespace k8s.io images import agent.tar    # on each node\n" +
			"  seatrial run smoke --kubeconfig F --agent-image localhost/seatrial/agent:HASH",
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fileToWrite("FILE", args[0]); err != nil {
				return err
			}
			path, err := program.Agent().Find(cmd.Context(), quiet(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			binary, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read agent: %w", err)
			}
			sum := sha256.Sum256(binary)
			image := "localhost/seatrial/agent:" + hex.EncodeToString(sum[:6])
			made := agentImage{image, args[0], runtime.GOARCH}
			var archive bytes.Buffer
			if err := layers.WriteProgram(&archive, image, path, "/seatrial-agent", "wait"); err != nil {
				return err
			}
			if err := durable.Write(args[0], archive.Bytes()); err != nil {
				return fmt.Errorf("write image: %w", err)
			}
			out := cmd.OutOrStdout()
			return writeAs(out, output, made, []string{image}, func() error {
				say(out, "wrote %s for linux/%s\nload it on every node, then give --agent-image %s", made.File,
					made.Architecture, image)
				return nil
			})
		},
	}
	outputFlag(cmd, &output, "image")
	return cmd
}

// folderToWrite refuses a path at which no directory can be made or written to. It makes none.
func folderToWrite(name, path string) error {
	at := path
	info, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%q is not a directory", at)
	}
	if err == nil {
		err = unix.Access(at, unix.W_OK)
	}
	if err != nil {
		return badArguments("%s %q cannot be written to: %w; name another directory", name, path, err)
	}
	return nil
}

// fileToWrite refuses a path at which no file can be written. The name is that of the flag or argument.
func fileToWrite(name, path string) error {
	if into, err := os.Stat(filepath.Dir(path)); err != nil || !into.IsDir() {
		return badArguments("%s: %q is not a directory", name, filepath.Dir(path))
	}
	switch info, err := os.Stat(path); {
	case path == "":
		return badArguments("%s is empty; name a file", name)
	case err == nil && info.IsDir():
		return badArguments("%s: %q is a directory; name a file in it", name, path)
	case err == nil && !info.Mode().IsRegular():
		return badArguments("%s: %q is no regular file, and would be replaced by one; name another", name, path)
	}
	return nil
}
