package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

// illegalPlan is the text of a plan that must be refused.
type illegalPlan struct {
	Name  string
	Field string // What the refusal must name; empty where the text breaks off.
	Text  []byte
}

// illegalPlans returns plans that must be refused, always the same in the same order: each is a legal one with one
// value changed, taken away, or put in.
func illegalPlans() []illegalPlan {
	var all []illegalPlan
	for _, p := range legalPlans() {
		all = append(all, mutate(p)...)
	}
	return append(all, contradictions()...)
}

// hostile are texts that are no name of anything: what a shell, a terminal, a file system or a reader would make
// something of. They are JSON already, which can hold bytes that are not UTF-8.
func hostile() []string {
	texts := []string{
		"$(touch /tmp/owned)", "`id`", "; rm -rf /", "| cat /etc/passwd",
		"a && b", "'\"", "../../etc/passwd", "/", "..",
		"-rf", "a b", "a\nb", "a\r\nb", "a\x00b", "\x1b[2J\x1b[31m", "\x1b]0;title\x07", "\u202egnp.exe", "MySQL",
		"kube-system/x", "%s%n", "{{.}}", "*", "~root", "C:\\x", strings.Repeat("x", 10_000),
	}
	for i, s := range texts {
		quoted, err := json.Marshal(s)
		if err != nil {
			quoted = []byte(`"` + s + `"`)
		}
		texts[i] = string(quoted)
	}
	return append(texts, "\"\xff\xfe\"", "\"a\xc3\x28\"", `"\ud800 alone"`)
}

// some returns the next ones of the hostile texts, so that all of them have their turn.
func (m *mutator) some(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = m.hostile[m.turn%len(m.hostile)]
		m.turn++
	}
	return texts
}

// What can be put in the place of a value of each kind, as JSON.
func (m *mutator) others(kind, field string) []string {
	switch kind {
	case "text":
		wrong := []string{"7", "null", "[]", "{}", "true"}
		switch {
		case field == "value", field == "command": // Any text is one.
			return wrong
		case field == "note":
			return append(wrong, `"a\nb"`, `"\u001b[2J"`, `"\u0000"`, `"`+strings.Repeat("x", 500)+`"`)
		}
		if !slices.Contains(optional(), field) {
			wrong = append(wrong, `""`)
		}
		return append(wrong, m.some(6)...)
	case "duration":
		return []string{
			`"-1s"`, `"-9223372036854775808ns"`, `"9223372036854775808ns"`,
			`"300000h"`, `"1e9h"`, `"NaN"`, `"Inf"`, `""`,
			`"5"`, `"1h\n"`, `"\u001b[31m"`, `"1 s"`, `"one minute"`, "5",
			"NaN", "null", "true", "[]", "{}", `"1s; reboot"`,
		}
	case "number":
		wrong := []string{
			"-1", "1.5", "1e400", "NaN", "Infinity", "1000000000000000000000000000000",
			`"1"`, `"$(id)"`, "null",
			"true", "[]", "{}",
		}
		if field != "seed" {
			wrong = append(wrong, "9223372036854775807", "-9223372036854775808")
		}
		return wrong
	case "bool":
		return []string{"1", `"true"`, "null", "[]"}
	case "list":
		wrong := []string{`"x"`, "7", "{}", "true", `[7]`, `[[]]`}
		if field != "command" {
			wrong = append(wrong, `["x"]`)
		}
		return wrong
	}
	return []string{`"x"`, "7", "[]", "true"}
}

// optional are the fields that may be empty.
func optional() []string {
	return []string{
		"broken", "container", "direction", "fencing", "flows", "name", "place",
		"since", "stage", "storage", "updateStrategy", "wait",
		"whenDeleted", "whenScaled",
	}
}

// required are the fields that cannot be left out, each where it is in a legal plan.
func required() []string {
	return []string{
		"act", "after", "await", "blindGap", "bound", "bounds", "branches",
		"cascade", "clients", "code", "commits", "csi",
		"command", "do", "exec", "fault", "fileSystem", "for", "hold", "kind", "label",
		"lasting", "minAround", "minOps", "n", "object", "op",
		"path", "ready", "replicas", "revision", "rpc", "scenario",
		"schema", "settle", "statefulSet", "steps", "tamper",
		"update", "volumeMiB", "workers",
	}
}

// mutator changes one value of a plan after another.
type mutator struct {
	name    string
	tree    any
	hostile []string
	turn    int
	cases   []illegalPlan
}

