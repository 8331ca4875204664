package plantest

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

// Case is the text of a plan that must be refused.
type Case struct {
	Name  string
	Field string // What the refusal must name; empty where the text breaks off.
	Text  []byte
}

// OfParams reports whether what is wrong is the value of a fault's parameter, which the fault's definition alone
// judges.
func OfParams(c Case) bool {
	return strings.Contains(c.Field, ".fault.csi") || strings.Contains(c.Field, ".fault.families")
}

// Illegal returns plans that must be refused, always the same in the same order: each is a legal one with one value
// changed, taken away, or put in.
func Illegal() []Case {
	var all []Case
	for _, p := range Legal() {
		all = append(all, mutate(p)...)
	}
	return append(all, Contradictions()...)
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
		case field == "value":
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
		return []string{`"x"`, "7", "{}", "true", `[7]`, `["x"]`, `[[]]`}
	}
	return []string{`"x"`, "7", "[]", "true"}
}

// optional are the fields that may be empty.
func optional() []string {
	return []string{
		"broken", "direction", "fencing", "flows", "name", "place",
		"since", "stage", "storage", "updateStrategy", "wait",
		"whenDeleted", "whenScaled",
	}
}

// required are the fields that cannot be left out, each where it is in a legal plan.
func required() []string {
	return []string{
		"act", "after", "await", "blindGap", "bound", "bounds", "branches",
		"cascade", "clients", "code", "commits", "csi",
		"do", "fault", "fileSystem", "for", "hold", "kind", "label",
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
	cases   []Case
}

func mutate(p plan.Plan) []Case {
	m := &mutator{name: p.Scenario, hostile: hostile(), turn: len(p.Scenario)}
	var text bytes.Buffer
	err := p.Encode(&text)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text.Bytes()))
		dec.UseNumber()
		err = dec.Decode(&m.tree)
	}
	if err != nil {
		panic(fmt.Sprintf("make illegal plans of %q: %v", p.Scenario, err)) // A plan can be written and read.
	}
	m.walk("", "", m.tree, func(v any) { m.tree = v })
	whole := m.text()
	for _, more := range []string{"{}", "x", "]", "\x00"} {
		m.cases = append(m.cases, Case{m.name + ": more after it", "plan", append(bytes.Clone(whole), more...)})
	}
	for cut := 1; cut < len(whole); cut += len(whole)/16 + 1 {
		m.cases = append(m.cases, Case{fmt.Sprintf("%s: cut off at byte %d", m.name, cut), "", whole[:cut]})
	}
	return m.cases
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
	m.cases = append(m.cases, Case{fmt.Sprintf("%s: %s of %s: %q", m.name, what, at, shown), at, whole})
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
		m.cases = append(m.cases, Case{what, below(quoted), m.text()})
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
			m.cases = append(m.cases, Case{fmt.Sprintf("%s: without %s", m.name, below(name)), below(name), m.text()})
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
