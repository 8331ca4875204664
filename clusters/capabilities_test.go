package clusters_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

func TestLacks(t *testing.T) {
	c := clusters.Capabilities{Can: []string{"api", "power"}, Cannot: map[string]string{"netem": "no such kernel"}}
	if lacks := c.Lacks([]string{"api", "power"}); len(lacks) > 0 {
		t.Errorf("lacks %q", lacks)
	}
	lacks := c.Lacks([]string{"api", "netem", "clock"})
	if len(lacks) != 2 || lacks["netem"] != "no such kernel" || lacks["clock"] == "" {
		t.Errorf("lacks %q", lacks)
	}
}

// clocked is a node with a boot clock of its own.
type clocked struct{ clusters.Node }

func (clocked) BootClock(context.Context) (clusters.NodeClock, error) {
	return clusters.NodeClock{Offset: -time.Hour, Error: time.Millisecond}, nil
}

func TestBootClock(t *testing.T) {
	c := fake.NewCluster("c", 1)
	n := c.Node("worker")
	if clock, err := clusters.BootClock(t.Context(), c, n); err != nil || clock != (clusters.NodeClock{}) {
		t.Errorf("one kernel: %v, %v", clock, err)
	}
	c.Able = clusters.Capabilities{Can: []string{clusters.CanAPI}}
	if _, err := clusters.BootClock(t.Context(), c, n); err == nil || !strings.Contains(err.Error(), `"c-worker"`) {
		t.Errorf("a node that does not tell: %v", err)
	}
	clock, err := clusters.BootClock(t.Context(), c, clocked{n})
	if err != nil {
		t.Fatal(err)
	}
	hour, ms := int64(time.Hour), int64(time.Millisecond)
	if earliest, latest := clock.Span(2*hour, 2*hour+5); earliest != hour-ms || latest != hour+5+ms {
		t.Errorf("span %d to %d", earliest, latest)
	}
}
