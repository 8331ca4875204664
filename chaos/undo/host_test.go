package undo_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/fake"
)

var owner = undo.Owner{Run: "r1", Step: 3}

func TestArmAndDisarm(t *testing.T) {
	c := fake.NewCluster("c", 1)
	n := c.Node("worker")
	n.On([]string{nodeagent.Path, "..."})
	task := undo.Task{Node: n, Actions: []undo.Action{undo.Command("a", "b")}, UntilBoot: true, Longer: 5 * time.Second}
	if err := undo.Arm(t.Context(), task, owner, 90*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := undo.Disarm(t.Context(), n, owner); err != nil {
		t.Fatal(err)
	}
	want := "c-worker: /usr/local/bin/seatrial-agent arm --run r1 --step 3 --life 1m35s --until-boot\n" +
		`    | [{"argv":["a","b"]}]` + "\n" +
		"c-worker: /usr/local/bin/seatrial-agent disarm --run r1 --step 3\n"
	if d := cmp.Diff(want, c.Transcript.String()); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	if err := undo.Arm(t.Context(), task, undo.Owner{Run: "a b"}, time.Second); err == nil {
		t.Error("a run id that needs quoting passes")
	}
}

// systemd answers for one, and notes what it was asked; other commands succeed unless they are to fail.
type systemd struct {
	root  string
	asked []string
	armed bool  // The timer is active.
	start error // Of systemd-run.
	stop  error
	fails map[string]error // By program.
	there bool             // The record was there when the timer was started.
}

func (s *systemd) run(_ context.Context, argv []string, stdin string) (string, error) {
	line := strings.Join(argv, " ")
	s.asked = append(s.asked, line)
	switch {
	case strings.HasPrefix(line, "systemctl is-active") && !s.armed:
		return "", errors.New("inactive")
	case strings.HasPrefix(line, "systemctl stop"):
		s.armed = s.armed && s.stop != nil
		return "", s.stop
	case argv[0] == "systemd-run":
		_, err := os.Stat(filepath.Join(s.root, undo.RecordDir, "seatrial-r1-3.json"))
		s.armed, s.there = s.start == nil, err == nil
		return "", s.start
	}
	return "did " + line + stdin + "\n", s.fails[argv[0]]
}

func newHost(t *testing.T) (undo.Host, *systemd) {
	t.Helper()
	s := &systemd{root: t.TempDir(), fails: map[string]error{}}
	return undo.Host{Root: s.root, Run: s.run}, s
}

// armOn arms an undo of two actions.
func armOn(t *testing.T, h undo.Host, o undo.Owner, untilBoot bool) {
	t.Helper()
	r := undo.Record{Owner: o, Deadline: bootclock.Now().Add(95 * time.Second), Actions: []undo.Action{
		{Argv: []string{"one"}}, {Argv: []string{"two"}, Stdin: " x", Tells: true},
	}}
	if err := h.Arm(t.Context(), r, untilBoot); err != nil {
		t.Fatal(err)
	}
}

func TestArmKeepsTheRecordBeforeTheTimer(t *testing.T) {
	h, s := newHost(t)
	s.armed = true // An earlier one of the same owner.
	armOn(t, h, owner, false)
	want := []string{
		"systemctl is-active seatrial-heal-r1-3.timer", "systemctl stop seatrial-heal-r1-3.timer",
		"systemd-run --quiet --collect --unit=seatrial-heal-r1-3 --on-active=S --timer-property=AccuracySec=1ms " +
			"/usr/local/bin/seatrial-agent undo --run r1 --step 3",
		"systemctl is-active seatrial-heal-r1-3.timer",
	}
	seconds := regexp.MustCompile(`--on-active=(9[0-9.]+)s`)
	left := seconds.FindStringSubmatch(s.asked[2])
	s.asked[2] = seconds.ReplaceAllString(s.asked[2], "--on-active=S")
	if d := cmp.Diff(want, s.asked); d != "" || !s.there {
		t.Errorf("the record is there: %t; commands (-want +got):\n%s", s.there, d)
	}
	if v, err := strconv.ParseFloat(left[1], 64); err != nil || v > 95 || v < 90 {
		t.Errorf("the timer is given %q of 95 s", left)
	}
	armed, err := h.Armed(nil)
	if err != nil || len(armed) != 1 || armed[0].Owner != owner || armed[0].Deadline <= 0 ||
		len(armed[0].Actions) != 2 {
		t.Errorf("armed %+v, %v", armed, err)
	}
	for range 2 {
		if err := h.Disarm(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	if armed, err := h.Armed(nil); err != nil || len(armed) > 0 || s.armed {
		t.Errorf("armed %+v, %v; the timer runs: %t", armed, err, s.armed)
	}
}

// TestASlowArmingDoesNotMakeTheUndoLate has the deadline pass before systemd is asked.
func TestASlowArmingDoesNotMakeTheUndoLate(t *testing.T) {
	h, s := newHost(t)
	r := undo.Record{Owner: undo.Owner{Run: "r1", Step: 3}, Deadline: bootclock.Now().Add(-time.Second)}
	if err := h.Arm(t.Context(), r, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(s.asked, "\n"), "--on-active=0.001s ") {
		t.Errorf("asked %q", s.asked)
	}
}

// TestABootStartsTheTimerAgain reads the unit that does, which is there as long as the record.
func TestABootStartsTheTimerAgain(t *testing.T) {
	h, _ := newHost(t)
	armOn(t, h, undo.Owner{Run: "r2", Step: 1}, true) // A boot makes this one void.
	for range 2 {
		armOn(t, h, owner, false)
	}
	const name, dir = "seatrial-r1-3.service", "etc/systemd/system"
	links, err := filepath.Glob(filepath.Join(h.Root, dir, "multi-user.target.wants", "*"))
	if err != nil || len(links) != 1 || filepath.Base(links[0]) != name {
		t.Fatalf("a boot starts %q, %v", links, err)
	}
	text, err := os.ReadFile(links[0])
	want := regexp.MustCompile(`(?s)\nConditionPathExists=/var/lib/seatrial/undo/seatrial-r1-3.json\n.*` +
		`\nExecStart=-/usr/bin/systemd-run --quiet --collect --unit=seatrial-heal-r1-3 --on-active=9[45][0-9.]+s ` +
		`--timer-property=AccuracySec=1ms /usr/local/bin/seatrial-agent undo --run r1 --step 3\n$`)
	if err != nil || !want.Match(text) {
		t.Errorf("%v: the unit is\n%s", err, text)
	}
	if err := h.Disarm(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(h.Root, dir, name), links[0]} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left %s: %v", path, err)
		}
	}
}

func TestArmFailsWhenTheTimerDoesNotRun(t *testing.T) {
	bad := errors.New("no such bus")
	h, s := newHost(t)
	s.start = bad
	r := undo.Record{Owner: undo.Owner{Run: "r1", Step: 3}, Deadline: bootclock.Now().Add(time.Minute)}
	if err := h.Arm(t.Context(), r, true); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	h, s = newHost(t)
	s.armed, s.stop = true, bad
	if err := h.Disarm(t.Context(), owner); !errors.Is(err, bad) {
		t.Errorf("a timer that cannot be stopped: got %v", err)
	}
}

func TestUndoCarriesOutWhatIsOursAndNothingElse(t *testing.T) {
	other := undo.Owner{Run: "r2", Step: 1}
	for _, tc := range []struct {
		name string
		only undo.Only
		want []string
	}{
		{"all", nil, []string{"seatrial-r1-3", "seatrial-r2-1"}},
		{"a run", undo.Of("r2", 0), []string{"seatrial-r2-1"}},
		{"a step", undo.Of("r1", 3), []string{"seatrial-r1-3"}},
		{"another step", undo.Of("r1", 30), []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, _ := newHost(t)
			armOn(t, h, owner, false)
			armOn(t, h, other, true)
			byHand := filepath.Join(h.Root, undo.RecordDir, "by-hand.json")
			if err := os.WriteFile(byHand, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := h.Undo(t.Context(), tc.only, time.Minute)
			if d := cmp.Diff(tc.want, got.Undone); d != "" || err != nil || len(got.Did) != len(tc.want) {
				t.Errorf("%+v, %v (-want +got):\n%s", got, err, d)
			}
			if left, err := h.Armed(nil); err != nil || len(left) != 2-len(tc.want) {
				t.Errorf("left %+v, %v", left, err)
			}
			if again, err := h.Undo(t.Context(), tc.only, time.Minute); err != nil || !again.Nothing() {
				t.Errorf("a second heal: %+v, %v", again, err)
			}
			if _, err := os.Stat(byHand); err != nil {
				t.Errorf("what others made: %v", err)
			}
		})
	}
}

// TestARecordStaysUntilItIsCarriedOut breaks an action: the others are carried out, and it is tried again.
func TestARecordStaysUntilItIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, s := newHost(t)
		armOn(t, h, owner, false)
		s.fails["one"], s.asked = errors.New("busy"), nil
		got, err := h.Undo(t.Context(), nil, 1500*time.Millisecond)
		if !errors.Is(err, await.ErrTimeout) || !strings.Contains(err.Error(), "seatrial-r1-3") ||
			!strings.Contains(err.Error(), "busy") || len(got.Undone) > 0 {
			t.Errorf("got %+v, %v", got, err)
		}
		if d := cmp.Diff([]string{"one", "two", "one", "two"}, s.asked); d != "" {
			t.Errorf("commands (-want +got):\n%s", d)
		}
		time.AfterFunc(1500*time.Millisecond, func() { delete(s.fails, "one") })
		begin := time.Now()
		got, err = h.Undo(t.Context(), nil, time.Minute)
		if err != nil || len(got.Undone) != 1 || time.Since(begin) != 2*time.Second {
			t.Errorf("got %+v, %v after %s", got, err, time.Since(begin))
		}
	})
}

