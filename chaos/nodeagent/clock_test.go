package nodeagent_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

// clocked is a node whose boot clock is an hour behind the harness's, known to a second.
type clocked struct{ *fake.Node }

func (clocked) BootClock(context.Context) (clusters.NodeClock, error) {
	return clusters.NodeClock{Offset: time.Hour, Error: time.Second}, nil
}

// TestAnswersAreOnTheHarnessClock asks a node with a clock of its own.
func TestAnswersAreOnTheHarnessClock(t *testing.T) {
	t.Parallel()
	n := fake.NewCluster("c", 1).Node("worker")
	n.On([]string{nodeagent.Path, "probe", "process", "..."}, fake.Reply{
		Stdout: `{"at": 5000000000, "pid1Start": 7, "processes": [{"pid": 1, "start": 7}]}`,
	})
	n.On([]string{nodeagent.Path, "probe", "ping", "..."}, fake.Reply{
		Stdout: `[{"address": "", "begin": 5000000000, "end": 6000000000, "first": 0}]`,
	})
	found, err := nodeagent.On(clocked{n}).Processes(t.Context(), probe.Query{PIDs: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	want := probe.Processes{
		At: history.Time(time.Hour + 6*time.Second), PID1Start: 7, Processes: []probe.Process{{PID: 1, Start: 7}},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	var echoes []probe.Echo
	if err := nodeagent.On(clocked{n}).Call(t.Context(), &echoes, nil, "probe", "ping", "x"); err != nil {
		t.Fatal(err)
	}
	echo := probe.Echo{Begin: history.Time(time.Hour + 4*time.Second), End: history.Time(time.Hour + 7*time.Second)}
	if diff := cmp.Diff([]probe.Echo{echo}, echoes); diff != "" {
		t.Error(diff)
	}
}

// TestEveryTimeSaysItsClock holds that no time of an answer is left on the clock of its node by mistake.
func TestEveryTimeSaysItsClock(t *testing.T) {
	t.Parallel()
	seen := 0
	var look func(path string, typ reflect.Type)
	look = func(path string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(path, typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				if f.Type != reflect.TypeFor[history.Time]() {
					look(path+"."+f.Name, f.Type)
					continue
				}
				seen++
				if !slices.Contains([]string{"from", "to", "node"}, f.Tag.Get("clock")) {
					t.Errorf("%s.%s does not say which clock it is on", path, f.Name)
				}
			}
		}
	}
	for _, answer := range []any{
		probe.Answer{}, probe.Clock{}, probe.Connect{}, probe.Echo{}, probe.FlowReport{}, probe.Processes{},
		volfault.Report{}, undo.Record{}, nodeagent.TriggerEvent{},
	} {
		look(reflect.TypeOf(answer).Name(), reflect.TypeOf(answer))
	}
	if seen < 15 {
		t.Errorf("%d times in all answers", seen)
	}
}
