package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"sort"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
)

// factsMost bounds the facts that the page carries, in bytes of JSON; the others are in the history.
const factsMost = 2 << 20

// objectMost bounds an API object in the page: of a longer one only its metadata and status stay.
const objectMost = 4 << 10

// facts takes the facts that marks point at into the page, those of findings first.
func (d *drawer) facts() {
	d.Facts = map[int64]any{}
	size := 0
	for _, id := range d.shown {
		e := d.event(id)
		if e == nil || d.Facts[id] != nil {
			continue
		}
		data, err := json.Marshal(brief(*e))
		if err != nil {
			continue // A fact that cannot be encoded was never in a file.
		}
		if size += len(data); size > factsMost {
			return
		}
		d.Facts[id] = json.RawMessage(data)
	}
}

// event returns a fact by its number, nil if it is missing.
func (d *drawer) event(id int64) *history.Event {
	events := d.world.Events
	i := sort.Search(len(events), func(i int) bool { return events[i].ID >= id })
	if i == len(events) || events[i].ID != id {
		return nil
	}
	return &events[i]
}

// brief is a fact without what makes it long: rows that were read, and the spec of a large API object.
func brief(e history.Event) history.Event {
	if e.Rows != nil {
		rows := *e.Rows
		rows.Rows = nil
		e.Rows = &rows
	}
	if e.Object != nil && len(e.Object.Raw) > objectMost {
		object := *e.Object
		var all map[string]json.RawMessage
		if json.Unmarshal(object.Raw, &all) == nil {
			maps.DeleteFunc(all, func(key string, v json.RawMessage) bool {
				return key == "spec" || len(v) > objectMost
			})
			object.Raw, _ = json.Marshal(all) //nolint:errchkjson // It was JSON before.
		}
		e.Object = &object
	}
	return e
}

// causes are the findings of a report, by cause, numbered as they come.
func (d *drawer) causes(r check.Report) []cause {
	var out []cause
	n := 0
	for _, c := range r.Causes() {
		of := cause{Faults: strings.Join(c.Faults, ", ")}
		for _, f := range c.Found {
			n++
			ids := make([]string, len(f.Events))
			for i, id := range f.Events {
				ids[i] = fmt.Sprint(id)
			}
			of.Found = append(of.Found, found{f, n,
				d.world.Clock(f.Span.NotBefore) + " to " + d.world.Clock(min(f.Span.NotAfter, d.end)),
				d.ms(f.Span.NotBefore), d.ms(f.Span.NotAfter), strings.Join(ids, " "),
			})
		}
		out = append(out, of)
	}
	return out
}
