package clusters_test

import (
	"strings"
	"testing"

	"github.com/seatrial/seatrial/clusters"
)

func TestTailKeepsTheEnd(t *testing.T) {
	w := clusters.Tail{Max: 800}
	for range 1000 {
		if _, err := w.Write([]byte("0123456789")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write([]byte("the end\n")); err != nil {
		t.Fatal(err)
	}
	if text := string(w.Data); len(text) != w.Max || !strings.HasSuffix(text, "9the end\n") {
		t.Errorf("tail has %d bytes and ends in %q", len(text), text[len(text)-10:])
	}
}