func mutate(p plan.Plan) []illegalPlan {
	m := mutateValues(p.Scenario, p)
	whole := m.text()
	for _, more := range []string{"{}", "x", "]", "\x00"} {
		m.cases = append(m.cases, illegalPlan{m.name + ": more after it", "plan", append(bytes.Clone(whole), more...)})
	}
	for cut := 1; cut < len(whole); cut += len(whole)/16 + 1 {
		m.cases = append(m.cases, illegalPlan{fmt.Sprintf("%s: cut off at byte %d", m.name, cut), "", whole[:cut]})
	}
	return m.cases
}

// mutateValues changes every value of what is written as JSON.
func mutateValues(name string, of any) *mutator {
	m := &mutator{name: name, hostile: hostile(), turn: len(name)}
	text, err := json.Marshal(of)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		err = dec.Decode(&m.tree)
	}
	if err != nil {
		panic(fmt.Sprintf("make illegal files of %q: %v", name, err)) // It can be written and read.
	}
	m.walk("", "", m.tree, func(v any) { m.tree = v })
	return m
}

// mark stands for a value that json.Marshal would not write.
const mark = "<<here>>"

// text writes the plan as it is now.
func (m *mutator) text() []byte {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m.tree); err != nil {
		panic(fmt.Sprintf("write illegal plan: %v", err)) // It was read from JSON.
	}
	return text.Bytes()
}

// put adds a case in which a value is replaced by some text. Set puts a value into the place.
func (m *mutator) put(what, at string, old any, set func(any), text string) {
	set(mark)
	whole := bytes.Replace(m.text(), []byte(`"`+mark+`"`), []byte(text), 1)
	set(old)
	shown := text
	if len(shown) > 60 {
		shown = shown[:60] + "..."
	}
	field := at
	if !json.Valid(whole) { // The line and the column are named.
		field = "plan"
	}
	m.cases = append(m.cases, illegalPlan{fmt.Sprintf("%s: %s of %s: %q", m.name, what, at, shown), field, whole})
}

// walk changes a value, and those within it.
func (m *mutator) walk(at, field string, v any, set func(any)) {
	kind := kindOf(field, v)
	if at != "" {
		for i, other := range m.others(kind, field) {
			if (i+m.turn)%2 == 0 { // The other half have their turn in the next field.
				m.put("another value", at, v, set, other)
			}
		}
		m.turn++
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			m.walk(fmt.Sprintf("%s[%d]", at, i), field, v[i], func(n any) { v[i] = n })
		}
	case map[string]any:
		m.fields(at, v)
	}
}

// fields changes what fields an object has.
func (m *mutator) fields(at string, object map[string]any) {
	below := func(name string) string {
		if at == "" {
			return name
		}
		return at + "." + name
	}
	all := []string{"bogus", "hodl", "$(id)", "a\nb", "\x1b[2J", "../x", "", "\u202e", strings.Repeat("y", 200)}
	m.turn++
	for _, name := range []string{all[m.turn%len(all)], all[(m.turn+4)%len(all)], "Name"} {
		quoted := name
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzN") != "" || name == "" || len(name) > 63 {
			quoted = strconv.Quote(name)
			if len(name) > 63 {
				quoted = `"yyy`
			}
		}
		object[name] = 1
		what := fmt.Sprintf("%s: unknown field %q in %q", m.name, quoted, at)
		m.cases = append(m.cases, illegalPlan{what, below(quoted), m.text()})
		delete(object, name)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		old := object[name]
		m.walk(below(name), name, old, func(v any) { object[name] = v })
		twice, err := json.Marshal(old)
		if err == nil {
			m.put("twice", below(name), old, func(v any) { object[name] = v },
				fmt.Sprintf("%s,%q:%s", twice, name, twice))
		}
		if slices.Contains(required(), name) {
			delete(object, name)
			m.cases = append(m.cases, illegalPlan{fmt.Sprintf("%s: without %s", m.name, below(name)), below(name),
				m.text()})
			object[name] = old
		}
	}
}

// kindOf says what a value is, by the name of its field and by what it is.
func kindOf(field string, v any) string {
	durations := []string{
		"after", "blindGap", "bound", "delay", "grace", "hold", "interval", "lasting", "preStop", "ready", "settle",
	}
	switch v.(type) {
	case string:
		if slices.Contains(durations, field) {
			return "duration"
		}
		return "text"
	case json.Number:
		return "number"
	case bool:
		return "bool"
	case []any:
		return "list"
	}
	return "object"
}

