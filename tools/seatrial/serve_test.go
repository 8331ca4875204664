package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServe reads runs over HTTP as a browser does, and is refused what is neither a read nor of this host.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	saved := filepath.Join(dir, "runs", "smoke", "1")
	if err := os.MkdirAll(saved, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(saved, "report.html"): "the page", filepath.Join(dir, "secret"): "of another directory",
		filepath.Join(dir, "runs", "index.html"): "the list",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"latest": "smoke/1", "out": "../secret"} {
		if err := os.Symlink(to, filepath.Join(dir, "runs", name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said, says := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"seatrial", "serve", "--runs", filepath.Join(dir, "runs")}, says, io.Discard)
		_ = says.Close()
	}()
	address, err := bufio.NewReader(said).ReadString('\n')
	address = strings.TrimSpace(address)
	if err != nil || !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Fatalf("it says %q (%v)", address, err)
	}
	for _, tt := range []struct {
		method, path, host string
		status             int
		body               string
	}{
		{"GET", "", "", 200, "the list"},
		{"GET", "smoke/1/report.html", "", 200, "the page"},
		{"GET", "latest/report.html", "", 200, "the page"},
		{"HEAD", "latest/report.html", "", 200, ""},
		{"GET", "smoke/", "", 200, `<a href="1/">`},
		{"GET", "out", "", 404, ""}, // Or 500: what matters is that it is not read.
		{"GET", "../secret", "", 404, ""},
		{"POST", "smoke/1/report.html", "", 405, ""},
		{"DELETE", "smoke/1/report.html", "", 405, ""},
		{"GET", "smoke/1/report.html", "elsewhere.example:80", 403, ""},
	} {
		r, err := http.NewRequestWithContext(ctx, tt.method, address+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		refused := tt.path == "out" && answer.StatusCode >= 400
		if err != nil || answer.StatusCode != tt.status && !refused || !strings.Contains(string(body), tt.body) ||
			strings.Contains(string(body), "another directory") {
			t.Errorf("%s %s: %d %q (%v)", tt.method, tt.path, answer.StatusCode, body, err)
		}
		policy := answer.Header.Get("Content-Security-Policy")
		if answer.StatusCode == http.StatusOK && !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%s: its policy is %q", tt.path, policy)
		}
	}
	stop()
	if got := <-code; got != exitPass {
		t.Errorf("exit code %d", got)
	}
}
