package debian

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// source is one place that apt takes packages from.
type source struct {
	URIs       []string
	Suites     []string
	Components []string
	SignedBy   string
}

// hostSources reads the apt sources below root, normally "/", in both formats that apt has.
func hostSources(root string) ([]source, error) {
	dir := filepath.Join(root, "etc/apt")
	paths := []string{filepath.Join(dir, "sources.list")}
	for _, pattern := range []string{"*.list", "*.sources"} {
		found, err := filepath.Glob(filepath.Join(dir, "sources.list.d", pattern))
		if err != nil {
			return nil, fmt.Errorf("list apt sources: %w", err)
		}
		paths = append(paths, found...)
	}
	var all []source
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read apt sources: %w", err)
		}
		if strings.HasSuffix(path, ".sources") {
			all = append(all, parseDeb822(string(data))...)
		} else {
			all = append(all, parseOneLine(string(data))...)
		}
	}
	return all, nil
}

// parseDeb822 reads the paragraphs of a ".sources" file. A key that is written into the file itself is not kept.
func parseDeb822(text string) []source {
	var all []source
	for _, paragraph := range paragraphs(text) {
		if enabled := paragraph["enabled"]; enabled == "no" || enabled == "false" {
			continue
		}
		if !slices.Contains(strings.Fields(paragraph["types"]), "deb") {
			continue
		}
		s := source{
			URIs:       strings.Fields(paragraph["uris"]),
			Suites:     strings.Fields(paragraph["suites"]),
			Components: strings.Fields(paragraph["components"]),
		}
		if key := paragraph["signed-by"]; strings.HasPrefix(key, "/") {
			s.SignedBy = key
		}
		all = append(all, s)
	}
	return all
}

// paragraphs splits deb822 text into paragraphs of fields by lower-case name.
func paragraphs(text string) []map[string]string {
	var all []map[string]string
	current, field := map[string]string{}, ""
	flush := func() {
		if len(current) > 0 {
			all = append(all, current)
		}
		current, field = map[string]string{}, ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case line == "":
			flush()
		case strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if field != "" {
				current[field] += " " + strings.TrimSpace(line)
			}
		default:
			name, value, _ := strings.Cut(line, ":")
			field = strings.ToLower(strings.TrimSpace(name))
			current[field] = strings.TrimSpace(value)
		}
	}
	flush()
	return all
}

// listLine matches a line of a ".list" file: its options, URI, suite and components.
var listLine = regexp.MustCompile(`^\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)([^#]*)`)

// parseOneLine reads the lines of a ".list" file.
func parseOneLine(text string) []source {
	var all []source
	for line := range strings.Lines(text) {
		m := listLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := source{URIs: m[2:3], Suites: m[3:4], Components: strings.Fields(m[4])}
		for _, option := range strings.Fields(m[1]) {
			if key, ok := strings.CutPrefix(option, "signed-by="); ok {
				s.SignedBy = key
			}
		}
		all = append(all, s)
	}
	return all
}

// linesFor returns sources.list lines for a suite, from the mirrors of this host, whose own release is codename. There
// are none if the host is not a Debian with sources of its release.
func linesFor(all []source, codename, suite string) []string {
	var lines []string
	for _, s := range all {
		for _, hostSuite := range s.Suites {
			rest, ok := strings.CutPrefix(hostSuite, codename)
			// A rolling suite has neither updates nor security.
			rolling := suite == "sid" || suite == "unstable"
			if !ok || codename == "" || rest != "" && (rolling || rest != "-updates" && rest != "-security") {
				continue
			}
			for _, uri := range s.URIs {
				lines = append(lines, line(s, uri, suite+rest))
			}
		}
	}
	return lines
}

func line(s source, uri, suite string) string {
	options := ""
	if s.SignedBy != "" {
		options = "[signed-by=" + s.SignedBy + "] "
	}
	components := s.Components
	if slices.Contains(components, "main") {
		components = []string{"main"}
	}
	return fmt.Sprintf("deb %s%s %s %s", options, uri, suite, strings.Join(components, " "))
}

// codename reads this host's Debian release name, or "".
func codename(root string) string {
	data, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(l), "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`)
		}
	}
	return ""
}
