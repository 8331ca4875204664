package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seatrial/seatrial/e2e/check"
)

// width is the longest line of a text report in characters.
const width = 100

// page is text in the making. Everything that is put on it is made harmless first: see clean.
type page struct {
	b     bytes.Buffer
	color bool
	title string // Of the section that was begun and has no line yet.
}

// clean makes text from anywhere fit for a terminal and for XML: line breaks become semicolons, tabs become spaces, and
// whatever does not print (control characters, the escapes of ANSI, marks that turn the writing direction, broken
// UTF-8) becomes its number.
func clean(s string) string {
	harmless := func(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	var b strings.Builder
	s = strings.TrimRight(s, "\n")
	for i, r := range s {
		switch {
		case harmless(r):
			b.WriteRune(r)
		case r == '\n' && i > 0 && !strings.ContainsRune(":;,.\n", rune(s[i-1])): // Lines of an error.
			b.WriteString("; ")
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// wrap breaks text into lines of at most so many characters, at spaces where there are any.
func wrap(text string, most int) []string {
	most = max(most, 8)
	var lines []string
	line := ""
	for _, word := range strings.Fields(clean(text)) {
		for {
			room := most - utf8.RuneCountInString(line)
			if line != "" {
				room--
			}
			size := utf8.RuneCountInString(word)
			if size <= room {
				line = strings.TrimPrefix(line+" "+word, " ")
				break
			}
			if line != "" {
				lines, line = append(lines, line), ""
				continue
			}
			head := breakWord(word, most)
			lines, word = append(lines, head), word[len(head):]
		}
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

// breakWord returns the part of a long word that goes on this line: up to a joint of the word, where there is one that
// leaves the line at least half full.
func breakWord(word string, most int) string {
	head := []rune(word)[:most]
	for i := most; i > most/2; i-- {
		if strings.ContainsRune("-/.:_", head[i-1]) {
			return string(head[:i])
		}
	}
	return string(head)
}

// write writes what was put on the page.
func (p *page) write(w io.Writer) error { return writeAll(w, "report", p.b.Bytes()) }

// writeAll writes a whole file, which the error names.
func writeAll(w io.Writer, name string, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeJSON(w io.Writer, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return writeAll(w, name, append(data, '\n'))
}

// blank puts an empty line. It ends a section.
func (p *page) blank() {
	p.title = ""
	p.b.WriteByte('\n')
}

// heading begins a section. Its title is put with the first line; a section without lines has none.
func (p *page) heading(title string) { p.title = title }

// put puts a line that is ready.
func (p *page) put(line string) {
	if p.title != "" {
		p.b.WriteString("\n" + clean(p.title) + "\n")
		p.title = ""
	}
	p.b.WriteString(line + "\n")
}

// cell is what stands in one column of a line.
type cell struct {
	text    string
	wide    int           // In characters; text is wrapped to it. 0 takes the text as it is, fill what is left.
	right   bool          // Text stands at the right of its column.
	again   bool          // Text stands on the lines below too.
	verdict check.Verdict // Colours the text, which may be empty.
}

// fill is the width of a cell that takes what the others leave of the line.
const fill = -1

// line puts cells side by side, on as many lines as the tallest needs.
func (p *page) line(cells ...cell) {
	left := width
	columns := make([][]string, len(cells))
	for i := range cells {
		c := &cells[i]
		if c.wide == 0 {
			columns[i] = []string{clean(c.text)}
			c.wide = utf8.RuneCountInString(columns[i][0])
		}
		if c.wide != fill {
			left -= c.wide
		}
	}
	height := 0
	for i := range cells {
		c := &cells[i]
		if c.wide == fill {
			c.wide = left
		}
		if columns[i] == nil {
			columns[i] = wrap(c.text, c.wide)
		}
		height = max(height, len(columns[i]))
	}
	for n := range height {
		line := ""
		for i, c := range cells {
			text := ""
			if n < len(columns[i]) {
				text = columns[i][n]
			} else if c.again {
				text = columns[i][0]
			}
			pad := strings.Repeat(" ", max(0, c.wide-utf8.RuneCountInString(text)))
			if c.verdict != "" && text != "" {
				text = p.paint(text, c.verdict)
			}
			if c.right {
				text = pad + text
			} else {
				text += pad
			}
			line += text
		}
		p.put(strings.TrimRight(line, " "))
	}
}

// text puts a paragraph; first begins its first line, and later lines are indented as far.
func (p *page) text(first, text string) {
	p.line(cell{text: first}, cell{text: text, wide: fill})
}

// verdict puts a painted verdict between a few fixed words and text, the first space of which is kept.
func (p *page) verdict(first string, v check.Verdict, text string) {
	word := short(string(v))
	gap := text[:len(text)-len(strings.TrimLeft(text, " "))]
	p.line(cell{text: first}, cell{text: word, verdict: v}, cell{text: gap},
		cell{text: text, wide: fill})
}

// short makes a name fit to begin a line.
func short(name string) string {
	const most = 20
	return clip(clean(name), most)
}

// raw puts a line that was laid out elsewhere. What does not fit goes on, indented, on the next.
func (p *page) raw(line string) {
	line = strings.TrimRight(clean(line), " ")
	if utf8.RuneCountInString(line) <= width {
		p.put(line)
		return
	}
	text := strings.TrimLeft(line, " ")
	p.text(line[:len(line)-len(text)], text)
}

func (p *page) paint(word string, v check.Verdict) string {
	if !p.color {
		return word
	}
	code := "33" // Yellow.
	switch v {
	case check.Pass:
		code = "32"
	case check.Fail:
		code = "31"
	}
	return "\x1b[1;" + code + "m" + word + "\x1b[0m"
}

// column is a column of a table: its title and how wide it may become; 0 is as wide as need be.
type column struct {
	title string
	most  int
	right bool
}

// row is one line of a table. Verdict colours the cell that reads like it.
type row struct {
	cells   []string
	verdict check.Verdict
}

// table puts a table, its cells wrapped in their columns.
func (p *page) table(columns []column, rows []row) {
	widths := make([]int, len(columns))
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i], widths[i] = c.title, utf8.RuneCountInString(c.title)
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(clean(r.cells[i])))
		}
		if c.most > 0 {
			widths[i] = min(widths[i], max(c.most, utf8.RuneCountInString(c.title)))
		}
	}
	shrink(widths, width-2*len(columns))
	for _, r := range append([]row{{cells: titles}}, rows...) {
		var cells []cell
		for i, c := range columns {
			in := cell{text: r.cells[i], wide: widths[i], right: c.right}
			if r.cells[i] == string(r.verdict) {
				in.verdict = r.verdict
			}
			cells = append(cells, cell{text: "  "}, in)
		}
		p.line(cells...)
	}
}

// section puts a table under a heading, and a line below it; without rows it puts nothing.
func (p *page) section(title string, columns []column, rows []row, below string) {
	if len(rows) == 0 {
		return
	}
	p.heading(title)
	p.table(columns, rows)
	if below != "" {
		p.text("  ", below)
	}
}

// shrink takes from the widest columns until all fit.
func shrink(widths []int, most int) {
	for {
		sum, widest := 0, 0
		for i, w := range widths {
			sum += w
			if w > widths[widest] {
				widest = i
			}
		}
		if sum <= most || widths[widest] <= 8 {
			return
		}
		widths[widest]--
	}
}
