package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/e2e/observe/ledgerfile"
	"github.com/seatrial/seatrial/e2e/observe/mountledger"
)

// runLedger keeps the ledger in the foreground. Under systemd (Type=notify) the unit is up when the mark is set and
// what was there before is in the file.
func runLedger(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	path := fs.String("file", "", "file to append facts to; required")
	node := fs.String("node", "", "name of this node in facts; the host name when empty")
	processes := fs.String("processes", "mysqld", "programs whose processes are recorded, separated by commas")
	before := fs.String("before", "containerd,kubelet", "programs that should not run yet, separated by commas")
	method := fs.String("method", string(mountledger.MethodAuto), "auto, fanotify or pollpri")
	if _, err := parse(fs, args, 0, exactly); err != nil {
		return err
	}
	if *path == "" {
		return badArguments("--file is empty: give the file to append facts to")
	}
	if !slices.Contains(mountledger.Methods(), mountledger.Method(*method)) {
		return badArguments("--method is %q, want one of %v", *method, mountledger.Methods())
	}
	cfg := mountledger.Config{
		Node: *node, Processes: split(*processes), Before: split(*before),
		Method: mountledger.Method(*method), Log: std.log,
	}
	if cfg.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find this node's name: %w", err)
		}
		cfg.Node = name
	}
	boot, err := probe.ReadBoot()
	if err != nil {
		return err
	}
	cfg.Boot = boot.Name()
	runtime.GOMAXPROCS(mountledger.Processors())
	file, last, err := ledgerfile.Open(*path, std.log, mountledger.Observers()...)
	if err != nil {
		return err
	}
	cfg.Last = last
	ready := func() error {
		std.log.Info("the ledger is kept", "node", cfg.Node, "boot", cfg.Boot, "file", *path)
		_, err := daemon.SdNotify(false, daemon.SdNotifyReady)
		return err
	}
	// After a loss systemd starts it again, and it lists what is there.
	return errors.Join(mountledger.Run(file.Until(ctx), cfg, file, ready), file.Close())
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
