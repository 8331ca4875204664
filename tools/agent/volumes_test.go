package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/seatrial/seatrial/fixtures/localpv/nodevolume"
)

func TestVolumesRefusesBadArguments(t *testing.T) {
	tests := [][]string{
		nil,
		{"grow"},
		{"mount", "pv"},
		{"make"},
		{"make", "--size-mib", "64"},
		{"make", "--size-mib", "64", "../etc"},
		{"make", "--size-mib", "many", "pv"},
		{"make", "--size-mib", "64", "--file-system", "btrfs", "pv"},
		{"remove"},
	}
	for _, args := range tests {
		store := nodevolume.Store{Config: filepath.Join(t.TempDir(), "volumes.json")}
		err := runVolumes(context.Background(), store, &bytes.Buffer{}, args)
		var bad *argumentError
		if !errors.As(err, &bad) {
			t.Errorf("volumes %q = %v, want an argument error", args, err)
		}
	}
}

func TestVolumesMountOfNothing(t *testing.T) {
	var out bytes.Buffer
	store := nodevolume.Store{Config: filepath.Join(t.TempDir(), "volumes.json")}
	if err := runVolumes(context.Background(), store, &out, []string{"mount"}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "[]\n" {
		t.Errorf("volumes mount printed %q, want an empty list", out.String())
	}
}
