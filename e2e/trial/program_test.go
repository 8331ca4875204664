package trial

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/client-go/util/exec"

	"github.com/seatrial/seatrial/chaos/plan"
)

func TestHowAProgramMustEnd(t *testing.T) {
	failed := fmt.Errorf("run: %w", exec.CodeExitError{Err: errors.New("exit code 1"), Code: 1})
	for name, tc := range map[string]struct {
		refused, said string
		err           error
		done          bool
	}{
		"it succeeds":                {done: true},
		"it fails":                   {said: "unhealthy cluster", err: failed},
		"refused as it should be":    {refused: "unhealthy", said: "unhealthy cluster\n", err: failed, done: true},
		"refused for another reason": {refused: "unhealthy cluster", said: "no such flag", err: failed},
		"not refused":                {refused: "unhealthy cluster", said: "was an unhealthy cluster"},
		"never asked":                {refused: "lost", said: "", err: errors.New("connection lost")},
		"cut off after the word":     {refused: "no", said: "no", err: errors.New("broken pipe")},
	} {
		err := endedAs(plan.Exec{Command: []string{"etcdctl"}, Refused: tc.refused}, tc.said, tc.err)
		if (err == nil) != tc.done {
			t.Errorf("%s: %v", name, err)
		}
	}
}
