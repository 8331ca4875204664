package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// Integrity judges what programs that look for damage have said: MySQL of its tables, and in its error log, and, when
// every instance had ended and nobody had a volume mounted any more, the file system's own checker of each volume.
//
// It goes beyond what the clients wrote and read back: two writers on one volume may leave every row of the last one in
// place, and the file system below it with blocks that belong to two files.
func Integrity() Check {
	return Check{
		Name:    "integrity",
		Promise: "No table and no file system is damaged.",
		Source: "MySQL manual, CHECK TABLE Statement; e2fsck(8) and xfs_repair(8) with -n, which look and change " +
			"nothing",
		Judge: judgeIntegrity,
	}
}

func judgeIntegrity(h *world.World) Result {
	r := newRuling("tables and file systems looked over")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	objects := h.Storage()
	tables, volumes := map[string]bool{}, map[string]bool{}
	for _, e := range h.Of(history.KindInspection) {
		in := e.Inspection
		if in.Error != "" {
			r.unknown("%s could not be looked over for damage: %s", inspected(in), in.Error)
			continue
		}
		r.evidence++
		switch {
		case in.Table != "":
			tables[in.Instance] = true
		case in.PV != "":
			volumes[in.PV] = true
		}
		if !in.Clean {
			r.breach(Finding{
				Promise: Integrity().Promise, Subject: inspected(in), Span: e.Span,
				Node:     world.FirstOf(in.Node, objects.NodeOf(in.Instance)),
				Sentence: fmt.Sprintf("%s found damage in %s: %s.", in.Tool, inspected(in), firstWords(in.Messages)),
				Events:   []int64{e.ID}, Faults: s.FaultsUntil(e.Span.NotAfter),
			})
		}
	}
	missing := slices.DeleteFunc(s.Instances(s.Finally()),
		func(name string) bool { return tables[name] || s.Plan.Workload.Light })
	if len(missing) > 0 {
		r.unknown("the tables of %s were never looked over for damage", strings.Join(missing, ", "))
	}
	if want := s.Finally(); len(volumes) < want {
		r.unknown("the file systems of %d volumes were looked over for damage, the workload has %d", len(volumes), want)
	}
	return r.result()
}

// inspected names what was looked at.
func inspected(in *history.Inspection) string {
	switch {
	case in.Table != "":
		return fmt.Sprintf("table %s of %s", in.Table, in.Instance)
	case in.PV == "":
		return "the data of " + in.Instance
	}
	return "the file system of volume " + in.PV
}

// firstWords are the first few messages of a tool.
func firstWords(messages []string) string {
	const few = 3
	if len(messages) == 0 {
		return "it does not say which"
	}
	var words []string
	for _, m := range messages[:min(few, len(messages))] {
		words = append(words, strings.TrimSuffix(strings.TrimSpace(m), "."))
	}
	if len(messages) > few {
		words = append(words, "and more")
	}
	return strings.Join(words, "; ")
}
