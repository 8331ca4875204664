package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
)

// TestLedgerSaysWhenItSees keeps a ledger by the method that needs no privilege, with a socket in systemd's place.
func TestLedgerSaysWhenItSees(t *testing.T) {
	dir := t.TempDir()
	socket, path := filepath.Join(dir, "s"), filepath.Join(dir, "ledger")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int, 1)
	go func() {
		std := stdio{out: io.Discard, err: t.Output(), log: slog.New(slog.DiscardHandler)}
		done <- run(ctx, std, []string{"ledger", "--file", path, "--node", "n", "--method", "pollpri"})
	}()
	message := make([]byte, 100)
	n, err := conn.Read(message)
	if err != nil || string(message[:n]) != "READY=1" {
		t.Fatalf("told systemd %q (%v)", message[:n], err)
	}
	words := wordsOf(t, path) // What was promised by READY is in the file now.
	if words["mounts on"] != 1 || words["processes on"] != 1 || words["holdings on"] != 1 || words["present"] == 0 {
		t.Errorf("on READY the ledger holds %v", words)
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	words = wordsOf(t, path)
	if words["mounts off"] != 1 || words["processes off"] != 1 || words["holdings off"] != 1 {
		t.Errorf("at the end the ledger holds %v", words)
	}
}

// wordsOf counts what a ledger says.
func wordsOf(t *testing.T, path string) map[string]int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The lines have no ids, so they are no history; the codec's own rules are kept by giving them some.
	words := map[string]int{}
	for line := range bytes.Lines(data) {
		h, err := history.Read(strings.NewReader(strings.Replace(string(line), `"id":0`, `"id":1`, 1)))
		if err != nil || len(h.Events) != 1 {
			t.Fatalf("line %q: %v", line, err)
		}
		switch e := h.Events[0]; {
		case e.Observer != nil:
			words[e.Observer.Name+" "+string(e.Observer.State)]++
		case e.Mount != nil:
			words[string(e.Mount.Action)]++
		}
	}
	return words
}
