package nodeagent

import (
	"context"
	"reflect"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
)

// clockOf returns how the clock on which the agent tells times relates to the harness's.
func (a Agent) clockOf(ctx context.Context) (clusters.NodeClock, error) {
	node, ok := a.Node.(clusters.ClockedNode)
	if !ok {
		return clusters.NodeClock{}, nil // One kernel, one clock.
	}
	return node.BootClock(ctx)
}

// convert puts the times of an answer, a pointer, on the harness's clock, as the tags of its fields say: clock:"from"
// is when something was not earlier than, clock:"to" when it was not later than. Clock:"node" stays: it names a process
// or a boot, and is compared with others of its node only. 0 is never.
func convert(answer any, clock clusters.NodeClock) {
	if clock != (clusters.NodeClock{}) {
		convertValue(reflect.ValueOf(answer), clock, "")
	}
}

func convertValue(v reflect.Value, clock clusters.NodeClock, tag string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			convertValue(v.Elem(), clock, tag)
		}
	case reflect.Slice:
		for i := range v.Len() {
			convertValue(v.Index(i), clock, tag)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				convertValue(v.Field(i), clock, field.Tag.Get("clock"))
			}
		}
	default:
		at, ok := v.Addr().Interface().(*history.Time)
		if !ok || *at == 0 {
			return
		}
		from, to := clock.Span(int64(*at), int64(*at))
		switch tag {
		case "from":
			*at = history.Time(from)
		case "to":
			*at = history.Time(to)
		}
	}
}
