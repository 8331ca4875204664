package suites_test

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ears looks again and again which programs of ours listen, for as long as a trial is carried out: the harness with
// the processes that it has started, and every agent on this machine, on whose kernel the nodes of kind are.
type ears struct {
	stop, done chan struct{}
	agents     map[int]bool      // Pids of those that were seen.
	found      map[string]string // What listens, by its program and socket.
}

// listenUp begins to look.
func listenUp() *ears {
	e := &ears{stop: make(chan struct{}), done: make(chan struct{}), agents: map[int]bool{}, found: map[string]string{}}
	go func() {
		defer close(e.done)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for {
			e.look()
			select {
			case <-ticks.C:
			case <-e.stop:
				return
			}
		}
	}()
	return e
}

// end returns how many agents were seen, and what listened.
func (e *ears) end() (agents int, found []string) {
	close(e.stop)
	<-e.done
	return len(e.agents), slices.Sorted(maps.Values(e.found))
}

func (e *ears) look() {
	parents := map[int]int{}
	programs := map[int]string{}
	entries, _ := os.ReadDir("/proc") // It is there, or nothing is seen, which fails.
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", entry.Name(), "exe"))
		if err != nil {
			continue // A thread of the kernel, or gone by now.
		}
		programs[pid], parents[pid] = filepath.Base(strings.TrimSuffix(exe, " (deleted)")), parentOf(pid)
	}
	for pid, program := range programs {
		if program == "seatrial-agent" {
			e.agents[pid] = true
		} else if program != "seatrial" && !descends(parents, pid, os.Getpid()) {
			continue
		}
		for _, socket := range listening(pid) {
			e.found[program+socket] = fmt.Sprintf("%s, pid %d, listens: %s", program, pid, socket)
		}
	}
}

// descends reports whether a process is another, or was started by it or by one that it has started.
func descends(parents map[int]int, pid, from int) bool {
	for pid > 1 && pid != from {
		pid = parents[pid]
	}
	return pid == from
}

func parentOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ") // For example "214 (kubelet) S 1 214 ...".
	if word := strings.Fields(after); len(word) > 1 {
		parent, _ := strconv.Atoi(word[1])
		return parent
	}
	return 0
}

// listening returns the sockets of a process that take what others send without being asked: TCP and Unix sockets that
// listen, and UDP sockets that are connected to nobody (kernel Documentation/networking/proc_net_tcp.rst, unix(7)).
func listening(pid int) []string {
	at := fmt.Sprintf("/proc/%d/", pid)
	mine := map[string]bool{}
	links, _ := os.ReadDir(at + "fd") // A process that is gone has none.
	for _, link := range links {
		to, err := os.Readlink(at + "fd/" + link.Name())
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			mine[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var found []string
	for _, table := range []struct {
		name         string
		state, inode int // Which words.
		listens      func(state string) bool
	}{
		{"tcp", 3, 9, func(s string) bool { return s == "0A" }},
		{"tcp6", 3, 9, func(s string) bool { return s == "0A" }},
		{"udp", 3, 9, func(s string) bool { return s == "07" }},
		{"udp6", 3, 9, func(s string) bool { return s == "07" }},
		{"unix", 3, 6, func(s string) bool { return s == "00010000" }},
	} {
		file, err := os.Open(at + "net/" + table.name)
		if err != nil {
			continue // It is gone.
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			word := strings.Fields(lines.Text())
			if len(word) > table.inode && mine[word[table.inode]] && table.listens(word[table.state]) {
				found = append(found, table.name+" "+lines.Text())
			}
		}
		_ = file.Close() // Nothing was written to it.
	}
	return found
}

// TestListenersAreFound has this process listen in every way, and no longer.
func TestListenersAreFound(t *testing.T) {
	self := os.Getpid()
	before := len(listening(self))
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closers := []interface{ Close() error }{tcp}
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	closers = append(closers, udp, unix)
	tcp6, err := net.Listen("tcp6", "[::1]:0")
	switch {
	case err == nil:
		closers = append(closers, tcp6)
	case !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.EAFNOSUPPORT):
		t.Fatal(err)
	}
	if got := listening(self); len(got) != before+len(closers) {
		t.Errorf("%d listen, found %q", len(closers), got)
	}
	e := listenUp()
	if _, found := e.end(); len(found) < len(closers) {
		t.Errorf("%d listen, heard %q", len(closers), found)
	}
	talks, err := net.Dial("tcp4", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append(closers, talks) {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := listening(self); len(got) != before {
		t.Errorf("none listens, found %q", got)
	}
}
