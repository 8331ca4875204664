package check

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// wholeFiles is the promise of Integrity. wholeSums is that of trials whose data files innochecksum and mysqlbinlog
// verified, or none; withoutFiles is that of trials recorded before data files were verified.
const (
	wholeFiles = "After the instances have ended, every page of every tablespace and undo log on disk is in its " +
		"place and has the right checksum, none that is in use is empty, every event of every binary log has the " +
		"right checksum, no file system is damaged, and CHECK TABLE and the error log report no damage."
	wholeCopies = "After the instances have ended, every page of every tablespace and undo log on disk is in its " +
		"place and has the right checksum, none that is in use is empty, every event of every binary log has the " +
		"right checksum, and so has every page in the doublewrite files of a server that was never killed; no file " +
		"system is damaged, and CHECK TABLE and the error log report no damage."
	wholeSums = "After the instances have ended, every page of every tablespace and undo log and every event of " +
		"every binary log on disk has the right checksum, no file system is damaged, and CHECK TABLE and the error " +
		"log report no damage."
	withoutFiles = "No table and no file system is damaged."
)

// errorLog names the error log among the parts of an instance.
const errorLog = "the error log"

// undoLogs is the pattern of the undo tablespaces among the data files.
const undoLogs = "undo_*"

// copies is the pattern of the doublewrite files among them.
const copies = "#ib_*.dblwr"

// pageTool verifies pages; innochecksum did before.
const pageTool = "page-verifier"

// Integrity judges the output of tools that look for damage: CHECK TABLE and the error log of MySQL while it runs; and,
// once every instance has ended and every volume is unmounted, the file system checker on each volume, and the agent on
// its data files. A server answers from memory, so only the files show what is on disk.
//
// It finds what reading rows back cannot: two writers on one volume may leave every row of the last one intact on a
// file system with blocks that belong to two files.
func Integrity() Check {
	return Check{
		Name:    "integrity",
		When:    End,
		Promise: wholeFiles,
		Source: "MySQL manual, CHECK TABLE Statement; mysql-server, storage/innobase/buf/checksum.cc and " +
			"include/fsp0fsp.h, libbinlogevents; e2fsck(8) and xfs_repair(8) with -n, which look and change nothing",
		Unit:  "tables, file systems and data files looked over",
		Lacks: ofOwn(noFiles),
		judge: judgeIntegrity,
	}
}

func judgeIntegrity(r *ruling) {
	j := &integrity{ruling: r, instances: r.trial.Instances(r.trial.Finally()), volumes: map[string]bool{},
		parts: map[[2]string]bool{}}
	inspections := r.world.Of(history.KindInspection)
	verified := func(e *history.Event) bool { return e.Inspection.Tool == pageTool }
	j.copies = slices.ContainsFunc(inspections, func(e *history.Event) bool {
		return dataFile(e.Inspection.File) == copies
	})
	switch {
	case !r.trial.Plan.DataFiles:
		r.Promise, r.Unit = withoutFiles, "tables and file systems looked over"
		r.Source = "MySQL manual, CHECK TABLE Statement; e2fsck(8) and xfs_repair(8) with -n, which look and " +
			"change nothing"
	case !slices.ContainsFunc(inspections, verified):
		r.Promise = wholeSums
		r.Source = "MySQL manual, CHECK TABLE Statement, innochecksum and mysqlbinlog --verify-binlog-checksum; " +
			"e2fsck(8) and xfs_repair(8) with -n, which look and change nothing"
	case j.copies:
		r.Promise = wholeCopies
	}
	for _, e := range inspections {
		j.inspection(e)
	}
	j.complete()
}

// integrity holds what was inspected.
type integrity struct {
	*ruling
	instances []string           // That the plan ends with.
	volumes   map[string]bool    // Theirs, by instance; by PersistentVolume in histories that name none.
	parts     map[[2]string]bool // Instances and their tables, logs and kinds of data files.
	copies    bool               // Doublewrite files were looked at.
}

func (j *integrity) inspection(e *history.Event) {
	in := e.Inspection
	if in.Error != "" {
		j.unknown("%s could not be looked over for damage: %s", inspected(in), in.Error)
		return
	}
	few, part := 3, ""
	switch {
	case in.Table != "":
		part = "table " + in.Table
	case in.File != "":
		few, part = history.MaxMessages, dataFile(in.File) // A tool names each damaged page.
		j.parts[[2]string{in.Instance, path.Base(in.File)}] = true
	case in.PV == "":
		part = errorLog
	case in.Instance == "" || slices.Contains(j.instances, in.Instance):
		j.volumes[cmp.Or(in.Instance, in.PV)] = true
	}
	j.parts[[2]string{in.Instance, part}] = true
	if in.Table != "" && j.trial.Origin(in.Instance) != in.Instance && slices.ContainsFunc(in.Messages, isGone) {
		j.unknown("%s is not there: it is a copy, which has none before it was made", inspected(in))
		return
	}
	j.evidence++
	if in.Clean {
		return
	}
	last, words := j.world.Pods().Last(in.Instance), firstWords(in.Messages, few)
	if part == copies && !j.neverKilled(in.Instance) {
		j.note("%s: %s; a write that was cut short leaves such a copy, and the page itself is verified in its own file",
			inspected(in), words)
		return
	}
	if in.File != "" && !endedInOrder(last) {
		j.unknown("%s found damage in %s: %s; its server was not seen to end in order, so this may be a write "+
			"cut short that its next start would repair", in.Tool, inspected(in), words)
		return
	}
	node := in.Node
	if node == "" && last != nil {
		node = last.Node
	}
	j.violation(Finding{Subject: inspected(in), Span: e.Span, Node: node, Events: []int64{e.ID},
		Faults: j.trial.FaultsUntil(e.Span.NotAfter)}, "%s found damage in %s: %s.", in.Tool, inspected(in), words)
}