// contradictions returns plans whose faults cannot be in force together, or hurt more nodes than may be hurt.
func contradictions() []illegalPlan {
	var cases []illegalPlan
	add := func(name, field string, budget int, step plan.Step) {
		p := planWith("made-up-overlap", ledgerOf3(), loadStep(), step)
		p.Bounds.MaxNodes = budget
		plan.Number(p.Steps)
		text, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			panic(fmt.Sprintf("write %s: %v", name, err)) // A plan can be written.
		}
		cases = append(cases, illegalPlan{name, field, append(text, '\n')})
	}
	together := func(a, b plan.Step) plan.Step {
		return plan.Step{Do: plan.ActionTogether, Branches: [][]plan.Step{{a}, {b}}, Bound: 2 * hour}
	}
	nested := func(a, b plan.Step) plan.Step {
		b.Bound = minute
		a.Fault.During = []plan.Step{b}
		return a
	}
	for ordinal := range 3 {
		for _, pair := range clashes() {
			a, b := pair[0], pair[1]
			name := fmt.Sprintf("%s and %s on %d", a, b, ordinal)
			add(name+", within", "steps[1].fault.during[0].fault", 2, nested(faultOn(a, ordinal), faultOn(b, ordinal)))
			add(name+", beside", "steps[1].branches[1][0].fault", 2, together(faultOn(a, ordinal), faultOn(b, ordinal)))
		}
		other := (ordinal + 1) % 3
		for _, pair := range [][2]string{
			{"node-partition", "kubelet-kill"}, {"node-reboot", "node-reboot"}, {"cordon", "kubelet-stop"},
			{"runtime-kill", "node-partition"}, {"node-delete", "cordon"},
		} {
			a, b := faultOn(pair[0], ordinal), faultOn(pair[1], other)
			name := fmt.Sprintf("%s on %d and %s on %d", pair[0], ordinal, pair[1], other)
			add(name+", within", "bounds.maxNodes", 0, nested(a, b))
			add(name+", beside", "bounds.maxNodes", 1, together(faultOn(pair[0], ordinal), b))
		}
		wait := func(step int) plan.Step {
			return awaitStep(plan.Await{For: plan.AwaitFault, Step: step, Stage: plan.StageGone})
		}
		add("waits for itself", "steps[1].fault.during[0].await.step", 2, nested(faultOn("cordon", ordinal), wait(2)))
		add("waits for nobody", "steps[1].fault.during[0].await.step", 2, nested(faultOn("cordon", ordinal), wait(1)))
		add("waits for what has come", "steps[1].fault.during[0].await.step", 2, nested(faultOn("cordon", ordinal),
			awaitStep(
				plan.Await{For: plan.AwaitFault, Step: 2, Stage: plan.StageInjected})))
		outlasts := faultOn("node-delete", ordinal)
		outlasts.Fault.Outlast = true
		add("outlasts nothing", "steps[1].fault.outlast", 2, outlasts)
		outlasts.Bound = minute
		add("outlasts a change", "steps[1].during[0].fault.outlast", 2,
			plan.Step{Do: plan.ActionScale, Replicas: new(2), Bound: hour, During: []plan.Step{outlasts}})
		slow := faultOn("cordon", ordinal)
		slow.Fault.Hold = minute - second
		outer := nested(faultOn("pod-delete", ordinal), slow)
		outer.Fault.Hold, outer.Bound = second, minute
		add("a hold that does not fit", "steps[1].bound", 2, outer)
	}
	return cases
}

// clashes are faults that have the same of one victim in their hands, or one of which takes the other's node away.
func clashes() [][2]string {
	pairs := [][2]string{{"kubelet-kill", "kubelet-stop"}, {"kubelet-stop", "kubelet-kill"}}
	for _, same := range []string{
		"cordon", "kubelet-kill", "kubelet-stop", "manager-kill", "node-delete", "node-partition", "node-reboot",
		"runtime-kill",
	} {
		pairs = append(pairs, [2]string{same, same})
	}
	for _, whole := range []string{"node-partition", "node-reboot"} {
		for _, other := range []string{"kubelet-kill", "kubelet-stop", "runtime-kill"} {
			pairs = append(pairs, [2]string{whole, other}, [2]string{other, whole})
		}
	}
	return append(pairs, [2]string{"node-partition", "node-reboot"}, [2]string{"node-reboot", "node-partition"})
}
