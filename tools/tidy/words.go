package tidy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// word is text that has no business in the tree. It is put together from halves, so that this file does not hold it.
type word struct {
	match *regexp.Regexp
	hint  string // In lower case; without it in a text there is no match. Looking for it is much faster.
	why   string
}

func newWord(pattern, why string) word {
	return word{match: regexp.MustCompile(pattern), hint: hintOf(pattern), why: why}
}

// hintOf returns the longest literal that every match of a pattern must have, in lower case.
func hintOf(pattern string) string {
	optional := regexp.MustCompile(`\([^)]*\)|.\?|\{[^}]*\}|\\[bd]`)
	longest := ""
	for _, lit := range strings.Split(optional.ReplaceAllString(pattern, "|"), "|") {
		if lit = strings.ReplaceAll(lit, `\`, ""); len(lit) > len(longest) {
			longest = lit
		}
	}
	return strings.ToLower(longest)
}

func words() []word {
	const author = "The tree says what the program does; who wrote it, and with what, is nobody's concern."
	const place = "The tree is read by strangers, who have no such folder or tracker."
	const host = "The host's own configuration says where packages and images come from; a name here would overrule it."
	list := func(why string, patterns ...string) []word {
		var out []word
		for _, p := range patterns {
			out = append(out, newWord(p, why))
		}
		return out
	}
	out := list(author,
		`\bA`+`I\b`, `\bL`+`LMs?\b`, `(?i)\bcl`+`aude\b`, `(?i)\banth`+`ropic`, `(?i)\bopen`+`ai\b`, `(?i)\bchat`+`gpt`,
		`(?i)\bgpt`+`-\d`, `(?i)\bcop`+`ilot\b`, `(?i)\bgem`+`ini\b`, `(?i)co-auth`+`ored-by`,
		`(?i)\blanguage mo`+`del`, `(?i)\bmachine-wri`+`tten`, `(?i)\bsub-?ag`+`ents?\b`,
		`(?i)\bin (this|an earlier|a previous) ses`+`sion\b`, `(?i)\b(my|our) ses`+`sion\b`,
		`(?i)\b(the|this|my) bri`+`ef\b`, `(?i)\bC`+`EO\b`)
	out = append(out, list(place,
		`/wo`+`rk/(main|shared|\.library)`, `(?i)\bissue`+` #?\d{1,3}\b`, `(?i)shared/des`+`ign`,
		`(?i)\bwork`+`place\b`,
		`\b(DESIGN|ENVIRON`+`MENT)\.md`)...)
	return append(out, list(host,
		`(?i)\bregistry\.`+`k8s\.io\b`, `(?i)\b(k8s\.)?g`+`cr\.io\b`, `(?i)\bqu`+`ay\.io\b`, `(?i)\bgh`+`cr\.io\b`,
		`(?i)\bdocker\.`+`io/`, `(?i)\b(index|registry-1)\.`+`docker\.io`, `(?i)\bhub\.`+`docker\.com`,
		`(?i)\b(deb|security|snapshot|ftp)\.`+`debian\.org`, `(?i)\bproxy\.`+`golang\.org`, `(?i)\bsum\.`+`golang\.org`,
		`(?i)\bregistry\.`+`npmjs\.org`, `(?i)\bmcr\.`+`microsoft\.com`, `(?i)artifact`+`registry\.`)...)
}

func bannedWords() Rule {
	return Rule{
		Name: "word",
		Why:  "See the list in tools/tidy/words.go.",
		Fix:  "Say it without the word; a host's name is read from the host's configuration.",
		Find: func(t *Tree) []Violation { return findWords(t, words()) },
	}
}

// findWords looks for words in every text file. Checksum files and the licence are as their authors made them.
func findWords(t *Tree, list []word) []Violation {
	var out []Violation
	for _, f := range t.Files {
		if path.Base(f.Path) == "go.sum" || path.Base(f.Path) == "go.mod" || f.Path == "LICENSE" {
			continue
		}
		lower := strings.ToLower(f.Text)
		for _, w := range list {
			if !strings.Contains(lower, w.hint) {
				continue
			}
			for i, l := range f.Lines {
				if found := w.match.FindString(l); found != "" {
					what := fmt.Sprintf("has %q", found)
					out = append(out, Violation{Path: f.Path, Line: i + 1, What: what, Why: w.why})
				}
			}
		}
	}
	return out
}

// Hosts finds the host names of mirrors in the texts of a host's configuration: Go's proxy list, apt's sources.
func Hosts(configuration ...string) []string {
	url := regexp.MustCompile(`https?://(?:[^/\s@]*@)?([A-Za-z0-9.-]+)`)
	var out []string
	for _, text := range configuration {
		for _, m := range url.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], ".") && m[1] != "127.0.0.1" {
				out = append(out, m[1])
			}
		}
	}
	return out
}

// MirrorNames finds the names of this host's own mirrors in the tree, which the list above cannot know.
func MirrorNames(hosts []string) Rule {
	return Rule{
		Name: "mirror",
		Why:  "The tree must build elsewhere, where these mirrors are not.",
		Fix:  "Leave the host out; the host's own configuration has it.",
		Find: func(t *Tree) []Violation {
			var list []word
			for _, h := range hosts {
				list = append(list, newWord(`(?i)\b`+regexp.QuoteMeta(h)+`\b`, ""))
			}
			return findWords(t, list)
		},
	}
}

func unfinished() Rule {
	var marks []word
	for _, m := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"} {
		marks = append(marks, newWord(`\b`+m+`\b`, ""))
	}
	return Rule{
		Name: "unfinished",
		Why:  "What is not done is known to the reader as a limit in the README, or it is not known at all.",
		Fix:  "Do it, or state the limit where the reader will meet it.",
		Find: func(t *Tree) []Violation { return findWords(t, marks) },
	}
}