// isGone reports whether CHECK TABLE says that there is no such table.
func isGone(message string) bool {
	return strings.HasSuffix(strings.TrimSuffix(message, "."), "doesn't exist")
}

// complete adds a reason for everything that was not inspected.
func (j *integrity) complete() {
	tables := []string{"table quiet", "table ledger"}
	looked, verified := slices.Clone(tables), []string(nil)
	if j.trial.Plan.DataFiles {
		looked, verified = append(looked, errorLog), dataFiles()
	}
	if !j.copies {
		verified = slices.DeleteFunc(verified, func(kind string) bool { return kind == copies })
	}
	for _, name := range moreTables(j.trial.Plan.Workload) {
		looked = append(looked, "table "+name)
		if j.trial.Plan.DataFiles {
			verified = append(verified, name+".ibd")
		}
	}
	if !j.trial.Plan.Workload.Light {
		untouched := slices.DeleteFunc(slices.Clone(j.instances), func(name string) bool {
			return len(j.missing(name, tables)) < len(tables)
		})
		if len(untouched) > 0 {
			j.unknown("the tables of %s were never looked over for damage", strings.Join(untouched, ", "))
		}
		for _, name := range j.instances {
			if missing := j.missing(name, looked); len(missing) > 0 && !slices.Contains(untouched, name) {
				j.unknown("never looked over for damage, of %s: %s", name, strings.Join(missing, ", "))
			}
			missing := j.missing(name, verified)
			if len(verified) > 0 && !slices.Contains(missing, undoLogs) {
				// Every server has these two, which cannot be dropped, from its first start on.
				missing = append(missing, j.missing(name, []string{"undo_001", "undo_002"})...)
			}
			if len(missing) > 0 {
				j.unknown("not verified on disk, of %s: %s", name, strings.Join(missing, ", "))
			}
		}
	}
	if want := len(j.instances); len(j.volumes) < want {
		j.unknown("the file systems of %d volumes were looked over for damage, the workload has %d",
			len(j.volumes), want)
	}
}

// missing returns the parts of an instance that were not inspected.
func (j *integrity) missing(instance string, parts []string) []string {
	return slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return j.parts[[2]string{instance, part}] })
}

// moreTables returns the tables that the clients use beside the quiet one and the ledger.
func moreTables(w plan.Workload) (names []string) {
	for _, t := range []struct {
		name    string
		clients int
	}{{"lists", w.Transactions}, {"registers", w.Registers}, {"accounts", w.Transfers}} {
		if t.clients > 0 {
			names = append(names, t.name)
		}
	}
	return names
}

// dataFiles returns the kinds of data files that every instance has, as patterns of path.Match.
func dataFiles() []string {
	return []string{"ibdata1", "mysql.ibd", undoLogs, "quiet.ibd", "ledger.ibd", "binlog.*", copies}
}

// dataFile returns the kind of a data file, or its name if it is none of dataFiles.
func dataFile(file string) string {
	name := path.Base(file)
	for _, kind := range dataFiles() {
		if ok, err := path.Match(kind, name); ok && err == nil {
			return kind
		}
	}
	return name
}

// neverKilled reports whether each server of an instance ended in order.
func (j *integrity) neverKilled(instance string) bool {
	seen := false
	for _, pod := range j.world.Pods().All {
		if pod.Name != instance {
			continue
		}
		seen = true
		if !endedInOrder(pod) || slices.ContainsFunc(pod.States, func(s *world.PodState) bool {
			return slices.ContainsFunc(s.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
				return c.RestartCount > 0
			})
		}) {
			return false
		}
	}
	return seen
}

// endedInOrder reports whether the container of a pod was seen to end with exit code 0; false for nil.
func endedInOrder(l *world.PodLife) bool {
	if l == nil {
		return false
	}
	last := l.States[len(l.States)-1]
	if last.Guessed() && len(l.States) > 1 {
		last = l.States[len(l.States)-2]
	}
	containers := last.Status.ContainerStatuses
	return len(containers) > 0 && containers[0].State.Terminated != nil && containers[0].State.Terminated.ExitCode == 0
}

// inspected names what was inspected.
func inspected(in *history.Inspection) string {
	switch {
	case in.Table != "":
		return fmt.Sprintf("table %s of %s", in.Table, in.Instance)
	case in.File != "":
		return fmt.Sprintf("file %s of %s", in.File, in.Instance)
	case in.PV == "":
		return "the data of " + in.Instance
	case in.Tool == pageTool || in.Tool == "innochecksum":
		return "the data files of " + in.Instance
	}
	return "the file system of volume " + in.PV
}

func firstWords(messages []string, few int) string {
	if len(messages) == 0 {
		return "it does not say which"
	}
	var said []string
	for _, m := range messages[:min(few, len(messages))] {
		said = append(said, strings.TrimSuffix(strings.TrimSpace(m), "."))
	}
	if len(messages) > few {
		said = append(said, "and more")
	}
	return strings.Join(said, "; ")
}
