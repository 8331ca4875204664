package faulttest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/chaosmesh"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
)

// parameterized returns the faults that have parameters, by name.
func parameterized() map[string]fault.Definition {
	all := map[string]fault.Definition{}
	for _, d := range append(definitions(), chaosmesh.Experiment()) {
		if len(d.Params) > 0 {
			all[d.Name] = d
		}
	}
	return all
}

// withParams is the example of a fault with other parameters, as it would be read from a file.
func withParams(t *testing.T, d fault.Definition, params string) (plan.Plan, plan.Caps) {
	t.Helper()
	caps := fault.Caps([]fault.Definition{d}, []string{"ledger"})
	p := scenarios.Example(caps.Faults[0], nil)
	p.Steps[0].Fault.Ordinal = 1
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	p, err = plan.Decode(bytes.Replace(text, []byte(`"hold":"10s"`), []byte(`"hold":"10s"`+params), 1))
	if err != nil {
		t.Fatal(err)
	}
	return p, caps
}

func TestExamplesOfParametersAreLegal(t *testing.T) {
	for name, d := range parameterized() {
		caps := fault.Caps([]fault.Definition{d}, []string{"ledger"})
		p := scenarios.Example(caps.Faults[0], d.Example)
		if err := p.Validate(caps); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := plan.Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if same, err := json.Marshal(again); err != nil || !bytes.Equal(same, text) {
			t.Errorf("%s: %v; read and written again it is\n%s\nwant\n%s", name, err, same, text)
		}
	}
}

