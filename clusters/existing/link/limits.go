package link

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/durable"
)

// Limits bound what a session may do to one node. The authority of the session signs them, and the agent holds to them
// whatever its harness asks for. Without faults the node is not on the allow-list.
type Limits struct {
	Session Session       `json:"session"`
	Node    string        `json:"node"`
	Faults  []string      `json:"faults,omitempty"`  // The names of faults that may begin.
	Longest time.Duration `json:"longest,omitempty"` // Of one fault, until its undo.
	Total   time.Duration `json:"total,omitempty"`   // Of all faults that begin, one after the other or at once.
	Scripts []string      `json:"scripts,omitempty"` // Digests (ScriptSum) of shell scripts that may run at any time.
}

// ScriptSum is the digest of a shell script.
func ScriptSum(script string) string {
	sum := sha256.Sum256([]byte(script))
	return hex.EncodeToString(sum[:])
}

// Signed is a JSON text with the signature of a session's authority.
type Signed struct {
	Text      []byte `json:"text"`
	Signature []byte `json:"signature"`
}

// signedAs separates these signatures from those of certificates.
const signedAs = "seatrial-limits-1\n"

// Sign signs limits. Equal limits give equal signatures.
func (a *Authority) Sign(l Limits) (Signed, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return Signed{}, fmt.Errorf("encode limits: %w", err)
	}
	return Signed{Text: text, Signature: ed25519.Sign(a.key, append([]byte(signedAs), text...))}, nil
}

// open returns the limits if the authority of a certificate, in PEM, signed them.
func (s Signed) open(authority []byte) (l Limits, err error) {
	block, _ := pem.Decode(authority)
	if block == nil {
		return l, errors.New("read limits: the authority has no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return l, fmt.Errorf("read limits: the authority's certificate: %w", err)
	}
	key, ok := cert.PublicKey.(ed25519.PublicKey)
	if !ok || !ed25519.Verify(key, append([]byte(signedAs), s.Text...), s.Signature) {
		return l, errors.New("read limits: the session's authority did not sign them")
	}
	if err := json.Unmarshal(s.Text, &l); err != nil {
		return l, fmt.Errorf("read limits: %w", err)
	}
	return l, nil
}

// kept is what a session's directory keeps of an identity: it outlives the agent's processes and boots of the node.
type kept struct {
	CA     []byte `json:"ca"`
	Limits Signed `json:"limits"`
}

// Keep checks the limits of an identity and stores them. Those of a session cannot be changed.
func (s Session) Keep(i Identity) error {
	l, err := i.Limits.open(i.CA)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(i.Cert)
	if block == nil {
		return errors.New("read limits: the identity has no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("read limits: the identity's certificate: %w", err)
	}
	if l.Session != s || l.Node != cert.Subject.CommonName {
		return fmt.Errorf("read limits: they are for node %q in session %q, and this is node %q in session %q", l.Node,
			l.Session, cert.Subject.CommonName, s)
	}
	text, err := json.Marshal(kept{CA: i.CA, Limits: i.Limits})
	if err != nil {
		return fmt.Errorf("encode limits: %w", err)
	}
	name := filepath.Join(s.dir(), limitsFile)
	switch before, err := os.ReadFile(name); {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(s.dir(), 0o700); err != nil {
			return err
		}
		return durable.WriteMode(name, text, 0o600)
	case err != nil:
		return err
	case string(before) != string(text):
		return fmt.Errorf("the limits of session %s on this node cannot be changed", s)
	}
	return nil
}

const (
	limitsFile = "limits.json"
	usedFile   = "used.json"
)

func (s Session) dir() string { return filepath.Dir(s.Program()) }

// Bounds holds a node's limits and what was used of them. A nil one allows no fault.
type Bounds struct {
	dir    string // Of the file with what was used, which all of the node's agents share.
	limits Limits
	now    func() (boot string, at time.Duration)
}

// Bounds reads the limits that Keep stored.
func (s Session) Bounds() (*Bounds, error) {
	text, err := os.ReadFile(filepath.Join(s.dir(), limitsFile))
	if err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	l, err := k.Limits.open(k.CA)
	if err != nil {
		return nil, err
	}
	return NewBounds(s.dir(), l), nil
}

// NewBounds holds to limits; what was used of them is stored in a directory.
func NewBounds(dir string, l Limits) *Bounds { return &Bounds{dir: dir, limits: l, now: bootNow} }

func bootNow() (string, time.Duration) {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // Empty is a boot, too.
	return strings.TrimSpace(string(id)), time.Duration(bootclock.Now())
}

// used is what was used of the limits.
type used struct {
	Total time.Duration   `json:"total"`
	Open  map[string]open `json:"open"` // By owner.
}

// open is a fault that has begun. It ends by itself at its deadline, and with the boot.
type open struct {
	Fault string        `json:"fault"`
	Boot  string        `json:"boot"`
	Until time.Duration `json:"until"` // On the boot clock.
}

// ErrLimit is wrapped by the error of what a node's limits forbid.
var ErrLimit = errors.New("refused by the node's agent")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrLimit}, args...)...)
}

