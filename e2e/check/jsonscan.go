package check

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// scan reads JSON once, front to back, and keeps only what is asked for: an API object is thousands of bytes, of which
// a judge wants a dozen. What is not asked for is stepped over and not checked; what is asked for and of another type
// reads as its zero value. Bad says that the text ended early or made no sense where it was read.
type scan struct {
	text []byte
	at   int
	bad  bool
}

// peek steps over white space and returns the next byte, 0 at the end.
func (s *scan) peek() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *scan) fail() {
	s.bad, s.at = true, len(s.text)
}

// object calls member with the name of each member; member reads the value, or leaves it to be stepped over. A value
// that is no object has no members.
func (s *scan) object(member func(name []byte)) {
	if s.peek() != '{' {
		s.skip()
		return
	}
	s.at++
	for {
		switch s.peek() {
		case '}':
			s.at++
			return
		case ',':
			s.at++
			continue
		case '"':
		default:
			s.fail()
			return
		}
		name := s.token()
		if s.peek() != ':' {
			s.fail()
			return
		}
		s.at++
		s.peek()
		before := s.at
		member(name)
		if s.at == before {
			s.skip()
		}
		if s.bad {
			return
		}
	}
}

// array calls element before each element; element reads it, or leaves it to be stepped over.
func (s *scan) array(element func()) {
	if s.peek() != '[' {
		s.skip()
		return
	}
	s.at++
	for {
		switch s.peek() {
		case ']':
			s.at++
			return
		case ',':
			s.at++
			continue
		case 0:
			s.fail()
			return
		}
		before := s.at
		element()
		if s.at == before {
			s.skip()
		}
		if s.bad || s.at == before {
			s.bad = true
			return
		}
	}
}

// token reads a string and returns what is between its quotes, escapes and all.
func (s *scan) token() []byte {
	if s.peek() != '"' {
		s.skip()
		return nil
	}
	s.at++
	from := s.at
	for {
		i := bytes.IndexByte(s.text[s.at:], '"')
		if i < 0 {
			s.fail()
			return nil
		}
		s.at += i + 1
		back := 0
		for k := s.at - 2; k >= from && s.text[k] == '\\'; k-- {
			back++
		}
		if back%2 == 0 {
			return s.text[from : s.at-1]
		}
	}
}

// skip steps over one value.
func (s *scan) skip() {
	switch s.peek() {
	case 0, '}', ']', ',', ':':
		s.fail()
	case '"':
		s.token()
	case '{', '[':
		s.skipNested()
	default:
		for s.at < len(s.text) {
			switch s.text[s.at] {
			case ',', '}', ']', ' ', '\n', '\t', '\r':
				return
			}
			s.at++
		}
	}
}

func (s *scan) skipNested() {
	depth := 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				s.at++
				return
			}
		case '"':
			s.token()
			continue
		}
		s.at++
	}
	s.fail()
}

// str reads a string. Names is where strings that come again and again are kept once.
func (s *scan) str(names interned) string {
	if s.peek() != '"' {
		s.skip()
		return ""
	}
	raw := s.token()
	if bytes.IndexByte(raw, '\\') < 0 {
		return names.keep(raw)
	}
	var text string
	if json.Unmarshal(s.text[s.at-len(raw)-2:s.at], &text) != nil {
		s.bad = true
	}
	return text
}

// num reads a whole number, and 0 for what is none.
func (s *scan) num() int64 {
	s.peek()
	from := s.at
	s.skip()
	text := s.text[min(from, s.at):s.at]
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	var n int64
	for _, c := range text {
		if c < '0' || c > '9' || n > math.MaxInt64/10-10 {
			return 0
		}
		n = 10*n + int64(c-'0')
	}
	if negative {
		return -n
	}
	return n
}

// yes reads whether there is a true.
func (s *scan) yes() bool {
	s.peek()
	from := s.at
	s.skip()
	return string(s.text[min(from, s.at):s.at]) == "true"
}

// seconds reads a time of the API (RFC 3339, whole seconds) as seconds since 1970, and 0 for what is none.
func (s *scan) seconds() int64 {
	if s.peek() != '"' {
		s.skip()
		return 0
	}
	at, err := time.Parse(time.RFC3339, string(s.token()))
	if err != nil {
		return 0
	}
	return at.Unix()
}

// same holds a member of an object's metadata against what the record says of the object beside it.
func (s *scan) same(member []byte, o *history.Object) {
	var want string
	switch string(member) {
	case "name":
		want = o.Name
	case "resourceVersion":
		want = o.ResourceVersion
	case "uid":
		want = o.UID
	default:
		return
	}
	if got := s.token(); string(got) != want {
		s.bad = true
	}
}

// interned keeps strings once.
type interned map[string]string

func (n interned) keep(raw []byte) string {
	if kept, ok := n[string(raw)]; ok {
		return kept
	}
	text := string(raw)
	if n != nil {
		n[text] = text
	}
	return text
}