// TestMistakesInParameters holds that each names its field.
func TestMistakesInParameters(t *testing.T) {
	const csi = `"csi": {"rpc": "NodeStageVolume", `
	for _, tc := range []struct{ fault, params, want string }{
		{"node-partition", `"families": ["ipv5"]`, `families[0]: no address family "ipv5"; did you mean "ipv4"?`},
		{"node-partition", `"families": ["ipv4", "ipv4"]`, `families[1]: "ipv4" is there twice; leave it out`},
		{"node-partition", `"families": "ipv4"`, `families: is "ipv4"; use a list, in brackets`},
		{"api-reject", `"verbs": ["get"]`, `resources: is empty; use some of configmaps, csidrivers`},
		{"api-reject", `"resources": ["pods"], "of": "schedular"`,
			`of: no client "schedular"; did you mean "scheduler"?`},
		{"api-reject", `"resources": ["pod"]`, `resources[0]: no resource "pod"; did you mean "pods"?`},
		{"api-reject", `"resources": ["pods"], "verbs": ["watch"]`, `verbs[0]: no verb "watch"`},
		{"node-partition", `"direction": "inn"`, `direction: no direction "inn"; did you mean "in"`},
		{"node-partition", `"flows": "old"`, `flows: no flows "old"`},
		{"node-partition", `"reject": 1`, `reject: is 1; use true or false`},
		{"node-partition", `"percent": 30`, `percent: fault "node-partition" does not take it; leave it out`},
		{"node-partition", `"Reject": true`, `Reject: fault "node-partition" does not take it; did you mean "reject"?`},
		{"packet-loss", `"direction": "in"`, "percent: 0 is out of range; use 1 to 99"},
		{"packet-loss", `"percent": 100`, "percent: 100 is out of range; use 1 to 99"},
		{"packet-loss", `"percent": -1`, "percent: -1 is out of range; use 1 to 99"},
		{"packet-loss", `"percent": 1.5`, "percent: is 1.5; use a whole number"},
		{"packet-loss", `"percent": 30, "flows": "new"`, `flows: fault "packet-loss" does not take it`},
		{"pod-partition", `"direction": "in"`, "peer: is missing"},
		{"pod-partition", `"peer": 1`, "peer: 1 is the victim itself"},
		{"node-isolate", `"peer": 9`, "peer: 9 is out of range; use 0 to 1"},
		{"network-delay", `"delay": "0s"`, "delay: 0s is out of range; use 10ms to 5s"},
		{"network-delay", `"delay": "-1ns"`, "delay: -1ns is out of range"},
		{"network-delay", `"delay": "6s"`, "delay: 6s is out of range"},
		{"network-bandwidth", `"delay": "1s"`, `delay: fault "network-bandwidth" does not take it`},
		{"network-bandwidth", `"kbits": 0`, "kbits: 0 is out of range"},
		{"network-bandwidth", `"kbits": 1152921504606846976`, "kbits: 1152921504606846976 is out of range"},
		{"clock-step", `"kbits": 600`, `kbits: fault "clock-step" does not take it`},
		{"clock-step", `"offset": "0s"`, "offset: 0s is out of range"},
		{"clock-step", `"offset": "-1ns"`, "offset: -1ns is out of range"},
		{"clock-step", `"offset": "-2562047h47m16s"`, "offset: -2562047h47m16s is out of range"},
		{"container-kill", `"container": "../mysql"`, `container: "../mysql" is not a name`},
		{"pod-delete", `"grace": "1ns"`, "grace: 1ns is out of range; use whole seconds"},
		{"pod-delete", `"grace": "-1s"`, "grace: -1s is out of range"},
		{"pod-delete", `"grace": 5`, `grace: is 5; use text like "1m30s"`},
		{"page-flip", `"file": "../etc/passwd"`, `file: "../etc/passwd" is not one of a file in a volume`},
		{"page-flip", `"file": "a\u001bb"`, `file: "a\x1bb" is not one of a file in a volume`},
		{"file-truncate", `"file": ""`, `file: "" is not one of a file in a volume`},
		{"csi-point", `"csi": null`, "csi: is null; use fields, in braces"},
		{"csi-point", csi + `"act": "fial"}`, `csi.act: no act "fial"; did you mean "fail"?`},
		{"csi-point", csi + `"act": "fail", "code": "OK"}`, `csi.code: no code "OK"`},
		{"csi-point", csi + `"act": "hold", "code": "Internal"}`, `csi.code: act "hold" answers no code of its own`},
		{"csi-point", csi + `"act": "delay"}`, "csi.delay: 0s is out of range"},
		{"csi-point", csi + `"act": "hold", "delay": "1s"}`, `csi.delay: act "hold" has no delay`},
		{"csi-point", csi + `"act": "hold", "times": 1001}`, "csi.times: 1001 is out of range; use 0 to 1000"},
		{"csi-point", csi + `"act": "hold", "hits": 1}`, "csi.hits: there is no such field"},
		{"csi-point", `"csi": {"rpc": "NodeStageVolumes", "act": "hold"}`,
			`csi.rpc: no method "NodeStageVolumes"; did`},
		{"csi-point", `"csi": {"rpc": "NodeGetCapabilities", "act": "hold"}`,
			`csi.every: is missing: "NodeGetCapabilities" is about no volume; set it`},
		{"csi-point", `"csi": {"rpc": "NodeGetCapabilities", "act": "lie", "every": true}`,
			`csi.act: "NodeGetCapabilities" changes nothing, so it cannot lie`},
		{"node-reboot", `"boot": "10s"`, "boot: 10s is out of range; use 50s to 10m0s, or leave it out"},
		{"node-stop", `"boot": "11m"`, "boot: 11m0s is out of range"},
		{"mesh", `"container": "mysql"`, `container: fault "mesh" does not take it`},
	} {
		p, caps := withParams(t, parameterized()[tc.fault], ", "+tc.params)
		err := p.Validate(caps)
		if err == nil || !strings.Contains(err.Error(), "steps[0].fault."+tc.want) {
			t.Errorf("%s with %s: got %v, want %q", tc.fault, tc.params, err, tc.want)
		}
		if err != nil && strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("%s with %s: got %v, want one error", tc.fault, tc.params, err)
		}
	}
	for _, name := range []string{"csi-point", "mesh", "page-flip", "pod-partition"} { // They cannot be without any.
		p, caps := withParams(t, parameterized()[name], "")
		if p.Validate(caps) == nil {
			t.Errorf("%s passes without parameters", name)
		}
	}
}

// TestParametersAreDescribed holds that a reader is told of them before anything is touched.
func TestParametersAreDescribed(t *testing.T) {
	peer := parameterized()["pod-partition"]
	p, _ := withParams(t, peer, `, "peer": 0, "direction": "in", "reject": true`)
	want := "fault: pod-partition on the node of mysql-1, direction in, peer 0, reject, held 10s"
	if got := p.Describe(p.Steps[0]); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAFaultIsReadAsItWasWritten holds that common fields and parameters are told apart by name alone.
func TestAFaultIsReadAsItWasWritten(t *testing.T) {
	const text = `{"name":"x","ordinal":2,"hold":"1s","outlast":true,"families":["ipv4"],"percent":3}`
	var f plan.Fault
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Params) != 2 || !f.Outlast || f.Ordinal != 2 {
		t.Errorf("got %+v", f)
	}
	again, err := json.Marshal(f)
	if err != nil || string(again) != text {
		t.Errorf("got %s, %v, want %s", again, err, text)
	}
	if got := fmt.Sprint(f.Params["percent"]); got != "3" {
		t.Errorf("got percent %s", got)
	}
}
