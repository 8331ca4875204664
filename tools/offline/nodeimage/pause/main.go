// Program pause is what runs in the container that holds a pod's namespaces: it reaps orphaned processes and ends when
// it is told to. With -v it prints its name and ends, as kubeadm's preflight check CreateJob expects it to.
//
// It imports the standard library only.
package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	if slices.Contains(os.Args[1:], "-v") {
		_, _ = os.Stdout.WriteString("pause\n")
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects every child that has ended.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}