// begin opens a fault for an owner. The owner's own fault that is open stays as it is.
func (b *Bounds) begin(owner, fault string, life time.Duration) error {
	if b == nil {
		return refuse("it has no limits of this session")
	}
	l := b.limits
	switch {
	case owner == "":
		return refuse("the fault has no owner")
	case len(l.Faults) == 0:
		return refuse("node %q is not on the allow-list of faults", l.Node)
	case !slices.Contains(l.Faults, fault):
		return refuse("fault %q is not among those allowed on node %q: %s", fault, l.Node, strings.Join(l.Faults, ", "))
	case life <= 0 || life > l.Longest:
		return refuse("fault %q is to last up to %s, and no fault on node %q may last longer than %s", fault, life,
			l.Node, l.Longest)
	}
	return b.change(func(u *used) error {
		boot, now := b.now()
		if is, ok := u.Open[owner]; ok && is.Fault == fault && is.Boot == boot && is.Until > now {
			return nil
		}
		if life > l.Total-u.Total { // Total is never above the limit, so this does not overflow.
			return refuse("fault %q is to last up to %s, and of the budget of %s on node %q, %s is left", fault, life,
				l.Total, l.Node, l.Total-u.Total)
		}
		u.Total += life
		u.Open[owner] = open{Fault: fault, Boot: boot, Until: now + life}
		return nil
	})
}

// end closes the fault of an owner, if one is open.
func (b *Bounds) end(owner string) error {
	if b == nil {
		return nil
	}
	return b.change(func(u *used) error {
		delete(u.Open, owner)
		return nil
	})
}

// change reads, changes and stores what was used. Agents of both channels take turns.
func (b *Bounds) change(do func(*used) error) error {
	unlock, err := durable.Lock(filepath.Join(b.dir, usedFile+".lock"), unix.LOCK_EX)
	if err != nil {
		return fmt.Errorf("lock what was used of the limits: %w", err)
	}
	defer unlock()
	u, err := b.read()
	if err != nil {
		return err
	}
	if err := do(&u); err != nil {
		return err
	}
	return durable.WriteJSON(filepath.Join(b.dir, usedFile), u)
}

func (b *Bounds) read() (used, error) {
	u := used{Open: map[string]open{}}
	text, err := os.ReadFile(filepath.Join(b.dir, usedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &u)
	}
	if err != nil { // Without it nothing is allowed.
		return u, fmt.Errorf("read what was used of the limits: %w", err)
	}
	if u.Open == nil {
		u.Open = map[string]open{}
	}
	return u, nil
}

// allow returns an error for a command that may do harm while no fault is open.
func (b *Bounds) allow(argv []string) error {
	var scripts []string
	if b != nil {
		scripts = b.limits.Scripts
	}
	if harmless(argv, scripts) {
		return nil
	}
	if b == nil {
		return refuse("%.80q may do harm, and it has no limits of this session", argv)
	}
	u, err := b.read()
	if err != nil {
		return err
	}
	boot, now := b.now()
	for _, is := range u.Open {
		if is.Boot == boot && now < is.Until {
			return nil
		}
	}
	return refuse("%.80q may do harm, and no fault is under way on node %q, or its time is over", argv, b.limits.Node)
}

