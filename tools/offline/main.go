// Program offline makes what a host without a container registry lacks: a container engine that kind can use, the node
// image, the database image, and the sidecars of a CSI driver.
//
// The answer goes to standard output as JSON, messages to standard error; it exits 0 when done, 254 for bad arguments
// and 255 when it failed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/database"
	"github.com/seatrial/seatrial/tools/offline/engine"
	"github.com/seatrial/seatrial/tools/offline/nodeimage"
	"github.com/seatrial/seatrial/tools/offline/sidecars"
	"github.com/seatrial/seatrial/tools/offline/store"
)

const usage = `usage: offline COMMAND [FLAGS]

  ensure     find a container engine that works, or make one
  status     find a container engine that works; changes nothing
  clean      undo what ensure did to this host
  images     make the database image and the node image: --engine, --kubernetes-version, --source, --database
  save       make images and sidecars and write them to a file: --file, and the flags of images
  check      refuse a file that save of this program would not write: --file, --kubernetes-version; changes nothing
  load       take images and sidecars from a file: --file, --engine, --kubernetes-version
  database   make the database image: --database
  sidecars   compile the sidecars of the CSI driver
  pin        pin the modules of the Kubernetes version that follows, and of the sidecars; run it at the root of the
             repository, look at the difference, and commit it

  --cache DIR   where builds are kept
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is one call of the program.
type command struct {
	name, cache                string
	engine, kubernetes, source string
	file, database             string
	args                       []string
	log                        *slog.Logger
	progress                   io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "offline: %v\n%s", err, usage)
		return 254
	}
	answer, err := c.do(ctx)
	if err != nil {
		answer = offline.Answer{Error: err.Error()}
		errors.As(err, &answer.NotFound)
		errors.As(err, &answer.BadFile)
		errors.As(err, &answer.Changes)
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetIndent("", "  ")
	if err := errors.Join(err, encoder.Encode(answer)); err != nil {
		return 255
	}
	return 0
}

func parse(args []string, stderr io.Writer) (command, error) {
	if len(args) == 0 {
		return command{}, errors.New("no command given")
	}
	level := slog.LevelWarn
	if os.Getenv("SEATRIAL_DEBUG") != "" {
		level = slog.LevelDebug
	}
	c := command{
		name: args[0], progress: stderr,
		log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	}
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.cache, "cache", "", "")
	wantArgs := 0
	switch c.name {
	case "ensure", "status", "clean", "sidecars":
	case "database":
		flags.StringVar(&c.database, "database", "", "")
	case "images", "save", "check", "load":
		flags.StringVar(&c.file, "file", "", "")
		flags.StringVar(&c.engine, "engine", "docker", "")
		flags.StringVar(&c.kubernetes, "kubernetes-version", "", "")
		flags.StringVar(&c.source, "source", "auto", "")
		flags.StringVar(&c.database, "database", "", "")
	case "pin":
		wantArgs = 1
	default:
		return command{}, fmt.Errorf("unknown command %q", c.name)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return command{}, err
	}
	if c.args = flags.Args(); len(c.args) != wantArgs {
		return command{}, fmt.Errorf("%s takes %d arguments, got %q", c.name, wantArgs, c.args)
	}
	if slices.Contains([]string{"save", "check", "load"}, c.name) && c.file == "" {
		return command{}, fmt.Errorf("%s needs --file", c.name)
	}
	return c, errors.Join(offline.ValidateImages(c.kubernetes, c.source), offline.ValidateDatabase(c.database))
}

func (c command) do(ctx context.Context) (offline.Answer, error) {
	if c.cache == "" {
		keep, err := store.Default()
		if err != nil {
			return offline.Answer{}, err
		}
		c.cache = keep.Dir
	}
	options := engine.Options{Log: c.log, Out: c.progress}
	var found offline.Engine
	var err error
	switch c.name {
	case "ensure":
		found, err = engine.Ensure(ctx, options)
	case "status":
		found, err = engine.Find(ctx, options)
	case "clean":
		return offline.Answer{}, engine.Clean(ctx, options)
	case "images":
		return c.images(ctx)
	case "save":
		return c.save(ctx)
	case "check":
		return offline.Answer{}, c.check(ctx)
	case "load":
		return c.load(ctx)
	case "database":
		made, err := database.Ensure(ctx, c.databaseOptions())
		return offline.Answer{Database: &made}, err
	case "sidecars":
		made, err := sidecars.Ensure(ctx, c.cache, c.progress)
		return offline.Answer{Sidecars: &made}, err
	case "pin":
		err := nodeimage.Pin(ctx, c.args[0], "tools/offline/nodeimage/pins", offline.ReleasesFile)
		if err == nil {
			err = sidecars.Pin(ctx, "tools/offline/sidecars/pins")
		}
		return offline.Answer{}, err
	}
	return offline.Answer{Engine: &found}, err
}

// images makes both images. It says first what it is about to do.
func (c command) images(ctx context.Context) (offline.Answer, error) {
	fmt.Fprintln(c.progress, "database image: MySQL (about 1m when it must be built or pulled)")
	db, err := database.Ensure(ctx, c.databaseOptions())
	if err != nil {
		return offline.Answer{}, err
	}
	node, err := nodeimage.Ensure(ctx, c.nodeOptions(db))
	if err != nil && (c.source == string(nodeimage.Published) || offline.IsReference(c.source)) {
		return offline.Answer{}, err
	}
	if err != nil {
		return offline.Answer{}, fmt.Errorf("%w\nwhat was built so far is kept: the same command goes on from there",
			err)
	}
	return offline.Answer{Images: &offline.Images{
		Node: node.Ref, KubernetesVersion: node.KubernetesVersion, Source: string(node.Source), Database: db,
	}}, nil
}

func (c command) databaseOptions() database.Options {
	return database.Options{CacheDir: c.cache, Image: c.database, Progress: c.progress, Log: c.log}
}

// nodeOptions are those of a node image with that database image inside.
func (c command) nodeOptions(db offline.Database) nodeimage.Options {
	return nodeimage.Options{
		KubernetesVersion: c.kubernetes, Source: nodeimage.Source(c.source), Engine: c.engine,
		Database: db, CacheDir: c.cache, Progress: c.progress,
	}
}
