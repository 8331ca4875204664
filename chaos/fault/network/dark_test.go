package network

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent"
)

// darkRecord is the record of an order that was carried out, with what its probes and counters said.
func darkRecord(connected string, cut string) nodeagent.OrderRecord {
	probe := []string{"seatrial-agent", "probe", "tcp", "10.0.0.2:6443"}
	counters := []string{"nft", "-j", "list", "counters", "table", "inet", "t"}
	var entries []string
	for _, name := range counterNames() {
		entries = append(entries, `{"counter":{"name":"`+name+`","packets":`+cut+`}}`)
	}
	return nodeagent.OrderRecord{Over: true, Did: []nodeagent.Did{
		{Argv: []string{"nft", "-f", "-"}, Begin: 10, End: 11},
		{Argv: probe, Begin: 12, End: 13, Out: `[{"address":"10.0.0.2:6443","connected":` + connected + `}]`},
		{Argv: counters, Begin: 13, End: 14, Out: `{"nftables":[` + strings.Join(entries, ",") + `]}`},
		{Argv: probe, Begin: 14, End: 15, Error: "it was cut short"},
		{Argv: []string{"nft", "delete"}, Begin: 16, End: 17},
	}}
}

func TestWhatANodeSawInTheDark(t *testing.T) {
	facts, err := darkFacts("w", "t", darkRecord("false", "3"))
	if err != nil || len(facts) != 3 || facts[1].Span.NotBefore != 12 || facts[1].Span.NotAfter != 13 ||
		facts[1].Sentence != "w reached none of 10.0.0.2:6443 (1 rounds of probes); our rules cut 12 packets" {
		t.Errorf("got %+v, %v", facts, err)
	}
	bad := map[string]nodeagent.OrderRecord{
		"it reached 10.0.0.2:6443": darkRecord("true", "3"), "counted no packet": darkRecord("false", "0"),
	}
	r := darkRecord("false", "3")
	r.Over = false
	bad["has not carried out"] = r
	r = darkRecord("false", "3")
	r.Did[0].Error = "no such table"
	bad["no such table"] = r
	r = darkRecord("false", "3")
	r.Did = slices.Delete(r.Did, 1, 2)
	bad["did not probe anything"] = r
	r = darkRecord("false", "3")
	last := &r.Did[len(r.Did)-1]
	last.Begin, last.End = last.Begin.Add(time.Minute), last.End.Add(time.Minute)
	bad["did not probe for the last 1m0s"] = r
	r = darkRecord("false", "3")
	r.Did[2].Out = `{"nftables":[]}`
	bad["is missing"] = r
	bad["has not carried out its order: it did nothing"] = nodeagent.OrderRecord{}
	for _, says := range slices.Sorted(maps.Keys(bad)) {
		if facts, err := darkFacts("w", "t", bad[says]); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %+v, %v", says, facts, err)
		}
	}
}
