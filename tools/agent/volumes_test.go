package main

import "testing"

func TestVolumesRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"mount", "pv"}, {"make"}, {"make", "--size-mib", "64"}, {"make", "--size-mib", "64", "../etc"},
		{"make", "--size-mib", "many", "pv"}, {"make", "--size-mib", "64", "--file-system", "btrfs", "pv"}, {"remove"},
		{"inspect"},
	} {
		code, out, messages := runAgent(t, nil, append([]string{"volumes"}, args...)...)
		if code != exitBadArguments || out != "" || messages == "" {
			t.Errorf("%q: exit code %d, output %q, messages %q", args, code, out, messages)
		}
	}
}
