package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/seatrial/seatrial/e2e/trial"
)

// silence is how long a command may say nothing while it waits.
const silence = 30 * time.Second

// narrator passes messages on. After a silence it says again what it is at; when asked, it says where the command
// stands.
type narrator struct {
	mu     sync.Mutex
	w      io.Writer
	now    func() time.Time
	last   string // The last whole line.
	rest   []byte // Of a line that has not ended.
	said   time.Time
	spoke  time.Time               // When something was written last, repetitions included.
	places map[string]*trial.Place // By the name of the cluster.
	ends   time.Time               // When the trial that runs is expected to end; zero without one.
	redraw bool                    // A line that is drawn again each second, in place of repetitions: w is a terminal.
	drawn  bool                    // It stands there.
}

func newNarrator(w io.Writer) *narrator {
	return &narrator{w: w, now: time.Now, spoke: time.Now(), places: map[string]*trial.Place{}, redraw: terminal(w)}
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// erase removes the line that is redrawn.
func (n *narrator) erase() {
	if n.drawn {
		n.drawn = false
		fmt.Fprint(n.w, "\r\x1b[K")
	}
}

func (n *narrator) Write(data []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
	n.spoke = n.now()
	n.rest = append(n.rest, data...)
	if end := bytes.LastIndexByte(n.rest, '\n'); end >= 0 {
		whole := strings.TrimSpace(string(n.rest[:end]))
		if whole = whole[strings.LastIndexByte(whole, '\n')+1:]; whole != "" && !strings.HasPrefix(whole, "time=") {
			n.last, n.said = strings.TrimSpace(whole), n.spoke
		}
		n.rest = n.rest[end+1:]
	}
	return n.w.Write(data)
}

// follow gives the narrator what knows where a trial on the place stands.
func (n *narrator) follow(p *trial.Place) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.places[p.Cluster.Name()] = p
}

// expect says how long the trial that begins takes, about; 0 that it is over.
func (n *narrator) expect(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends = time.Time{}
	if d > 0 {
		n.ends = n.now().Add(d)
	}
}

// columns is how wide a redrawn line may be: one that wraps cannot be erased.
func (n *narrator) columns() int {
	if f, ok := n.w.(*os.File); ok {
		if wide, _, err := term.GetSize(int(f.Fd())); err == nil && wide > 0 {
			return wide - 1
		}
	}
	return 79
}

// tick repeats the last line if nothing was said for long. It does not break into a line that has not ended.
func (n *narrator) tick() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.redraw {
		n.draw()
		return
	}
	if now := n.now(); n.last != "" && len(n.rest) == 0 && now.Sub(n.spoke) >= silence {
		n.spoke = now
		fmt.Fprintf(n.w, "  ... for %s%s: %s\n", now.Sub(n.said).Round(time.Second), n.left(), n.last)
	}
}

// left says how long it takes yet: what the last line is about if that says so, otherwise the trial.
func (n *narrator) left() string {
	what, left := " of the trial", n.ends.Sub(n.now())
	about := regexp.MustCompile(`\babout ([0-9hms]+)`)
	if found := about.FindStringSubmatch(n.last); found != nil {
		if d, err := time.ParseDuration(found[1]); err == nil {
			what, left = "", d-n.now().Sub(n.said)
		}
	}
	if left < time.Second {
		return ""
	}
	return fmt.Sprintf(", about %s%s left", left.Round(time.Second), what)
}

// draw draws how long the last line is true already, and how long it takes yet.
func (n *narrator) draw() {
	if n.last == "" || len(n.rest) > 0 {
		return
	}
	line := []rune(visible(fmt.Sprintf("  ... %s%s: %s", n.now().Sub(n.said).Round(time.Second), n.left(), n.last)))
	n.erase()
	n.drawn = true
	fmt.Fprint(n.w, string(line[:min(n.columns(), len(line))]))
}

func (n *narrator) stands() {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := ""
	for _, name := range slices.Sorted(maps.Keys(n.places)) {
		text += n.places[name].Status()
	}
	if text == "" {
		text = "no trial is running\n"
	}
	if n.last != "" {
		age := n.now().Sub(n.said).Round(time.Second)
		text += fmt.Sprintf("the last message is %s old%s: %s\n", age, n.left(), n.last)
	}
	n.erase()
	n.spoke = n.now()
	fmt.Fprint(n.w, visible(text))
}

// narrate repeats after silences, and says where the command stands when asked, until ctx ends.
func (n *narrator) narrate(ctx context.Context, asked <-chan os.Signal) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			n.tick()
		case <-asked:
			n.stands()
		case <-ctx.Done():
			return
		}
	}
}

// laneWriter tells of which cluster each message is. How long the trial of one lane takes is not said.
type laneWriter struct {
	io.Writer
	cluster string
}

// Write takes whole lines.
func (l laneWriter) Write(data []byte) (int, error) {
	var text []byte
	for line := range bytes.Lines(data) {
		text = append(append(append(text, l.cluster...), "  "...), line...)
	}
	if _, err := l.Writer.Write(text); err != nil {
		return 0, err
	}
	return len(data), nil
}
