package main

import (
	"bytes"
	"strings"
	"testing"
)

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