// harmless reports whether a command reads only, undoes, or serves the workload and observers of a trial. What is not
// known is not harmless.
func harmless(argv, scripts []string) bool {
	if len(argv) == 0 {
		return true // It is refused later, as what it is.
	}
	args := argv[1:]
	none := func(words ...string) bool {
		return !slices.ContainsFunc(args, func(a string) bool { return slices.Contains(words, a) })
	}
	begins := func(with ...string) bool { return len(args) >= len(with) && slices.Equal(args[:len(with)], with) }
	ours := func(name string) bool {
		return strings.HasPrefix(name, clusters.AgentPath) && !strings.Contains(name, "..")
	}
	switch argv[0] {
	case "cat", "echo", "pgrep", "ps", "readlink", "sha256sum", "stat", "test", "true":
		return true
	case "journalctl":
		return none("--vacuum-size", "--vacuum-time", "--rotate", "--flush")
	case "find":
		return none("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls")
	case "curl":
		return getsOnly(args)
	case "ip":
		return slices.ContainsFunc(args, func(a string) bool { return a == "show" || a == "get" }) &&
			none("add", "del", "delete", "set", "replace", "change", "flush")
	case "nft":
		reads := begins("list") || begins("-j", "list")
		return reads && !strings.Contains(strings.Join(args, ""), ";") || len(args) == 1 && deletesOurs(args[0])
	case "tc":
		return begins("-s", "-json", "qdisc", "show")
	case "systemctl":
		return len(args) > 0 && slices.Contains([]string{"show", "is-active", "list-units", "start"}, args[0])
	case "ctr":
		return none("kill", "delete", "rm", "remove", "pause", "resume", "exec", "run", "start", "create") &&
			slices.ContainsFunc(args, func(a string) bool { return a == "list" || a == "version" || a == "import" })
	case "timeout":
		return len(args) > 1 && harmless(args[1:], scripts)
	case "nsenter":
		return len(args) > 4 && args[0] == "--target" && args[2] == "--net" && args[3] == "--" &&
			harmless(args[4:], scripts)
	case "dd":
		return len(args) > 0 && ours(strings.TrimPrefix(args[0], "of=")) && none("if=")
	case "chmod":
		return len(args) == 2 && ours(args[1])
	case "mv":
		return len(args) == 3 && args[0] == "-f" && ours(args[1]) && ours(args[2])
	case "sh":
		return len(args) > 1 && args[0] == "-c" && slices.Contains(scripts, ScriptSum(args[1]))
	}
	inSession := filepath.Base(argv[0]) == "seatrial-agent" && strings.HasPrefix(argv[0], Sessions)
	if argv[0] != clusters.AgentPath && !inSession {
		return false
	}
	switch {
	case begins("clock"):
		return none("--ahead", "-ahead")
	case begins("damage"):
		return !begins("damage", "inflict")
	case begins("order"):
		return begins("order", "end") || begins("order", "read") || begins("order", "drop")
	}
	return len(args) > 0 && slices.Contains([]string{
		"arm", "armed", "disarm", "inspect", "leaks", "ledger", "link", "marks", "probe", "qdisc", "restore-node",
		"tail", "thaw", "undo", "volumes",
	}, args[0])
}

// getsOnly reports whether arguments of curl make one GET request that writes no file.
func getsOnly(args []string) bool {
	for i, a := range args {
		if (a == "-o" || a == "--output") && (i+1 == len(args) || args[i+1] != "/dev/null") {
			return false
		}
		if strings.Contains(a, "%output{") { // The format of -w can name a file, too.
			return false
		}
		if strings.HasPrefix(a, "-") && !slices.Contains([]string{
			"-fsS", "-o", "-sk", "-w", "--fail", "--insecure", "--max-time", "--noproxy", "--output",
			"--show-error", "--silent", "--write-out",
		}, a) {
			return false
		}
	}
	return true
}

// deletesOurs reports whether a command of nft deletes a table of ours and does nothing else; see undo.DeleteTable.
func deletesOurs(text string) bool {
	add, del, _ := strings.Cut(text, "; ")
	name, is := strings.CutPrefix(add, "add table inet seatrial_")
	return is && !strings.ContainsAny(name, " ;{}\n\t") && del == "delete table inet seatrial_"+name
}