func TestARecordThatCannotBeReadStays(t *testing.T) {
	for _, text := range []string{`{"schema":1,"run":"r1","st`, `{"schema":2}`} {
		h, _ := newHost(t)
		armOn(t, h, owner, false)
		armOn(t, h, undo.Owner{Run: "r2", Step: 1}, false)
		path := filepath.Join(h.Root, undo.RecordDir, "seatrial-r1-3.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := h.Undo(t.Context(), nil, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "seatrial-r1-3") || len(got.Undone) != 1 {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		armed, err := h.Armed(nil)
		if err == nil || len(armed) != 1 || armed[0].Owner != owner {
			t.Errorf("%s: armed %+v, %v", text, armed, err)
		}
	}
}

// TestOneHealIsAtWorkAtATime runs three beside each other: each undo is carried out once.
func TestOneHealIsAtWorkAtATime(t *testing.T) {
	h, s := newHost(t)
	armOn(t, h, owner, false)
	s.asked = nil
	var mu sync.Mutex
	run := h.Run
	h.Run = func(ctx context.Context, argv []string, stdin string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return run(ctx, argv, stdin)
	}
	var all sync.WaitGroup
	undone := make([]int, 3)
	for i := range undone {
		all.Go(func() {
			report, err := h.Undo(t.Context(), nil, time.Minute)
			if undone[i] = len(report.Undone); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(undone)
	if !slices.Equal(undone, []int{0, 0, 1}) || strings.Count(strings.Join(s.asked, " "), "one") != 1 {
		t.Errorf("carried out %v, commands %q", undone, s.asked)
	}
}

// answers is a cluster whose agents answer so to an undo.
func answers(t *testing.T, replies ...fake.Reply) *fake.Cluster {
	t.Helper()
	c := fake.NewCluster("c", 1)
	c.On([]string{"test", "..."})
	c.On([]string{nodeagent.Path, "undo", "..."}, replies...)
	return c
}

func TestClusterBringsNodesBackFirst(t *testing.T) {
	c := answers(t, fake.Reply{Stdout: `{"undone":["seatrial-r2-1"]}`})
	if err := errors.Join(c.Node("worker").Kill(t.Context()), c.Node("control-plane").Pause(t.Context())); err != nil {
		t.Fatal(err)
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := undo.Cluster(t.Context(), nodes, undo.Of("r2", 1))
	want := []undo.Report{
		{Node: "c-control-plane", Undone: []string{"seatrial-r2-1"}, Power: "thawed"},
		{Node: "c-worker", Undone: []string{"seatrial-r2-1"}, Power: "started"},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("reports (-want +got):\n%s, %v", d, err)
	}
	if !strings.Contains(c.Transcript.String(), "undo --bound 45s --run r2 --step 1") {
		t.Errorf("commands %s", c.Transcript)
	}
}

func TestClusterHealsTheOthersWhenOneNodeIsLost(t *testing.T) {
	c := answers(t, fake.Reply{Stdout: `{"undone":["a","b"]}`})
	lost := errors.New("no such container")
	c.Node("control-plane").OnPower("state", fake.Reply{Err: lost})
	c.Node("control-plane").On([]string{"test", "..."}, fake.Reply{Err: lost})
	got, err := undo.Cluster(t.Context(), []clusters.Node{c.Node("control-plane"), c.Node("worker")}, nil)
	if !errors.Is(err, lost) || len(got) != 2 || len(got[1].Undone) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestANodeTellsWhatItHasUndoneBesideAnError has the agent fail after it has undone something.
func TestANodeTellsWhatItHasUndoneBesideAnError(t *testing.T) {
	c := answers(t, fake.Reply{Stdout: `{"undone":["a"]}`, Stderr: "wait for it: busy", ExitCode: 1})
	got, err := undo.Node(t.Context(), c.Node("worker"), nil)
	if err == nil || !strings.Contains(err.Error(), "busy") || len(got.Undone) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	c.On([]string{"test", "..."}, fake.Reply{ExitCode: 1}) // Without an agent.
	if got, err := undo.Node(t.Context(), c.Node("worker"), nil); err != nil || !got.Nothing() {
		t.Errorf("got %+v, %v", got, err)
	}
	if armed, err := undo.Armed(t.Context(), c.Node("worker"), nil); err != nil || len(armed) > 0 {
		t.Errorf("armed %+v, %v", armed, err)
	}
}

func TestTransactionIsTheSameWhetherTheTableIsThere(t *testing.T) {
	want := "nft add table inet seatrial_r1_3; delete table inet seatrial_r1_3"
	if got := strings.Join(undo.DeleteTable(undo.Owner{Run: "r1", Step: 3}).Argv, " "); got != want {
		t.Errorf("got %q", got)
	}
}

func TestWriteFileReplacesAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "manifests", "a.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"one", "two"} {
		if err := undo.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(path)
		if err != nil || before.Mode().Perm() != 0o600 {
			t.Fatalf("its mode is %v, %v; want kubeadm's", before.Mode(), err)
		}
		if err := undo.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("a file that has the content already was replaced: %v", err)
		}
		if got, err := os.ReadFile(path); string(got) != content || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if err := os.Chmod(path, 0o644); err != nil { // A fault's file may have another.
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 1 || err != nil {
		t.Errorf("left beside it: %v, %v", entries, err)
	}
}
