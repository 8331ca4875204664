package nodefile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

// aNode returns a node that keeps files, and the files.
func aNode(files map[string]string) *fake.Node {
	node := fake.NewCluster("c", 1).Node("worker")
	node.On([]string{"dd", "..."}, fake.Reply{
		Do: func(_ context.Context, c clusters.Command, stdin string) (clusters.Result, error) {
			files[strings.TrimPrefix(c.Argv[1], "of=")] = stdin
			return clusters.Result{}, nil
		},
	})
	node.On([]string{"sha256sum", "*"}, fake.Reply{
		Do: func(_ context.Context, c clusters.Command, _ string) (clusters.Result, error) {
			content, ok := files[c.Argv[1]]
			if !ok {
				return clusters.Result{ExitCode: 1}, &clusters.ExitError{Node: "c-worker", Argv: c.Argv, ExitCode: 1}
			}
			sum := sha256.Sum256([]byte(content))
			return clusters.Result{Stdout: []byte(hex.EncodeToString(sum[:]) + "  x\n")}, nil
		},
	})
	node.On([]string{"mv", "-f", "*", "*"}, fake.Reply{
		Do: func(_ context.Context, c clusters.Command, _ string) (clusters.Result, error) {
			files[c.Argv[3]] = files[c.Argv[2]]
			delete(files, c.Argv[2])
			return clusters.Result{}, nil
		},
	})
	node.On([]string{"chmod", "0755", "*"})
	return node
}

func TestPlace(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	node := aNode(files)
	for _, step := range []struct {
		content string
		copied  bool
	}{{"one", true}, {"one", false}, {"two", true}} {
		copied, err := Place(t.Context(), node, "/bin/x", []byte(step.content), "0755")
		if err != nil || copied != step.copied || files["/bin/x"] != step.content || len(files) != 1 {
			t.Errorf("place %q: copied %t (%v), files %q", step.content, copied, err, files)
		}
	}
}

func TestPlaceFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want   string
		script func(n *fake.Node)
	}{
		"copy differs": {"sha256 is 0000", func(n *fake.Node) {
			n.On([]string{"dd", "..."})
			n.On([]string{"sha256sum", "*"}, fake.Reply{Stdout: strings.Repeat("0", 64) + "  x\n"})
		}},
		"disk full": {"No space left", func(n *fake.Node) {
			n.On([]string{"dd", "..."}, fake.Reply{ExitCode: 1, Stderr: "dd: No space left on device"})
		}},
		"strange hash": {"answer is", func(n *fake.Node) {
			n.On([]string{"sha256sum", "*"}, fake.Reply{Stdout: "ab c"})
		}},
	} {
		files := map[string]string{"/bin/x": "as it was"}
		node := aNode(files)
		tt.script(node)
		_, err := Place(t.Context(), node, "/bin/x", []byte("new"), "0755")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if files["/bin/x"] != "as it was" {
			t.Errorf("%s: the file is %q now", name, files["/bin/x"])
		}
	}
}
