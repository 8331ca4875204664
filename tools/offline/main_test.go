package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestNoHome: a service has no home. That is no matter of usage, and the answer says it.
func TestNoHome(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "SEATRIAL_CACHE"} {
		t.Setenv(name, "")
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"status"}, &stdout, &stderr); code != 255 || stderr.Len() > 0 {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
	if !strings.Contains(stdout.String(), `"error": "find cache directory`) {
		t.Errorf("answer %q", stdout.String())
	}
}

func TestRunBadArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"ensure", "now"}, {"ensur"}, {"--help"},
		{"images", "--kubernetes-version=v1.20.0"}, {"images", "--source=cloud"}, {"pin"}, {"status", "--engine=x"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != 254 {
			t.Errorf("run(%q) = %d, want 254", args, code)
		}
		if stdout.Len() > 0 || !strings.Contains(stderr.String(), "usage: offline COMMAND") {
			t.Errorf("run(%q) said %q and %q", args, stdout.String(), stderr.String())
		}
	}
}
