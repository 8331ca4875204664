package nodefacts

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/history"
)

func line(t *testing.T, e history.Event) []byte {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func observer(name, node string) history.Event {
	return history.Event{
		Kind: history.KindObserver, Observer: &history.Observer{Name: name, Node: node, State: history.ObserverOn},
	}
}

func TestDecodeKeepsToItsFile(t *testing.T) {
	t.Parallel()
	f := file{
		name: "the record", source: "csi-controller", observer: "csi-controller", written: "csi",
		kinds: []history.Kind{history.KindCSI, history.KindObserver, history.KindHolding, history.KindPull},
	}
	call := &history.CSI{Node: "n", RPC: "NodeStageVolume"}
	holding := &history.Holding{Node: "n", Namespace: 1}
	pull := &history.Pull{Node: "n", Volume: "v"}
	tests := []struct {
		name string
		in   history.Event
		want history.Event
		err  string
	}{
		{"call", history.Event{ID: 7, Kind: history.KindCSI, Source: "x", CSI: call, Holding: holding},
			history.Event{Kind: history.KindCSI, Source: "csi-controller/n", CSI: call}, ""},
		{"holding", history.Event{Kind: history.KindHolding, Holding: holding},
			history.Event{Kind: history.KindHolding, Source: "csi-controller/n", Holding: holding}, ""},
		{"pull", history.Event{Kind: history.KindPull, Pull: pull, CSI: call},
			history.Event{Kind: history.KindPull, Source: "csi-controller/n", Pull: pull}, ""},
		{"pull out of another node", history.Event{Kind: history.KindPull, Pull: &history.Pull{Node: "m"}},
			history.Event{}, `about node "m"`},
		{"observer", observer("csi", "n"), history.Event{
			Kind: history.KindObserver, Source: "csi-controller/n", Observer: &history.Observer{
				Name: "csi-controller", Node: "n", State: history.ObserverOn,
			},
		}, ""},
		{"observer of another name", observer("mounts", "n"), history.Event{}, `no fact of an observer "mounts"`},
		{"observer of another node", observer("csi", "m"), history.Event{}, `about node "m"`},
		{"call of another node", history.Event{Kind: history.KindCSI, CSI: &history.CSI{Node: "m"}},
			history.Event{}, `about node "m"`},
		{"holding of another node", history.Event{Kind: history.KindHolding, Holding: &history.Holding{}},
			history.Event{}, `about node ""`},
		{"kind that does not belong here", history.Event{Kind: history.KindMount, Mount: &history.Mount{Node: "n"}},
			history.Event{}, `no fact of kind "mount"`},
		{"no payload", history.Event{Kind: history.KindCSI, Holding: holding}, history.Event{}, "no such part"},
		{"span", history.Event{Kind: history.KindCSI, CSI: call, Span: history.Span{NotBefore: 2, NotAfter: 1}},
			history.Event{}, "span"},
	}
	for _, tt := range tests {
		got, _, err := f.decode("n", line(t, tt.in))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s (-want +got): %v\n%s", tt.name, err, diff)
		}
	}
}
