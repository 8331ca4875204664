package main

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/trial"
)

func newSetup() *cobra.Command {
	var f clusterFlags
	var output, save, load string
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make what a trial needs: a container engine, the node image, the database image",
		Long: `Setup does what run does before it makes a cluster. A container engine that works is not touched.
Images are built only if their inputs changed; an interrupted build continues where it stopped.
--save also writes them to a file. --load takes them from a file that the same build of seatrial saved on another host;
that needs no Go and no compiler.`,
		Example: "  seatrial setup\n  seatrial setup --save images.tar\n  seatrial setup --load images.tar",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if save != "" && load != "" {
				return badArguments("--save and --load exclude each other")
			}
			if save != "" {
				if err := fileToWrite("--save", save); err != nil {
					return err
				}
			}
			images, m, err := f.setup(cmd.Context(), save, load, cmd.ErrOrStderr())
			if _, bad := errors.AsType[*offline.BadFileError](err); bad {
				return badArguments("--load: %w", err)
			}
			if err != nil {
				return err
			}
			if err := trial.EnsureStorages(cmd.Context(), m); err != nil {
				return err
			}
			if output == "env" {
				say(cmd.OutOrStdout(), "SEATRIAL_ENGINE=%s\nSEATRIAL_NODE_IMAGE=%s", m.Engine, images.Node)
				return nil
			}
			names := []string{images.Node, images.Database.Ref}
			return writeAs(cmd.OutOrStdout(), output, images, names, func() error {
				say(cmd.OutOrStdout(), "engine %s\nnode image %s (%s)\ndatabase image %s (%s)", m.Engine, images.Node,
					images.Source, images.Database.Ref, cmp.Or(images.Database.Source, "build"))
				return nil
			})
		},
	}
	f.registerImages(cmd)
	cmd.Flags().StringVar(&save, "save", "", "write the images to this file (about 1 GB)")
	cmd.Flags().StringVar(&load, "load", "", "take the images from this file instead of building them")
	outputFlag(cmd, &output, "images", "env").Usage += " (NAME=value lines)"
	return cmd
}

// setup makes engine and images. A file that cannot be loaded is refused before the host is touched.
func (f *clusterFlags) setup(
	ctx context.Context, save, load string, stderr io.Writer,
) (offline.Images, trial.ClusterOptions, error) {
	if load != "" {
		err := offline.Tool{CacheDir: f.cache, Progress: stderr}.CheckImages(ctx, load, f.kubernetes)
		if err != nil {
			return offline.Images{}, trial.ClusterOptions{}, err
		}
	}
	m, err := f.options(ctx, stderr)
	if err != nil {
		return offline.Images{}, m, err
	}
	m.Storages = plan.Storages()
	tool := offline.Tool{
		CacheDir: m.CacheDir, Progress: m.Progress, Log: m.Log, Consent: m.Consent, Database: m.DatabaseImage,
	}
	var images offline.Images
	switch {
	case save != "":
		images, err = tool.SaveImages(ctx, save, m.Engine, m.KubernetesVersion, m.ImageSource)
	case load != "":
		images, err = tool.LoadImages(ctx, load, m.Engine, m.KubernetesVersion)
	default:
		images, err = trial.EnsureImages(ctx, m)
	}
	return images, m, err
}
