package main

import "testing"

func TestVolumesRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"mount", "pv"}, {"make"}, {"make", "pv"}, {"make", "../etc=64"},
		{"make", "pv=many"}, {"make", "--file-system", "btrfs", "pv=64"}, {"remove"},
		{"inspect"},
	} {
		code, out, messages := runAgent(t, nil, append([]string{"volumes"}, args...)...)
		if code != exitBadArguments || out != "" || messages == "" {
			t.Errorf("%q: exit code %d, output %q, messages %q", args, code, out, messages)
		}
	}
}
