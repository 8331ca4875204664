package tidy

import (
	"fmt"
	"strconv"
	"strings"
)

// The ranks of the house. Imports go down only.
const (
	rankFacts = iota + 1
	rankJudging
	rankPorts
	rankConcrete
	rankTrial
	rankPrograms
)

func rankName(rank int) string {
	return []string{"", "facts", "judging", "ports", "concrete parts", "the trial", "programs"}[rank]
}

// place returns the rank of a folder and the part of the house it belongs to; ok is false when it has no place.
func place(dir string) (rank int, part string, ok bool) {
	seg := strings.Split(dir, "/")
	head := strings.Join(seg[:min(2, len(seg))], "/")
	switch head {
	case "chaos/history", "chaos/plan":
		return rankFacts, head, true
	case "e2e/check", "e2e/explain", "e2e/report":
		return rankJudging, head, true
	case "chaos/await", "chaos/deadman", "chaos/evidence", "chaos/heal", "chaos/injury", "chaos/mark",
		"chaos/probe", "chaos/trigger":
		return rankPorts, head, true // What every fault is made with stands beside the port of faults.
	case "clusters", "clusters/bootclock", "clusters/nodefile", "clusters/program", "fixtures":
		return rankPorts, head, true
	case "fixtures/stateful":
		return rankPorts, head, true // Every workload is a StatefulSet.
	case "fixtures/fsck", "fixtures/loopdev":
		return rankPorts, head, true // Every fixture that makes volumes on a node stands on images and loop devices.
	case "e2e/observe", "e2e/rundir":
		if dir == "e2e/observe/ledgerfile" || dir == "e2e/observe/procs" {
			return rankPorts, dir, true // What runs on a node and keeps facts stands on these two.
		}
		return rankConcrete, head, true
	case "e2e/trial":
		return rankTrial, head, true
	case "e2e/suites":
		return rankPrograms, head, true
	case "chaos/fault":
		if len(seg) == 2 {
			return rankPorts, head, true
		}
		return rankConcrete, strings.Join(seg[:3], "/"), true
	}
	switch seg[0] {
	case "chaos", "clusters", "fixtures":
		return rankConcrete, head, true
	case "tools":
		return rankPrograms, head, true
	}
	return 0, "", false
}

func layers() Rule {
	return Rule{
		Name: "layers",
		Why:  "Imports go down only: a part can be read, tested and replaced without what stands above it.",
		Fix:  "Move the shared piece into a port below both, or hand it in as a small interface from e2e/trial.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			for _, f := range t.Code(true) {
				rank, part, ok := place(f.Dir())
				if !ok {
					out = append(out, Violation{
						Path: f.Path, What: fmt.Sprintf("folder %s has no place in the layers", f.Dir()),
						Fix: "Put the file where it has a place, or give the folder one in tools/tidy/layers.go.",
					})
					continue
				}
				for _, imp := range ours(t, f) {
					if what := climbs(f, imp.path, rank, part); what != "" {
						out = append(out, Violation{Path: f.Path, Line: imp.line, What: what})
					}
				}
			}
			return out
		},
	}
}

// climbs says in which way an import breaks the order of the layers, or nothing. Tests may use any concrete part,
// since what they build on is never linked into a program.
func climbs(f *File, dir string, rank int, part string) string {
	theirs, theirPart, ok := place(dir)
	switch {
	case !ok:
		return fmt.Sprintf("imports %s, which has no place in the layers", dir)
	case theirPart == part:
		return ""
	case f.IsTest() && theirs <= max(rank, rankConcrete):
		return ""
	case theirs > rank:
		return fmt.Sprintf("%s (%s) imports %s (%s), upwards", f.Dir(), rankName(rank), dir, rankName(theirs))
	case theirs == rank && rank >= rankConcrete:
		return fmt.Sprintf("%s imports its peer %s", f.Dir(), dir)
	}
	return ""
}

type imported struct {
	path string
	line int
}

func imports(t *Tree, f *File) []imported {
	var out []imported
	for _, spec := range f.Go.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, imported{p, t.Line(spec.Pos())})
		}
	}
	return out
}

// ours returns the imports of this module's packages, as folders.
func ours(t *Tree, f *File) []imported {
	var out []imported
	for _, imp := range imports(t, f) {
		if dir, ok := strings.CutPrefix(imp.path, t.Module+"/"); ok {
			out = append(out, imported{dir, imp.line})
		}
	}
	return out
}

func under(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }

func underAny(dir string, roots []string) bool {
	for _, r := range roots {
		if under(dir, r) {
			return true
		}
	}
	return false
}
